"""The linear agent: with one-hot features the tabular algorithm, step for step; need; transfer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box

from needlab import QLearning
from needlab.linear import (
    FeatureTable,
    LinearQ,
    LinearSettings,
    OneHot,
    encode_space,
    encode_world,
    feature_matrix,
    linear_settings,
)
from needlab.linear.agent import learn_minibatch
from needlab.tabular.settings import LearningSettings
from needlab.tabular.successor import random_policy_matrix, td_lambda
from needlab.worlds import TabularWorld, tabular_world
from needreplay import NeedReplayError
from needreplay._core.rng import stream
from needreplay.equations import closed_form

MAZE = tabular_world("dyna-maze")


def walk(agent: Any, world: TabularWorld, steps: int, seed: int = 0) -> Any:
    """The agent's own steps in a table: yields what was passed to ``learn``, after it learned."""
    state, rng = world.start, stream(seed, "walk")
    agent.begin(state)
    for _ in range(steps):
        action = int(rng.integers(world.n_actions))
        after, ends = int(world.next_state[state, action]), bool(world.ends[state, action])
        passed = (state, action, float(world.reward_mean[state, action]), after, ends)
        agent.learn(*passed)
        yield passed
        state = world.start if ends else after
        if ends:
            agent.begin(state)


@pytest.mark.parametrize("encoding", [OneHot(54), FeatureTable(np.eye(54))])
def test_with_a_buffer_of_one_it_is_q_learning(encoding: Any) -> None:
    """It replays the step that it just stored, so θ is the table of Q-learning after each step."""
    once = {"capacity": 1, "batch_size": 1, "target_period": 0}
    settings = linear_settings("linear", **once)
    linear = LinearQ(encoding, 4, settings)
    table = QLearning(54, 4, LearningSettings())
    for passed in walk(linear, MAZE, 3_000):
        table.learn(*passed)
        np.testing.assert_allclose(linear.theta.T, table.Q, rtol=1e-12, atol=1e-300)
    assert np.count_nonzero(table.Q) > 3


class Reference:
    """Algorithm 2 with tables: M, Q, target, priorities of all stored transitions."""

    def __init__(self, n_states: int, n_actions: int, settings: LinearSettings) -> None:
        self.settings, self.n = settings, n_states
        self.Q = np.zeros((n_states, n_actions))
        self.target, self.M = self.Q.copy(), np.eye(n_states)
        self.trace, self.active = np.zeros(n_states), np.zeros(n_states + 1, np.int64)
        self.stored: list[tuple[int, int, float, int, bool]] = []
        self.priorities: list[float] = []
        self.steps, self.largest = 0, 1.0

    def begin(self) -> None:
        self.trace[:], self.active[:] = 0.0, 0

    def store(self, *step: Any) -> None:
        state, _, _, after, ends = step
        td_lambda(
            self.M, self.trace, self.active, np.zeros(self.n), state, after, ends, True,
            0.95, self.settings.trace_decay, self.settings.successor_step_size, 1e-8,
        )  # fmt: skip
        self.stored.append(step)
        self.priorities.append(self.largest)
        self.steps += 1

    def probabilities(self, state: int) -> Any:
        need = np.array([self.M[state, step[0]] for step in self.stored])
        scores = (np.array(self.priorities) * np.maximum(need, 0.0)) ** 0.6
        if not scores.any():
            scores = np.array(self.priorities) ** 0.6
        if not scores.any():
            scores = np.ones(len(scores))
        mix = self.settings.uniform_mix
        return (1.0 - mix) * scores / scores.sum() + mix / len(scores)

    def update(self, ids: Any, weights: Any) -> None:
        before, k = self.Q.copy(), len(ids)
        for j, weight in zip(ids, weights, strict=True):
            s, a, r, t, ends = self.stored[j]
            best = int(before[t].argmax())
            delta = r + 0.95 * self.target[t, best] * (not ends) - before[s, a]
            self.priorities[j] = abs(delta)
            self.Q[s, a] += self.settings.step_size / k * weight * delta
        self.largest = max(self.largest, *(self.priorities[j] for j in ids))


