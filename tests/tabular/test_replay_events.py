"""Events in hand-made lists, and the tidy table of replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.core.tables import Table
from needlab.tabular.replay_events import (
    FORWARD,
    REPLAY_COLUMNS,
    REVERSE,
    replay_events,
    replay_table,
)
from needlab.tabular.replay_files import read_replay, write_replay
from needreplay._core.errors import NeedReplayError

LEFT, RIGHT = 0, 1
CORRIDOR = np.array([[max(s - 1, 0), min(s + 1, 19)] for s in range(20)])


def found(states: list[int], actions: list[int] | int, **options: Any) -> list[tuple[int, ...]]:
    taken = [actions] * len(states) if isinstance(actions, int) else actions
    events = replay_events(states, taken, CORRIDOR, **options)
    return [(int(e["first"]), int(e["last"]), int(e["direction"])) for e in events]


@pytest.mark.parametrize(
    ("states", "actions", "expected"),
    [
        ([2, 3, 4, 5, 6], RIGHT, [(0, 4, FORWARD)]),
        ([6, 5, 4, 3, 2], RIGHT, [(0, 4, REVERSE)]),
        ([6, 5, 4, 3, 2], LEFT, [(0, 4, FORWARD)]),
        ([2, 3, 4, 5], RIGHT, []),
        ([2, 3, 4, 5, 7], RIGHT, []),
        ([], RIGHT, []),
        ([4], RIGHT, []),
        # The longest run, with something before and after it.
        ([9, 2, 3, 4, 5, 6, 7, 2], RIGHT, [(1, 6, FORWARD)]),
        # Two events; they may share the pair where the direction turns.
        ([2, 3, 4, 5, 6, 5, 4, 3, 2], RIGHT, [(0, 4, FORWARD), (4, 8, REVERSE)]),
        # Two runs of one direction with a jump between.
        ([1, 2, 3, 4, 5, 1, 2, 3, 4, 5], RIGHT, [(0, 4, FORWARD), (5, 9, FORWARD)]),
        # Back and forth between two cells, and against the wall: two states, and one.
        ([3, 4, 3, 4, 3, 4], [RIGHT, LEFT, RIGHT, LEFT, RIGHT, LEFT], []),
        ([0, 0, 0, 0, 0], LEFT, []),
        # Six pairs of four states (5 and 4 are there twice); then one more state.
        ([5, 4, 5, 4, 3, 2], [LEFT, RIGHT, LEFT, RIGHT, RIGHT, RIGHT], []),
        ([5, 4, 5, 4, 3, 2, 1], [LEFT, RIGHT, LEFT, *[RIGHT] * 4], [(0, 6, REVERSE)]),
        # Bumps against the right wall before, inside and after a run do not break it.
        (
            [19, 18, 19, 17, 16, 15, 19],
            [RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT],
            [],
        ),
        (
            [19, 14, 15, 19, 16, 17, 18, 19],
            [RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT],
            [(1, 6, FORWARD)],
        ),
    ],
)
def test_hand_made_lists(
    states: list[int], actions: list[int] | int, expected: list[tuple[int, ...]]
) -> None:
    assert found(states, actions) == expected


def test_the_published_rule_counts_pairs_and_the_widest_one_stays_too() -> None:
    ping_pong = [3, 4, 3, 4, 3, 4], [RIGHT, LEFT, RIGHT, LEFT, RIGHT, LEFT]
    # Both hold (3 leads right to 4, 4 leads left to 3): reverse wins.
    assert found(*ping_pong, count="pairs") == [(0, 5, REVERSE)]
    assert found([0] * 5, LEFT, count="pairs") == []
    # A bump leads to itself, which is a reverse step.
    assert found([0] * 5, LEFT, count="pairs and stays") == [(0, 4, REVERSE)]
    events = replay_events(
        [5, 4, 5, 4, 3], [LEFT, RIGHT, LEFT, RIGHT, RIGHT], CORRIDOR, count="pairs"
    )
    assert events["states"].tolist() == [3]


def test_the_shortest_event_can_be_chosen() -> None:
    assert found([2, 3, 4], RIGHT, shortest=3) == [(0, 2, FORWARD)]
    assert found([2, 3, 4, 5, 6], RIGHT, shortest=6) == []


def test_a_run_of_five_is_significant_and_repetitions_are_not() -> None:
    rng = np.random.default_rng(0)
    run = replay_events([2, 3, 4, 5, 6], [RIGHT] * 5, CORRIDOR, rng=rng)
    assert run["significant"].tolist() == [True]
    # Every order of five equal pairs has the same score, so this one is not rare.
    bumps = replay_events([0] * 5, [LEFT] * 5, CORRIDOR, count="pairs and stays", rng=rng)
    assert bumps["significant"].tolist() == [False]
    untested = replay_events([0] * 5, [LEFT] * 5, CORRIDOR, count="pairs and stays", permutations=0)
    assert untested["significant"].tolist() == [True]


def test_the_tails_of_the_permutation_test() -> None:
    """With 4 of 24 orders at the score, about 17% of permutations reach it."""
    table = np.array([[1], [0], [3], [2]])
    # 0 -> 1 -> 0: reverse both ways, so orders that keep the pairs adjacent have a low score.
    events = replay_events([0, 1, 0, 1], [0] * 4, table, count="pairs", shortest=4)
    assert events["direction"].tolist() == [REVERSE]
    assert events["significant"].tolist() == [False]
    lenient = replay_events([0, 1, 0, 1], [0] * 4, table, count="pairs", shortest=4, level=0.45)
    assert lenient["significant"].tolist() == [True]


def test_unknown_outcomes_are_no_steps() -> None:
    table = np.where(CORRIDOR == 4, -1, CORRIDOR)
    assert len(replay_events([2, 3, 4, 5, 6], [RIGHT] * 5, table)) == 0


@pytest.mark.parametrize(
    ("states", "actions", "table", "options", "message"),
    [
        ([1, 2], [1], CORRIDOR, {}, "one length"),
        ([1, []], [1, 1], CORRIDOR, {}, "states cannot be read as an array"),
        ([1, 2], [1, []], CORRIDOR, {}, "actions cannot be read"),
        ([1, 2], [1, 1], [[1], [1, 0]], {}, "next_state cannot be read"),
        ([1, 20], [1, 1], CORRIDOR, {}, "states must be integers from 0 to 19"),
        ([1, -1], [1, 1], CORRIDOR, {}, "states must be"),
        ([1, 2], [1, 2], CORRIDOR, {}, "actions must be integers from 0 to 1"),
        ([1.5, 2], [1, 1], CORRIDOR, {}, "states must be"),
        ([1, 2], [1, 1], CORRIDOR[0], {}, "next_state must be a matrix"),
        ([1, 2], [1, 1], CORRIDOR * 1.0, {}, "next_state must be a matrix"),
        ([1, 2], [1, 1], CORRIDOR, {"shortest": 1}, "shortest is 1"),
        ([1, 2], [1, 1], CORRIDOR, {"permutations": 10}, "needs at least 40"),
        ([1, 2], [1, 1], CORRIDOR, {"count": "cells"}, "There is no count 'cells'"),
        ([1, 2], [1, 1], CORRIDOR, {"level": 0.7}, "level is 0.7"),
    ],
)
def test_what_raises(states: Any, actions: Any, table: Any, options: Any, message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        replay_events(states, actions, table, **options)


def _table() -> Table:
    return replay_table(
        episode=np.array([0] * 6 + [1] * 5),
        pause=np.array([0] * 6 + [1] * 5),
        states=np.array([6, 5, 4, 3, 2, 9, 1, 2, 3, 4, 5]),
        actions=np.full(11, RIGHT),
        next_state=CORRIDOR,
        need=np.linspace(0.0, 1.0, 11),
    )


def test_the_tidy_table_names_the_event_of_every_backup() -> None:
    table = _table()
    assert table.names == REPLAY_COLUMNS
    assert table["order"].tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4]
    assert table["event"].tolist() == [0] * 5 + [-1] + [1] * 5
    assert table["direction"].tolist() == ["reverse"] * 5 + ["none"] + ["forward"] * 5
    assert table["chain_length"].tolist() == [1] * 11


def test_the_table_is_plain_csv(tmp_path: Path) -> None:
    write_replay(tmp_path / "replay.csv", _table())
    text = (tmp_path / "replay.csv").read_text(encoding="utf-8")
    assert text.splitlines()[:2] == [
        ",".join(REPLAY_COLUMNS),
        "0,0,0,unknown,-1,nan,6,1,nan,0.0,1,reverse,0",
    ]
    again = read_replay(tmp_path / "replay.csv")
    for name in REPLAY_COLUMNS:
        np.testing.assert_array_equal(again[name], _table()[name])
    # Events are found again from the file alone.
    first = again["pause"] == 0
    events = replay_events(again["state"][first], again["action"][first], CORRIDOR)
    assert events["direction"].tolist() == [REVERSE]


def test_settings_of_the_events_pass_through_the_table() -> None:
    """Ping-pong of six pairs in two states, then three states forward."""
    episode = np.zeros(9, np.int64)
    states = np.array([3, 4, 3, 4, 3, 4, 9, 10, 11])
    actions = np.array([RIGHT, LEFT] * 3 + [RIGHT] * 3)

    def events(**options: Any) -> list[int]:
        table = replay_table(episode, episode, states, actions, CORRIDOR, **options)
        return [int(event) for event in table["event"]]

    assert events() == [-1] * 9
    # The test does not call three pairs significant: 1 of their 6 orders scores as high.
    assert events(shortest=3) == [-1] * 9
    assert events(shortest=3, permutations=0) == [-1] * 6 + [0] * 3
    assert events(shortest=3, permutations=0, count="pairs") == [0] * 6 + [1] * 3


def test_pauses_that_interleave_are_rejected() -> None:
    pause = np.array([0, 1, 0])
    with pytest.raises(NeedReplayError, match="pause 0 goes on in row 3"):
        replay_table(pause * 0, pause, pause, pause, CORRIDOR)


def test_an_empty_log_is_an_empty_table() -> None:
    none = np.zeros(0, np.int64)
    assert len(replay_table(none, none, none, none, CORRIDOR)) == 0
