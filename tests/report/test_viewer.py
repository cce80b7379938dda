"""The page that shows replay, in a real browser: its state is the log's."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.cli import main
from needlab.report import viewer
from needlab.report.viewer import write_viewer
from needlab.report.watched import World, watched_run, world_named, world_of_table
from needlab.tabular.replay_log import ReplayLog
from needlab.worlds import make_table
from needreplay._core.errors import NeedReplayError

from .browsing import NASTY, OpenPage


class Page(OpenPage):
    """The page of replay logs."""

    def state(self, panel: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate("replayViewer.state()")
        return {**found, **found["panels"][panel]}

    def cells(self, layer: str, panel: int = 0) -> Any:
        found = self.page.evaluate(f"replayViewer.cells({panel}, '{layer}')")
        return np.array([np.nan if value is None else value for value in found], np.float32)

    def said(self, panel: int = 0) -> str:
        return str(self.page.locator(".said").nth(panel).inner_text())


@pytest.fixture(scope="module")
def world() -> World:
    return world_named("linear-track")


@pytest.fixture(scope="module")
def log(world: World) -> ReplayLog:
    return watched_run("evb", world, episodes=8)


def frame_of(log: ReplayLog, backup: int) -> int:
    """The frame right after a backup."""
    return backup + int(log.backups["pause"][backup]) + 1


def values_at(log: ReplayLog, frame: int) -> Any:
    Q = np.zeros(log.board.next_state.size, np.float32)
    for write in log.writes[log.writes["frame"] <= frame]:
        Q[write["pair"]] = write["value"]
    return Q


def test_keys_lead_to_the_moments_of_the_log(browser: Any, log: ReplayLog, tmp_path: Path) -> None:
    page = Page(browser, write_viewer(tmp_path / "a.html", [log], title="One run"))
    assert page.state()["frames"] == len(log.pauses) + len(log.backups)
    assert "none yet" in page.said()
    page.press("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft")
    assert (page.state()["pause"], page.state()["done"]) == (0, 2)
    page.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp")
    assert (page.state()["pause"], page.state()["done"]) == (2, 0)
    assert page.state()["agent"] == log.pauses["state"][2]
    # Every event in turn, and back.
    for key, direction in (("f", 1), ("r", 2)):
        page.press("Home")
        first = np.flatnonzero(
            (log.backups["direction"] == direction)
            & (np.diff(log.backups["event"], prepend=-1) != 0)
        )
        for backup in first[:3]:
            page.press(key)
            assert page.state()["frame"] == frame_of(log, backup)
            assert f"event {log.backups['event'][backup] + 1}." in page.said()
        page.press(f"Shift+{key.upper()}")
        assert page.state()["frame"] == frame_of(log, first[1])
    page.press("End")
    assert page.state()["frame"] == page.state()["frames"] - 1
    page.press("2", "p", "b")
    assert [page.state()[name] for name in ("layer", "arrows", "path")] == ["need", False, False]
    page.close()


def test_values_need_and_gain_are_the_logs(browser: Any, log: ReplayLog, tmp_path: Path) -> None:
    page = Page(browser, write_viewer(tmp_path / "a.html", [log], title="One run"))
    rng = np.random.default_rng(0)
    frames = len(log.pauses) + len(log.backups)
    for frame in [0, frames - 1, *rng.integers(0, frames, 6).tolist(), 1]:
        page.page.evaluate(f"location.hash = 'runs=0&frame={frame}'")
        page.until(f"replayViewer.state().panels[0].frame === {frame}")
        np.testing.assert_array_equal(
            np.float32(page.page.evaluate("replayViewer.Q(0)")), values_at(log, frame)
        )
        pause = page.state()["pause"]
        np.testing.assert_array_equal(page.cells("need"), log.need[pause])
        first = log.pauses["first"][pause]
        made = log.backups[first : first + page.state()["done"]]
        gain = np.full(30, np.nan, np.float32)
        for backup in made:
            gain[backup["state"]] = np.nanmax([gain[backup["state"]], backup["gain"]])
        np.testing.assert_array_equal(page.cells("gain"), gain)
    page.close()


def test_clicks_and_the_cell_under_the_pointer(
    browser: Any, log: ReplayLog, tmp_path: Path
) -> None:
    page = Page(browser, write_viewer(tmp_path / "a.html", [log], title="One run"))
    for button, expected in (("on", 1), ("on", 2), ("back", 1)):
        page.page.click(f"#{button}")
        assert page.state()["frame"] == expected
    page.page.select_option("#layer", "gain")
    assert page.state()["layer"] == "gain"
    page.page.click("#pauseon")
    assert page.state()["pause"] == 1
    timeline = page.page.locator("canvas").nth(2).bounding_box()
    page.page.mouse.click(timeline["x"] + timeline["width"] / 2, timeline["y"] + 20)
    assert page.state()["frame"] == pytest.approx(page.state()["frames"] / 2, abs=2)
    board = page.page.locator(".board").bounding_box()
    size = board["width"] / 10
    page.page.mouse.move(board["x"] + 8.5 * size, board["y"] + 0.5 * size)
    assert page.state()["cursor"] == 8
    said = page.page.locator(".cell").inner_text()
    value = values_at(log, page.state()["frame"]).reshape(30, 4)[8].max()
    assert said.startswith("row 1, column 9, state 8: value")
    assert float(said.split("value ")[1].split(" ")[0]) == pytest.approx(value, rel=1e-3)
    # By keyboard: the board has a cursor.
    page.page.focus(".board")
    page.press("ArrowDown", "ArrowDown", "ArrowLeft")
    assert page.state()["cursor"] == 27
    page.page.select_option("#speed", "1000")
    page.page.click("#play")
    page.until("!replayViewer.state().playing")
    assert page.state()["frame"] == page.state()["frames"] - 1
    page.close()


def test_two_runs_stay_at_the_same_moment_and_a_link_restores_it(
    browser: Any, world: World, log: ReplayLog, tmp_path: Path
) -> None:
    other = watched_run("evb-dyna", world, episodes=8)
    third = watched_run("ps-sr", world, episodes=3)
    path = write_viewer(tmp_path / "a.html", [log, other, third], title="Three")
    page = Page(browser, path)
    # The start of the third episode, whose end is a pause too.
    page.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "2")
    for panel, own in ((0, log), (1, other)):
        state = page.state(panel)
        assert (state["pause"], state["done"]) == (3, 1)
        assert own.pauses["episode"][3] == 2
    link = page.page.get_attribute("#link", "href")
    again = Page(browser, path)
    again.page.goto(page.address + link)
    assert again.state() == page.state()
    assert again.page.url.endswith(link)
    page.page.select_option("#other", "2")
    assert [own["name"] for own in page.state()["panels"]] == ["evb", "ps-sr"]
    page.press("End")
    # The third has fewer episodes: it stays at its end.
    assert page.state(1)["frame"] == page.state(1)["frames"] - 1
    page.page.select_option("#other", "-1")
    assert len(page.state()["panels"]) == 1
    for one in (page, again):
        one.close()


def test_the_frame_is_exported(browser: Any, log: ReplayLog, tmp_path: Path) -> None:
    named = replace(log, name="<b>evb & co</b>")
    page = Page(browser, write_viewer(tmp_path / "a.html", [named], title="One run"))
    page.press("r", "ArrowRight")
    for kind in ("svg", "png"):
        with page.page.expect_download() as download:
            page.page.click(f"#{kind}")
        download.value.save_as(tmp_path / f"frame.{kind}")
    assert (tmp_path / "frame.png").read_bytes().startswith(b"\x89PNG")
    from xml.etree import ElementTree

    root = ElementTree.parse(tmp_path / "frame.svg").getroot()
    words = ["".join(element.itertext()) for element in root.iter() if element.tag.endswith("text")]
    assert "<b>evb & co</b>" in words
    assert "2" in words, "the order of the second backup"
    page.close()


def test_names_from_logs_stay_text(browser: Any, log: ReplayLog, tmp_path: Path) -> None:
    board = replace(log.board, name=NASTY)
    path = write_viewer(
        tmp_path / "a.html", [replace(log, name=NASTY, board=board), log], title=NASTY, note=NASTY
    )
    page = Page(browser, path)
    assert page.page.evaluate("window.bad") is None
    assert page.page.locator("h2").first.inner_text() == NASTY
    assert page.page.locator("img").count() == 0
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_fits_and_is_drawn(
    browser: Any, log: ReplayLog, tmp_path: Path, scheme: str
) -> None:
    path = write_viewer(tmp_path / "a.html", [log, log], title="Narrow")
    page = Page(browser, path, viewport={"width": 400, "height": 900}, color_scheme=scheme)
    page.press("r", "ArrowRight")
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 400
    page.page.screenshot(path=tmp_path / "page.png")
    from matplotlib.image import imread

    shot = imread(tmp_path / "page.png")[:, :, :3]
    assert (shot.mean() > 0.5) == (scheme == "light")
    assert len(np.unique(shot.reshape(-1, 3).round(2), axis=0)) > 30
    page.close()


# Machado, Oliveira & Fernandes (2009), severity 1, for linear RGB; and luminance.
SIGHT = {
    "typical": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritan": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
    "gray": np.tile([0.2126, 0.7152, 0.0722], (3, 1)),
}


def lab(color: str, sight: str = "typical") -> Any:
    """CIE L*a*b* (D65) of #rrggbb, as somebody sees it."""
    values = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array(
        [[0.41246, 0.35758, 0.18044], [0.21267, 0.71515, 0.07218], [0.01933, 0.11919, 0.95030]]
    )
    xyz = to_xyz @ np.clip(SIGHT[sight] @ linear, 0, 1) / [0.95047, 1.0, 1.08883]
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colors_differ_for_the_color_blind_and_in_grayscale(scheme: int) -> None:
    css = (Path(viewer.__file__).parent / "templates/viewer.css").read_text()
    colors = dict(re.findall(r"--(\w+): (#\w{6})", css.split(":root {")[1 + scheme]))
    for sight in SIGHT:
        least = 15 if sight == "gray" else 20
        for one, other in combinations(("forward", "reverse", "none", "paper"), 2):
            distance = np.linalg.norm(lab(colors[one], sight) - lab(colors[other], sight))
            assert distance >= least, (sight, one, other)
        low, mid, high = (lab(colors[name], sight)[0] for name in ("low", "mid", "high"))
        assert min(abs(mid - low), abs(high - mid)) >= 30, sight
        assert (mid > low) == (high > mid), sight


