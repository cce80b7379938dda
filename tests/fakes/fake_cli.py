"""The command line with fake studies in place of the real ones."""

from __future__ import annotations

import sys

import needreplay.studies
from needreplay.studies import Listing

FAKES = (
    Listing("curve", "fake_curve", "exponentials that look like learning"),
    Listing("hanging", "fake_hanging", "what never ends"),
    Listing("refusing", "fake_refusing", "what cannot be done"),
)

if __name__ == "__main__":
    needreplay.studies.STUDIES = FAKES

    from needreplay.cli import main

    sys.exit(main())
