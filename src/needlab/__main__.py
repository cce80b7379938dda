"""``python -m needlab`` is the command ``needreplay``."""

import sys

from needlab.cli import main

if __name__ == "__main__":
    sys.exit(main())
