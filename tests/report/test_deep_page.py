"""The page of a deep run, in a real browser: what it shows is what the agent computes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("minatar")

from needlab.cli import main
from needlab.report import deep_page
from needlab.report.deep_page import SHOWN, write_deep_page
from needlab.runs.evaluation import Player, load_player
from needreplay._core.errors import NeedReplayError

from .browsing import NASTY, OpenPage

SETTINGS = "min_history=60 capacity=300 batch_size=8 iteration_steps=200 eval_steps=0"


def trained(folder: Path, world: str, agent: str, *more: str) -> Player:
    words = [word for each in (*SETTINGS.split(), *more) for word in ("--set", each)]
    line = ["train", "--world", world, "--agent", agent, "--steps", "200", "--out", str(folder)]
    assert main([*line, *words]) == 0
    return load_player(folder, with_buffer=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    trained(folder, "minatar/breakout", "per-sr-sampling")
    return folder


@pytest.fixture(scope="module")
def player(folder: Path) -> Player:
    return load_player(folder, with_buffer=True)


class Page(OpenPage):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.until("window.deepViewer !== undefined")

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate("deepViewer.state()")
        return found


def test_every_step_shows_the_stored_transitions_with_the_largest_need(
    browser: Any, player: Player, tmp_path: Path
) -> None:
    page = Page(browser, write_deep_page(tmp_path / "a.html", player, most_steps=30))
    store = player.empty_store(30)
    player.play(1, 0, store=store, most_steps=30)
    played, buffer = store.read(np.arange(len(store))), player.agent.buffer
    ids = np.arange(buffer.oldest_id, buffer.next_id)
    columns = buffer.read(ids)
    assert page.state()["steps"] == len(store) > 3
    distinct = list({obs.tobytes(): i for i, obs in enumerate(columns["obs"])}.values())
    for step, keys in enumerate((["Home"], ["ArrowRight"], ["ArrowRight", "ArrowRight"])):
        page.press(*keys)
        now = (0, 1, 3)[step]
        assert page.state()["step"] == now
        assert player.agent.need is not None
        need = player.agent.need.needs_of(played["obs"][now], columns)
        largest = page.state()["needed"]
        assert len(largest) == SHOWN
        np.testing.assert_allclose(
            need[largest - ids[0]], np.sort(need[distinct])[::-1][:SHOWN], rtol=1e-5
        )
        least = page.state()["least"]
        np.testing.assert_allclose(need[least - ids[0]], np.sort(need[distinct])[:SHOWN], rtol=1e-5)
        assert set(page.state()["random"]) <= set(ids.tolist())
        said = page.page.locator("#needed figcaption").first.inner_text()
        ratio = float(said.split()[1].rstrip(","))
        assert ratio == pytest.approx(need.max() / need.mean(), rel=0.01)
        assert f"transition {largest[0]}" in said
    assert f"of {len(buffer)} transitions" in page.page.locator("#spread").inner_text()
    page.press("End")
    assert page.state()["step"] == len(store) - 1
    assert page.page.locator("#next .tile:visible").count() == 0
    page.close()


def test_what_is_replayed_most_follows_the_priorities(
    browser: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    player = trained(tmp_path / "run", "CartPole-v1", "per", "alpha=1")
    buffer = player.agent.buffer
    ids = np.arange(buffer.oldest_id, buffer.next_id)
    chosen = ids[[5, 17, 40]]
    buffer.update_priorities(ids, np.where(np.isin(ids, chosen), 1.0, 1e-6))
    page = Page(browser, write_deep_page(tmp_path / "a.html", player, most_steps=20))
    assert sorted(page.state()["most"][:3]) == sorted(page.state()["drawn"][:3]) == chosen.tolist()
    words = page.page.locator("#most figcaption").all_inner_texts()[:3]
    drawn = [int(each.split()[1].replace(",", "")) for each in words]
    steps = page.state()["steps"]
    assert sum(drawn) == pytest.approx(steps * deep_page.BATCHES * 8, rel=0.02)
    assert page.page.locator("#needed, #bins").count() == 0, "per has no need"
    page.close()


def test_clicks_the_slider_and_a_link(browser: Any, player: Player, tmp_path: Path) -> None:
    path = write_deep_page(tmp_path / "a.html", player, most_steps=30)
    page = Page(browser, path)
    for button, expected in (("on", 1), ("on", 2), ("back", 1)):
        page.page.click(f"#{button}")
        assert page.state()["step"] == expected
    page.page.fill("#slider", "3")
    assert page.state()["step"] == 3
    again = Page(browser, path)
    again.page.goto(page.address + page.page.get_attribute("#link", "href"))
    again.until("deepViewer.state().step === 3")
    page.page.select_option("#speed", "30")
    page.press("Space")
    page.until("!deepViewer.state().playing")
    assert page.state()["step"] == page.state()["steps"] - 1
    for one in (page, again):
        one.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_names_stay_text_and_a_narrow_page_fits(
    browser: Any, player: Player, tmp_path: Path, scheme: str
) -> None:
    named: Any = SimpleNamespace(
        config=replace(player.config, world=NASTY),
        agent=player.agent,
        steps=player.steps,
        empty_store=player.empty_store,
        play=player.play,
    )
    path = write_deep_page(tmp_path / "a.html", named, most_steps=10, notes=[NASTY], command=NASTY)
    page = Page(browser, path, viewport={"width": 400, "height": 900}, color_scheme=scheme)
    assert page.page.evaluate("window.bad") is None
    assert page.page.locator("img").count() == 0
    assert NASTY in page.page.locator("h1").inner_text()
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 400
    page.close()


@pytest.mark.parametrize(
    ("shape", "stack", "expected"),
    [
        ((4, 10, 10), 0, (10, 10)),
        ((3, 40, 30), 0, (40, 30)),
        ((1, 300, 200), 0, (75, 50)),
        ((4, 84, 84), 4, (84, 84)),
        ((5,), 0, (deep_page.BAR, 65)),
    ],
)
def test_every_kind_of_observation_is_drawn(
    shape: tuple[int, ...], stack: int, expected: tuple[int, int]
) -> None:
    obs = np.random.default_rng(0).integers(0, 2 if shape[0] == 4 else 256, (3, *shape), np.uint8)
    pictures = deep_page._pictures(obs, stack)
    assert pictures.shape == (3, *expected, 3)
    assert pictures.dtype == np.uint8
    if stack:
        np.testing.assert_array_equal(pictures[..., 0], obs[:, -1])
    if len(shape) == 1:
        lit = (pictures[..., 0] == 60).sum(axis=1).reshape(3, 5, 13)[..., 0]
        np.testing.assert_array_equal(lit.argmax(axis=0), obs.argmax(axis=0))


def test_frames_too_large_for_the_page_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (9, 48, 48, 3), np.uint8)
    again = np.concatenate([pictures, pictures])
    sheet, numbers = deep_page._sheet(again)
    assert (sheet["width"], sheet["columns"]) == (48, 3)
    assert numbers.tolist() == [*range(9), *range(9)], "equal frames are stored once"
    monkeypatch.setattr(deep_page, "LARGEST_SHEET", 30_000)
    assert deep_page._sheet(again)[0]["width"] == 24


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.html"
    assert main(["eval", str(folder), "--episodes", "2", "--watch", str(path)]) == 0
    assert f"MB: {path}" in capsys.readouterr().out
    text = path.read_text(encoding="utf-8")
    assert "http" not in text.replace("http-equiv", "")
    assert "needreplay eval" in text
    assert re.search(r"Need: (AUC 0\.\d\d for the next 10|not measured yet)", text)
    assert path.stat().st_size < 5_000_000


def test_an_empty_buffer_raises(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NeedReplayError, match="buffer is empty"):
        write_deep_page(tmp_path / "a.html", load_player(folder))
