"""The tabular map: its boards, its kernels, and a tiny run."""

from __future__ import annotations

import numpy as np
import pytest

from needlab.runs.trials import trial_runner
from needlab.studies.maze import when_need_pays as study
from needlab.studies.maze.when_need_pays import Case, World
from needlab.studies.study import Options

FIXED = World(1, False, False, 0.0, 5, 0.1)


def test_distances_are_shortest_paths() -> None:
    board, distance = study.board(1), study.distances(1)
    assert distance[board.start, board.goals[0]] == 14
    assert (distance[np.ix_(board.free, board.free)] < 54).all()
    assert (np.diag(distance) == 0).all()


def test_shuffled_need_has_the_same_values_on_other_states() -> None:
    _, kernel = study.agent_of(Case(FIXED, "distance", 0), 0)
    _, shuffled = study.agent_of(Case(FIXED, "shuffled", 0), 0)
    assert kernel is not None
    assert shuffled is not None
    assert not np.array_equal(kernel, shuffled)
    assert np.array_equal(np.sort(kernel, axis=1), np.sort(shuffled, axis=1))


def test_starts_and_goals_change_as_said_and_are_shared() -> None:
    changing = FIXED._replace(random_start=True, moving_goal=True)
    one, again = (study.changing_world(changing, 0, 7) for _ in range(2))
    assert [(begin, world.goals.tolist()) for begin, world in one] == [
        (0, [8]),
        (10, [53]),
        (20, [3]),
    ]
    starts = one[0][1].starts
    for _, world in (*one, *again):
        assert np.array_equal(world.starts, starts)
    assert (len(starts), len(set(starts.tolist())) > 10) == (30, True)
    assert (starts != np.repeat([8, 53, 3], 10)).all()
    [(begin, still)] = study.changing_world(FIXED, 0, 7)
    assert (begin, still.starts.tolist(), still.goals.tolist()) == (0, [18], [8])


def test_a_tiny_run(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = ((False,), (False,), (0.0, 0.2), (5,), (0.1,))
    monkeypatch.setitem(study.LEVELS, "quick", levels)
    with trial_runner() as runner:
        result = study.run(Options(("6x9",), 8, 0, 1, "quick"), runner)
    data = result.tables["data"]
    assert len(data["ratio"]) == 2 * len(study.SHOWN)
    assert len(result.claims) == len(study.TESTS)
    plain = (data["slip"] == 0.0) & (data["arm"] == "distance")
    assert data["ratio"][plain][0] < 0.8  # nearness helps in the paper's own maze
    assert (data["p_holm"] >= 0.0).all()
