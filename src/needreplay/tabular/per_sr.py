"""Vanilla PER-SR in a world whose memory is filled beforehand: one trial, until Q is right.

Yuan & Mattar, section 4.2, appendix B.2 and Algorithm 2. The agent walks only to say where it is
and to learn M; what it replays comes from the memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from needreplay.core.checks import COUNT, check_number
from needreplay.core.errors import unknown
from needreplay.core.jit import compiled_in_place
from needreplay.core.rng import stream
from needreplay.core.types import FloatArray, TransitionTable
from needreplay.tabular.choose import epsilon_greedy, largest_q
from needreplay.tabular.cliffwalk_settings import METHODS, CliffwalkSettings, Method
from needreplay.tabular.cliffwalk_truth import refuse_another_world
from needreplay.tabular.dense_successor import largest_entry, learn_dense
from needreplay.tabular.per_sr_layout import (
    AT_REST,
    BY_GAIN,
    CONVERGED,
    DIVERGED,
    EPISODE,
    GOALS,
    LEARNED,
    NEED_READ,
    NEGATIVE_ROWS,
    NO_NEED,
    OVERFLOWED,
    REPLAYED,
    RETURN,
    SOUND,
    STEPS,
    Replayer,
    Rule,
    new_replayer,
    rule_of,
)
from needreplay.tabular.per_sr_replay import read_need, replay


@dataclass(frozen=True)
class Trial:
    """How one trial went."""

    updates: int
    """transitions replayed until Q was right, or until the trial was given up: its budget was
    spent, M or Q overflowed, or a greedy draw came to rest at a Q that is not right"""
    converged: bool
    """whether Q was right within the budget"""
    diverged: bool
    """whether M or Q overflowed, which ends the trial"""
    transitions: int
    """of the memory"""
    budget: int
    """updates after which the trial would have been given up"""
    steps: int
    """steps in the world"""
    goals: int
    """how often the goal was reached"""
    largest_entry: float
    """the largest absolute entry that M ever had; 0 where the method has no M"""
    negative_rows: float
    """the share of need rows read that had a negative entry"""
    by_gain: int
    """draws by gain alone, because all need was 0"""
    q: FloatArray
    """[state, action]: Q at the end, without the goal's"""
    M: FloatArray
    """the successor matrix at the end"""


def run_trial(
    table: TransitionTable,
    settings: CliffwalkSettings,
    method: Method,
    *,
    seed: int = 0,
    trial: int = 0,
) -> Trial:
    """Run one method in a Blind Cliffwalk until it has converged or its budget is spent.

    The walk, the draws and the start of Q have streams of their own, the same for every method:
    with ``need_alpha=0``, ``need`` makes the very draws of ``per``.

    Args:
        table: of ``worlds.cliffwalk.cliffwalk_table``, with the settings' own fall and
            actions; another is refused.
        settings: see ``cliffwalk_preset``.
        method: one of ``METHODS``.
        seed: every random number follows from it, the number of states and ``trial``.
        trial: the number of the repetition.
    """
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    check_number("seed", seed, int, COUNT)
    check_number("trial", trial, int, COUNT)
    refuse_another_world(table, settings)
    n = table.n_states - 1
    names = ("cliffwalk", n, trial)
    agent = new_replayer(table, settings, method, stream(seed, *names, "start"))
    rule = rule_of(settings, method, n, len(agent.slot_pair))
    walk, draws = stream(seed, *names, "walk"), stream(seed, *names, "draws")
    with np.errstate(over="ignore", invalid="ignore"):
        run_until_right(agent, rule, int(table.start), walk, draws)
    counts = agent.counts
    return Trial(
        updates=int(counts[REPLAYED]),
        converged=bool(counts[CONVERGED]),
        diverged=bool(counts[DIVERGED]),
        transitions=len(agent.slot_pair),
        budget=rule.budget,
        steps=int(counts[STEPS]),
        goals=int(counts[GOALS]),
        largest_entry=float(agent.largest[0]),
        negative_rows=float(counts[NEGATIVE_ROWS] / max(1, counts[NEED_READ])),
        by_gain=int(counts[BY_GAIN]),
        q=agent.pairs["q"][: n * table.n_actions].reshape(n, table.n_actions).copy(),
        M=agent.M,
    )


@compiled_in_place
def is_right(agent: Replayer, threshold: float) -> bool:
    """Σ judged (q − Q*)² < threshold."""
    error = 0.0
    for pair in range(agent.truth.shape[0]):
        if not error < threshold:
            break
        off = agent.pairs[pair]["q"] - agent.truth[pair]
        error += agent.judged[pair] * off * off
    return error < threshold


@compiled_in_place
def step_in_world(agent: Replayer, rule: Rule, state: int, uniform: float) -> int:
    """An epsilon-greedy action, as a pair; M learns from where it leads. Writes ``agent``."""
    pairs = agent.pairs
    value = largest_q(pairs, rule.n_actions, state)
    action = epsilon_greedy(pairs, rule.n_actions, state, value, rule.epsilon, uniform)
    pair = state * rule.n_actions + action
    if rule.need == LEARNED:
        learn_dense(
            agent.M, agent.trace, agent.error, state, pairs[pair]["next_state"],
            not agent.ends[pair], agent.counted[pair],
            rule.successor_discount, rule.trace_decay, rule.successor_step_size,
        )  # fmt: skip
        largest = largest_entry(agent.M)
        if not largest <= agent.largest[0]:
            agent.largest[0] = largest
    agent.counts[STEPS] += 1
    return pair


@compiled_in_place
def run_until_right(
    agent: Replayer,
    rule: Rule,
    start: int,
    walk: np.random.Generator,
    draws: np.random.Generator,
) -> None:
    """Walk and replay until Q is right, M or Q overflows, nothing moves, or the budget is spent.

    Writes ``agent``; ``agent.counts`` says how it ended.
    """
    counts, trace = agent.counts, agent.trace
    agent.largest[0] = largest_entry(agent.M) if rule.need != NO_NEED else 0.0
    state = start
    while counts[REPLAYED] < rule.budget:
        pair = step_in_world(agent, rule, state, walk.random())
        if not np.isfinite(agent.largest[0]):
            counts[DIVERGED] = 1
            break
        at_goal = agent.ends[pair] and agent.counted[pair]
        arrival = start if agent.ends[pair] else agent.pairs[pair]["next_state"]
        if (rule.trace_reset == EPISODE and agent.ends[pair]) or (
            rule.trace_reset == RETURN and arrival == start
        ):
            for row in range(trace.shape[0]):
                trace[row] = 0.0
        if at_goal:
            counts[GOALS] += 1
            if rule.test_at_goal and is_right(agent, rule.threshold):
                counts[CONVERGED] = 1
                break
        if counts[STEPS] % rule.replay_period == 0:
            went = SOUND
            if rule.need != NO_NEED and not read_need(
                agent, rule, arrival if rule.need_after else state
            ):
                went = OVERFLOWED
            if went == SOUND:
                went = replay(agent, rule, draws)
            if went == OVERFLOWED:
                counts[DIVERGED] = 1
                break
            right = (went == AT_REST or not rule.test_at_goal) and is_right(agent, rule.threshold)
            if right and not rule.test_at_goal:
                counts[CONVERGED] = 1
                break
            if went == AT_REST and not right:
                break
        state = arrival
