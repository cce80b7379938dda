"""Gain, need, chains and ties of the EVB agent, with numbers worked out by hand."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from needlab.core.equations import successor_row
from needlab.tabular.evb.backups import (
    backup_gain,
    chain_target,
    extend,
    greedy_action,
    policy_gain,
    rule_of,
    run_backup,
    softmax,
)
from needlab.tabular.evb.need import left_eigenvector, need_of, policy_transitions
from needlab.tabular.evb.settings import EVB, EVBSettings, dyna
from needlab.tabular.evb.simulation import new_agent, replay_once
from needlab.worlds.tabular import TabularWorld, world_of_arrays
from needreplay._core.types import FloatArray

LEFT, RIGHT = 0, 1


def corridor(cells: int, reward: float = 1.0) -> TabularWorld:
    """0, 1, ..., the goal at the right end; actions left and right."""
    moves = [[max(s - 1, 0), min(s + 1, cells - 1)] for s in range(cells - 1)]
    moves.append([cells - 1, cells - 1])
    return world_of_arrays(
        moves, starts=[0], goals=[cells - 1], rewards={cells - 1: [(reward, 0.0)]}
    )


def chain_of(*pairs: tuple[int, int]) -> Any:
    return np.array([*pairs, (0, 0)], np.int64)


def probabilities(values: FloatArray, beta: float) -> FloatArray:
    weights = np.exp(beta * values)
    found: FloatArray = weights / weights.sum()
    return found


def test_policy_gain_by_hand() -> None:
    # Before, both actions are equally likely. After, right has Q = 1 and probability e / (1 + e).
    e = np.e
    values = np.zeros(2)
    assert policy_gain(values, RIGHT, 1.0, 1.0) == pytest.approx(e / (1 + e) - 0.5, rel=1e-12)
    # A worse value has gain too: the policy avoids it.
    assert policy_gain(values, RIGHT, -1.0, 1.0) == pytest.approx(-1 / (1 + e) + 0.5, rel=1e-12)
    assert policy_gain(values, RIGHT, 0.0, 1.0) == 0.0


@pytest.mark.parametrize("updated", [-1.0, 0.3, 2.0])
def test_policy_gain_is_the_difference_of_two_policies_under_the_new_values(updated: float) -> None:
    values, new = np.array([0.2, 0.9, -0.4, 0.0]), np.array([0.2, updated, -0.4, 0.0])
    expected = (probabilities(new, 5.0) - probabilities(values, 5.0)) @ new
    assert policy_gain(values, 1, updated, 5.0) == pytest.approx(expected, rel=1e-9)
    chances = np.empty(4)
    softmax(values, 5.0, chances)
    np.testing.assert_allclose(chances, probabilities(values, 5.0), rtol=1e-12)


def test_exploration_fills_memory_and_transitions_by_hand() -> None:
    agent = new_agent(corridor(3), EVB["published"])
    np.testing.assert_array_equal(agent.outcome, [[0, 1], [0, 2], [-1, -1]])
    np.testing.assert_array_equal(agent.T, [[0.5, 0.5, 0], [0.5, 0, 0.5], [1, 0, 0]])
    assert not agent.reward.any()


def test_need_by_hand_on_a_loop_of_three_states() -> None:
    # 0 -> 1 -> 2 -> 0: the k-th state ahead is visited at k, k + 3, ... with weight 0.9^k.
    T = np.array([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]])
    expected = np.array([1, 0.9, 0.81]) / (1 - 0.9**3)
    np.testing.assert_allclose(successor_row(T, 0.9, 0), expected, rtol=1e-12)
    np.testing.assert_allclose(successor_row(T, 0.9, 2), np.roll(expected, 2), rtol=1e-12)


def test_need_online_is_the_row_of_the_inverse() -> None:
    rng = np.random.default_rng(0)
    T = rng.dirichlet(np.ones(12), size=12)
    inverse = np.linalg.inv(np.eye(12) - 0.9 * T)
    for state in (0, 5, 11):
        np.testing.assert_allclose(successor_row(T, 0.9, state), inverse[state], rtol=1e-10)


def test_need_of_the_present_policy_uses_softmax_and_the_next_start() -> None:
    settings = replace(EVB["published"], need="policy")
    agent = new_agent(corridor(3), settings)
    agent.Q[1, RIGHT] = 1.0
    right = probabilities(np.array([0.0, 1.0]), 5.0)[1]
    expected = [[0.5, 0.5, 0], [1 - right, 0, right], [1, 0, 0]]
    np.testing.assert_allclose(policy_transitions(agent, 5.0), expected, rtol=1e-12)
    inverse = np.linalg.inv(np.eye(3) - 0.9 * np.array(expected))
    np.testing.assert_allclose(need_of(agent, rule_of(settings), 1), inverse[1], rtol=1e-12)


def test_offline_need_is_the_stationary_distribution_or_the_first_eigenvector() -> None:
    T = np.array([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]])
    np.testing.assert_allclose(left_eigenvector(T, False), [0.25, 0.5, 0.25], rtol=1e-12)
    first = left_eigenvector(T, True)
    assert np.linalg.norm(first) == pytest.approx(1.0)
    settings = replace(EVB["published"], need="stationary")
    agent = new_agent(corridor(3), settings)
    need = need_of(agent, rule_of(settings), 0)
    np.testing.assert_allclose(need @ agent.T, need, atol=1e-12)
    assert need.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("need", "expected"), [("one", 1.0), ("zero", 0.0)])
def test_constant_need(need: Any, expected: float) -> None:
    settings = replace(EVB["published"], need=need)
    agent = new_agent(corridor(3), settings)
    assert need_of(agent, rule_of(settings), 0).tolist() == [expected] * 3


def test_given_need_is_the_row_that_was_passed() -> None:
    settings, matrix = replace(EVB["published"], need="given"), np.arange(9.0).reshape(3, 3)
    agent = new_agent(corridor(3), settings, matrix)
    assert need_of(agent, rule_of(settings), 1).tolist() == [3.0, 4.0, 5.0]


def test_chain_target_by_hand() -> None:
    rule, agent = rule_of(EVB["published"]), new_agent(corridor(5), EVB["published"])
    agent.reward[0, RIGHT], agent.reward[1, RIGHT] = 2.0, 3.0
    agent.Q[2] = (0.5, 0.25)
    chain = chain_of((0, RIGHT), (1, RIGHT))
    assert chain_target(agent, rule, chain, 0, 2) == pytest.approx(2 + 0.9 * 3 + 0.81 * 0.5)
    assert chain_target(agent, rule, chain, 1, 2) == pytest.approx(3 + 0.9 * 0.5)


def test_a_chain_updates_all_its_pairs_and_its_gain_is_their_sum() -> None:
    settings = EVB["published"]
    rule, agent = rule_of(settings), new_agent(corridor(4), settings)
    agent.reward[2, RIGHT] = 1.0
    chain = chain_of((1, RIGHT), (2, RIGHT))
    gains = [policy_gain(np.zeros(2), RIGHT, target, 5.0) for target in (0.9, 1.0)]
    assert backup_gain(agent, rule, chain, 2) == pytest.approx(sum(gains), rel=1e-12)
    run_backup(agent, rule, chain, 2)
    assert agent.Q[:, RIGHT].tolist() == pytest.approx([0.0, 0.9, 1.0, 0.0])


@pytest.mark.parametrize(("floor", "expected"), [("element", 3e-10), ("sum", 1e-10), ("none", 0.0)])
def test_the_floor_of_a_redundant_chain(floor: Any, expected: float) -> None:
    rule = rule_of(replace(EVB["published"], floor=floor))
    agent = new_agent(corridor(5), EVB["published"])
    chain = chain_of((0, RIGHT), (1, RIGHT), (2, RIGHT))
    assert backup_gain(agent, rule, chain, 3) == pytest.approx(expected, rel=1e-12, abs=0.0)


def test_td_gain_is_the_sum_of_absolute_errors() -> None:
    rule = rule_of(replace(EVB["published"], gain="td", floor="none"))
    agent = new_agent(corridor(4), EVB["published"])
    agent.reward[2, RIGHT], agent.Q[2, RIGHT] = 1.0, 3.0
    chain = chain_of((1, RIGHT), (2, RIGHT))
    assert backup_gain(agent, rule, chain, 2) == pytest.approx(0.9 + 2.0)


def test_a_chain_grows_greedily_and_not_past_goals_or_into_itself() -> None:
    rng, task = np.random.default_rng(0), corridor(5)
    agent = new_agent(task, EVB["published"])
    agent.Q[1, RIGHT] = 1.0
    chain = chain_of((0, RIGHT))
    assert extend(agent, task.goal, chain, 1, rng)
    assert chain.tolist() == [[0, RIGHT], [1, RIGHT]]
    agent.Q[1] = (2.0, 1.0)
    assert not extend(agent, task.goal, chain_of((0, RIGHT)), 1, rng), "it returns to its start"
    agent.Q[0] = (1.0, 0.0)
    assert not extend(agent, task.goal, chain_of((1, LEFT)), 1, rng), "a bump is a loop"
    assert not extend(agent, task.goal, chain_of((3, RIGHT)), 1, rng), "a goal ends it"


def test_greedy_ties_are_uniform() -> None:
    rng = np.random.default_rng(0)
    drawn = [greedy_action(np.array([1.0, 0.0, 1.0]), rng) for _ in range(2000)]
    assert np.bincount(drawn, minlength=3)[1] == 0
    assert abs(drawn.count(0) - 1000) < 150


def test_the_first_reward_is_replayed_backwards() -> None:
    task, settings = corridor(6), EVB["published"]
    agent = new_agent(task, settings)
    agent.reward[4, RIGHT], agent.Q[4, RIGHT] = 1.0, 1.0
    log = replay_once(agent, task, replace(settings, backups=4), 4, np.random.default_rng(0))
    assert log["state"].tolist() == [3, 2, 1, 0]
    assert log["action"].tolist() == [RIGHT] * 4
    assert agent.Q[:, RIGHT].tolist() == pytest.approx([0.9**4, 0.9**3, 0.81, 0.9, 1.0, 0.0])
    assert log["length"].tolist() == [1, 1, 1, 1]


def test_floor_chains_run_forward_from_the_agent() -> None:
    """All values are right, so only the floor is left: the chain follows need and greed."""
    task, settings = corridor(6), replace(EVB["published"], backups=5)
    agent = new_agent(task, settings)
    agent.reward[4, RIGHT] = 1.0
    agent.T[:] = 0.0
    for s in range(5):
        agent.Q[s] = (0.0, 0.9 ** (4 - s))
        agent.T[s, s + 1] = 1.0
    for s in range(5):
        agent.Q[s, LEFT] = 0.9 * agent.Q[max(s - 1, 0), RIGHT]
    agent.T[5, 0] = 1.0
    log = replay_once(agent, task, settings, 0, np.random.default_rng(3))
    forward = log[log["action"] == RIGHT]
    assert log["length"][-1] > 1
    assert np.all(np.diff(log["state"][log["length"] > 1]) == 1)
    np.testing.assert_allclose(log["gain"], 1e-10 * log["length"], rtol=1e-9)
    none = replay_once(agent, task, replace(settings, floor="none"), 0, np.random.default_rng(3))
    assert len(none) == 0
    assert len(forward) >= 4


def test_equal_evb_prefers_the_shortest_chain_then_any_pair() -> None:
    # With the floor on the sum and need 1, a redundant chain is worth what one step is worth.
    settings = replace(EVB["published"], need="one", floor="sum", backups=3)
    task, seconds = corridor(5), []
    for seed in range(300):
        agent = new_agent(task, settings)
        log = replay_once(agent, task, settings, 0, np.random.default_rng(seed))
        assert log["length"].tolist() == [1, 1, 1]
        seconds.append(2 * log["state"][1] + log["action"][1])
    counts = np.bincount(seconds, minlength=8)
    assert counts[0] == 0, "a bump is no candidate"
    assert counts[1:].min() > 20


def test_gain_and_need_of_one_are_dyna() -> None:
    """Single pairs in random order, whatever they are worth, chains offered or not."""
    task, settings = corridor(5), replace(dyna(EVB["published"]), backups=20)
    agent = new_agent(task, settings)
    agent.reward[3, RIGHT] = 1.0
    other = deepcopy(agent)
    log = replay_once(agent, task, settings, 0, np.random.default_rng(1))
    assert log["length"].tolist() == [1] * 20
    # By hand: the same pairs in the same order, each a Q-learning update.
    for s, a in zip(log["state"], log["action"], strict=True):
        target = other.reward[s, a] + 0.9 * other.Q[other.outcome[s, a]].max()
        other.Q[s, a] = target
    np.testing.assert_allclose(agent.Q, other.Q, rtol=1e-12)
    drawn: list[int] = []
    for seed in range(200):
        log = replay_once(agent, task, settings, 0, np.random.default_rng(seed))
        drawn += (2 * log["state"] + log["action"]).tolist()
    counts = np.bincount(drawn, minlength=8)[1:]
    assert abs(counts / counts.sum() - 1 / 7).max() < 0.02


def test_nothing_is_replayed_without_need_or_backups() -> None:
    task = corridor(4)
    for settings in (replace(EVB["published"], need="zero"), EVBSettings(backups=0)):
        agent = new_agent(task, settings)
        assert len(replay_once(agent, task, settings, 0, np.random.default_rng(0))) == 0


def values_of(policy: FloatArray, task: TabularWorld) -> tuple[Any, Any, Any]:
    """V, Q and M of a policy, exactly; episodes end at the goal."""
    T = np.zeros((task.n_states, task.n_states))
    rewards = np.where(task.goal[task.next_state] >= 0, 1.0, 0.0) * task.acts[:, np.newaxis]
    for s in np.flatnonzero(task.acts):
        for a in range(task.n_actions):
            T[s, task.next_state[s, a]] += policy[s, a]
    M = np.linalg.inv(np.eye(task.n_states) - 0.9 * T)
    V = M @ (policy * rewards).sum(axis=1)
    Q = (rewards + 0.9 * V[task.next_state]) * task.acts[:, np.newaxis]
    return V, Q, M


def softmax_rows(Q: FloatArray) -> FloatArray:
    return np.stack([probabilities(row, 5.0) for row in Q])


def test_evb_is_the_change_of_the_expected_return_if_the_new_values_are_true() -> None:
    """V' - V = M_π(s, x) Σ_a (π' - π) q_π'(x, a), if the policy changes in x alone."""
    task, x = corridor(3), 1
    policy = softmax_rows(np.zeros((3, 2)))
    for _ in range(200):
        # The fixed point: in x, the new policy is the softmax of its own true values.
        _, Q, _ = values_of(policy, task)
        policy[x] = probabilities(Q[x], 5.0)
    after_values, Q, _ = values_of(policy, task)
    old = Q[x].copy()
    old[RIGHT] = 0.2
    before = policy.copy()
    before[x] = probabilities(old, 5.0)
    before_values, _, M = values_of(before, task)
    settings = replace(EVB["published"], need="given", floor="none")
    agent = new_agent(task, settings, M)
    agent.Q[x], agent.reward[x, RIGHT] = old, 1.0
    gain = backup_gain(agent, rule_of(settings), chain_of((x, RIGHT)), 1)
    for s in (0, 1):
        evb = need_of(agent, rule_of(settings), s)[x] * gain
        assert evb == pytest.approx(after_values[s] - before_values[s], rel=1e-9)
        assert evb > 0.01


def test_evb_is_the_change_of_the_expected_return_to_first_order() -> None:
    """Where the backup moves true values to untrue ones, EVB misses only the square of the step."""
    task, x = corridor(4), 1
    Q = np.zeros((4, 2))
    for _ in range(500):
        _, Q, _ = values_of(softmax_rows(Q), task)
    before, _, M = values_of(softmax_rows(Q), task)
    misses = []
    for step in (0.02, 0.01, 0.005):
        new = Q.copy()
        new[x, RIGHT] += step
        after, _, _ = values_of(softmax_rows(new), task)
        evb = M[0, x] * policy_gain(Q[x], RIGHT, new[x, RIGHT], 5.0)
        assert evb == pytest.approx(after[0] - before[0], rel=0.5)
        misses.append(abs(evb - (after[0] - before[0])))
    assert misses[1] < misses[0] / 3.5
    assert misses[2] < misses[1] / 3.5
