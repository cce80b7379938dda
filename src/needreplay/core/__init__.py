"""What every layer uses: types, random streams, errors, checks, compiled kernels, files."""
