"""Photograph the pages that needreplay makes, in a real browser: ``make screenshots``.

Each command below runs in an empty folder, and the top of its page becomes docs/pictures/NAME.png.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/pictures"
PAGES = {
    "watch": (["watch ps-sr ps --world dyna-maze --episodes 5"], "replay.html"),
    "gallery": (["gallery"], "gallery.html"),
    "report": (["report minatar-small"], "minatar-small/report.html#learning-curves"),
    "eval": (
        [
            "train --world minatar/breakout --agent per-sr-sampling "
            "--steps 2500 --set min_history=300 --set eval_steps=0 --out run",
            "eval run --episodes 30 --epsilon 0.2 --seed 3 --watch page.html",
        ],
        "page.html#step=5",
    ),
}
"""The commands, and the page that the last one writes."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def main() -> None:
    """Run the commands and take the pictures."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("There is no chromium here (Debian: apt-get install chromium).")
    PICTURES.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        shutil.copytree(ROOT / "results/minatar-small", Path(folder) / "minatar-small")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        for name, (commands, made) in PAGES.items():
            for words in commands:
                command = [sys.executable, "-m", "needlab", *words.split()]
                subprocess.run(command, cwd=folder, env=environment, check=True)
            page.goto(f"{Path(folder).as_uri()}/{made}")
            if name == "gallery":
                page.locator(".moment").nth(2).click()
            if name == "watch":
                page.keyboard.press("r")
            page.wait_for_timeout(1000)
            page.screenshot(path=PICTURES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
