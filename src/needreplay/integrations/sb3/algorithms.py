"""Stable-Baselines3's off-policy algorithms with another replay.

``train`` is Stable-Baselines3's own code, run with its loss functions replaced. The replacement
sees prediction and target, so TD errors are exact and not clipped, and it multiplies the gradient
that enters the prediction by the importance weights. For a loss that is a mean over transitions,
this is the gradient of the weighted loss. With LAP the loss is Huber's. The losses of actor and
entropy do not pass through it. The logged loss is that without weights. No module of
Stable-Baselines3 is changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path
from types import FunctionType
from typing import Any

import stable_baselines3 as sb3
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import MaybeCallback
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer
from torch import Tensor
from torch.nn import functional

from needreplay._core.errors import NeedReplayError
from needreplay.integrations.sb3.buffer import PrioritizedReplayBuffer
from needreplay.integrations.sb3.settings import (
    NeedReplay,
    PrioritizedReplay,
    Replay,
    UniformReplay,
)
from needreplay.replay import Hindsight

ANOTHER_LOSS = (
    "If it is not a TD error, call it as torch.nn.functional.mse_loss, not as F.mse_loss: replay "
    "takes the losses that train calls by the name F for TD errors."
)
LOG_EVERY, MEASURE_EVERY = 1_000, 10_000
"""Gradient steps between two looks at the vectors, and between two measurements of need's quality:
they take less than 1% of the time."""
QUANTILES = "quantile_huber_loss"
LOSSES = ("huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss")


class _Losses:
    """``torch.nn.functional`` as ``train`` sees it: losses weight gradients and note TD errors."""

    def __init__(self, buffer: PrioritizedReplayBuffer) -> None:
        self._buffer = buffer

    def __getattr__(self, name: str) -> Any:
        value = getattr(functional, name)
        return self.weighted(value) if name in LOSSES else value

    def weighted(self, loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """``loss`` of the last samples, with their weights."""

        def call(prediction: Tensor, target: Tensor, *args: Any, **options: Any) -> Tensor:
            given = prediction, target
            if target.requires_grad and not prediction.requires_grad:
                prediction, target = target, prediction  # a loss that names the target first
            if target.requires_grad or not prediction.requires_grad:
                raise NeedReplayError(
                    f"A loss ({loss.__name__}) has a gradient in both of its arguments, or in "
                    "neither, so replay cannot tell the prediction from the target. Detach the "
                    "target."
                )
            if len(prediction) != len(self._buffer.weights):
                raise NeedReplayError(
                    f"A loss ({loss.__name__}) of {len(prediction)} rows is not that of the "
                    f"{len(self._buffer.weights)} transitions sampled last. {ANOTHER_LOSS}"
                )
            # One column of values, or the quantiles of one or several critics.
            errors = (target.mean(-1) - prediction.detach().mean(-1)).abs()
            self._buffer.note_errors(errors)
            weights = self._buffer.weights.view(-1, *[1] * (prediction.ndim - 1))
            prediction.register_hook(lambda gradient: gradient * weights)  # type: ignore[no-untyped-call]
            if floor := getattr(self._buffer.replay, "priority_floor", 0.0):
                return functional.huber_loss(*given, delta=floor)
            return loss(*given, *args, **options)

        return call


class WithReplay(OffPolicyAlgorithm):
    """An off-policy algorithm of Stable-Baselines3 with ``replay=``; put it before that class.

    Everything else is as Stable-Baselines3 documents it. ``save`` stores what ``replay`` is;
    ``save_replay_buffer`` stores transitions and priorities.

    Args:
        replay: how transitions are sampled.
        *args: the arguments of Stable-Baselines3's class.
        **options: the arguments of Stable-Baselines3's class.
    """

    replay: Replay

    def __init__(self, *args: Any, replay: Replay | None = None, **options: Any) -> None:
        self.replay = PrioritizedReplay() if replay is None else replay
        self._is_loaded = not options.get("_init_setup_model", True)
        super().__init__(*args, **options)

    def _setup_model(self) -> None:
        if isinstance(self.replay, UniformReplay):
            super()._setup_model()
            return
        if not isinstance(self.replay, PrioritizedReplay | NeedReplay):
            raise NeedReplayError(
                f"replay is {self.replay!r}; pass UniformReplay(), PrioritizedReplay() or "
                "NeedReplay()."
            )
        own: Any = super().train
        if getattr(self.replay, "priority_floor", 0.0) and QUANTILES in own.__func__.__globals__:
            raise NeedReplayError(
                f"priority_floor is for critics of single values, and those of "
                f"{type(self).__name__} are quantiles; leave it out."
            )
        if self.replay_buffer_class is HerReplayBuffer:
            self._take_hindsight()
        chosen: Any = self.replay_buffer_class or PrioritizedReplayBuffer
        if self._is_loaded and chosen in SB3S_OWN:
            chosen = PrioritizedReplayBuffer  # the file is of Stable-Baselines3's class
        if not issubclass(chosen, PrioritizedReplayBuffer):
            raise NeedReplayError(
                f"replay_buffer_class is {chosen.__name__}, which cannot be prioritized. Leave it "
                "out, or use replay=UniformReplay()."
            )
        self.replay_buffer_class = chosen
        self.replay_buffer_kwargs = {
            **self.replay_buffer_kwargs,
            "replay": self.replay,
            "n_steps": self.n_steps,
            "gamma": self.gamma,
            "seed": self.seed,
        }
        # The buffer makes n-step returns itself; Stable-Baselines3 would choose its own buffer.
        n_steps, self.n_steps = self.n_steps, 1
        try:
            super()._setup_model()
        finally:
            self.n_steps = n_steps

    def _take_hindsight(self) -> None:
        """Stable-Baselines3's ``HerReplayBuffer`` and its options: the same with priorities."""
        options = dict(self.replay_buffer_kwargs)
        if options.pop("copy_info_dict", False):
            raise NeedReplayError(
                "copy_info_dict is True, but no info is stored: compute_reward gets empty dicts. "
                "Leave it out, or use replay=UniformReplay()."
            )
        names = [name for name in ("n_sampled_goal", "goal_selection_strategy") if name in options]
        asked = Hindsight(**{name: options.pop(name) for name in names})
        assert not isinstance(self.replay, UniformReplay)
        self.replay = dataclasses.replace(self.replay, hindsight=self.replay.hindsight or asked)
        self.replay_buffer_class, self.replay_buffer_kwargs = None, options

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        reset_num_timesteps: bool = True,
        *args: Any,
        **options: Any,
    ) -> tuple[int, BaseCallback]:
        buffer = self.replay_buffer
        if isinstance(buffer, PrioritizedReplayBuffer):
            buffer.set_env(self.env)
            if reset_num_timesteps or self._last_obs is None:
                buffer.buffer.cut()  # the environment is reset, perhaps within an episode
        return super()._setup_learn(
            total_timesteps, callback, reset_num_timesteps, *args, **options
        )

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Stable-Baselines3's ``train``, with weighted losses."""
        buffer = self.replay_buffer
        if isinstance(self.replay, UniformReplay):
            super().train(gradient_steps=gradient_steps, batch_size=batch_size)
            return
        assert isinstance(buffer, PrioritizedReplayBuffer)
        if buffer.replay != self.replay:
            raise NeedReplayError(
                f"This model has replay={self.replay}, but its buffer was saved with "
                f"replay={buffer.replay}. Make or load the model with the buffer's."
            )
        if len(buffer.buffer) == 0:
            return  # no n-step return is complete yet
        # Transitions are stored as the environment made them, before VecNormalize.
        obs = self._last_obs if self._vec_normalize_env is None else self._last_original_obs
        if obs is not None:
            buffer.present = obs
        buffer.n_critics = getattr(getattr(self, "critic", None), "n_critics", 1)
        buffer.beta = self.replay.beta_at(1.0 - self._current_progress_remaining)
        own: Any = super().train
        train = own.__func__
        losses, names = _Losses(buffer), dict(train.__globals__)
        names["F"] = losses
        if QUANTILES in names:
            names[QUANTILES] = losses.weighted(names[QUANTILES])
        with_losses = FunctionType(
            train.__code__, names, train.__name__, train.__defaults__, train.__closure__
        )
        before = buffer.buffer.batches
        with_losses(self, gradient_steps=gradient_steps, batch_size=batch_size)
        if not buffer.has_errors:
            raise NeedReplayError(
                f"{type(self).__name__}.train computed no loss that replay can weight. Is it of "
                "another version of Stable-Baselines3, or your own? With a train of your own, use "
                "PrioritizedReplayBuffer as replay_buffer_class."
            )
        buffer.learn_priorities()
        self.logger.record("replay/beta", buffer.beta)
        self.logger.record("replay/mean_weight", float(buffer.weights.mean()))
        if buffer.need is not None:
            now = buffer.buffer.batches
            if now // LOG_EVERY != before // LOG_EVERY:
                measured = now // MEASURE_EVERY != before // MEASURE_EVERY
                for name, value in buffer.need.facts(quality=measured).items():
                    self.logger.record(f"need/{name}", value)

    def load_replay_buffer(
        self, path: str | Path | BufferedIOBase, truncate_last_traj: bool = True
    ) -> None:
        """Load what ``save_replay_buffer`` wrote; a buffer of another environment raises."""
        before = self.replay_buffer
        super().load_replay_buffer(path, truncate_last_traj)
        loaded = self.replay_buffer
        try:
            assert loaded is not None
            for name in ("n_envs", "observation_space", "action_space"):
                saved, own = getattr(loaded, name), getattr(self, name)
                if saved != own:
                    raise NeedReplayError(
                        f"The saved buffer has {name} {saved}, this model has {own}. Make the "
                        "model with the environments that the buffer was filled from."
                    )
            by_gain = isinstance(loaded, PrioritizedReplayBuffer)
            if by_gain == isinstance(self.replay, UniformReplay):
                raise NeedReplayError(
                    f"The saved buffer is a {type(loaded).__name__}, which does not fit "
                    f"replay={self.replay}. PrioritizedReplayBuffer.fill_from takes the "
                    "transitions of a buffer of Stable-Baselines3."
                )
        except NeedReplayError:
            self.replay_buffer = before
            raise


SB3S_OWN = (ReplayBuffer, DictReplayBuffer, NStepReplayBuffer)
"""Buffers that Stable-Baselines3 chooses by itself."""


class DQN(WithReplay, sb3.DQN):
    """Stable-Baselines3's DQN with ``replay=``."""


class SAC(WithReplay, sb3.SAC):
    """Stable-Baselines3's SAC with ``replay=``."""


class TD3(WithReplay, sb3.TD3):
    """Stable-Baselines3's TD3 with ``replay=``."""


class DDPG(WithReplay, sb3.DDPG):
    """Stable-Baselines3's DDPG with ``replay=``."""
