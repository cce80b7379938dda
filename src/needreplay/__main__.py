"""``python -m needreplay`` is the command ``needreplay``."""

import sys

from needreplay.cli import main

if __name__ == "__main__":
    sys.exit(main())
