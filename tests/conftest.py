"""What every test shares: fixed cases for the property tests, and the fake studies."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# The same cases on every machine and every day. `make fuzz` searches new ones.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.register_profile("fuzz", deadline=None, print_blob=True)
settings.load_profile("fixed")

FAKES = Path(__file__).parent / "fakes"


@pytest.fixture
def fakes_folder() -> Path:
    """Where the fake studies and a command line with them are."""
    return FAKES


@pytest.fixture
def fake_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the studies of this process by the fake ones."""
    import needreplay.studies

    monkeypatch.syspath_prepend(str(FAKES))
    from fake_cli import FAKES as LISTINGS

    monkeypatch.setattr(needreplay.studies, "STUDIES", LISTINGS)
