"""Settings of the linear agent, and its named versions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from needlab.core.presets import changed
from needlab.tabular.settings import LearningSettings
from needreplay._core.checks import ANY, AT_LEAST_ONE, COUNT, SHARE, check_fields
from needreplay._core.errors import unknown

ReplayBy = Literal["nothing", "gain", "gain x need"]
"""What transitions are sampled by."""


@dataclass(frozen=True)
class LinearSettings(LearningSettings):
    """Linear Q-learning with replay; by default the paper's Algorithm 2 with a uniform share."""

    replay_by: ReplayBy = "gain x need"
    """what transitions are sampled by: nothing is uniform replay, gain is PER"""
    capacity: int = 10_000
    """how many transitions are stored"""
    batch_size: int = 8
    """k: how many transitions a minibatch has; the step is α times the mean of their updates"""
    replay_period: int = 1
    """K: steps in the world between replays"""
    updates: int = 1
    """minibatches of each replay"""
    target_period: int = 100
    """steps between copies into the target weights; 0: the weights are their own target"""
    double_q: bool = True
    """the action of the bootstrap is the best by Q, its value the target's; otherwise both are the
    target's"""
    alpha: float = 0.6
    """the exponent of gain"""
    need_alpha: float = 0.6
    """the exponent of need; in the paper that of gain"""
    beta: float = 0.4
    """the exponent of importance weights"""
    uniform_mix: float = 0.25
    """the share of the probability that is uniform; the paper has none. Priorities that are not
    renewed can be 0 where the error no longer is"""
    shuffle: bool = False
    """every transition has the need of another one: the control for need"""
    learn_successor: bool = False
    """learn successor features and reward weights even if nothing is sampled by need"""
    successor_discount: float = 0.0
    """γ of the successor features, the horizon of need; 0: that of Q"""
    successor_step_size: float = 0.1
    """α of the successor features, and of the reward weights"""
    trace_decay: float = 0.5
    """λ"""

    def __post_init__(self) -> None:
        """Raise for values that mean nothing."""
        super().__post_init__()
        shares = ("alpha", "beta", "uniform_mix", "successor_discount", "successor_step_size")
        check_fields(
            self,
            {
                **dict.fromkeys((*shares, "trace_decay"), SHARE),
                **dict.fromkeys(("capacity", "batch_size", "replay_period"), AT_LEAST_ONE),
                **dict.fromkeys(("updates", "target_period"), COUNT),
                "need_alpha": ANY,
            },
        )

    @property
    def by_need(self) -> bool:
        """Whether need is part of the probability."""
        return self.replay_by == "gain x need"

    @property
    def uses_successor(self) -> bool:
        """Whether successor features are learned."""
        return self.by_need or self.learn_successor

    @property
    def horizon(self) -> float:
        """γ of the successor features: their own, or Q's where they have none."""
        return self.successor_discount or self.discount


_PER_SR = LinearSettings()
LINEAR_AGENTS = {
    "linear": replace(_PER_SR, replay_by="nothing"),
    "linear-per": replace(_PER_SR, replay_by="gain"),
    "linear-per-sr": _PER_SR,
    "linear-per-sr-shuffled": replace(_PER_SR, shuffle=True),
    "linear-per-sr-printed": replace(_PER_SR, uniform_mix=0.0),
}
"""The linear agents by name: uniform replay, PER, gain x need, need of wrong transitions, and
Algorithm 2 as printed."""


def linear_settings(agent: str, **overrides: object) -> LinearSettings:
    """The settings of an agent by name, with any field changed.

    >>> linear_settings("linear-per", capacity=500).capacity
    500
    """
    if agent not in LINEAR_AGENTS:
        raise unknown("agent", agent, LINEAR_AGENTS)
    return changed(LINEAR_AGENTS[agent], **overrides)
