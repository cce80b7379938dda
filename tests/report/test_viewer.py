"""The page that shows replay, in a real browser: its state is the log's."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from needlab.cli import main
from needlab.report import viewer
from needlab.report.replay_log import ReplayLog
from needlab.report.viewer import write_viewer
from needlab.report.watched import World, shown, watched_run, watched_runs, world_named
from needlab.worlds import tabular_world
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
    # Every event in turn, each to its end, and back.
    for key, direction in (("f", 1), ("r", 2)):
        page.press("Home")
        last = np.flatnonzero(
            (log.backups["direction"] == direction)
            & (np.diff(log.backups["event"], append=-1) != 0)
        )
        for backup in last[:3]:
            page.press(key)
            assert page.state()["frame"] == frame_of(log, backup)
            assert f"event {log.backups['event'][backup] + 1}." in page.said()
        page.press(f"Shift+{key.upper()}")
        assert page.state()["frame"] == frame_of(log, last[1])
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
    page.page.mouse.click(timeline["x"] + (timeline["width"] + 62) / 2, timeline["y"] + 20)
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
    # The first and the last backup of the pause are the ends of their strip.
    strip = page.page.locator("canvas").nth(1).bounding_box()
    for share, done in ((0.001, 1), (0.999, log.pauses["count"][page.state()["pause"]])):
        gutter = 62
        page.page.mouse.click(
            strip["x"] + gutter + share * (strip["width"] - gutter), strip["y"] + 10
        )
        assert page.state()["done"] == done
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


MAZE = """\
S..#A
.>.#.
S#...
B...a

