"""What both packages are built on: errors, checks of arguments, random streams, atomic files."""
