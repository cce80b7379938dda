"""The deep agent, from top to bottom: act, store, sample, learn, set priorities.

Yuan & Mattar's Algorithm 3 for a batch. Without need it is DQN or double DQN from any sampler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from needlab.core.imports import call_object
from needlab.core.types import Values
from needlab.deep.dqn import (
    QLearner,
    Transitions,
    is_channels_last,
    obs_tensor,
    priority_of,
    q_loss,
    to_tensor,
    to_transitions,
)
from needlab.deep.need import NeedStats, need_stats, remove_negatives, rescale
from needlab.deep.networks import QNetwork, SuccessorNetwork
from needlab.deep.optimizers import make_optimizer
from needlab.deep.settings import DeepSettings
from needlab.deep.successor import PaperNeed
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray
from needreplay.equations import annealed
from needreplay.need import Need, NeedBuffer, NeedModel, NeedQuality, ShuffledNeed
from needreplay.replay import (
    Batch,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    RecencySampler,
    ReplayBuffer,
    UniformSampler,
)
from needreplay.replay.samplers import Sampler


class UpdateStats(NamedTuple):
    """One update, for the log."""

    loss: float
    """the Q loss, with importance weights and need"""
    td_error: float
    """the mean priority passed to the buffer: |δ|, or what the preset makes of it"""
    entropy: float
    """mean −log P of the batch / log N: 1 for uniform sampling; NaN if P is not known"""
    need: NeedStats | None


class DeepAgent:
    """DQN or double DQN with any sampler, and with need if the sampler is ``per-sr*``.

    Args:
        settings: see ``DeepSettings``.
        observation_space: a Box of images (channels first) or of a vector of numbers.
        n_actions: the number of actions.
        steps: the length of the run: β reaches ``beta_end`` there.
        seed: decides the initial networks, the actions and the samples.
        device: where the networks are.
        make_buffer: makes the buffer, as ``ReplayBuffer.for_spaces`` does.
    """

    changes: ClassVar[Values] = {}
    """Settings in which a subclass differs from its preset."""

    def __init__(
        self,
        settings: DeepSettings,
        observation_space: Any,
        n_actions: int,
        *,
        steps: int,
        seed: int = 0,
        device: str = "cpu",
        make_buffer: Callable[..., ReplayBuffer] = ReplayBuffer.for_spaces,
    ) -> None:
        self.settings = settings
        self.n_actions = n_actions
        self.device = torch.device(device)
        self.steps_planned = steps
        self.steps = 0
        self.updates = 0
        self.action_rng = stream(seed, "actions")
        # Networks are initialized on the CPU, so that a seed means the same on every device.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(stream(seed, "networks").integers(2**62)))
            q = QNetwork(settings.network, tuple(observation_space.shape), n_actions)
            if is_channels_last(q.shape, self.device):
                q.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            self.q = QLearner(settings.base, q.to(self.device))
            self.optimizer = make_optimizer(settings, q.parameters())
            self.need: Need | None = None
            """What need is, for an agent with need."""
            if settings.uses_need:
                self.need = make_need(settings, observation_space, q, self.optimizer, seed)
        self.stores_next_action = settings.stores_next_action
        self.fixed_epsilon: float | None = None
        """The probability of a random action in training, where it does not change."""
        self.buffer = make_buffer(
            observation_space,
            np.int64,
            capacity=settings.capacity,
            n_step=settings.n_step,
            discount=settings.discount,
            frame_stack=settings.frame_stack,
            extra_columns={"next_action": np.int64} if self.stores_next_action else None,
            sampler=make_sampler(settings, self.need),
            seed=seed,
        )
        """The transitions."""
        self.replay: Any = self.buffer
        """What the agent adds to and samples from: the buffer, a ``NeedBuffer`` of it, or the
        ``Writer`` of an actor."""
        self._shuffled: ShuffledNeed | None = None
        if self.need is not None and settings.samples_by_need:
            self.replay = NeedBuffer(
                self.buffer,
                self.need,
                learn_every=settings.learn_every,
                refresh=settings.refresh,
                shuffle=settings.shuffle,
                seed=seed,
            )
        elif settings.uses_need and settings.shuffle:
            self._shuffled = ShuffledNeed(self.buffer, seed)

    # Acting and storing.

    @property
    def epsilon(self) -> float:
        """The current probability of a random action in training."""
        if self.fixed_epsilon is not None:
            return self.fixed_epsilon
        since_start = self.steps - self.settings.min_history
        progress = since_start / max(1, self.settings.epsilon_steps)
        return annealed(1.0, self.settings.epsilon_end, progress)

    @property
    def beta(self) -> float:
        """The current β of the importance weights."""
        progress = self.steps / self.steps_planned
        return annealed(self.settings.beta_start, self.settings.beta_end, progress)

    def act(self, obs: AnyArray) -> int:
        """An action in training: random with probability ``epsilon``, else greedy."""
        return self._epsilon_greedy(obs, self.epsilon, self.action_rng)

    def act_in_evaluation(self, obs: AnyArray, rng: np.random.Generator) -> int:
        """An action in evaluation; the agent does not change."""
        return self._epsilon_greedy(obs, self.settings.eval_epsilon, rng)

    def _epsilon_greedy(self, obs: AnyArray, epsilon: float, rng: np.random.Generator) -> int:
        if rng.random() < epsilon:
            return int(rng.integers(self.n_actions))
        return self.q.best_action(obs_tensor(np.ascontiguousarray(obs)[None], self.device))

    def observe(
        self,
        obs: AnyArray,
        action: int,
        reward: float,
        next_obs: AnyArray,
        terminated: bool,
        truncated: bool,
        next_action: int = 0,
    ) -> None:
        """Store one step; ``next_action`` matters only if ``stores_next_action``."""
        for each in (action, next_action):
            if not 0 <= each < self.n_actions:
                raise NeedReplayError(
                    f"The action {each} is not one of the {self.n_actions} actions that the agent "
                    f"was made for; use 0 to {self.n_actions - 1}."
                )
        if self.settings.reward_clip:
            reward = min(1.0, max(-1.0, reward))
        extra = {"next_action": next_action} if self.stores_next_action else {}
        self.replay.add(
            obs=obs,
            action=action,
            reward=reward,
            next_obs=next_obs,
            terminated=terminated,
            truncated=truncated,
            **extra,
        )
        self.steps += 1

    # Learning.

    def learn(self, obs: AnyArray) -> UpdateStats | None:
        """Update once if an update is due; ``obs`` is the current observation."""
        settings = self.settings
        if self.steps < settings.min_history or self.steps % settings.update_period:
            return None
        if not len(self.buffer):
            return None
        stats = self._update(obs)
        self.updates += 1
        if self._is_due(settings.target_period):
            self.q.update_target()
        period = settings.paper.successor_target_period
        if isinstance(self.need, PaperNeed) and self._is_due(period):
            self.need.update_target()
        return stats

    def _is_due(self, period: int) -> bool:
        """Whether a multiple of ``period`` steps lies within this update; 0: never."""
        return period > 0 and self.steps % period < self.settings.update_period

    def _update(self, obs: AnyArray) -> UpdateStats:
        settings, need = self.settings, self.need
        sampled = self._sample(obs)
        batch = to_transitions(sampled, self.buffer, settings, self.device)
        passed = self.q.td_errors(batch)
        factor, stats = self._need_of(sampled, batch, obs)
        loss = q_loss(passed.error, batch.weight, factor)
        auxiliary = None if need is None else need.loss(batch, passed)
        self._step(loss if auxiliary is None else loss + auxiliary)
        priority = priority_of(passed.error.detach(), settings.gain, settings.gain_floor)
        priorities = priority.cpu().numpy()
        self.replay.update_priorities(sampled.ids, priorities)
        if need is not None and self.replay is self.buffer and self._need_is_due:
            need.learn(self.buffer)  # a NeedBuffer does it in ``sample``
        return UpdateStats(
            float(loss.detach()), float(priorities.mean()), self._entropy(sampled), stats
        )

    def _sample(self, obs: AnyArray) -> Batch:
        """A batch, with need as part of the probability by gain x need, seen from ``obs``."""
        size = self.settings.batch_size
        if isinstance(self.replay, NeedBuffer):
            return self.replay.sample(size, obs, beta=self.beta)
        return self.buffer.sample(size, beta=self.beta)

    def _need_of(
        self, sampled: Batch, batch: Transitions, obs: AnyArray
    ) -> tuple[Tensor | None, NeedStats | None]:
        """The need that scales each update (None if it does not), and statistics of need."""
        settings, need = self.settings, self.need
        if need is None:
            return None, None
        if isinstance(self.replay, NeedBuffer):
            if not self._need_is_due:
                return None, None
            vectors = self.buffer.features(sampled.ids)
            raw = need.need_of(np.sum(vectors * self.replay.query, axis=1))
            return None, need_stats(raw, vectors)
        view, columns = need.views(self.buffer, 1, obs), sampled.columns
        if self._shuffled is not None:
            columns = self.buffer.read(self._shuffled.donors(sampled.ids))
        vectors = need.vectors(columns)
        raw = need.need_of(vectors @ need.queries(view))
        factor = to_tensor(raw, self.device)
        if isinstance(need, PaperNeed):
            factor = need.moving(factor, batch, view)
        factor = rescale(remove_negatives(factor, settings.negative), settings.scale)
        return factor, need_stats(raw, vectors)

    @property
    def _need_is_due(self) -> bool:
        """Whether need has its own update now."""
        return self.updates % self.settings.learn_every == 0

    def _entropy(self, sampled: Batch) -> float:
        if not sampled.normalized:
            return np.nan
        return float(-np.log(sampled.probabilities).mean() / np.log(max(2, len(self.buffer))))

    def _step(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def need_quality(
        self, rng: np.random.Generator, new: ReplayBuffer | None = None
    ) -> NeedQuality | None:
        """How accurate need is on the withheld episodes of the agent's buffer.

        The paper's successor network has learned from these too. None for an agent without need.

        Args:
            rng: chooses queries and transitions.
            new: a buffer with new episodes, to measure need on these.
        """
        if self.need is None:
            return None
        buffer = self.buffer if new is None else new
        return self.need.quality(buffer, seed=rng, new=new is not None)

    def weights(self) -> dict[str, dict[str, AnyArray]]:
        """What ``set_weights`` of an actor takes: the Q network and its target network."""
        parts = {"online": self.q.online, "target": self.q.target}
        return {
            name: {key: value.detach().cpu().numpy() for key, value in part.state_dict().items()}
            for name, part in parts.items()
        }

    def set_weights(self, weights: Mapping[str, Mapping[str, AnyArray]]) -> None:
        """Act by the ``weights`` of another agent from now on."""
        for name, part in {"online": self.q.online, "target": self.q.target}.items():
            part.load_state_dict({k: torch.tensor(value) for k, value in weights[name].items()})

    def priorities_of(self, columns: dict[str, AnyArray]) -> AnyArray:
        """The priorities of transitions by their TD errors, as this agent sees them now."""
        ones = np.ones(len(columns["reward"]))
        batch = Batch(np.zeros(len(ones), dtype=np.int64), ones, ones, columns)
        one_step = replace(self.settings, n_step=1)  # the columns are those of n steps
        with torch.no_grad():
            passed = self.q.td_errors(to_transitions(batch, self.buffer, one_step, self.device))
        priority = priority_of(passed.error, self.settings.gain, self.settings.gain_floor)
        priorities: AnyArray = priority.cpu().numpy()
        return priorities

    def networks(self) -> dict[str, torch.nn.Module]:
        """Every network by name, with target networks."""
        named: dict[str, torch.nn.Module] = {"q": self.q.online, "q_target": self.q.target}
        if isinstance(self.need, PaperNeed):
            named |= {"successor": self.need.online, "successor_target": self.need.target}
        return named


def make_need(
    settings: DeepSettings,
    observation_space: Any,
    q: QNetwork,
    optimizer: torch.optim.Optimizer,
    seed: int,
) -> Need:
    """The paper's need or a need model, on layers of its own or those of the Q network."""
    device, n_actions = q.head.weight.device, q.head.out_features
    if settings.need_learner == "successor":
        network = SuccessorNetwork(settings, q.shape, n_actions, q.n_hidden)
        return PaperNeed(settings, network.to(device), q, optimizer)
    shared = q.hidden if settings.need_learner == "linear" else q.normalized_hidden
    return NeedModel(
        observation_space,
        discount=settings.need_discount,
        learner=settings.need_learner,
        form=settings.need_form,
        features=shared if settings.encoder == "shared" else None,
        seed=seed,
        device=str(device),
    )