def test_ten_thousand_backups_and_fig2s_log_in_one_small_page(browser: Any, tmp_path: Path) -> None:
    maze = world_named("dyna-maze")
    logs = [watched_run(name, maze) for name in ("ps-sr", "ps", "ps-sr:released", "ps:released")]
    path = write_viewer(tmp_path / "a.html", logs, title="Figure 2's trial 0")
    assert sum(len(log.backups) for log in logs) > 10_000
    assert path.stat().st_size < 5_000_000
    page = Page(browser, path)
    page.press("End")
    last = values_at(logs[0], page.state()["frame"])
    np.testing.assert_array_equal(np.float32(page.page.evaluate("replayViewer.Q(0)")), last)
    page.close()


def test_worlds_by_name(tmp_path: Path) -> None:
    cliff = world_named("cliffwalk")
    assert cliff.task is not None
    assert cliff.board.marks == "S.........G"
    assert cliff.task.magnitudes[10].tolist() == [1.0]
    lake = world_named("FrozenLake-v1")
    assert (lake.board.columns, lake.board.marks[15]) == (4, "G")
    assert lake.task is not None
    assert lake.task.magnitudes.ravel()[[5, 15]].tolist() == [0.0, 1.0]
    (tmp_path / "maze.txt").write_text("S.G\n.#.\n...\n")
    assert world_named(str(tmp_path / "maze.txt")).board.marks == "S.G.#...."
    ending = world_of_table(make_table("cliffwalk", n=5), "falls end")
    assert ending.task is None
    with pytest.raises(NeedReplayError, match="episodes end at goals only"):
        watched_run("evb", ending)
    with pytest.raises(NeedReplayError, match="nowhere"):
        world_named("nowhere")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("q-learning", "q-learning"),
        ("evb:printed", "preset"),
        ("evb,sweets=1", "setting"),
        ("evb,backups", "NAME=VALUE"),
        ("ps,epsilon=2", "epsilon is 2"),
        ("/", "needreplay eval / --watch"),
    ],
)
def test_runs_that_are_refused(world: World, name: str, said: str) -> None:
    with pytest.raises(NeedReplayError, match=said):
        watched_run(name, world, episodes=2)


