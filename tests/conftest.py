"""The fake studies, for tests of everything that runs studies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# At a desk hypothesis tries new cases every time; what lands must not be red by chance.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("NEEDREPLAY_CI"):
    settings.load_profile("ci")

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
