"""Linear Q-learning with replay by gain x need: the paper's vanilla PER-SR (Algorithm 2).

Q(s, a) = θ_a · φ(s) and successor features ψ(s) = φ(s) W, with the features of ``encodings``.
One-hot features are the tabular case.

>>> import gymnasium
>>> from needlab import play
>>> from needlab.linear import LinearQ, encode_space
>>> env = gymnasium.make("MountainCar-v0")
>>> agent = LinearQ(encode_space("tile", env.observation_space), n_actions=3)
>>> play(agent, env, episodes=1).steps.tolist()
[200]
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from needlab.core.equations import moved_towards, td_error
from needlab.core.jit import jit
from needlab.linear.encodings import Encoding, OneHot, feature_matrix
from needlab.linear.settings import LinearSettings
from needlab.tabular import successor
from needreplay._core.checks import AT_LEAST_ONE, check_number, is_whole
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray, IntArray
from needreplay.need import ShuffledNeed
from needreplay.replay import ReplayBuffer
from needreplay.replay.samplers import (
    FeatureNeedSampler,
    ProportionalSampler,
    Sampler,
    StateNeedSampler,
    UniformSampler,
)

td_lambda_features = jit(successor.td_lambda_features)

SMALLEST_TRACE = 1e-8
"""A trace that decayed to this is 0."""


class LinearQ:
    """Linear Q-learning that replays stored transitions by gain x need.

    For any world: ``play`` it in a Gymnasium environment with discrete actions.

    Args:
        encoding: the features (``encode_world``, ``encode_space``, ``FeatureTable``).
        n_actions: how many actions there are.
        settings: ``linear_settings(name)`` or your own.
        W: the initial successor matrix, [feature, feature]; the identity if not given. The paper's
            is that of a random policy.
        seed: of the agent's own random numbers.
    """

    def __init__(
        self,
        encoding: Encoding,
        n_actions: int,
        settings: LinearSettings | None = None,
        *,
        W: FloatArray | None = None,
        seed: int = 0,
    ) -> None:
        self.encoding, n = encoding, encoding.n_features
        self.n_actions = check_number("n_actions", n_actions, int, AT_LEAST_ONE)
        self.settings = LinearSettings() if settings is None else settings
        self.theta = np.zeros((self.n_actions, n))
        """[action, feature]: the weights of Q"""
        self.target = self.theta.copy() if self.settings.target_period else self.theta
        self.W = _checked_matrix(W, n) if self.settings.uses_successor else np.zeros((0, 0))
        """[feature, feature]: ψ(s) = φ(s) W; empty where none are learned"""
        self.reward_weights = np.zeros(n)
        """w of R = φ · w, the reward on arrival; learned with ψ"""
        self.rng = stream(seed, "agent")
        self.steps, self.updates = 0, 0
        self.buffer = self._new_buffer(seed)
        """the transitions"""
        shuffles = self.settings.by_need and self.settings.shuffle
        self._shuffled = ShuffledNeed(self.buffer, seed) if shuffles else None
        self._trace = np.zeros(n)
        self._seen: tuple[AnyArray, FloatArray] = (np.zeros(0), np.zeros(n))

    def _new_buffer(self, seed: int) -> ReplayBuffer:
        settings, obs = self.settings, self.encoding.obs
        columns: dict[str, Any] = {"obs": obs, "next_obs": obs, "action": np.int64}
        columns |= {"reward": np.float64, "discount": np.float64}
        mix, alpha = settings.uniform_mix, settings.alpha
        sampler: Sampler = UniformSampler()
        if settings.replay_by == "gain":
            sampler = ProportionalSampler(alpha, stratified=False, uniform_mix=mix)
        elif settings.by_need:
            kind = StateNeedSampler if self._is_table else FeatureNeedSampler
            sampler = kind(
                self.encoding.n_features,
                alpha=alpha,
                need_alpha=settings.need_alpha,
                correct_for="both",
                uniform_mix=mix,
            )
        return ReplayBuffer(
            settings.capacity, columns, sampler=sampler, beta=settings.beta, seed=seed
        )

    @property
    def _is_table(self) -> bool:
        return isinstance(self.encoding, OneHot)

    # What it knows.

    def features(self, obs: npt.ArrayLike) -> FloatArray:
        """The features φ(s) of an observation."""
        point = np.array(obs)
        if not np.array_equal(point, self._seen[0]):
            self._seen = (point, feature_matrix(self.encoding, point[np.newaxis])[0])
        return self._seen[1]

    def values(self, obs: npt.ArrayLike) -> FloatArray:
        """Q(s, a) of every action."""
        values: FloatArray = self.theta @ self.features(obs)
        return values

    def successor(self, obs: npt.ArrayLike) -> FloatArray:
        """ψ(s): the expected discounted sum of features from here on, this state's included."""
        if not self.settings.uses_successor:
            raise NeedReplayError(
                "This agent learns no successor features; give it learn_successor=True, or "
                "replay_by='gain x need'."
            )
        return self._successor_of(self.features(obs))

    def _successor_of(self, features: FloatArray) -> FloatArray:
        active = np.flatnonzero(features)
        psi: FloatArray = features[active] @ self.W[active]
        return psi

    def transferred_value(self, obs: npt.ArrayLike) -> float:
        """V(s) = (ψ(s) − φ(s)) · w / γ, of the policy that ψ was learned with.

        A goal that moved needs new reward weights alone. ψ counts this state, too, whose reward is
        past.
        """
        later = self.successor(obs) - self.features(obs)
        return float(later @ self.reward_weights) / self.settings.horizon

    # Acting and learning.

    def begin(self, state: npt.ArrayLike) -> None:  # noqa: ARG002
        """An episode begins."""
        self._trace[:] = 0.0

    def act(self, state: npt.ArrayLike) -> int:
        """An epsilon-greedy action, ties broken at random."""
        if self.rng.random() < self.settings.epsilon:
            return int(self.rng.integers(self.n_actions))
        values = self.values(state)
        best = np.flatnonzero(values == values.max())
        return int(best[0] if len(best) == 1 else self.rng.choice(best))

    def learn(
        self,
        state: npt.ArrayLike,
        action: int,
        reward: float,
        next_state: npt.ArrayLike,
        terminated: bool,
    ) -> None:
        """Learn from one step, store it, and replay if it is time."""
        settings = self.settings
        if not math.isfinite(reward):
            raise NeedReplayError(f"reward is {reward}; it must be a finite number.")
        if not is_whole(action) or not 0 <= action < self.n_actions:
            raise NeedReplayError(
                f"action is {action!r}; it must be from 0 to {self.n_actions - 1}."
            )
        now = self.features(state)
        after = self.features(next_state)
        if settings.uses_successor:
            self._learn_successor(now, after, float(reward), bool(terminated))
        self._store(
            state, now, action=int(action), reward=float(reward), next_obs=next_state,
            discount=0.0 if terminated else settings.discount,
        )  # fmt: skip
        self.steps += 1
        if self.steps % settings.replay_period == 0:
            for _ in range(settings.updates):
                self._replay(now)
        if settings.target_period and self.steps % settings.target_period == 0:
            self.target[:] = self.theta

    def _learn_successor(
        self, now: FloatArray, after: FloatArray, reward: float, ends: bool
    ) -> None:
        settings = self.settings
        td_lambda_features(
            self.W, self._trace, now, after, ends, True, settings.horizon,
            settings.trace_decay, settings.successor_step_size, SMALLEST_TRACE,
        )  # fmt: skip
        error = reward - float(after @ self.reward_weights)
        self.reward_weights += settings.successor_step_size * error * after

    def _store(self, obs: npt.ArrayLike, features: FloatArray, **columns: Any) -> None:
        if not self.settings.by_need:
            self.buffer.add(obs=obs, **columns)
        elif self._is_table:
            ids = self.buffer.add(obs=obs, state=obs, **columns)
        else:
            ids = self.buffer.add(obs=obs, features=features.astype(np.float32), **columns)
        if self._shuffled is not None:
            changed = self._shuffled.affected(np.array(ids))
            donors = self.buffer.read(self._shuffled.donors(changed))["obs"]
            if self._is_table:
                self.buffer.set_states(changed, donors)
            else:
                vectors = feature_matrix(self.encoding, donors)
                self.buffer.set_features(changed, vectors.astype(np.float32))

    def _replay(self, now: FloatArray) -> None:
        """One minibatch, with need seen from the state that was left."""
        settings = self.settings
        need = self._successor_of(now) if settings.by_need else None
        batch = self.buffer.sample(settings.batch_size, need=need)
        errors = np.zeros(settings.batch_size)
        learn_minibatch(
            self.theta, self.target, *self.encoding.active(batch["obs"]),
            *self.encoding.active(batch["next_obs"]), batch["action"], batch["reward"],
            batch["discount"], batch.weights, settings.step_size / settings.batch_size,
            settings.double_q, errors,
        )  # fmt: skip
        if not np.isfinite(errors).all():
            raise NeedReplayError(
                f"Q diverged after {self.updates:,} updates; choose a step_size below "
                f"{settings.step_size}, or codes whose features overlap less."
            )
        if settings.replay_by != "nothing":
            self.buffer.update_priorities(batch.ids, np.abs(errors))
        self.updates += 1