def make_sampler(settings: DeepSettings, need: Need | None) -> Sampler:
    """The sampler of the settings; ``per-sr`` scales the update by need and samples as PER."""
    alpha, mix = settings.alpha, settings.uniform_mix
    if ":" in settings.sampler:
        own: Sampler = call_object(settings.sampler, settings)
        if not hasattr(own, "set_priorities"):
            raise NeedReplayError(
                f"The sampler {settings.sampler!r} must be a function of DeepSettings that returns "
                "a Sampler (see needreplay.replay.samplers)."
            )
        return own
    if settings.sampler == "uniform":
        return UniformSampler()
    if settings.sampler == "rank":
        return RankSampler(alpha, uniform_mix=mix)
    if settings.sampler == "pser":
        return PSERSampler(alpha, stratified=settings.stratified, uniform_mix=mix)
    if settings.sampler == "per-recency":
        return RecencySampler(
            settings.mean_age, alpha=alpha, correct_for=settings.correct_for, uniform_mix=mix
        )
    if need is not None and settings.samples_by_need:
        return need.sampler(
            alpha=alpha,
            need_alpha=settings.need_alpha,
            correct_for=settings.correct_for,
            uniform_mix=mix,
        )
    return ProportionalSampler(alpha, stratified=settings.stratified, uniform_mix=mix)
