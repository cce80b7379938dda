"""One replay of the EVB agent: candidates, gain, the best product with need, the update.

The agent remembers the latest outcome of every state and action. Each backup is the candidate with
the largest EVB = need x gain: every remembered move as a one-step backup, and the backup just made
with one more greedy step. A backup updates all pairs of its chain.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from needlab.core.equations import absolute_gain, combine, moved_towards
from needlab.core.jit import jit
from needlab.tabular.evb.settings import EVBSettings
from needlab.tabular.settings import numbers_of
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray

Records: TypeAlias = AnyArray
Rng: TypeAlias = np.random.Generator

BACKUP = np.dtype(
    [
        ("pause", np.int64),
        ("order", np.int64),
        ("state", np.int64),
        ("action", np.int64),
        ("gain", np.float64),
        ("need", np.float64),
        ("length", np.int64),
    ]
)
"""A backup in the log: the pair that it updates last, the sum of gains and the need that made its
EVB, and how many pairs its chain has."""

SOFTMAX, EPSILON_GREEDY = range(2)
POLICY_GAIN, TD_GAIN, ONE_GAIN = range(3)
PER_ELEMENT, ON_SUM, NO_FLOOR = range(3)
AFTER_FIRST_STEP, BEFORE_FIRST_STEP, NOT_AT_START = range(3)
FROM_LAST_CELL, AT_GOAL, NOT_AT_END = range(3)
(
    ONLINE_NEED,
    POLICY_NEED,
    GIVEN_NEED,
    STATIONARY_NEED,
    FIRST_EIGENVECTOR_NEED,
    ONE_NEED,
    ZERO_NEED,
) = range(7)


class Rule(NamedTuple):
    """The settings as numbers, for kernels; a choice is its place in its list."""

    discount: float
    step_size: float
    inverse_temperature: float
    behavior: int
    epsilon: float
    gain: int
    need: int
    extend_chains: bool
    floor: int
    floor_size: float
    threshold: float
    transition_rate: float
    start_replay: int
    end_replay: int
    replay_every_step: bool
    backups: int
    powers: FloatArray
    """discount ** k: rewards of a chain are summed with these, since nested products would break
    ties of greedy actions in the last bit"""


class Agent(NamedTuple):
    """What the agent knows. Writing into the arrays teaches it."""

    Q: FloatArray
    """[state, action]"""
    reward: FloatArray
    """[state, action]: the latest"""
    outcome: IntArray
    """[state, action]: the latest next state; -1: never tried"""
    T: FloatArray
    """[state, state]: learned transition frequencies; a goal's row leads to the next start"""
    given: FloatArray
    """[state, state]: the successor matrix of need "given", else empty"""
    returns: FloatArray
    """[state, state]: where goals lead, exactly; used by need "policy" """


def rule_of(settings: EVBSettings) -> Rule:
    """Settings as numbers."""
    powers = np.array([float(settings.discount) ** k for k in range(settings.backups + 2)])
    return Rule(**numbers_of(settings), powers=powers)


@jit
def largest(values: FloatArray) -> float:
    """max_a Q(s, a)."""
    best = values[0]
    for value in values:
        best = value if value > best else best
    return float(best)


@jit
def greedy_action(values: FloatArray, rng: Rng) -> int:
    """One of the best actions, drawn uniformly among exact equals."""
    best = largest(values)
    ties = 0
    for value in values:
        ties += value == best
    wanted = int(rng.random() * ties) if ties > 1 else 0
    for action in range(values.size):
        if values[action] == best:
            if wanted == 0:
                return action
            wanted -= 1
    return 0


@jit
def softmax(values: FloatArray, beta: float, out: FloatArray) -> None:
    """π(a) = exp(β Q(a)) / sum exp(β Q), into ``out``."""
    best, total = largest(values), 0.0
    for action in range(values.size):
        out[action] = np.exp(beta * (values[action] - best))
        total += out[action]
    for action in range(values.size):
        out[action] /= total


@jit
def policy_gain(values: FloatArray, action: int, updated: float, beta: float) -> float:
    """sum π'(a) q'(a) - sum π(a) q'(a): what the policy gains if Q(s, action) becomes ``updated``.

    π and π' are the softmax policies before and after, q' the values after.
    """
    if updated == values[action]:
        return 0.0
    shift = max(largest(values), updated)
    weights, weighted = 0.0, 0.0
    for a in range(values.size):
        if a != action:
            weight = np.exp(beta * (values[a] - shift))
            weights += weight
            weighted += weight * values[a]
    old, new = np.exp(beta * (values[action] - shift)), np.exp(beta * (updated - shift))
    before = (weighted + old * updated) / (weights + old)
    after = (weighted + new * updated) / (weights + new)
    return float(after - before)


@jit
def element_gain(agent: Agent, rule: Rule, state: int, action: int, target: float) -> float:
    """The gain of moving Q(s, a) towards ``target``."""
    error = target - agent.Q[state, action]
    if rule.gain == TD_GAIN:
        return float(absolute_gain(error))
    updated = moved_towards(agent.Q[state, action], rule.step_size, error)
    return policy_gain(agent.Q[state], action, updated, rule.inverse_temperature)