def test_with_one_hot_features_it_makes_the_tabular_updates_step_for_step() -> None:
    """M, probabilities, weights, priorities, double Q with a target, Q: after each of 600 steps."""
    settings = replace(linear_settings("linear-per-sr"), target_period=7, step_size=0.5)
    world = tabular_world("S..\n.#.\n..G")
    agent = LinearQ(OneHot(9), 4, settings)
    reference, batches = Reference(9, 4, settings), []
    sample = agent.buffer.sample

    def recorded(*args: Any, **kwargs: Any) -> Any:
        batches.append(sample(*args, **kwargs))
        return batches[-1]

    agent.buffer.sample = recorded  # type: ignore[method-assign]
    for state, action, reward, after, ends in walk(agent, world, 600):
        reference.store(state, action, reward, after, ends)
        np.testing.assert_allclose(agent.W, reference.M, rtol=1e-9, atol=1e-12)
        (batch,) = batches
        batches.clear()
        P = reference.probabilities(state)[batch.ids]
        np.testing.assert_allclose(batch.probabilities, P, rtol=1e-6)
        weights = (P.min() / P) ** 0.4
        np.testing.assert_allclose(batch.weights, weights, rtol=1e-6)
        reference.update(batch.ids, batch.weights)
        np.testing.assert_allclose(agent.theta.T, reference.Q, rtol=1e-9, atol=1e-300)
        if reference.steps % 7 == 0:
            reference.target = reference.Q.copy()
        if ends:
            reference.begin()
    assert np.abs(reference.Q).max() > 0.5


@pytest.mark.parametrize(("double_q", "error"), [(True, 2.5), (False, 4.5)])
def test_double_q_by_hand(double_q: bool, error: float) -> None:
    """r = 1, γ = .5, Q(s, 0) = -1; at s' θ prefers action 1, whose target value is 1, not 5."""
    theta = np.array([[-1.0, 2.0], [0.0, 3.0]])
    target = np.array([[9.0, 5.0], [9.0, 1.0]])
    errors, one, ones = np.zeros(1), np.ones((1, 1), np.int64), np.ones((1, 1))
    first, (r, discount, weight) = 0 * one, np.array([[1.0], [0.5], [0.5]])
    learn_minibatch(
        theta, target, first, ones, one, ones, first[0], r, discount, weight, 0.1, double_q, errors
    )
    assert errors.tolist() == [error]
    np.testing.assert_allclose(theta, [[-1.0 + 0.1 * 0.5 * error, 2.0], [0.0, 3.0]])


def test_with_tile_codes_transitions_are_sampled_by_psi_times_phi() -> None:
    """P(j) ∝ (p_j ψ(s) · φ(s_j))^0.6: 40,000 samples, counted by state, within 5 deviations."""
    encoding = encode_world("tile", MAZE, width=2.0, tilings=4)
    phi = feature_matrix(encoding, MAZE.n_states)
    agent = LinearQ(encoding, 4, linear_settings("linear-per-sr", uniform_mix=0.0))
    states = np.array([passed[0] for passed in walk(agent, MAZE, 500)])
    query = agent.successor(MAZE.start)
    np.testing.assert_allclose(query, phi[MAZE.start] @ agent.W, rtol=1e-12)
    agent.buffer.update_priorities(np.arange(500), np.arange(500.0))
    expected = (np.arange(500) * np.maximum(phi[states] @ query, 0.0)) ** 0.6
    P = np.bincount(states, expected / expected.sum(), MAZE.n_states)
    ids = np.concatenate([agent.buffer.sample(1_000, need=query).ids for _ in range(40)])
    found = np.bincount(states[ids], minlength=MAZE.n_states)
    assert (np.abs(found - 40_000 * P) <= 5.0 * np.sqrt(40_000 * P * (1.0 - P)) + 1e-6).all()
    assert np.count_nonzero(P) > 10


