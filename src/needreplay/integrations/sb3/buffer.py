"""A replay buffer that Stable-Baselines3 accepts; transitions are in a needreplay buffer.

The storage is needreplay's and not Stable-Baselines3's, because what needs to know episodes
(n-step returns, PSER's links, learners of need) is already there, and its kernels are faster.
"""

from __future__ import annotations

import dataclasses
import secrets
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.buffers import ReplayBuffer as SB3ReplayBuffer
from stable_baselines3.common.preprocessing import get_obs_shape
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from torch import Tensor

from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, IntArray
from needreplay.integrations.sb3.settings import NeedReplay, PrioritizedReplay
from needreplay.need.buffer import NeedBuffer
from needreplay.replay import Batch, Episodes, ReplayBuffer
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.storage import check_memory, columns_of

_ADVICE = (
    "If this model has a train of its own, let it call replay_buffer.update_priorities("
    "samples.ids, td_errors). If Stable-Baselines3's class loaded it, load it with that of "
    "needreplay.integrations.sb3."
)
Observation = AnyArray | dict[str, AnyArray]


def _at(obs: Any, row: int) -> Any:
    if isinstance(obs, dict):
        return {key: part[row] for key, part in obs.items()}
    return obs[row]


class EnvReward:
    """The ``compute_reward`` of an environment that a model has, and that no file stores."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.env: VecEnv | None = None
        goal = space.spaces.get("achieved_goal") if isinstance(space, spaces.Dict) else space
        self.shape = () if goal is None else get_obs_shape(goal)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "env": None}

    def __call__(self, achieved: AnyArray, desired: AnyArray, infos: list[Any]) -> Any:
        """The reward of rows, by the first of the environments."""
        if self.env is None:
            raise NeedReplayError(
                "This buffer has no environment to compute rewards with; call set_env."
            )
        goals = (goal.reshape(-1, *self.shape) for goal in (achieved, desired))
        return self.env.env_method("compute_reward", *goals, infos, indices=[0])[0]


class PrioritizedSamples(NamedTuple):
    """What Stable-Baselines3's buffers return, with importance weights and ids."""

    observations: Any
    actions: Tensor
    next_observations: Any
    dones: Tensor
    rewards: Tensor
    discounts: Tensor | None
    weights: Tensor
    """One row for each transition, one column: multiply the losses by them."""
    ids: IntArray
    """Pass these to ``update_priorities``."""


