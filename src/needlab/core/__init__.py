"""What every part of the laboratory uses: tables, progress, locks, the machine, user code."""
