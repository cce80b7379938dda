"""The study of need in linear agents: one run, and its comparisons by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from needlab.core.tables import Table, long_table
from needlab.studies import linear_need
from needlab.studies.linear_need import ARMS, NEED, TASKS, Case, claims_of, comparisons, learn


def data(goals: dict[str, float]) -> Table:
    """Each arm reaches ``goals`` times 10, 20, 30 goals, less 1, with seeds 0, 1, 2."""
    base = np.array([10.0, 20.0, 30.0, 15.0, 12.0, 11.0, 13.0])
    rows = [
        (
            (task, arm),
            {
                "seed": np.arange(7),
                "goals": goals[arm] * base - 1.0,
                "cpu_seconds": np.full(7, 2.0 if arm == NEED else 0.5),
            },
        )
        for task in TASKS
        for arm in ARMS
    ]
    return long_table(("task", "arm"), rows)


def test_comparisons_by_hand() -> None:
    compared = comparisons(data({"uniform": 0.5, "gain": 1.0, NEED: 2.0, "shuffled need": 4.0}), 0)
    ratios = {rival: compared.where(rival=rival)["ratio"] for rival in linear_need.RIVALS}
    for rival, ratio in (("gain", 2.0), ("shuffled need", 0.5), ("uniform", 4.0)):
        np.testing.assert_allclose(ratios[rival], [ratio] * 3)
    np.testing.assert_allclose(compared["cpu_ratio"], 4.0)
    verdicts = [claim.verdict for claim in claims_of(compared)]
    assert verdicts == ["undecided", "holds", "does not hold", "holds"]  # gain, shuffled, uniform


@pytest.mark.parametrize(("gain", "shuffled", "verdict"), [
    (1.0, 1.0, "holds"), (1.9, 1.0, "holds"), (2.0, 1.0, "does not hold"), (1.0, 2.0, "undecided"),
])  # fmt: skip
def test_the_plans_verdict(gain: float, shuffled: float, verdict: str) -> None:
    """Need is 2: it has to be ahead of both; level with gain, it does not pay."""
    goals = {"uniform": 1.0, "gain": gain, NEED: 2.0, "shuffled need": shuffled}
    assert claims_of(comparisons(data(goals), 0))[0].verdict == verdict


def test_equal_arms_are_undecided() -> None:
    claims = claims_of(comparisons(data(dict.fromkeys(ARMS, 1.0)), 0))
    assert [claim.verdict for claim in claims] == ["does not hold", *["undecided"] * 3]
    assert "1.00" in claims[1].measured


def test_arms_are_the_same_until_the_first_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a small maze: the first goal comes at the same step, and 300 steps follow it."""
    small: dict[str, Any] = {"options": {"maze": "S..\n...\n..G"}, "cells": (3, 3), "steps": 300}
    tasks = {"maze": TASKS["continuous maze"]._replace(**small)}
    monkeypatch.setattr(linear_need, "TASKS", tasks)
    runs = [learn(Case("maze", arm), 3) for arm in ARMS]
    (first,) = {run["first"] for run in runs}
    assert {run["steps"] for run in runs} == {first + 300}
    assert min(run["goals"] for run in runs) > 10  # the shortest way has 6 to 10 steps
    none = learn(Case("maze", "uniform", share=0.0), 3)
    assert (none["first"], none["steps"], none["goals"]) == (first, first, 0)


def test_a_run_without_a_goal_counts_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_need, "SEARCH", 20)
    found = learn(Case("continuous maze", "uniform"), 0)
    assert (found["goals"], found["first"], found["steps"]) == (0, -1, 20)
