"""The presets, written out by hand from the paper and from what its authors ran."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from needlab.core.presets import preset
from needlab.tabular.settings import (
    OCCUPANCY,
    PS_SR,
    DynaSettings,
    LearningSettings,
    SweepingSettings,
    without_need,
)
from needreplay._core.errors import NeedReplayError

PRINTED = {
    "discount": 0.95,
    "step_size": 0.1,
    "epsilon": 0.1,
    "planning_updates": 5,
    "threshold": 1e-4,
    "need": "forward",
    "need_from": "current",
    "pop_without_need": True,
    "learn_successor": True,
    "successor_discount": 0.0,
    "successor_step_size": 0.1,
    "trace_decay": 0.5,
    "reset_trace": True,
}
RELEASED = {
    "discount": 0.9,
    "step_size": 0.1,
    "epsilon": 0.1,
    "planning_updates": 5,
    "threshold": 1e-10,
    "need": "forward",
    "need_from": "next",
    "pop_without_need": False,
    "learn_successor": True,
    "successor_discount": 0.0,
    "successor_step_size": 0.5,
    "trace_decay": 0.5,
    "reset_trace": False,
}


@pytest.mark.parametrize(("name", "values"), [("printed", PRINTED), ("released", RELEASED)])
def test_presets_are_complete_and_exact(name: str, values: dict[str, Any]) -> None:
    assert asdict(PS_SR[name]) == values
    assert asdict(preset(PS_SR, name)) == values
    assert sorted(PS_SR) == ["printed", "released"]


def test_presets_of_the_occupancy_figure() -> None:
    assert asdict(OCCUPANCY["printed"]) == PRINTED
    assert asdict(OCCUPANCY["released"]) == {
        **RELEASED, "need": "none", "successor_step_size": 0.25, "planning_updates": 20,
    }  # fmt: skip


def test_what_the_other_agents_begin_with() -> None:
    assert asdict(LearningSettings()) == {"discount": 0.95, "step_size": 0.1, "epsilon": 0.1}
    assert asdict(DynaSettings()) == {**asdict(LearningSettings()), "planning_updates": 5}
    assert asdict(SweepingSettings()) == PRINTED


@pytest.mark.parametrize("name", ["printed", "released"])
def test_the_baseline_differs_in_need_alone(name: str) -> None:
    baseline = asdict(without_need(PS_SR[name]))
    different = {key for key, value in asdict(PS_SR[name]).items() if baseline[key] != value}
    assert different == {"need", "learn_successor"}
    assert not without_need(PS_SR[name]).uses_successor
    assert PS_SR[name].uses_successor
    assert OCCUPANCY[name].uses_successor


@pytest.mark.parametrize("name", ["printed", "released"])
@pytest.mark.parametrize(
    "override",
    [
        {"discount": 0.5}, {"step_size": 0.3}, {"epsilon": 0.2}, {"planning_updates": 7},
        {"threshold": 0.01}, {"need": "backward"}, {"need_from": "popped"},
        {"successor_step_size": 0.9}, {"trace_decay": 1.0},
    ],
    ids=lambda override: next(iter(override)),
)  # fmt: skip
def test_every_field_can_be_changed_alone(name: str, override: dict[str, Any]) -> None:
    assert asdict(preset(PS_SR, name, **override)) == {**asdict(PS_SR[name]), **override}


def test_names_that_do_not_exist_raise() -> None:
    with pytest.raises(NeedReplayError, match=r"no preset 'print'; choose from: printed, released"):
        preset(PS_SR, "print")
    with pytest.raises(NeedReplayError, match=r"no setting 'gamma': it is 'discount' here"):
        preset(PS_SR, "printed", gamma=0.9)
    with pytest.raises(NeedReplayError, match=r"no need 'sideways'; choose from: none, forward, "):
        preset(PS_SR, "printed", need="sideways")
    with pytest.raises(NeedReplayError, match=r"no need_from 'goal'; choose from: current, next, "):
        preset(PS_SR, "printed", need_from="goal")


@pytest.mark.parametrize(
    "name", ["discount", "step_size", "epsilon", "successor_step_size", "trace_decay"]
)
@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, -math.inf])
def test_shares_outside_0_to_1_raise(name: str, value: float) -> None:
    with pytest.raises(
        NeedReplayError, match=rf"^{name} is {value}; it must be a (finite )?number from 0.0 to 1.0"
    ):
        preset(PS_SR, "printed", **{name: value})
    for edge in (0.0, 1.0):
        assert getattr(preset(PS_SR, "printed", **{name: edge}), name) == edge


@pytest.mark.parametrize("value", [-1e-9, math.nan, -math.inf])
def test_a_threshold_below_0_raises(value: float) -> None:
    with pytest.raises(
        NeedReplayError, match=r"^threshold is .*; it must be a (finite )?number, 0.0 or more"
    ):
        preset(PS_SR, "printed", threshold=value)


@pytest.mark.parametrize("name", ["discount", "threshold", "trace_decay"])
@pytest.mark.parametrize("value", ["x", "0.5", None, True, [0.5], 1j])
def test_numbers_are_numbers(name: str, value: Any) -> None:
    with pytest.raises(NeedReplayError, match=rf"^{name} is .*; it must be a number"):
        preset(PS_SR, "printed", **{name: value})


@pytest.mark.parametrize("name", ["reset_trace", "learn_successor", "pop_without_need"])
@pytest.mark.parametrize("value", ["no", 1, None])
def test_switches_are_true_or_false(name: str, value: Any) -> None:
    with pytest.raises(NeedReplayError, match=rf"^{name} is .*; it must be True or False\.$"):
        preset(PS_SR, "printed", **{name: value})


@pytest.mark.parametrize("value", [["none"], 3, None])
def test_a_choice_of_a_wrong_type_raises(value: Any) -> None:
    with pytest.raises(NeedReplayError, match="There is no need "):
        preset(PS_SR, "printed", need=value)


def test_numpy_numbers_are_numbers() -> None:
    changed = preset(
        PS_SR, "printed", planning_updates=np.int64(7), discount=np.float32(0.5), epsilon=0
    )
    assert (changed.planning_updates, changed.discount, changed.epsilon) == (7, 0.5, 0)


@pytest.mark.parametrize("value", [-1, 2.5, math.nan, math.inf, True, "5"])
def test_counts_are_whole_numbers(value: Any) -> None:
    with pytest.raises(
        NeedReplayError, match=r"^planning_updates is .*; it must be a whole number, 0 or"
    ):
        preset(PS_SR, "printed", planning_updates=value)
    with pytest.raises(NeedReplayError, match=r"^planning_updates is .*; it must be a whole"):
        DynaSettings(planning_updates=value)