class PrioritizedReplayBuffer(SB3ReplayBuffer):
    """Prioritized replay for an algorithm with a ``train`` of its own.

    Pass it as ``replay_buffer_class``, with ``replay_buffer_kwargs`` for what follows ``n_envs``.
    ``train`` multiplies the losses by ``samples.weights`` and passes the absolute TD errors to
    ``update_priorities(samples.ids, errors)``. The classes of this package do this themselves.

    Args:
        buffer_size: how many transitions are stored, over all environments.
        observation_space: of one environment; Dict spaces too.
        action_space: of one environment.
        device: where samples go.
        n_envs: how many environments step together.
        optimize_memory_usage: store each observation once, as ``obs`` of one transition and
            ``next_obs`` of the one before. With ``frame_stack`` each frame is stored once anyway.
        handle_timeout_termination: bootstrap where a time limit ended the episode.
        replay: how transitions are sampled.
        n_steps: number of rewards that a return sums.
        gamma: their discount.
        seed: determines what is sampled.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        replay: PrioritizedReplay | NeedReplay | None = None,
        n_steps: int = 1,
        gamma: float = 0.99,
        seed: int | None = None,
    ) -> None:
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        self.replay = PrioritizedReplay() if replay is None else replay
        self.frame_stack = self.replay.frame_stack or int(optimize_memory_usage)
        self._stored_shape = self._shape_of_stacks() if self.frame_stack else None
        self.n_steps = n_steps
        self.gamma = gamma
        self.seed = secrets.randbits(63) if seed is None else seed
        self.n_critics = 1
        """How many critics have TD errors on each batch."""
        self.beta = self.replay.beta_at(0.0)
        """The exponent of importance weights of the next batch."""
        self.reset()

    def reset(self) -> None:
        """Remove everything."""
        super().reset()
        replay, model = self.replay, None
        if isinstance(replay, NeedReplay):
            model = replay.model(self.observation_space, self.seed, str(self.device))
            sampler: Sampler = replay.sampler(model)
        else:
            sampler = replay.sampler()
        action = self._maybe_cast_dtype(self.action_space.dtype)
        obs: Any = self.observation_space
        if self._stored_shape is not None:
            obs = (obs.dtype, self._stored_shape)
        self._check_memory()
        hindsight = replay.hindsight
        self._reward = EnvReward(self.observation_space)
        if hindsight is not None and hindsight.compute_reward is None:
            hindsight = dataclasses.replace(hindsight, compute_reward=self._reward)
        self.buffer = ReplayBuffer(
            self.buffer_size * self.n_envs,
            {"obs": obs, "action": (action, (self.action_dim,))},
            episodes=Episodes(
                n_envs=self.n_envs,
                n_step=self.n_steps,
                discount=self.gamma,
                frame_stack=self.frame_stack,
                autoreset="same_step",
            ),
            sampler=sampler,
            hindsight=hindsight,
            seed=self.seed,
        )
        """The transitions."""
        self.buffer._contents.watch.advice = _ADVICE
        self.need: NeedBuffer | None = None
        """The same transitions with need, with ``NeedReplay``; ``need.quality()`` measures it."""
        if isinstance(replay, NeedReplay) and model is not None:
            self.need = replay.need(self.buffer, model, self.seed)
        self._ids: IntArray = np.zeros(0, dtype=np.int64)
        self.present: Observation | None = None
        """Where need is seen from: the present observation of every environment."""
        self.weights = torch.ones(0, 1)
        """The importance weights of the last samples."""
        self._errors: list[Tensor] = []

    def set_env(self, env: VecEnv | None) -> None:
        """Compute the rewards of hindsight with ``env``; ``learn`` calls this."""
        self._reward.env = env

    def add(
        self,
        obs: Observation,
        next_obs: Observation,
        action: AnyArray,
        reward: AnyArray,
        done: AnyArray,
        infos: list[dict[str, Any]],
    ) -> None:
        """Store one step of every environment."""
        truncated = np.zeros(self.n_envs, dtype=np.bool_)
        if self.handle_timeout_termination:
            truncated[:] = [info.get("TimeLimit.truncated", False) for info in infos]
        ended = np.asarray(done, dtype=np.bool_)
        rows, self.present = self._rows(obs), self._rows(next_obs)
        self.buffer.add(
            obs=rows,
            next_obs=self.present,
            action=action.reshape(self.n_envs, self.action_dim),
            reward=reward,
            terminated=ended & ~truncated,
            truncated=ended & truncated,
        )
        self.pos = (self.pos + 1) % self.buffer_size
        self.full = self.full or self.pos == 0

    def fill_from(self, other: SB3ReplayBuffer) -> None:
        """Add what a ``ReplayBuffer`` of Stable-Baselines3 holds, oldest first.

        The next transition that is added begins a new episode.
        """
        if other.n_envs != self.n_envs or other.observation_space != self.observation_space:
            raise NeedReplayError(
                f"The other buffer has n_envs {other.n_envs} and {other.observation_space}; this "
                f"one has {self.n_envs} and {self.observation_space}."
            )
        begin = other.pos if other.full else 0
        for step in range(other.size()):
            row = (begin + step) % other.buffer_size
            obs = _at(other.observations, row)
            after = (
                _at(other.observations, (row + 1) % other.buffer_size)
                if other.optimize_memory_usage
                else _at(other.next_observations, row)
            )
            infos = [{"TimeLimit.truncated": bool(cut)} for cut in other.timeouts[row]]
            done = other.dones[row]
            self.add(obs, after, other.actions[row], other.rewards[row], done, infos)
            for env in np.flatnonzero(done):  # with optimize_memory_usage ``after`` is of the next
                self.buffer.cut(int(env))
        self.buffer.cut()

    def _rows(self, obs: Observation, space: Any = None) -> Any:
        """``obs`` in the shape and dtype that are stored."""
        space = self.observation_space if space is None else space
        if isinstance(obs, dict):
            return {key: self._rows(part, space[key]) for key, part in obs.items()}
        shape = self._stored_shape or space.shape
        return np.asarray(obs, space.dtype).reshape(self.n_envs, *shape)

    def _shape_of_stacks(self) -> tuple[int, ...]:
        """The shape of an observation with an axis of its frames."""
        space, stack = self.observation_space, self.frame_stack
        shape = space.shape if isinstance(space, spaces.Box) else ()
        if not shape or shape[0] % stack:
            raise NeedReplayError(
                f"The observation space is {space}; to store each frame once it must be a Box "
                f"whose first axis has frame_stack ({stack}) frames, as VecFrameStack and "
                "VecTransposeImage make it. Use frame_stack=0 and optimize_memory_usage=False."
            )
        split = (
            (stack, *shape[1:]) if shape[0] == stack > 1 else (stack, shape[0] // stack, *shape[1:])
        )
        if isinstance(self.replay, NeedReplay) and split != shape:
            raise NeedReplayError(
                f"Need is learned from the observations that are stored, of shape {shape}; with "
                f"NeedReplay each frame is stored once if frame_stack is {shape[0]}."
            )
        return split

    def _check_memory(self) -> None:
        """Raise if the observations alone do not fit into the memory of this machine."""
        if self._stored_shape is not None:
            frame: Any = (self.observation_space.dtype, self._stored_shape[1:])
            columns = columns_of("a frame", frame)
        else:
            columns = columns_of("obs", self.observation_space) * 2  # next_obs, too
        remedy = (
            "To store each frame once: PrioritizedReplay(frame_stack=4) for stacks of 4, "
            "optimize_memory_usage=True for other observations."
        )
        check_memory("buffer_size", self.buffer_size * self.n_envs, columns, remedy)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> PrioritizedSamples:  # type: ignore[override]
        """Sample transitions, normalized as ``env`` does it."""
        self.learn_priorities()
        size = int(batch_size)
        if self.need is None:
            batch = self.buffer.sample(size, beta=self.beta)
        else:
            batch = self.need.sample(size, self.present, beta=self.beta)
        samples = self._to_samples(batch, env)
        self._ids, self.weights = samples.ids, samples.weights
        return samples

    def _to_samples(self, batch: Batch, env: VecNormalize | None) -> PrioritizedSamples:
        obs, next_obs = (
            self._normalize_obs(self._as_sb3(batch[name], self.obs_shape), env)
            for name in ("obs", "next_obs")
        )
        discount, reward = batch["discount"][:, None], batch["reward"][:, None]
        return PrioritizedSamples(
            self._tensors(obs),
            self._tensors(batch["action"]),
            self._tensors(next_obs),
            self._tensors((discount == 0.0).astype(np.float32)),
            self._tensors(self._normalize_return(reward, env)),
            None if self.n_steps == 1 else self._tensors(discount),
            self._tensors(batch.weights.astype(np.float32)[:, None]),
            batch.ids,
        )

    def _as_sb3(self, obs: Any, shape: Any) -> Any:
        """Observations in Stable-Baselines3's shapes: a number is a row of one."""
        if isinstance(obs, dict):
            return {key: self._as_sb3(part, shape[key]) for key, part in obs.items()}
        return obs.reshape(-1, *shape)

    def _normalize_return(self, reward: AnyArray, env: VecNormalize | None) -> AnyArray:
        """Rewards as ``env`` normalizes them; sums of several are scaled, and not clipped."""
        if env is None or self.n_steps == 1 or not env.norm_reward:
            return self._normalize_reward(reward, env)
        return (reward / np.sqrt(env.ret_rms.var + env.epsilon)).astype(np.float32)

    def _tensors(self, values: Any) -> Any:
        """Arrays that nobody else has, as tensors."""
        if isinstance(values, dict):
            return {key: self._tensors(value) for key, value in values.items()}
        return torch.as_tensor(values, device=self.device)

    def update_priorities(self, ids: IntArray, errors: Any) -> None:
        """Set absolute TD errors of transitions ``ids``: an array or tensor, one for each."""
        if isinstance(errors, Tensor):
            errors = errors.detach().reshape(-1).cpu().numpy()
        buffer = self.buffer if self.need is None else self.need
        buffer.update_priorities(ids, errors.astype(np.float64) + self.replay.gain_floor)

    @property
    def has_errors(self) -> bool:
        """Whether TD errors of the last samples were noted."""
        return bool(self._errors)

    def note_errors(self, errors: Tensor) -> None:
        """Absolute TD errors on the last samples, of one critic or with a column for each."""
        self._errors.append(errors.reshape(len(errors), -1))

    def learn_priorities(self) -> bool:
        """Update priorities with the errors noted since; whether there were any."""
        errors, self._errors = self._errors, []
        if errors:
            of_critics = torch.cat(errors, 1)
            if of_critics.shape[1] != self.n_critics:
                raise NeedReplayError(
                    f"train computed TD errors of {of_critics.shape[1]} critics, but there are "
                    f"{self.n_critics}. If one of its losses is not of a TD error, call it as "
                    "torch.nn.functional.mse_loss, not as F.mse_loss: replay takes the losses "
                    "that train calls by the name F for TD errors."
                )
            over_critics = (
                of_critics.amax(1) if self.replay.critics == "max" else of_critics.mean(1)
            )
            self.update_priorities(self._ids, over_critics)
        return bool(errors)
