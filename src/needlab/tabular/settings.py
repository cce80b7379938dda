"""Settings of the tabular agents, by name and by preset, and as numbers for kernels.

A preset is a complete set of values: ``printed`` is the paper's text, ``released`` what its authors
ran. ``docs/maze.md`` numbers their differences and measures the effect of each.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from needlab.core.presets import changed, preset
from needreplay._core.checks import ANY, COUNT, SHARE, Bounds, check_fields
from needreplay._core.errors import unknown

NeedKind = Literal["none", "forward", "backward"]
"""No need, a row of M (what comes after a state), or a column (what comes before it)."""
NO_NEED, FORWARD, BACKWARD = range(3)
NeedFrom = Literal["current", "next", "popped"]
"""The state whose need counts: the one left, the one entered, or the one popped last."""
CURRENT, NEXT, POPPED = range(3)


@dataclass(frozen=True)
class LearningSettings:
    """What every tabular agent has; by itself, Q-learning."""

    discount: float = 0.95
    """γ, of Q and, if successor_discount is 0, of the successor matrix"""
    step_size: float = 0.1
    """α of the Q-update"""
    epsilon: float = 0.1
    """the probability of a random action"""

    def __post_init__(self) -> None:
        """Raise for values that mean nothing."""
        check_fields(self, _BOUNDS)


@dataclass(frozen=True)
class DynaSettings(LearningSettings):
    """Dyna-Q: Q-learning with planning from a model."""

    planning_updates: int = 5
    """n: Q-updates from the model for each step in the world"""


@dataclass(frozen=True)
class SweepingSettings(LearningSettings):
    """Prioritized sweeping, with need or without (the paper's Algorithm 1)."""

    planning_updates: int = 5
    """n: how many pairs may be popped and updated for each step in the world"""
    threshold: float = 1e-4
    """θ: a pair is queued if its gain is larger than this"""
    need: NeedKind = "forward"
    """what gain is multiplied with: nothing (PS), a row of M (PS-SR), or a column of M"""
    need_from: NeedFrom = "current"
    """whose row: the state the action was taken in, the one after the step (the start, where the
    episode ended), or the state popped last"""
    pop_without_need: bool = True
    """pop the largest product whatever it is; otherwise, as the authors' code does, a largest
    product of 0, or of -1 or less, is not popped and its update is skipped"""
    learn_successor: bool = True
    """learn M by TD(λ)"""
    successor_discount: float = 0.0
    """γ of M, the horizon of need; 0: that of Q"""
    successor_step_size: float = 0.1
    """α of M's update"""
    trace_decay: float = 0.5
    """λ"""
    reset_trace: bool = True
    """set the eligibility trace to 0 at each episode's start"""

    @property
    def uses_successor(self) -> bool:
        """Whether the agent needs an M at all."""
        return self.need != "none" or self.learn_successor

    @property
    def horizon(self) -> float:
        """γ of M."""
        return self.successor_discount or self.discount


_BOUNDS: Bounds = {
    "discount": SHARE,
    "step_size": SHARE,
    "epsilon": SHARE,
    "planning_updates": COUNT,
    "threshold": ANY,
    "successor_step_size": SHARE,
    "successor_discount": SHARE,
    "trace_decay": SHARE,
}

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
"""PS-SR of figure 2, by preset."""

OCCUPANCY = {
    "printed": PS_SR["printed"],
    "released": replace(
        PS_SR["released"], need="none", successor_step_size=0.25, planning_updates=20
    ),
}
"""The agent of figure 1, by preset: it learns M; in ``released`` M does not affect planning."""

AGENTS = ("ps", "ps-sr", "q-learning", "dyna-q")
"""The tabular agents by name."""


def without_need(settings: SweepingSettings) -> SweepingSettings:
    """The PS baseline of a PS-SR: the same settings with need = 1."""
    return replace(settings, need="none", learn_successor=False)


def agent_settings(
    agent: str, preset_name: str = "printed", **overrides: object
) -> LearningSettings:
    """The settings of an agent by name, with any field changed.

    >>> agent_settings("dyna-q", planning_updates=50).planning_updates
    50

    Args:
        agent: one of ``AGENTS``.
        preset_name: of ``PS_SR``; Q-learning and Dyna-Q are the same in all of them.
        overrides: fields to change.
    """
    if agent not in AGENTS:
        raise unknown("agent", agent, AGENTS)
    settings = preset(PS_SR, preset_name)
    if agent == "ps-sr":
        return changed(settings, **overrides)
    if agent == "ps":
        return without_need(changed(settings, **overrides))
    return changed(DynaSettings(planning_updates=0 if agent == "q-learning" else 5), **overrides)


class Parameters(NamedTuple):
    """The settings of any tabular agent as numbers: what kernels read."""

    discount: float
    step_size: float
    epsilon: float
    by_priority: bool
    """whether planning is prioritized sweeping; otherwise Dyna-Q"""
    planning_updates: int = 0
    threshold: float = 0.0
    need: int = NO_NEED
    need_from: int = CURRENT
    pop_without_need: bool = True
    learn_successor: bool = False
    successor_discount: float = 0.0
    """γ of M, never 0 where M is learned"""
    successor_step_size: float = 0.0
    trace_decay: float = 0.0
    reset_trace: bool = False


def parameters_of(settings: LearningSettings) -> Parameters:
    """The numbers that kernels read."""
    if not isinstance(settings, SweepingSettings):
        return Parameters(**numbers_of(settings), by_priority=False)
    numbers = {**numbers_of(settings), "successor_discount": float(settings.horizon)}
    return Parameters(**numbers, by_priority=True)


def numbers_of(settings: Any) -> dict[str, Any]:
    """Every field that is a number, a switch or a choice; of a choice, its place in its list."""
    owner: object = type(settings)
    kinds = _type_hints(owner)
    numbers: dict[str, Any] = {}
    for field in fields(settings):
        kind, value = kinds[field.name], getattr(settings, field.name)
        if get_origin(kind) is Literal:
            numbers[field.name] = get_args(kind).index(value)
        elif kind in (float, int, bool):
            numbers[field.name] = kind(value)
    return numbers


_type_hints = cache(get_type_hints)
