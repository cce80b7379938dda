"""What every test shares: fixed cases for the property tests, the fake studies, a browser."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# The terminal and the user's own settings do not reach the tests, nor the programs that they start.
os.environ.update(COLUMNS="100", LINES="40", MATPLOTLIBRC=os.devnull, MPLBACKEND="agg")
# One thread a process: the tests run in several, and threads that wait for each other spin.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
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
    import needlab.studies

    monkeypatch.syspath_prepend(str(FAKES))
    from fake_cli import FAKES as LISTINGS

    monkeypatch.setattr(needlab.studies, "STUDIES", LISTINGS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, driven by Playwright; CI must have both."""
    path, reason = shutil.which("chromium"), "chromium and playwright are needed"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        if os.environ.get("NEEDREPLAY_CI"):
            pytest.fail(f"In CI {reason}.")
        pytest.skip(reason)
    with sync_playwright() as play:
        found = play.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield found
        found.close()
