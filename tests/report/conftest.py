"""A real browser for the pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="package")
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
