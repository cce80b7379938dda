"""The attacks of `make fuzz` can be imported."""

from __future__ import annotations

import sys
from pathlib import Path

FAKES = str(Path(__file__).parents[1] / "fakes")
if FAKES not in sys.path:
    sys.path.insert(0, FAKES)
