"""The presets, written out by hand from the paper and from what its authors ran."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import pytest

from needlab.studies.cliffwalk.settings import (
    CLIFFWALK,
    METHODS,
    PAPER_METHODS,
    CliffwalkSettings,
    cliffwalk_preset,
    differences,
)
from needreplay._core.errors import NeedReplayError

THE_TASKS = "the task's"
"""Stands for not a number, which equals nothing."""

PRINTED = {
    "sizes": (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13),
    "repetitions": 10,
    "center": "median",
    "buffer_axis": "transitions",
    "discount_offset": 0,
    "fall": "ends",
    "right_actions": "alternate",
    "strings": "until_fall",
    "q_start_std": 0.1,
    "priority_floor": 1e-6,
    "need_from": "before",
    "epsilon": 0.1,
    "successor_step_size": 0.1,
    "successor_discount": THE_TASKS,
    "trace_reset": "episode",
    "negative_need": "zero",
    "random_need": "policy",
    "optimal_need": "greedy",
    "judged": "mean_of_all",
    "tested": "update",
    "oracle": "pair",
    "step_size": 0.25,
    "alpha": 0.6,
    "need_alpha": 0.6,
    "minibatch": 1,
    "batch_step": "sum",
    "replay_period": 1,
    "start_priority": 1.0,
    "beta": 0.4,
    "weights_correct": "both",
    "trace_decay": 0.95,
    "threshold": 1e-3,
    "rank_exponent": 0.7,
    "pser_decay": 0.4,
    "pser_window": 5,
    "pser_retained": 0.7,
    "budget_per_transition": 400,
    "least_budget": 200_000,
}

RELEASED = {
    **PRINTED,
    "sizes": (2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
    "repetitions": 15,
    "center": "mean",
    "buffer_axis": "authors",
    "discount_offset": 1,
    "fall": "teleports",
    "right_actions": "first",
    "strings": "whole",
    "q_start_std": 0.0,
    "priority_floor": 1e-3,
    "need_from": "after",
    "epsilon": 0.05,
    "successor_step_size": 0.5,
    "successor_discount": 0.95,
    "trace_reset": "never",
    "negative_need": "shift",
    "random_need": "faulty",
    "optimal_need": "faulty",
    "judged": "sum_of_right",
    "tested": "goal",
    "oracle": "right",
}

CORRECTED = {
    **RELEASED,
    "buffer_axis": "transitions",
    "successor_step_size": 0.1,
    "successor_discount": THE_TASKS,
    "trace_reset": "return",
    "negative_need": "zero",
    "random_need": "policy",
    "optimal_need": "true",
}


@pytest.mark.parametrize(
    ("name", "values"),
    [("printed", PRINTED), ("released", RELEASED), ("corrected", CORRECTED)],
)
def test_presets_are_complete_and_exact(name: str, values: dict[str, Any]) -> None:
    for preset in (CLIFFWALK[name], cliffwalk_preset(name)):
        found = asdict(preset)
        if math.isnan(found["successor_discount"]):
            found["successor_discount"] = THE_TASKS
        assert found == values
    assert sorted(CLIFFWALK) == ["corrected", "printed", "printed-returns", "released"]


def test_methods() -> None:
    assert PAPER_METHODS == ("uniform", "oracle", "per", "need", "need-random", "need-optimal")
    assert len(METHODS) == 11


def test_corrected_differs_from_released_in_its_faults_only() -> None:
    assert set(differences("released", "corrected")) == {
        "buffer_axis",
        "successor_step_size",
        "successor_discount",
        "trace_reset",
        "negative_need",
        "random_need",
        "optimal_need",
    }


def test_sizes() -> None:
    assert cliffwalk_preset("printed").sizes == tuple(range(3, 14))
    assert cliffwalk_preset("released").sizes == tuple(range(2, 12))


def test_any_field_can_be_changed() -> None:
    changed = cliffwalk_preset("released", trace_reset="return", threshold=0.5)
    assert (changed.trace_reset, changed.threshold, changed.epsilon) == ("return", 0.5, 0.05)


def test_what_raises() -> None:
    with pytest.raises(NeedReplayError, match="no preset 'x'"):
        cliffwalk_preset("x")
    with pytest.raises(NeedReplayError, match="no setting 'eta'"):
        cliffwalk_preset("printed", eta=0.6)
    with pytest.raises(NeedReplayError, match="no oracle 'x'"):
        CliffwalkSettings(oracle="x")  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="need_alpha is 2; it must be a number from 0"):
        CliffwalkSettings(need_alpha=2)
    with pytest.raises(
        NeedReplayError, match="minibatch is 0; it must be a whole number, 1 or more"
    ):
        CliffwalkSettings(minibatch=0)
    for sizes in ((1, 2), (), (3, 4.5), 7, "34"):
        with pytest.raises(NeedReplayError, match=r"^sizes is .*; it must be whole numbers, each"):
            cliffwalk_preset("printed", sizes=sizes)
    with pytest.raises(NeedReplayError, match="successor_discount"):
        CliffwalkSettings(successor_discount=1.5)
    assert math.isnan(CliffwalkSettings().successor_discount)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("minibatch", 2.5, "a whole number, 1 or more"),
        ("minibatch", True, "a whole number, 1 or more"),
        ("pser_window", "5", "a whole number, 0 or more"),
        ("step_size", "x", "a number from 0.0 to 1.0"),
        ("epsilon", None, "a number from 0.0 to 1.0"),
        ("threshold", math.nan, "a number, 0.0 or more"),
        ("successor_discount", "0.9", "a number"),
    ],
)
def test_values_of_a_wrong_type_raise(name: str, value: Any, said: str) -> None:
    with pytest.raises(NeedReplayError) as raised:
        cliffwalk_preset("printed", **{name: value})
    assert str(raised.value) == f"{name} is {value!r}; it must be {said}."
