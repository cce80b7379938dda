"""Settings of the tabular agents, and the presets of the Dyna maze.

A preset is a complete set of values: ``printed`` is the paper's text, ``released`` what its authors
ran. ``docs/maze.md`` numbers their differences and measures the effect of each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar, get_args

from needreplay.errors import NeedReplayError, unknown

NeedKind = Literal["none", "forward", "backward"]
NeedFrom = Literal["current", "next", "popped"]


@dataclass(frozen=True)
class LearningSettings:
    """What every tabular agent has."""

    discount: float = 0.95
    """γ, of Q and of the successor matrix"""
    step_size: float = 0.1
    """α of the Q-update"""
    epsilon: float = 0.1
    """the share of random actions"""

    def __post_init__(self) -> None:
        """Refuse values with which nothing can be learned."""
        _require(self, "discount", 0.0, 1.0)
        _require(self, "step_size", 0.0, 1.0)
        _require(self, "epsilon", 0.0, 1.0)


@dataclass(frozen=True)
class DynaSettings(LearningSettings):
    """Q-learning with planning from a model (Dyna-Q); without planning it is Q-learning."""

    planning_updates: int = 5
    """n: Q-updates from the model for each step in the world"""

    def __post_init__(self) -> None:
        """Refuse a negative number of planning updates."""
        super().__post_init__()
        _require(self, "planning_updates", 0, math.inf)


@dataclass(frozen=True)
class SweepingSettings(LearningSettings):
    """Prioritized sweeping, with need or without (the paper's Algorithm 1)."""

    sweeps: int = 5
    """n: how many pairs may be popped and updated for each step in the world"""
    threshold: float = 1e-4
    """θ: a pair is queued if its gain is larger than this"""
    need: NeedKind = "forward"
    """what gain is multiplied with in a pop: nothing (PS), M's row (PS-SR), or M's column"""
    need_from: NeedFrom = "current"
    """whose row: the state the action was taken in, the one after the step (the start, where the
    episode ended), or the state popped last"""
    pop_without_need: bool = True
    """pop the largest product even if it is 0 or negative; otherwise such a sweep is spent idle"""
    learn_successor: bool = True
    """learn M by TD(λ)"""
    successor_step_size: float = 0.1
    """α of M's update"""
    trace_decay: float = 0.5
    """λ"""
    reset_trace: bool = True
    """set the eligibility trace to 0 at each episode's start"""

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        super().__post_init__()
        _require(self, "sweeps", 0, math.inf)
        _require(self, "threshold", 0.0, math.inf)
        _require(self, "successor_step_size", 0.0, 1.0)
        _require(self, "trace_decay", 0.0, 1.0)
        if self.need not in get_args(NeedKind):
            raise unknown("need", self.need, get_args(NeedKind))
        if self.need_from not in get_args(NeedFrom):
            raise unknown("need_from", self.need_from, get_args(NeedFrom))

    @property
    def uses_successor(self) -> bool:
        """Whether there has to be an M at all."""
        return self.need != "none" or self.learn_successor


S = TypeVar("S", bound=LearningSettings)


def _require(settings: LearningSettings, name: str, low: float, high: float) -> None:
    value = getattr(settings, name)
    if not low <= value <= high:
        bounds = f"from {low} to {high}" if high < math.inf else f"at least {low}"
        raise NeedReplayError(f"{name} is {value}; it must be {bounds}.")


PS_SR = {
    "printed": SweepingSettings(),
    "released": SweepingSettings(
        discount=0.9,
        threshold=1e-10,
        successor_step_size=0.5,
        need_from="next",
        pop_without_need=False,
        reset_trace=False,
    ),
}
"""Figure 2's PS-SR, by preset."""

OCCUPANCY = {
    "printed": PS_SR["printed"],
    "released": replace(PS_SR["released"], need="none", successor_step_size=0.25, sweeps=20),
}
"""Figure 1's agent, by preset: M is learned, and in ``released`` not used to choose."""


def without_need(settings: SweepingSettings) -> SweepingSettings:
    """The PS baseline of a PS-SR: the same settings with need = 1."""
    return replace(settings, need="none", learn_successor=False)


def preset(presets: dict[str, S], name: str, **overrides: Any) -> S:
    """The settings of a named preset, with any field changed.

    >>> preset(PS_SR, "printed", sweeps=10).sweeps
    10
    """
    if name not in presets:
        raise unknown("preset", name, presets)
    settings = presets[name]
    known = [field.name for field in fields(settings)]
    for field in overrides:
        if field not in known:
            raise unknown("setting", field, known)
    return replace(settings, **overrides)