@jit
def chain_target(agent: Agent, rule: Rule, chain: IntArray, first: int, length: int) -> float:
    """Discounted rewards from element ``first`` to the end + γ^n max Q(final state).

    ``chain`` is [element, (state, action)]; elements follow each other.
    """
    total = 0.0
    for j in range(first, length):
        total += rule.powers[j - first] * agent.reward[chain[j, 0], chain[j, 1]]
    final = agent.outcome[chain[length - 1, 0], chain[length - 1, 1]]
    return float(total + rule.powers[length - first] * largest(agent.Q[final]))


@jit
def backup_gain(agent: Agent, rule: Rule, chain: IntArray, length: int) -> float:
    """The gain of a backup: the sum over its elements, each evaluated alone on the current Q."""
    if rule.gain == ONE_GAIN:
        return 1.0
    total = 0.0
    for j in range(length):
        target = chain_target(agent, rule, chain, j, length)
        gain = element_gain(agent, rule, chain[j, 0], chain[j, 1], target)
        total += max(gain, rule.floor_size) if rule.floor == PER_ELEMENT else gain
    return max(total, rule.floor_size) if rule.floor == ON_SUM else total


@jit
def run_backup(agent: Agent, rule: Rule, chain: IntArray, length: int) -> None:
    """Update every pair of the chain, first to last."""
    for j in range(length):
        s, a = chain[j, 0], chain[j, 1]
        error = chain_target(agent, rule, chain, j, length) - agent.Q[s, a]
        agent.Q[s, a] = moved_towards(agent.Q[s, a], rule.step_size, error)


@jit
def extend(agent: Agent, goal: IntArray, chain: IntArray, length: int, rng: Rng) -> bool:
    """Write the next greedy step behind the chain; False if it ends in a goal or would loop."""
    end = agent.outcome[chain[length - 1, 0], chain[length - 1, 1]]
    if goal[end] >= 0:
        return False
    action = greedy_action(agent.Q[end], rng)
    after = agent.outcome[end, action]
    if after < 0 or after == end:
        return False
    for j in range(length):
        if chain[j, 0] == after:
            return False
    chain[length, 0], chain[length, 1] = end, action
    return True


@jit
def best_single(
    agent: Agent,
    rule: Rule,
    need: FloatArray,
    evb: FloatArray,
    gains: FloatArray,
    changed: BoolArray,
    rng: Rng,
) -> int:
    """The one-step backup with the largest EVB, uniform among exact equals; -1: there is none.

    Gains are computed again only where Q of the state or of the next state has changed.
    """
    single = np.empty((1, 2), np.int64)
    states, actions = agent.Q.shape
    best, ties = -np.inf, 0
    for s in range(states):
        for a in range(actions):
            after = agent.outcome[s, a]
            if after < 0 or after == s:
                continue
            pair = s * actions + a
            if changed[s] or changed[after]:
                single[0, 0], single[0, 1] = s, a
                gains[pair] = backup_gain(agent, rule, single, 1)
                evb[pair] = combine(gains[pair], need[s])
            if evb[pair] > best:
                best, ties = evb[pair], 1
            elif evb[pair] == best:
                ties += 1
    wanted = int(rng.random() * ties) if ties > 1 else 0
    for pair in range(states * actions):
        after = agent.outcome[pair // actions, pair % actions]
        if after >= 0 and after != pair // actions and evb[pair] == best:
            if wanted == 0:
                return pair
            wanted -= 1
    return -1


@jit
def replay(
    agent: Agent, rule: Rule, goal: IntArray, need: FloatArray, pause: int, log: Records, rng: Rng
) -> int:
    """Run up to ``rule.backups`` backups with this need; write them to ``log``; how many ran.

    Equal EVB: the shorter chain wins, and among one-step backups a random one.
    """
    actions = agent.Q.shape[1]
    chain, length = np.empty((rule.backups + 1, 2), np.int64), 0
    evb, gains = np.empty(agent.Q.size), np.empty(agent.Q.size)
    changed = np.ones(agent.Q.shape[0], np.bool_)
    for order in range(rule.backups):
        pair = best_single(agent, rule, need, evb, gains, changed, rng)
        if pair < 0:
            return order
        best, gain = evb[pair], gains[pair]
        longer = False
        if rule.extend_chains and length > 0 and extend(agent, goal, chain, length, rng):
            chain_gain = backup_gain(agent, rule, chain, length + 1)
            chain_evb = combine(chain_gain, need[chain[length, 0]])
            if chain_evb > best:
                longer, best, gain = True, chain_evb, chain_gain
        if not best > rule.threshold:
            return order
        if longer:
            length += 1
        else:
            chain[0, 0], chain[0, 1], length = pair // actions, pair % actions, 1
        run_backup(agent, rule, chain, length)
        changed[:] = False
        for j in range(length):
            changed[chain[j, 0]] = True
        entry = log[order]
        entry["pause"], entry["order"] = pause, order
        entry["state"], entry["action"] = chain[length - 1, 0], chain[length - 1, 1]
        entry["gain"], entry["need"] = gain, need[chain[length - 1, 0]]
        entry["length"] = length
    return rule.backups