def test_the_gallery_shows_five_moments(browser: Any, tmp_path: Path) -> None:
    assert main(["gallery", "--out", str(tmp_path / "gallery.html")]) == 0
    page = Page(browser, tmp_path / "gallery.html")
    said: list[str] = []
    for number in range(5):
        page.page.locator(".moment").nth(number).click()
        page.until(f"location.hash === document.querySelectorAll('.moment')[{number}].hash")
        assert page.page.locator(".text:visible").count() == 1
        # The panels follow the address when the browser has time for it.
        before = json.dumps(said[-1] if said else "")
        page.until(f"document.querySelector('.said').innerText !== {before}")
        said.append(page.said())
    assert "at the end of an episode" in said[0]
    assert "reverse event 1." in said[0]
    assert "at the start of an episode" in said[1]
    assert "forward event" in said[1]
    assert "e-10, need" in said[1], "only the floor"
    assert "reverse event" in said[2]
    assert "Backup 1 of 20: state 8 right to state 9" in said[3]
    assert "state 0 action 0 to state 1" in said[4], "value is back at the start"
    assert "Backup 4 of 4: state 6" in page.said(1)
    page.close()


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["watch", "evb,need=one", "ps", "--episodes", "3", "--out", "a.html"]) == 0
    assert "backups" in capsys.readouterr().out
    page = Path("a.html").read_text(encoding="utf-8")
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")
    assert "needreplay watch evb,need=one ps" in page
    assert main(["watch", "--episodes", "0"]) == 2
