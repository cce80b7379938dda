"""How smoothly figure 2's replay logs play in Chromium, and how large their page is.

python benchmarks/bench_viewer.py

Two logs are beside each other. "drawing" is the page's own work for one step to the next backup.
"interval" is the time between two frames of the browser while the page plays 1,000 backups in a
second: 17 ms is the best on a screen of 60 Hz. It grows with other work on the machine.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from playwright.sync_api import sync_playwright

from needlab.report.viewer import write_viewer
from needlab.report.watched import watched_run, world_named

STEPS = """() => {
  const times = [], key = { key: "ArrowRight", bubbles: true };
  for (let i = 0; i < 150; i++) {
    const began = performance.now();
    document.body.dispatchEvent(new KeyboardEvent("keydown", key));
    times.push(performance.now() - began);
  }
  return times;
}"""
PLAY = """() => new Promise((done) => {
  const times = [];
  let before = performance.now();
  const tick = (now) => {
    times.push(now - before);
    before = now;
    if (replayViewer.state().playing) requestAnimationFrame(tick); else done(times.slice(1));
  };
  document.getElementById("speed").value = "1000";
  document.getElementById("play").click();
  requestAnimationFrame(tick);
})"""


def main() -> None:
    """Make the page, step through it, play it."""
    maze = world_named("dyna-maze")
    logs = [watched_run(name, maze) for name in ("ps-sr", "ps", "ps-sr:released", "ps:released")]
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = write_viewer(Path(folder) / "page.html", logs, title="Figure 2's trial 0")
        backups = sum(len(log.backups) for log in logs)
        print(f"{backups:,} backups of {len(logs)} agents: {path.stat().st_size / 1e6:.2f} MB")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page(viewport={"width": 1100, "height": 800})
        page.goto(path.as_uri())
        for name, script in (("drawing", STEPS), ("interval", PLAY)):
            times = np.array(page.evaluate(script))
            median, most, longest = np.quantile(times, (0.5, 0.95, 1.0))
            print(
                f"{name}: median {median:.1f} ms, 95% below {most:.1f} ms, longest {longest:.0f} "
                f"ms ({len(times):,} frames)"
            )
        browser.close()
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
