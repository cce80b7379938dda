"""The deep agent, from top to bottom: act, store, query need, sample, learn, set priorities.

Yuan & Mattar's Algorithm 3 for a batch. Without need it is DQN or double DQN from any sampler.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from needlab.core.imports import load_object
from needlab.deep.dqn import (
    QLearner,
    Transitions,
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
from needlab.deep.successor import Current, SuccessorLearner
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, BoolArray, IntArray
from needreplay.equations import annealed
from needreplay.need import NeedModel, NeedQuality, ShuffledNeed, need_quality, withholds
from needreplay.need.learners import LEARNERS
from needreplay.replay import (
    Batch,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    RecencySampler,
    ReplayBuffer,
    UniformSampler,
)
from needreplay.replay.samplers import FeatureNeedSampler, Sampler

_MAX_ROWS = 1024
"""Transitions whose features are computed in one pass."""


class UpdateStats(NamedTuple):
    """One update, for the log."""

    loss: float
    """the Q loss, with importance weights and need"""
    td_error: float
    """the mean priority passed to the buffer: |δ|, or what the preset makes of it"""
    entropy: float
    """mean −log P of the batch / log N: 1 for uniform sampling; NaN if P is not known"""
    need: NeedStats | None


class Start(NamedTuple):
    """The state and action that need looks from, one row each."""

    obs: Tensor
    action: Tensor | None
    """None: the greedy action"""


class DeepAgent:
    """DQN or double DQN with any sampler, and with need if the sampler is ``per-sr*``.

    Args:
        settings: see ``DeepSettings``.
        observation_space: a Box of images (channels first) or of a vector of numbers.
        n_actions: the number of actions.
        steps: the length of the run: β reaches ``beta_end`` there.
        seed: decides the initial networks, the actions and the samples.
        device: where the networks are.
    """

    changes: ClassVar[Mapping[str, Any]] = {}
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
    ) -> None:
        self.settings = settings
        self.observation_space = observation_space
        self.n_actions = n_actions
        self.device = torch.device(device)
        self.steps_planned = steps
        self.steps = 0
        self.updates = 0
        self.action_rng = stream(seed, "actions")
        shape = tuple(observation_space.shape)
        # Networks are initialized on the CPU, so that a seed means the same on every device.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(stream(seed, "networks").integers(2**62)))
            q = QNetwork(settings.network, shape, n_actions)
            successor = SuccessorNetwork(settings, shape, n_actions, q.n_hidden)
        self.q = QLearner(settings.base, q.to(self.device))
        self.successor: SuccessorLearner | None = None
        self.need_model: NeedModel | None = None
        if settings.learns_successor:
            self.successor = SuccessorLearner(settings, successor.to(self.device), q)
        elif settings.uses_need:
            contrastive = LEARNERS[settings.need_learner].far
            shared = q.normalized_hidden if contrastive else q.hidden
            self.need_model = NeedModel(
                observation_space,
                discount=settings.need_discount,
                learner=settings.need_learner,
                form=settings.need_form,
                features=shared if settings.encoder == "shared" else None,
                seed=seed,
                device=device,
            )
        self.optimizer = make_optimizer(
            settings, q.parameters(), successor.parameters() if settings.learns_successor else ()
        )
        self.stores_next_action = (
            settings.learns_successor and settings.successor_action == "stored"
        )
        self.replay = ReplayBuffer.for_spaces(
            observation_space,
            np.int64,
            capacity=settings.capacity,
            n_step=settings.n_step,
            discount=settings.discount,
            frame_stack=settings.frame_stack,
            extra_columns={"next_action": np.int64} if self.stores_next_action else None,
            sampler=make_sampler(settings, successor.n_features, self.need_model),
            seed=seed,
        )
        self.next_feature_id = 0
        """the first transition whose features the buffer does not have (per-sr-sampling)"""
        shuffles = settings.uses_need and settings.shuffle_need
        self.shuffled = ShuffledNeed(self.replay, seed) if shuffles else None
        self._query: AnyArray | None = None
        self._previous: tuple[AnyArray, int] | None = None

    # Acting and storing.

    @property
    def epsilon(self) -> float:
        """The current probability of a random action in training."""
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
        return int(self.q.evaluate(self._row(obs)).greedy)

    def _row(self, obs: AnyArray) -> Tensor:
        return obs_tensor(np.ascontiguousarray(obs)[None], self.device)

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
        self._previous = obs, action
        self.steps += 1

    # Learning.

    def learn(self, obs: AnyArray) -> UpdateStats | None:
        """Update once if an update is due; ``obs`` is the current observation."""
        settings = self.settings
        if self.steps < settings.min_history or self.steps % settings.update_period:
            return None
        if not len(self.replay):
            return None
        stats = self._update(obs)
        self.updates += 1
        if self._is_due(settings.target_period):
            self.q.update_target()
        if self.successor is not None and self._is_due(settings.successor_target_period):
            self.successor.update_target()
        return stats

    def _is_due(self, period: int) -> bool:
        """Whether a multiple of ``period`` steps lies within this update; 0: never."""
        return period > 0 and self.steps % period < self.settings.update_period

    def _update(self, obs: AnyArray) -> UpdateStats:
        settings, successor = self.settings, self.successor
        start = None if successor is None else self._start(obs)
        # Need as part of the probability is queried before sampling. Need that scales the update
        # comes after it, in the batch's own pass through the Q network.
        current = self._query_need(start) if start and settings.samples_by_need else None
        if self.need_model is not None:
            self.need_query(obs)
        sampled = self._sample()
        batch = self._transitions(sampled)
        if successor is None or start is None:
            td = self.q.td_errors(batch, with_next=False)
            need, stats = (
                (None, None) if self.need_model is None else self._learn_need(obs, sampled)
            )
            loss = q_loss(td.error, batch.weight, need)
            self._step(loss)
        else:
            td = self.q.td_errors(batch, extra=start.obs if current is None else None)
            if td.extra is not None:
                action = td.extra.greedy if start.action is None else start.action
                current = successor.current(start.obs, action, td.extra.hidden)
            assert current is not None
            assert td.next_state is not None
            shared = settings.encoder == "shared"
            features = td.hidden if shared else successor.features(batch.obs)
            raw = successor.need(current, features, batch.action)
            stats = need_stats(raw.detach().cpu().numpy(), features.detach().cpu().numpy())
            need = None
            if not settings.samples_by_need:
                need = rescale(remove_negatives(raw, settings.negative), settings.scale)
            loss = q_loss(td.error, batch.weight, need)
            if settings.successor_batch == "same" and not settings.need_moves_features:
                # The two losses share no parameter, so one backward pass serves both.
                next_action = self._next_action(batch, td.next_state.greedy)
                next_shared = td.next_state.hidden if shared else None
                self._step(loss + successor.loss(batch, features, next_action, next_shared))
            else:
                self._step(loss)
                another = settings.successor_batch == "another"
                own = self._transitions(self._sample()) if another else batch
                next_action = self._next_action(own, self.q.evaluate(own.next_obs).greedy)
                self._step(successor.loss(own, successor.features(own.obs), next_action))
            if settings.samples_by_need:
                self._set_features(sampled.ids, features.detach(), batch.action)
                if settings.refresh:
                    self._compute_features(self.replay.next_to_refresh(settings.refresh))
        error = td.error.detach()
        priorities = priority_of(error, settings.gain, settings.gain_floor).cpu().numpy()
        self.replay.update_priorities(sampled.ids, priorities)
        entropy = np.nan
        if sampled.normalized:
            entropy = -np.log(sampled.probabilities).mean() / np.log(max(2, len(self.replay)))
        return UpdateStats(float(loss.detach()), float(priorities.mean()), float(entropy), stats)

    def _sample(self) -> Batch:
        return self.replay.sample(self.settings.batch_size, need=self._query, beta=self.beta)

    def _transitions(self, sampled: Batch) -> Transitions:
        """The batch as tensors, with γ^k where the successor target needs it at terminals."""
        batch, settings = to_transitions(sampled, self.device), self.settings
        if settings.n_step == 1 or not settings.learns_successor:
            return batch
        # A transition of k steps to a terminal is followed by the k - 1 shorter ones to it.
        steps = [self.replay.future(sampled.ids, k) >= 0 for k in range(settings.n_step)]
        to_end = settings.discount ** np.sum(steps, 0)
        power = np.where(sampled["discount"] > 0.0, sampled["discount"], to_end)
        return batch._replace(power=to_tensor(power.astype(np.float32), self.device))

    def _step(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def _next_action(self, batch: Transitions, greedy: Tensor) -> Tensor:
        """a' of the successor target."""
        if self.settings.successor_action == "greedy":
            return greedy
        assert batch.next_action is not None
        return batch.next_action

    # Need.

    def _start(self, obs: AnyArray) -> Start:
        """The current state with its greedy action, or the pair before it."""
        if self.settings.need_row == "previous" and self._previous is not None:
            obs, action = self._previous
            return Start(self._row(obs), torch.tensor([action], device=self.device))
        return Start(self._row(obs), None)

    def need_query(self, obs: AnyArray) -> AnyArray | None:
        """What the buffer's ``need=`` takes now: m, or φ for backward need; None without need.

        Seen from recent states or starts, it has a row for each transition of a batch. The buffer
        also gets the features of everything stored since the last query.
        """
        if self.settings.samples_by_need and self.need_model is None:
            self._query_need(self._start(obs))
        elif self.settings.samples_by_need and self.need_model is not None:
            *older, newest = self._new_ids()
            for ids in older:
                self._compute_vectors(ids)
            self._query = self._compute_vectors(newest, obs)
        return self._query

    def _learn_need(self, obs: AnyArray, sampled: Batch) -> tuple[Tensor | None, NeedStats | None]:
        """The need that scales the update, if it does, and the need model's update if it is due.

        The buffer's vectors of the replayed transitions are renewed with it, not at every update:
        in between, the model stays the same (but for the layers of a shared encoder).
        """
        model, settings = self.need_model, self.settings
        assert model is not None
        due = self.updates % settings.need_period == 0
        if settings.samples_by_need:
            if not due:
                return None, None
            model.learn(self.replay)
            renewed = self.replay.next_to_refresh(settings.refresh * settings.need_period)
            ids = np.concatenate([sampled.ids, renewed])
            vectors = self._need_vectors(ids)
            self.replay.set_features(ids, vectors)
            vectors = vectors[: len(sampled.ids)]
            # The query is from before the model's update; for statistics it is near enough.
            products = np.sum(vectors * self._query, axis=1)
            return None, need_stats(model.from_products(products), vectors)
        vectors = self._need_vectors(sampled.ids, sampled["obs"])
        raw = model.from_products(vectors @ model.query(obs))
        if due:
            model.learn(self.replay)
        need = to_tensor(np.maximum(raw, 0.0), self.device)
        return rescale(need, settings.scale), need_stats(raw, vectors)

    def _need_vectors(self, ids: IntArray, obs: Any = None) -> AnyArray:
        """The need model's vectors of transitions; with shuffled need those of others."""
        assert self.need_model is not None
        if self.shuffled is not None:
            ids, obs = self.shuffled.donors(ids), None
        return self.need_model.features(self.replay.read(ids)["obs"] if obs is None else obs)

    @torch.no_grad()
    def _query_need(self, start: Start) -> Current:
        successor = self.successor
        assert successor is not None
        *older, newest = self._new_ids()
        for ids in older:
            self._compute_features(ids)
        features = self._compute_features(newest, start.obs)
        action = start.action
        if action is None:
            shared = self.settings.encoder == "shared"
            hidden = features if shared else self.q.online.hidden(start.obs)
            action = self.q.online.head(hidden).argmax(1)
        current = Current(features, successor.online.successor(features, action))
        row = current.successor if self.settings.direction == "forward" else current.features
        self._query = row[0].cpu().numpy()
        return current

    def set_new_features(self) -> None:
        """Give the buffer the features of all transitions stored since the last call."""
        compute: Any = self._compute_features if self.need_model is None else self._compute_vectors
        for ids in self._new_ids():
            compute(ids)

    def _new_ids(self) -> list[IntArray]:
        """The transitions stored since the last call, in parts for one pass each; at least one."""
        first = max(self.next_feature_id, self.replay.oldest_id)
        self.next_feature_id = self.replay.next_id
        ids = np.arange(first, self.next_feature_id)
        return [ids[i : i + _MAX_ROWS] for i in range(0, len(ids), _MAX_ROWS)] or [ids]

    def _compute_vectors(self, ids: IntArray, obs: AnyArray | None = None) -> AnyArray | None:
        """Compute and set the need model's vectors of transitions; returns the query of ``obs``.

        If need is seen from elsewhere: queries of that, one for each row of a batch. A new
        transition is also the donor of one that is stored already.
        """
        model = self.need_model
        assert model is not None
        if not len(ids):
            size = self.settings.batch_size
            return None if obs is None else model.queries(self.replay, size, obs)
        donors = ids
        if self.shuffled is not None:
            ids = self.shuffled.affected(ids)
            donors = self.shuffled.donors(ids)
        rows, query = self.replay.read(donors)["obs"], None
        if obs is None:
            vectors = model.features(rows)
        else:
            elsewhere = model.form.query != "present"
            views = model.drawn_views(self.replay, self.settings.batch_size) if elsewhere else obs
            vectors, query = model.features_and_queries(rows, views)
        self.replay.set_features(ids, vectors)
        return query

    @torch.no_grad()
    def _compute_features(self, ids: IntArray, *extra: Tensor) -> Tensor:
        """Compute and set the features of transitions; returns those of ``extra``.

        The buffer stores the observation that a transition starts with, so that features and ids
        match whatever ``n_step`` is.
        """
        assert self.successor is not None
        columns = self.replay.read(ids)
        obs = torch.cat((obs_tensor(columns["obs"], self.device), *extra))
        features = self.successor.features(obs)
        self._set_features(ids, features[: len(ids)], to_tensor(columns["action"], self.device))
        return features[len(ids) :]

    @torch.no_grad()
    def _set_features(self, ids: IntArray, features: Tensor, action: Tensor) -> None:
        """Give the buffer φ(s) of transitions; for backward need m(s, a)."""
        assert self.successor is not None
        if self.settings.direction == "backward":
            features = self.successor.online.successor(features, action)
        self.replay.set_features(ids, features.cpu().numpy())

    def need_of(self, current_obs: AnyArray, obs: AnyArray, actions: AnyArray) -> AnyArray:
        """The raw need of many observations, seen from ``current_obs`` and its greedy action."""
        need: AnyArray = self.needs_of(current_obs[None], obs, actions)[0]
        return need

    @torch.no_grad()
    def needs_of(self, currents: AnyArray, obs: AnyArray, actions: AnyArray) -> AnyArray:
        """[i, j]: the raw need of observation j, seen from the i-th of ``currents``."""
        if self.need_model is not None:
            return self.need_model.needs(currents, obs)
        successor = self.successor
        assert successor is not None
        rows = obs_tensor(np.ascontiguousarray(currents), self.device)
        hidden, greedy = self.q.evaluate(rows)
        features, successors = successor.current(rows, greedy, hidden)
        stored = successor.features(obs_tensor(np.ascontiguousarray(obs), self.device))
        action = to_tensor(actions, self.device)
        needs = [
            successor.need(Current(features[i : i + 1], successors[i : i + 1]), stored, action)
            for i in range(len(rows))
        ]
        return torch.stack(needs).cpu().numpy()

    def need_quality(
        self, rng: np.random.Generator, new: ReplayBuffer | None = None
    ) -> NeedQuality | None:
        """How accurate need is on the withheld episodes of the agent's buffer.

        The paper's successor network has learned from these too. None for an agent without need.

        Args:
            rng: chooses queries and transitions.
            new: a buffer with new episodes, to measure need on these.
        """
        if not self.settings.uses_need:
            return None
        if self.need_model is not None:
            buffer = self.replay if new is None else new
            return self.need_model.quality(buffer, seed=rng, new=new is not None)
        settings = dataclasses.replace(self.settings, capacity=self.settings.batch_size)
        untrained = type(self)(
            settings, self.observation_space, self.n_actions, steps=1, device=self.device.type
        )
        buffer, withheld = (self.replay, withholds) if new is None else (new, _all)
        return need_quality(
            buffer,
            self._needs_of_columns,
            rng,
            withheld=withheld,
            untrained=untrained._needs_of_columns,
            direction=self.settings.direction,
        )

    def _needs_of_columns(self, obs: Any, columns: dict[str, Any]) -> AnyArray:
        return self.needs_of(obs, columns["obs"], columns["action"])

    def networks(self) -> dict[str, torch.nn.Module]:
        """Every network by name, with target networks."""
        named: dict[str, torch.nn.Module] = {"q": self.q.online, "q_target": self.q.target}
        if self.successor is not None:
            named["successor"] = self.successor.online
            if self.successor.has_target:
                named["successor_target"] = self.successor.target
        return named


def _all(episodes: IntArray) -> BoolArray:
    return np.ones(len(episodes), dtype=np.bool_)


def make_sampler(
    settings: DeepSettings, n_features: int, model: NeedModel | None = None
) -> Sampler:
    """The sampler of the settings; ``per-sr`` scales the update by need and samples as PER."""
    alpha, mix = settings.alpha, settings.uniform_mix
    if ":" in settings.sampler:
        own: Sampler = load_object(settings.sampler)(settings)
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
    if settings.sampler == "per-sr-sampling" and model is not None:
        return model.sampler(
            alpha=alpha,
            need_alpha=settings.need_alpha,
            correct_for=settings.correct_for,
            uniform_mix=mix,
        )
    if settings.sampler == "per-sr-sampling":
        return FeatureNeedSampler(
            n_features,
            backward=settings.direction == "backward",
            alpha=alpha,
            need_alpha=settings.need_alpha,
            correct_for=settings.correct_for,
            uniform_mix=mix,
        )
    return ProportionalSampler(alpha, stratified=settings.stratified, uniform_mix=mix)
