"""What ``replay=`` takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from needreplay.core.errors import NeedReplayError, unknown
from needreplay.replay import ProportionalSampler, PSERSampler, RankSampler
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.validation import check_beta
from needreplay.rules.priority import annealed

KINDS = {"proportional": ProportionalSampler, "rank": RankSampler, "pser": PSERSampler}


@dataclass(frozen=True)
class UniformReplay:
    """Stable-Baselines3's own buffer: the class then is the original, HER included."""


@dataclass(frozen=True)
class PrioritizedReplay:
    """Sample by the absolute TD error; importance weights scale the critics' loss."""

    kind: Literal["proportional", "rank", "pser"] = "proportional"
    """By priority^alpha, by the rank of the priority, or PSER: priorities that decay back along
    the episode."""
    alpha: float = 0.6
    """The exponent of priorities: 0 is uniform, 1 fully proportional."""
    beta: float | tuple[float, float] = (0.4, 1.0)
    """The exponent of importance weights; a pair goes from its first to its second in ``learn``."""
    critics: Literal["max", "mean"] = "max"
    """Of several critics, the priority is the maximum or the mean of their absolute TD errors."""
    epsilon: float = 1e-6
    """Added to absolute TD errors, so that a transition without error can be sampled again."""
    weight_norm: Literal["batch", "buffer"] = "batch"
    """Divide weights by the maximum in the batch, or over the buffer."""
    uniform_mix: float = 0.0
    """The share of the probability that is uniform."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("kind", self.kind, tuple(KINDS))
        if self.critics not in ("max", "mean"):
            raise unknown("critics", self.critics, ("max", "mean"))
        pair = self.beta if isinstance(self.beta, tuple) else (self.beta, self.beta)
        if len(pair) != 2:
            raise NeedReplayError(f"beta is {self.beta}; pass a number or a pair (start, end).")
        for value in pair:
            check_beta(value)
        if not 0.0 <= self.epsilon < float("inf"):
            raise NeedReplayError(f"epsilon is {self.epsilon}; it must be finite and at least 0.")
        self.sampler()

    def beta_at(self, progress: float) -> float:
        """β after a share ``progress`` of the steps of ``learn``."""
        pair = self.beta if isinstance(self.beta, tuple) else (self.beta, self.beta)
        return annealed(*pair, progress)

    def sampler(self) -> Sampler:
        """A new sampler with these settings."""
        return KINDS[self.kind](self.alpha, uniform_mix=self.uniform_mix)


Replay = UniformReplay | PrioritizedReplay
