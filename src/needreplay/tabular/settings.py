"""Settings of the tabular agents, and the presets of the Dyna maze.

A preset is a complete set of values: ``printed`` is the paper's text, ``released`` what its authors
ran. ``docs/maze.md`` numbers their differences and measures the effect of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from needreplay.core.checks import ANY, COUNT, SHARE, Bounds, changed, check_fields, preset
from needreplay.core.errors import unknown

__all__ = [
    "AGENTS",
    "OCCUPANCY",
    "PS_SR",
    "DynaSettings",
    "LearningSettings",
    "NeedFrom",
    "NeedKind",
    "SweepingSettings",
    "agent_settings",
    "preset",
    "without_need",
]

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
        """Refuse values that mean nothing."""
        check_fields(self, _BOUNDS)


@dataclass(frozen=True)
class DynaSettings(LearningSettings):
    """Q-learning with planning from a model (Dyna-Q); without planning it is Q-learning."""

    planning_updates: int = 5
    """n: Q-updates from the model for each step in the world"""


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

    @property
    def uses_successor(self) -> bool:
        """Whether there has to be an M at all."""
        return self.need != "none" or self.learn_successor


_BOUNDS: Bounds = {
    "discount": SHARE,
    "step_size": SHARE,
    "epsilon": SHARE,
    "planning_updates": COUNT,
    "sweeps": COUNT,
    "threshold": ANY,
    "successor_step_size": SHARE,
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
"""Figure 2's PS-SR, by preset."""

OCCUPANCY = {
    "printed": PS_SR["printed"],
    "released": replace(PS_SR["released"], need="none", successor_step_size=0.25, sweeps=20),
}
"""Figure 1's agent, by preset: M is learned, and in ``released`` not used to choose."""


def without_need(settings: SweepingSettings) -> SweepingSettings:
    """The PS baseline of a PS-SR: the same settings with need = 1."""
    return replace(settings, need="none", learn_successor=False)


AGENTS = ("ps", "ps-sr", "q-learning", "dyna-q")
"""The tabular agents by name."""


def agent_settings(agent: str, preset_name: str = "printed", **overrides: Any) -> LearningSettings:
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
