"""What ``replay=`` takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gymnasium.spaces import Space

from needreplay._core.checks import AT_LEAST_ONE, COUNT, check_number
from needreplay._core.errors import NeedReplayError, unknown
from needreplay.equations import annealed
from needreplay.need.buffer import NeedBuffer
from needreplay.need.form import LEARN_EVERY, REFRESH, UNIFORM_MIX
from needreplay.need.model import NeedModel
from needreplay.replay import (
    Hindsight,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    ReplayBuffer,
)
from needreplay.replay.samplers import FeatureNeedSampler
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.samplers.need import CorrectFor, checked_correct_for
from needreplay.replay.validation import check_beta, flag

_GIVEN = ("observation_space", "seed", "device")
"""What Stable-Baselines3's model tells ``NeedModel``."""
KINDS: dict[str, Callable[..., Sampler]] = {
    "proportional": ProportionalSampler,
    "rank": RankSampler,
    "pser": PSERSampler,
}


@dataclass(frozen=True)
class UniformReplay:
    """Stable-Baselines3's own buffer: the class then is the original, HER included."""


@dataclass(frozen=True, kw_only=True)
class _ByGain:
    """What prioritized replay and gain x need share."""

    alpha: float = 0.6
    """The exponent of priorities: 0 is uniform, 1 fully proportional."""
    beta: float | tuple[float, float] = (0.4, 1.0)
    """The exponent of importance weights; a pair goes from its first to its second in ``learn``."""
    critics: Literal["max", "mean"] = "max"
    """Of several critics, the priority is the maximum or the mean of their absolute TD errors."""
    gain_floor: float = 1e-6
    """Added to absolute TD errors, so that a transition without error can be sampled again."""
    uniform_mix: float = 0.0
    """The share of the probability that is uniform."""
    frame_stack: int = 0
    """Frames in a stack of ``VecFrameStack``, each stored once; 0: no stacks."""
    hindsight: Hindsight | None = None
    """Sample each step also with goals that were reached later, as ``HerReplayBuffer`` does, with
    the rewards of the environment's ``compute_reward``."""

    def __post_init__(self) -> None:
        check_number("frame_stack", self.frame_stack, int, COUNT)
        if not isinstance(self.hindsight, Hindsight | None):
            raise NeedReplayError(
                f"hindsight is {self.hindsight!r}; pass Hindsight(n_sampled_goal=4)."
            )
        if self.critics not in ("max", "mean"):
            raise unknown("critics", self.critics, ("max", "mean"))
        if len(self._betas) != 2:
            raise NeedReplayError(f"beta is {self.beta}; pass a number or a pair (start, end).")
        for value in self._betas:
            check_beta(value)
        if not 0.0 <= self.gain_floor < float("inf"):
            raise NeedReplayError(
                f"gain_floor is {self.gain_floor}; it must be finite and at least 0."
            )

    @property
    def _betas(self) -> tuple[float, float]:
        pair = isinstance(self.beta, tuple | list)
        return tuple(self.beta) if pair else (self.beta, self.beta)  # type: ignore[arg-type,return-value]

    def beta_at(self, progress: float) -> float:
        """β after a share ``progress`` of the steps of ``learn``."""
        return annealed(*self._betas, progress)


@dataclass(frozen=True, kw_only=True)
class PrioritizedReplay(_ByGain):
    """Sample by the absolute TD error; importance weights scale the critics' loss."""

    kind: Literal["proportional", "rank", "pser"] = "proportional"
    """By priority^alpha, by the rank of the priority, or PSER: priorities that decay back along
    the episode."""
    stratified: bool = True
    """Sample one transition from each of ``batch_size`` equal shares of the total, as Schaul et al.
    ``NeedReplay`` cannot: compare it with ``stratified=False``."""
    priority_floor: float = 0.0
    """1 is LAP (Fujimoto et al. 2020, who take alpha 0.4): smaller priorities count as this, the
    critics' loss is Huber's with this threshold, and weights are 1, whatever beta is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in KINDS:
            raise unknown("kind", self.kind, tuple(KINDS))
        if self.priority_floor != 0.0 and self.kind != "proportional":
            raise NeedReplayError(
                f"priority_floor is {self.priority_floor} and kind {self.kind!r}; LAP is for "
                'kind="proportional" alone: leave out one of the two.'
            )
        self.sampler()

    def beta_at(self, progress: float) -> float:
        """β after a share ``progress`` of the steps of ``learn``."""
        return 0.0 if self.priority_floor > 0.0 else super().beta_at(progress)

    def sampler(self) -> Sampler:
        """A new sampler with these settings."""
        rank = self.kind == "rank"
        how: dict[str, Any] = {"exact" if rank else "stratified": self.stratified != rank}
        if self.kind == "proportional":
            how["priority_floor"] = self.priority_floor
        return KINDS[self.kind](self.alpha, uniform_mix=self.uniform_mix, **how)


@dataclass(frozen=True, kw_only=True)
class NeedReplay(_ByGain):
    """Sample by gain x need: priority^alpha times need^need_alpha.

    A ``NeedModel`` learns need from the buffer. ``model.replay_buffer.need`` is the ``NeedBuffer``
    that does it; it is pickled with the buffer.
    """

    need_alpha: float = 1.0
    """The exponent of need: 0 is prioritized replay."""
    correct_for: CorrectFor = "gain"
    """What importance weights correct for: "gain" keeps the effect of need, "both" cancels it as
    beta goes to 1."""
    uniform_mix: float = UNIFORM_MIX
    """The share of the probability that is uniform: need alone seldom visits most of the buffer."""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    """What ``NeedModel`` is made with, such as ``{"discount": 0.95, "learner": "spectral"}``."""
    learn_every: int = LEARN_EVERY
    """Gradient steps of the algorithm for each update of the need model."""
    refresh: int = REFRESH
    """Stored vectors that are renewed for each gradient step, beside those of its batch."""
    shuffle: bool = False
    """A control: each stored transition has the need of another one. What is lost by it is what
    need is worth."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hindsight is not None:
            raise NeedReplayError(
                "NeedReplay has no hindsight: need is learned from transitions as they were. Use "
                "PrioritizedReplay(hindsight=...)."
            )
        check_number("learn_every", self.learn_every, int, AT_LEAST_ONE)
        check_number("refresh", self.refresh, int, COUNT)
        flag("shuffle", self.shuffle)
        checked_correct_for(self.correct_for)
        own = [name for name in inspect.signature(NeedModel).parameters if name not in _GIVEN]
        for name in self.model_options:
            if name not in own:
                raise unknown("option of NeedModel", name, own)

    def model(self, observation_space: Space[Any], seed: int, device: str) -> NeedModel:
        """A new need model with these settings."""
        return NeedModel(observation_space, **self.model_options, seed=seed, device=device)

    def sampler(self, model: NeedModel) -> FeatureNeedSampler:
        """A new sampler by gain and the need of ``model``."""
        return model.sampler(
            alpha=self.alpha,
            need_alpha=self.need_alpha,
            correct_for=self.correct_for,
            uniform_mix=self.uniform_mix,
        )

    def need(self, buffer: ReplayBuffer, model: NeedModel, seed: int) -> NeedBuffer:
        """``buffer``, with need that ``model`` learns."""
        return NeedBuffer(
            buffer,
            model,
            learn_every=self.learn_every,
            refresh=self.refresh,
            shuffle=self.shuffle,
            seed=seed,
        )


Replay = UniformReplay | PrioritizedReplay | NeedReplay