A: 1
a: 0.5
starts: at random
"""


@pytest.fixture(scope="module")
def maze(tmp_path_factory: pytest.TempPathFactory) -> World:
    path = tmp_path_factory.mktemp("maze") / "maze.txt"
    path.write_text(MAZE)
    return world_named(str(path))


def exported_svg(page: Page, folder: Path) -> list[ElementTree.Element]:
    with page.page.expect_download() as download:
        page.page.click("#svg")
    download.value.save_as(folder / "frame.svg")
    return list(ElementTree.parse(folder / "frame.svg").getroot().iter())


def texts(elements: list[ElementTree.Element]) -> list[str]:
    return ["".join(one.itertext()) for one in elements if one.tag.endswith("text")]


def test_the_board_shows_letters_starts_and_doors(
    browser: Any, maze: World, tmp_path: Path
) -> None:
    assert maze.board.marks == MAZE.partition("\n\n")[0].replace("\n", "")
    log = watched_run("evb", maze, episodes=3)
    page = Page(browser, write_viewer(tmp_path / "a.html", [log], title="A maze"))
    words = texts(exported_svg(page, tmp_path))
    assert [words.count(letter) for letter in ("A", "B", "a", "S", "→")] == [1, 1, 1, 2, 1]
    assert "maze.txt, starts at random" in page.page.locator(".panel small").inner_text()
    assert "one-way doors" in page.page.locator(".key").inner_text()
    board = page.page.locator(".board").bounding_box()
    size = board["width"] / 5
    for row, column, said in (
        (0, 4, "goal A;"),
        (3, 4, "reward a;"),
        (0, 0, "a start;"),
        (1, 1, "a one-way door right;"),
    ):
        page.page.mouse.move(board["x"] + (column + 0.5) * size, board["y"] + (row + 0.5) * size)
        assert said in page.page.locator(".cell").inner_text()
    page.close()
    field = world_named("open-field").board
    assert (field.marks.count("S"), field.starts) == (0, "starts anywhere")
    assert world_named("t-maze").board.marks == "U...C##S##"


def test_the_same_scale_holds_for_all_panels_and_frames(
    browser: Any, world: World, log: ReplayLog, tmp_path: Path
) -> None:
    other = watched_run("evb,need=one,discount=0.5", world, episodes=8)
    page = Page(browser, write_viewer(tmp_path / "a.html", [log, other], title="Two"))
    highest = {"value": 0.0, "need": max(each.need.max() for each in (log, other))}
    for each in (log, other):
        Q = np.zeros(each.board.next_state.size, np.float32)
        for frame in np.unique(each.writes["frame"]):
            for write in each.writes[each.writes["frame"] == frame]:
                Q[write["pair"]] = write["value"]
            highest["value"] = max(highest["value"], Q.max())
    highest["gain"] = max(each.backups["gain"].max() for each in (log, other))
    for layer, frame in (("value", 3), ("need", 40), ("gain", 90), ("value", 90)):
        page.page.evaluate(f"location.hash = 'frame={frame}&cells={layer}&scale=1'")
        page.until(f"replayViewer.state().panels[0].frame === {frame}")
        low, high = page.page.evaluate("replayViewer.range()")
        assert (low, high) == (0.0, pytest.approx(highest[layer]))
    # Without it: the range of what the panel shows.
    page.press("s")
    own = page.cells("value")[log.board.marks.index("S")]
    assert not page.state()["scale"]
    assert page.page.evaluate("replayViewer.range()")[1] == pytest.approx(
        np.nanmax(page.cells("value"))
    )
    assert own < highest["value"]
    page.close()
    alone = Page(browser, write_viewer(tmp_path / "b.html", [log], title="One"))
    assert not alone.state()["scale"]
    alone.close()


def test_keys_work_after_any_click(browser: Any, log: ReplayLog, tmp_path: Path) -> None:
    page = Page(browser, write_viewer(tmp_path / "a.html", [log, log], title="Two"))
    for clicked in ("#on", "#forward", "#path", "#scale", "#layer", "#link", ".board", "summary"):
        page.page.locator(clicked).first.click()
        if clicked == "#layer":
            page.press("Escape")
        state = page.state()
        page.press(" ")
        assert page.state()["playing"], clicked
        page.press(" ")
        now = page.state()
        assert not now["playing"], clicked
        assert [now[name] for name in ("path", "scale")] == [state["path"], state["scale"]]
    # With the focus in a list, however it came there.
    page.page.focus("#speed")
    page.press("Home", "f", "3")
    assert page.state()["layer"] == "gain"
    assert page.state()["frame"] > 0
    # Who moves with Tab can still press a button.
    page.press("Home")
    page.page.focus("#back")
    page.press("Tab", " ")
    assert (page.state()["frame"], page.state()["playing"]) == (1, False)
    page.close()


def test_the_link_is_copied_and_the_page_says_so(
    browser: Any, log: ReplayLog, tmp_path: Path
) -> None:
    page = Page(browser, write_viewer(tmp_path / "a.html", [log], title="One run"))
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.press("ArrowRight")
    page.page.click("#link")
    page.until("document.querySelector('#copied').innerText === 'Link copied'")
    copied = page.page.evaluate("navigator.clipboard.readText()")
    assert copied == page.address + page.page.get_attribute("#link", "href")
    # Where the clipboard is closed to pages, the page says what to do.
    page.page.evaluate(
        "navigator.clipboard.writeText = () => Promise.reject(Error('closed'));"
        "document.execCommand = () => false"
    )
    page.press("c")
    page.until("document.querySelector('#copied').innerText.includes('address bar')")
    page.close()


def test_rows_have_labels_and_steps_are_counted_in_the_episode(
    browser: Any, log: ReplayLog, tmp_path: Path
) -> None:
    page = Page(browser, write_viewer(tmp_path / "a.html", [log], title="One run"))
    for pause in range(4):
        page.page.evaluate(f"location.hash = 'frame={log.pauses['first'][pause] + pause}'")
        page.until(f"replayViewer.state().panels[0].pause === {pause}")
        steps, episode = (int(log.pauses[name][pause]) for name in ("steps", "episode"))
        own = steps - int((log.steps["episode"] < episode).sum())
        plural = "" if own == 1 else "s"
        assert page.said().startswith(f"Episode {episode + 1} after {own} step{plural}, ")
    key = page.page.locator(".key").inner_text()
    for said in ("the agent's path since the last pause", "only the floor", "the agent ·"):
        assert said in key
    # The labels are ink in the gutter left of the rows.
    page.page.locator("canvas").nth(2).screenshot(path=tmp_path / "rows.png")
    from matplotlib.image import imread

    rows = imread(tmp_path / "rows.png")[:, :60, :3]
    for top, bottom in ((0, 14), (15, 28), (29, 43), (44, 58)):
        assert rows[top:bottom].min() < 0.6
    page.close()


def test_an_event_in_the_last_frame_has_a_whole_mark(
    browser: Any, world: World, tmp_path: Path
) -> None:
    """A diamond, whose left half alone would be 4 wide and whose widest row is the middle one."""
    (tmp_path / "one.csv").write_text("event,time,state\n0,1,0\n0,2,1\n0,3,0\n", encoding="utf-8")
    (own,) = watched_runs(str(tmp_path / "one.csv"), world)
    page = Page(browser, write_viewer(tmp_path / "a.html", [own], title="One event"))
    page.page.locator("canvas").nth(2).screenshot(path=tmp_path / "rows.png")
    from matplotlib.image import imread

    rows = imread(tmp_path / "rows.png")[40:46, -9:, :3]
    right, left = rows[:, -3:].min(), rows[:, :6].min()
    assert max(right, left) < 0.6, "both ends are ink"
    page.close()


def test_backups_at_the_floor_are_squares(browser: Any, log: ReplayLog, tmp_path: Path) -> None:
    floor = log.backups["gain"] <= 1.001e-10 * log.backups["length"]
    np.testing.assert_array_equal(log.backups["floor"], floor)
    assert 0 < floor.sum() < len(floor)
    page = Page(browser, write_viewer(tmp_path / "a.html", [log], title="One run"))
    for direction, key in ((1, "f"), (2, "r")):
        page.press("Home", key)
        pause, done = page.state()["pause"], page.state()["done"]
        first = int(log.pauses["first"][pause])
        made = {
            int(state): first + i for i, state in enumerate(log.backups["state"][first:][:done])
        }
        squares = sum(bool(floor[b]) for b in made.values())
        assert ("(the floor alone)" in page.said()) == bool(floor[first + done - 1])
        elements = exported_svg(page, tmp_path)
        # The agent's ring is two circles; every other circle is a backup with a gain.
        circles = sum(one.tag.endswith("circle") for one in elements)
        policy = sum(
            one.tag.endswith("circle") and float(one.get("r") or 0) < 5 for one in elements
        )
        assert circles - policy - 2 == len(made) - squares, direction
    page.close()
    for settings, least in (("evb,floor=none", 0), ("evb,floor=sum", 1), ("evb-dyna", 0)):
        own = watched_run(settings, world_named("linear-track"), episodes=4)
        assert (own.backups["floor"].sum() > 0) == bool(least), settings


def test_the_frame_is_exported(browser: Any, log: ReplayLog, tmp_path: Path) -> None:
    named = replace(log, name="<b>evb & co</b>")
    page = Page(browser, write_viewer(tmp_path / "a.html", [named], title="One run"))
    page.press("r", "ArrowRight")
    for kind in ("svg", "png"):
        with page.page.expect_download() as download:
            page.page.click(f"#{kind}")
        download.value.save_as(tmp_path / f"frame.{kind}")
    assert (tmp_path / "frame.png").read_bytes().startswith(b"\x89PNG")
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
    assert cliff.board.marks == "S.........G"
    assert cliff.schedule[0][1].goals.tolist() == [10]
    lake = world_named("FrozenLake-v1")
    assert (lake.board.columns, lake.board.marks[15]) == (4, "G")
    assert lake.schedule[0][1].goals.tolist() == [5, 7, 11, 12, 15]
    (tmp_path / "maze.txt").write_text("S.G\n.#.\n...\n")
    assert world_named(str(tmp_path / "maze.txt")).board.marks == "S.G.#...."
    ending = shown(tabular_world("cliffwalk", n=5), "falls end")
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
def test_runs_that_raise(world: World, name: str, said: str) -> None:
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
    assert "Backup 8 of 20" in said[0], "before it comes back to a state"
    assert "reverse event 1." in said[0]
    assert "at the start of an episode" in said[1]
    assert "forward event" in said[1]
    assert "e-10 (the floor alone), need" in said[1]
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
