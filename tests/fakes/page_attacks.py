"""Pages with hostile names in a real browser: no code runs, nothing is fetched, nothing fails."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from served import Served, serve

from needlab.core.tables import Table, write_json, write_table, write_text
from needlab.report.figures_page import write_figures_page
from needlab.report.replay_log import Board
from needlab.report.sweep_page import write_sweep_page
from needlab.report.viewer import write_viewer
from needlab.report.watched import World, shown, watched_run
from needlab.worlds import tabular_world
from needreplay._core.errors import NeedReplayError

PIECES = (
    "</script><script>window.bad=1</script>", "<script>window.bad=1</script>",
    "<img src=x onerror=window.bad=1>", '"onmouseover="window.bad=1" x="', "'-window.bad=1-'",
    "<svg/onload=window.bad=1>", "</title><script>window.bad=1</script>",
    "</style><script>window.bad=1</script>", "javascript:window.bad=1", "{{ 7 * 7 }}", "{% raw %}",
    "<!--", "-->", "]]>", "&lt;", "&#0;", "\u2028", "\u202e", "\ufeff", "\ud800", "%3Cscript%3E",
    "$\\frac{1$", "__proto__", "constructor", "x" * 5_000, "\\u003c/script", "`${window.bad=1}`",
    "=1+1", "file:///etc/passwd", "http://example.com/x.js", "//example.com", "../../x", "", " ",
)  # fmt: skip


def hostile(rng: np.random.Generator) -> str:
    """One to three pieces."""
    return "".join(str(piece) for piece in rng.choice(np.array(PIECES, object), rng.integers(1, 4)))


def text_of(value: Any) -> str:
    """JSON, also of what is no text."""
    return json.dumps(value)


def viewer_page(rng: np.random.Generator, place: Path) -> Path:
    """The page of ``watch``."""
    world = _world()
    named = World(Board.of_world(world.schedule[0][1], hostile(rng)), world.schedule)
    logs = [watched_run("ps", named, episodes=1) for _ in range(int(rng.integers(1, 3)))]
    for log in logs:
        object.__setattr__(log, "name", hostile(rng))
    return write_viewer(place / "page.html", logs, title=hostile(rng), note=hostile(rng))


@cache
def _world() -> World:
    return shown(tabular_world("S..G"), "plain")


def sweep_page(rng: np.random.Generator, place: Path) -> Path:
    """The page of ``report``."""
    write_text(place / "sweep.json", text_of({"name": hostile(rng), "about": hostile(rng),
                                              "command": [hostile(rng)]}))  # fmt: skip
    for number in range(3):
        folder = place / "runs" / _file_name(hostile(rng), number)
        folder.mkdir(parents=True)
        config = {"kind": "deep", "world": hostile(rng), "agent": hostile(rng), "seed": number}
        if rng.random() < 0.3:
            config["overrides"] = {hostile(rng): hostile(rng)}
        write_text(folder / "config.json", text_of(config))
        (folder / "command.txt").write_bytes(hostile(rng).encode(errors="surrogatepass"))
        column = "eval_return" if rng.random() < 0.8 else hostile(rng)[:99].replace('"', "")
        metrics = f'steps,"{column}"\n1,2\n2,3\n'
        (folder / "metrics.csv").write_bytes(metrics.encode(errors="replace"))
        state = "done" if rng.random() < 0.8 else "failed"
        write_text(folder / f"{state}.json", text_of({"lines": [hostile(rng)]}))
    return write_sweep_page(place)


def _file_name(name: str, number: int) -> str:
    plain = name.encode(errors="replace").decode().replace("/", "_").replace("\0", "_")
    return f"{plain[:60]}-{number}".lstrip(".")


def figures_page(rng: np.random.Generator, place: Path) -> Path:
    """The page of ``reproduce``, from folders."""
    folder = place / _file_name(hostile(rng), 0)
    folder.mkdir()
    claim = {name: hostile(rng) for name in ("statement", "source", "measured", "preset", "detail")}
    claim["verdict"] = str(rng.choice(["holds", "does not hold", hostile(rng)]))
    meta: dict[str, Any] = {
        name: hostile(rng) for name in ("title", "question", "documentation", "command")
    }
    meta |= {"paper": "yuan-mattar", "seed": 7, "seconds": 1.5, "presets": [hostile(rng)]}
    meta |= {"captions": {"figure": hostile(rng)}, "notes": [hostile(rng)]}
    meta |= {"config": {hostile(rng): hostile(rng)}}
    write_table(folder / "data.csv", Table({"a": [1]}))
    svg = "<svg xmlns='http://www.w3.org/2000/svg'><script>window.bad=1</script></svg>"
    write_text(folder / "figure.svg", svg)
    write_text(folder / "claims.json", text_of([claim]))
    write_text(folder / "meta.json", text_of(meta))
    write_json(place / "other.json", {})
    return write_figures_page(place)


PAGES = (viewer_page, sweep_page, figures_page)


@cache
def _browser() -> Any:
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    assert path is not None, "these attacks need chromium"
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    return sync_playwright().start().chromium.launch(executable_path=path, args=flags)


def attack(rng: np.random.Generator, place: Path) -> tuple[str, str]:
    """Make a page, open it, press keys and move over it."""
    make = PAGES[int(rng.integers(len(PAGES)))]
    folder = place / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        path = make(rng, folder)
    except NeedReplayError as error:
        return f"{make.__name__}: rejected", "" if str(error).endswith(".") else str(error)
    except Exception as error:
        return make.__name__, repr(error)
    problems: list[str] = []

    def dismissed(dialog: Any) -> None:
        problems.append("a dialog")
        dialog.dismiss()

    def requested(request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            problems.append(request.url)

    page = _browser().new_page()
    page.set_default_timeout(20_000)
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", dismissed)
    page.on("request", requested)
    try:
        page.goto(path.resolve().as_uri())
        for key in ("ArrowRight", "ArrowDown", "Tab"):
            page.keyboard.press(key)
        for x, y in rng.integers(0, 600, (4, 2)).tolist():
            page.mouse.move(x, y)
        if page.evaluate("window.bad !== undefined"):
            problems.append("code of a name ran")
        if page.url.partition("#")[0] != path.resolve().as_uri():
            problems.append(f"the page went to {page.url}")
    except Exception as error:
        problems.append(repr(error))
    finally:
        page.close()
    return make.__name__, "; ".join(problems)


ATTACKS = {"pages in the browser": Served(__file__, "pages", patience=120.0)}

if __name__ == "__main__":
    serve({"pages": attack})
