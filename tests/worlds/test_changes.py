"""Rewards that change at an episode: in text, for every agent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from needlab.report.watched import watched_run, world_named
from needlab.tabular.evb import EVB, simulate
from needlab.tabular.trial import run_trials
from needlab.worlds import tabular_schedule, tabular_world
from needlab.worlds.changes import texts_of
from needreplay._core.errors import NeedReplayError

TEXT = """
    S...A
    .##..
    ....B

    A: 1
    B from episode 3: 4 sd 0.5
    A from episode 3: 0
    A from episode 5: 2
"""


def test_every_part_by_hand() -> None:
    schedule = tabular_schedule(TEXT)
    assert [begin for begin, _ in schedule] == [0, 3, 5]
    found = [(w.reward_mean.max(axis=1)[[3, 13]], w.reward_std[13].max()) for _, w in schedule]
    # Into A from state 3, into B from state 13; B gives 1 sd 0.1 where nothing is said.
    np.testing.assert_allclose([means for means, _ in found], [[1, 1], [0, 4], [2, 4]])
    np.testing.assert_allclose([spread for _, spread in found], [0.1, 0.5, 0.5])


def test_a_text_without_changes_is_one_world() -> None:
    assert len(tabular_schedule("S..G")) == 1
    assert len(tabular_schedule("linear-track")) == 1
    assert texts_of("S.G\n\nG from episode 2: 4", "x") == [(0, "S.G\n"), (2, "S.G\n\nG: 4")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("S.G\n\nG from episode 0: 4", "write 'G: 4'"),
        ("S.G\n\nB from episode 2: 4", "'B' is not"),
        ("S.G\n\nG from episode 2: lots", "write a reward as"),
        ("S.G\n\nG from episode two: 4", "'G from episode two' is not"),
    ],
)
def test_what_is_rejected(text: str, message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        tabular_schedule(text)


def test_one_world_cannot_change() -> None:
    with pytest.raises(NeedReplayError, match="Read it with tabular_schedule"):
        tabular_world("S.G\n\nG from episode 2: 4")


def test_every_agent_gets_the_rewards_of_its_episode(tmp_path: Path) -> None:
    path = tmp_path / "maze.txt"
    path.write_text("S..G\n\nG: 1\nG from episode 2: 5\nG from episode 4: -2\n", encoding="utf-8")
    expected = [1.0, 1.0, 5.0, 5.0, -2.0, -2.0]
    schedule = tabular_schedule(path)
    assert run_trials("ps-sr", schedule, 6, 1)["return"].tolist() == expected
    found = simulate(schedule, EVB["published"], episodes=6)
    assert found.steps["reward"][found.steps["reward"] != 0].tolist() == expected
    world = world_named(str(path))
    for agent in ("evb", "ps-sr", "dyna-q"):
        log = watched_run(agent, world, episodes=6)
        ends = log.pauses[log.pauses["kind"] == 1]
        by_episode = dict(zip(ends["episode"].tolist(), ends["reward"].tolist(), strict=True))
        assert by_episode == {i: r for i, r in enumerate(expected) if i in by_episode}, agent
        assert len(by_episode) >= 4, agent
    whole = run_trials("ps-sr", schedule, 6, 1, first_trial=3)["steps"]
    log = watched_run("ps-sr", world, episodes=6, trial=3)
    assert np.bincount(log.steps["episode"]).tolist() == whole.tolist(), "the same trial"
