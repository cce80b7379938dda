"""Settings of the EVB agent (Mattar & Daw 2018), and its presets.

EVB, the expected value of a backup, is gain x need. ``published`` is what the authors' code does,
``text`` what their article describes. ``docs/evb_presets.md`` lists the differences, and
``docs/mattar_daw.md`` measures the effect of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from needlab.core.presets import changed, preset
from needreplay._core.checks import ANY, COUNT, SHARE, Bounds, check_fields
from needreplay._core.errors import NeedReplayError

Behavior = Literal["softmax", "epsilon-greedy"]
Gain = Literal["policy", "td", "one"]
Need = Literal["online", "policy", "given", "stationary", "first-eigenvector", "one", "zero"]
Floor = Literal["element", "sum", "none"]
StartReplay = Literal["after-first-step", "before-first-step", "never"]
EndReplay = Literal["from-last-cell", "at-goal", "never"]


@dataclass(frozen=True)
class EVBSettings:
    """Every piece of the agent as a switch; the defaults are the preset ``published``."""

    discount: float = 0.9
    """γ, of Q and of need; below 1"""
    step_size: float = 1.0
    """α of every Q-update, real or replayed"""
    inverse_temperature: float = 5.0
    """β of the softmax policy: of behavior, and of the policies whose values gain compares"""
    behavior: Behavior = "softmax"
    """how actions are chosen; gain always compares softmax policies"""
    epsilon: float = 0.0
    """the share of random actions of "epsilon-greedy" """
    gain: Gain = "policy"
    """worth of updating one pair: "policy" is the value of the new policy minus that of the old
    one, both under the new Q; "td" the size of the TD error (Yuan & Mattar's simplification); "one"
    makes every backup worth 1, chains included"""
    need: Need = "online"
    """expected discounted visits: "online" is the current state's row of inverse(I - γT) with the
    learned T, "policy" the same with the exact T of the present softmax policy, "given" the
    current state's row of a matrix that you pass, "stationary" T's stationary distribution,
    "first-eigenvector" the absolute left eigenvector that LAPACK lists first (as published: often
    not the stationary distribution), "one" 1 everywhere, "zero" 0, so that nothing is replayed"""
    extend_chains: bool = True
    """offer the last backup with one more greedy step as a candidate (n-step backups)"""
    floor: Floor = "element"
    """where the smallest gain is applied: to each element of a chain before the sum, so that a
    chain of n is worth at least n floors; to the sum; or nowhere"""
    floor_size: float = 1e-10
    """the smallest gain"""
    threshold: float = 0.0
    """a backup runs only if its EVB is larger than this"""
    transition_rate: float = 0.9
    """how far a step moves its row of T towards what happened"""
    start_replay: StartReplay = "after-first-step"
    """replay at the start of every episode but the first: after its first step was made and
    learned, with need from the state just left; before it; or never"""
    end_replay: EndReplay = "from-last-cell"
    """replay when a goal is entered: with need from the state just left, from the goal, or never"""
    replay_every_step: bool = False
    """replay after every step, too"""
    backups: int = 20
    """the most backups in one replay; 0: no replay"""

    def __post_init__(self) -> None:
        """Raise for values that mean nothing."""
        check_fields(self, _BOUNDS)
        if self.discount >= 1.0:
            raise NeedReplayError(
                f"discount is {self.discount!r}; it must be below 1, since need sums all visits to "
                "come."
            )


_BOUNDS: Bounds = {
    "discount": SHARE,
    "step_size": SHARE,
    "inverse_temperature": ANY,
    "epsilon": SHARE,
    "floor_size": ANY,
    "threshold": ANY,
    "transition_rate": SHARE,
    "backups": COUNT,
}

EVB = {
    "published": EVBSettings(),
    "text": EVBSettings(
        need="policy",
        floor="sum",
        start_replay="before-first-step",
        end_replay="at-goal",
    ),
}
"""The agent by preset. Worlds can differ: see ``needlab.studies.mattar_daw``."""


AGENTS = ("evb", "evb-dyna")
"""EVB, and Dyna at EVB's moments."""


def evb_settings(agent: str, preset_name: str = "published", **overrides: object) -> EVBSettings:
    """The settings of one of ``AGENTS`` by name, with any field changed."""
    settings = changed(preset(EVB, preset_name), **overrides)
    return dyna(settings) if agent == "evb-dyna" else settings


def without_replay(settings: EVBSettings) -> EVBSettings:
    """The same agent without replay: plain Q-learning."""
    return replace(settings, backups=0)


def dyna(settings: EVBSettings) -> EVBSettings:
    """Dyna at the same moments: gain and need are 1, so one-step backups run in random order."""
    return replace(settings, gain="one", need="one")
