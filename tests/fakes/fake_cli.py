"""The command line with fake studies in place of the real ones."""

from __future__ import annotations

import sys

import needlab.studies
from needlab.studies import Listing

FAKES = (
    Listing("curve", "fake_curve", "exponentials that look like learning"),
    Listing("hanging", "fake_hanging", "what never ends"),
    Listing("raising", "fake_raising", "what cannot be done"),
)

if __name__ == "__main__":
    needlab.studies.STUDIES = FAKES

    from needlab.cli import main

    sys.exit(main())
