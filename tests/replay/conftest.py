"""Tests of the buffer import what stands in tests/fakes."""

from __future__ import annotations

import sys
from pathlib import Path

FAKES = str(Path(__file__).parents[1] / "fakes")
if FAKES not in sys.path:
    sys.path.insert(0, FAKES)
