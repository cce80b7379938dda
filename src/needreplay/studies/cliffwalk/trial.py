"""One trial of vanilla PER-SR with a buffer that is filled beforehand, until Q is right.

Yuan & Mattar, section 4.2, appendix B.2 and Algorithm 2. The agent acts only to have a current
state and to learn M; what it replays comes from the buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from needreplay.core.checks import COUNT, check_number
from needreplay.core.errors import unknown
from needreplay.core.jit import compiled_in_place
from needreplay.core.rng import stream
from needreplay.core.types import FloatArray, TransitionTable
from needreplay.replay.samplers.state_tree import empty_tree, tree_of
from needreplay.rules import successor
from needreplay.studies.cliffwalk.rank_order import rank_order
from needreplay.studies.cliffwalk.replay import (
    AT_REST,
    BY_GAIN,
    BY_SCORE,
    CONTINUE,
    CONVERGED,
    DIVERGED,
    GOALS,
    GREEDY,
    KINDS,
    LEARNED,
    NEED_READ,
    NEGATIVE_ROWS,
    NO_NEED,
    OVERFLOWED,
    RANKED,
    REPLAYED,
    STEPS,
    CliffwalkAgent,
    parameters_of,
    read_need,
    replay,
)
from needreplay.studies.cliffwalk.settings import (
    AFTER,
    AT_GOAL,
    EPISODE,
    METHODS,
    RETURN,
    CliffwalkSettings,
    Method,
)
from needreplay.studies.cliffwalk.task import (
    check_world,
    filled_buffer,
    initial_matrix,
    right_actions,
    task_discount,
    true_values,
)
from needreplay.tabular.arrays import PAIR
from needreplay.tabular.dyna import epsilon_greedy, largest_q

td_lambda = compiled_in_place(successor.td_lambda)
clear_trace = compiled_in_place(successor.clear_trace)


@dataclass(frozen=True)
class CliffwalkResult:
    """How one trial went."""

    updates: int
    """transitions replayed until Q was right, or until the trial stopped: its budget was spent, M
    or Q overflowed, or greedy sampling came to rest at a Q that is not right"""
    converged: bool
    """whether Q was right within the budget"""
    diverged: bool
    """whether M or Q overflowed, which ends the trial"""
    transitions: int
    """of the buffer"""
    budget: int
    """updates after which the trial stops"""
    steps: int
    """steps in the world"""
    goals: int
    """how often the goal was reached"""
    largest_entry: float
    """the largest absolute entry that M ever had; 0 where the method has no M"""
    negative_rows: float
    """the share of need rows read that had a negative entry"""
    by_gain: int
    """samples by gain alone, because all need was 0"""
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
) -> CliffwalkResult:
    """Run one method in a Blind Cliffwalk until it has converged or its budget is spent.

    The walk, the samples and the initial Q have streams of their own, the same for every method:
    with ``need_alpha=0``, ``need`` takes the very samples of ``per``.

    Args:
        table: of ``worlds.cliffwalk.cliffwalk_table``, with the settings' own fall and actions;
            another is refused.
        settings: see ``cliffwalk_preset``.
        method: one of ``METHODS``.
        seed: every random number follows from it, the number of states and ``trial``.
        trial: the number of the repetition.
    """
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    check_number("seed", seed, int, COUNT)
    check_number("trial", trial, int, COUNT)
    check_world(table, settings)
    n = table.n_states - 1
    names = ("cliffwalk", n, trial)
    agent = new_agent(table, settings, method, stream(seed, *names, "start"))
    parameters = parameters_of(settings, method, n, len(agent.slot_pair))
    walk, draws = stream(seed, *names, "walk"), stream(seed, *names, "draws")
    with np.errstate(over="ignore", invalid="ignore"):
        _run_until_right(agent, parameters, int(table.start), walk, draws)
    counts = agent.counts
    return CliffwalkResult(
        updates=int(counts[REPLAYED]),
        converged=bool(counts[CONVERGED]),
        diverged=bool(counts[DIVERGED]),
        transitions=len(agent.slot_pair),
        budget=parameters.budget,
        steps=int(counts[STEPS]),
        goals=int(counts[GOALS]),
        largest_entry=float(agent.largest[0]),
        negative_rows=float(counts[NEGATIVE_ROWS] / max(1, counts[NEED_READ])),
        by_gain=int(counts[BY_GAIN]),
        q=agent.pairs["q"][: 2 * n].reshape(n, 2).copy(),
        M=agent.M,
    )


def new_agent(
    table: TransitionTable, settings: CliffwalkSettings, method: Method, rng: np.random.Generator
) -> CliffwalkAgent:
    """An agent whose buffer is filled and who has learned nothing.

    ``rng`` gives the initial Q and, where gains are ranked, the order of equal gains.
    """
    n = table.n_states - 1
    n_pairs = 2 * n
    slot_pair, before = filled_buffer(table, n, until_fall=settings.strings == "until_fall")
    size = len(slot_pair)
    discount = task_discount(settings, n)
    right = np.zeros((n, 2), np.bool_)
    right[np.arange(n), right_actions(table)] = True
    ends = table.ends[:n].ravel()
    pairs = np.zeros(n_pairs + 2, PAIR)
    pairs["state"] = np.repeat(np.arange(n + 1), 2)
    pairs["next_state"] = table.next_state.ravel()
    pairs["reward"] = table.reward_mean.ravel()
    pairs["discount"][:n_pairs] = np.where(ends, 0.0, discount)
    pairs["q"][:n_pairs] = settings.q_start_std * rng.standard_normal(n_pairs)
    all_q = settings.judged == "mean_of_all"
    states = slot_pair.astype(np.int64) // 2
    sampler = KINDS[method].sampler
    gain = np.full(size, float(settings.start_priority))
    return CliffwalkAgent(
        pairs=pairs,
        ends=ends,
        counted=~ends | (table.next_state[:n].ravel() == n),
        right=right.ravel(),
        truth=true_values(table, discount)[:n].ravel(),
        error_weight=np.full(n_pairs, 1.0 / n_pairs) if all_q else right.ravel().astype(float),
        slot_pair=slot_pair,
        before=before,
        gain=gain if method == "pser" else np.zeros(0),
        tree=(
            tree_of(states, gain, n + 1, settings.alpha)
            if sampler == BY_SCORE
            else empty_tree(0, n + 1)
        ),
        order=rank_order(
            rng.permutation(size if sampler in (RANKED, GREEDY) else 0),
            float(settings.start_priority),
            settings.rank_exponent if sampler == RANKED else None,
        ),
        M=initial_matrix(settings, method, table, discount),
        trace=np.zeros(n + 1),
        active=np.zeros(n + 2, np.int64),
        error=np.zeros(n + 1),
        need=np.ones(n + 1),
        scores=np.zeros(n + 2),
        best=np.zeros(n, np.int64),
        system=np.zeros((n + 1, n + 1)),
        batch_pair=np.zeros(settings.minibatch, np.int64),
        batch_step=np.zeros(settings.minibatch),
        batch_probability=np.ones(settings.minibatch),
        counts=np.zeros(8, np.int64),
        largest=np.zeros(1),
    )


@compiled_in_place
def _run_until_right(
    agent: CliffwalkAgent,
    p: Any,
    start: int,
    walk: np.random.Generator,
    draws: np.random.Generator,
) -> None:
    """Act and replay until Q is right, M or Q overflows, nothing moves, or the budget is spent.

    Changes ``agent``; ``agent.counts`` says how it ended.
    """
    counts = agent.counts
    agent.largest[0] = _largest_entry(agent.M) if p.need != NO_NEED else 0.0
    state = start
    while counts[REPLAYED] < p.budget:
        pair = _act(agent, p, state, walk.random())
        if not np.isfinite(agent.largest[0]):
            counts[DIVERGED] = 1
            break
        arrival = start if agent.ends[pair] else agent.pairs[pair]["next_state"]
        if (p.trace_reset == EPISODE and agent.ends[pair]) or (
            p.trace_reset == RETURN and arrival == start
        ):
            clear_trace(agent.trace, agent.active)
        if agent.ends[pair] and agent.counted[pair]:
            counts[GOALS] += 1
            if p.tested == AT_GOAL and _is_right(agent, p.threshold):
                counts[CONVERGED] = 1
                break
        if counts[STEPS] % p.replay_period == 0:
            went = CONTINUE
            if p.need != NO_NEED and not read_need(
                agent, p, arrival if p.need_from == AFTER else state
            ):
                went = OVERFLOWED
            if went == CONTINUE:
                went = replay(agent, p, draws)
            if went == OVERFLOWED:
                counts[DIVERGED] = 1
                break
            right = (went == AT_REST or p.tested != AT_GOAL) and _is_right(agent, p.threshold)
            if right and p.tested != AT_GOAL:
                counts[CONVERGED] = 1
                break
            if went == AT_REST and not right:
                break
        state = arrival


@compiled_in_place
def _act(agent: CliffwalkAgent, p: Any, state: int, uniform: float) -> int:
    """An epsilon-greedy action, as a pair; M learns from where it leads. Changes ``agent``."""
    pairs = agent.pairs
    value = largest_q(pairs, 2, state)
    pair = 2 * state + epsilon_greedy(pairs, 2, state, value, p.epsilon, uniform)
    if p.need == LEARNED:
        td_lambda(
            agent.M, agent.trace, agent.active, agent.error, state, pairs[pair]["next_state"],
            agent.ends[pair], agent.counted[pair],
            p.successor_discount, p.trace_decay, p.successor_step_size, 0.0,
        )  # fmt: skip
        largest = _largest_entry(agent.M)
        if not largest <= agent.largest[0]:
            agent.largest[0] = largest
    agent.counts[STEPS] += 1
    return pair


@compiled_in_place
def _largest_entry(M: FloatArray) -> float:
    """The largest |M[i, j]|."""
    largest = 0.0
    for row in range(M.shape[0]):
        for column in range(M.shape[1]):
            size = abs(M[row, column])
            largest = size if size > largest else largest
    return largest


@compiled_in_place
def _is_right(agent: CliffwalkAgent, threshold: float) -> bool:
    """Σ weight (q − Q*)² < threshold."""
    error = 0.0
    for pair in range(agent.truth.shape[0]):
        if not error < threshold:
            break
        off = agent.pairs[pair]["q"] - agent.truth[pair]
        error += agent.error_weight[pair] * off * off
    return error < threshold
