"""A page in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

NASTY = "</script><script>window.bad = 1</script><img src=x onerror='window.bad = 1'>"


class OpenPage:
    """A page that fails on console errors and on anything from the network."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.page = browser.new_page(**{"viewport": {"width": 1100, "height": 800}, **options})
        self.problems: list[str] = []
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", self._requested)
        self.address = path.resolve().as_uri()
        self.page.goto(self.address)

    def _requested(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.problems.append(request.url)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def until(self, expression: str) -> None:
        """Wait until an expression is true; the page's own rules forbid Playwright's way."""
        for _ in range(600):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        pytest.fail(f"{expression} did not become true")

    def close(self) -> None:
        assert self.problems == []
        self.page.close()