def _checked_matrix(W: FloatArray | None, n: int) -> FloatArray:
    if W is None:
        return np.eye(n)
    found = np.array(W, np.float64)
    if found.shape != (n, n) or not np.isfinite(found).all():
        raise NeedReplayError(
            f"W must hold finite numbers in the shape ({n}, {n}); its shape was {found.shape}."
        )
    return found


@jit
def value_of(weights: FloatArray, numbers: IntArray, values: FloatArray) -> float:
    """θ · φ over the features that are not 0."""
    total = 0.0
    for place in range(len(numbers)):
        total += weights[numbers[place]] * values[place]
    return total


@jit
def learn_minibatch(
    theta: FloatArray,
    target: FloatArray,
    numbers: IntArray,
    values: FloatArray,
    next_numbers: IntArray,
    next_values: FloatArray,
    actions: IntArray,
    rewards: FloatArray,
    discounts: FloatArray,
    weights: FloatArray,
    rate: float,
    double_q: bool,
    errors: FloatArray,
) -> None:
    """Algorithm 2, the loop over a minibatch: TD errors of all, then the sum of their updates.

    Args:
        theta: θ, [action, feature]; changed.
        target: the target's weights; may be ``theta``.
        numbers: of the features of s_j that are not 0, [j, place].
        values: of these features.
        next_numbers: the same of the next states.
        next_values: the same of the next states.
        actions: a_j.
        rewards: r_j.
        discounts: γ, 0 where the episode terminated.
        weights: importance weights w_j.
        rate: η.
        double_q: whether θ chooses the next action; otherwise the target does.
        errors: δ_j; written.
    """
    chooser = theta if double_q else target
    for j in range(len(errors)):
        best, largest = 0, -np.inf
        for action in range(len(theta)):
            value = value_of(chooser[action], next_numbers[j], next_values[j])
            if value > largest:
                best, largest = action, value
        following = value_of(target[best], next_numbers[j], next_values[j])
        value = value_of(theta[actions[j]], numbers[j], values[j])
        errors[j] = td_error(rewards[j], discounts[j], following, value)
    for j in range(len(errors)):
        row, size = theta[actions[j]], rate * weights[j]
        for place in range(numbers.shape[1]):
            feature = numbers[j, place]
            row[feature] = moved_towards(row[feature], size * values[j, place], errors[j])
