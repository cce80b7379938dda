"""What every test shares: fixed cases for the property tests, and the fake studies."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import settings

# The terminal and the user's own settings do not reach the tests, nor the programs that they start.
os.environ.update(COLUMNS="100", LINES="40", MATPLOTLIBRC=os.devnull, MPLBACKEND="agg")
for name in ("FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)

# A command that was started in the background ignores Ctrl-C; the tests of interrupts need it.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

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