@pytest.mark.parametrize("code", ["one-hot", "tile"])
def test_shuffled_need_is_that_of_other_transitions(code: Any) -> None:
    """Every need value is still there, at another transition than the one it belongs to."""
    encoding = encode_world(code, MAZE, width=2.0, tilings=4)
    agent = LinearQ(encoding, 4, linear_settings("linear-per-sr-shuffled"))
    states = np.array([passed[0] for passed in walk(agent, MAZE, 300)])
    if code == "one-hot":
        agent.buffer.update_priorities(np.arange(300), np.ones(300))
        query = np.arange(1.0, 55.0)
        scores = agent.buffer.sampler.probabilities(query)[:300]  # type: ignore[attr-defined]
        (share,) = [linear_settings("linear-per-sr").uniform_mix]
        found = scores - share / 300
        own = (states + 1.0) ** 0.6
    else:
        query = agent.successor(MAZE.start)
        found = agent.buffer.features(np.arange(300)) @ query
        own = feature_matrix(encoding, states) @ query
    found *= own.sum() / found.sum()
    np.testing.assert_allclose(np.sort(found), np.sort(own), rtol=1e-4, atol=1e-6)
    assert abs(np.corrcoef(found, own)[0, 1]) < 0.3


def test_values_after_the_goal_moved() -> None:
    """ψ of the random walk; the reward moves: new reward weights alone give the exact values."""
    world = tabular_world("S...\n.##.\n...G")
    M = closed_form(random_policy_matrix(world.next_state, world.ends), 0.95)
    agent = LinearQ(OneHot(12), 4, linear_settings("linear", learn_successor=True), W=M)
    pairs = [(s, int(t)) for s in np.flatnonzero(world.acts) for t in world.next_state[s]]
    for goal in (3, 8):
        for _ in range(100):
            for state, arrived in pairs:
                agent.learn(state, 0, float(arrived == goal), arrived, False)
        agent.W[:] = M
        exact = (M[:, goal] - (np.arange(12) == goal)) / 0.95  # visits from the next step on
        values = [agent.transferred_value(state) for state in range(12)]
        np.testing.assert_allclose(values, exact, rtol=1e-6, atol=1e-9)
    assert exact.max() > 0.5


def test_an_array_that_an_environment_writes_to_again_is_seen_anew() -> None:
    agent = LinearQ(encode_space("one-hot", Box(0.0, 4.0, (1,)), cells=4), 2)
    obs = np.array([0.5])
    first = agent.features(obs)
    obs[0] = 2.5
    assert [first.argmax(), agent.features(obs).argmax()] == [0, 2]


def test_shuffle_changes_nothing_without_need() -> None:
    found = []
    for shuffle in (False, True):
        agent = LinearQ(OneHot(54), 4, linear_settings("linear-per", shuffle=shuffle))
        for _ in walk(agent, MAZE, 300):
            pass
        found.append(agent.theta)
    np.testing.assert_array_equal(found[0], found[1])


def test_values_that_diverge_are_named() -> None:
    agent = LinearQ(OneHot(2), 1, linear_settings("linear", step_size=1.0))
    agent.theta[:] = agent.target[:] = 1e308
    diverged = pytest.raises(NeedReplayError, match="Q diverged after 0 updates")
    with diverged, np.errstate(over="ignore"):
        agent.learn(0, 0, -1.7e308, 1, True)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LinearQ(OneHot(3), 0), "n_actions is 0"),
        (lambda: LinearQ(OneHot(3), 2, W=np.eye(2)), r"shape \(3, 3\)"),
        (lambda: LinearQ(OneHot(3), 2).learn(0, 2, 0.0, 1, False), "action is 2"),
        (lambda: LinearQ(OneHot(3), 2).learn(0, 0, float("nan"), 1, False), "reward is nan"),
        (lambda: LinearQ(OneHot(3), 2).learn(0, 0, 0.0, 3, False), "from 0 to 2"),
        (lambda: LinearQ(OneHot(3), 2, linear_settings("linear")).successor(0), "learn_successor"),
        (lambda: linear_settings("linear-pr"), "linear-pr"),
        (lambda: LinearSettings(batch_size=0), "batch_size"),
        (lambda: LinearSettings(need_alpha=-1.0), "need_alpha"),
        (lambda: LinearSettings(trace_decay=1.5), "trace_decay"),
    ],
)
def test_what_raises(make: Any, words: str) -> None:
    with pytest.raises(NeedReplayError, match=words):
        make()
