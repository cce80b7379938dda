"""What vanilla PER-SR knows, as arrays that compiled kernels write in place."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from needreplay.core.types import BoolArray, FloatArray, IntArray, TransitionTable
from needreplay.replay.samplers.state_tree import GroupedTree, empty_tree, tree_of
from needreplay.tabular.cliffwalk_settings import CliffwalkSettings, Method
from needreplay.tabular.cliffwalk_truth import (
    right_actions,
    start_matrix,
    task_discount,
    true_values,
)
from needreplay.tabular.exhaustive_memory import exhaustive_memory
from needreplay.tabular.layout import PAIR, Records
from needreplay.tabular.rank_order import RankOrder, rank_order

UNIFORM, GROUPED, RANKED, ORACLE = range(4)
"""How a transition is chosen."""
NO_NEED, FIXED, LEARNED, GREEDY_NOW = range(4)
"""Where need comes from."""
ORACLE_PAIR, ORACLE_GLOBAL, ORACLE_RIGHT = range(3)
NEVER, EPISODE, RETURN = range(3)
SOUND, OVERFLOWED, AT_REST = range(3)
"""How a replay went: as it should; Q overflowed; a greedy draw that changed nothing at all."""
REPLAYED, CONVERGED, DIVERGED, STEPS, GOALS, NEGATIVE_ROWS, NEED_READ, BY_GAIN = range(8)
"""Places in ``counts``: transitions replayed, how the trial ended, steps in the world, goals
reached, need rows read with a negative entry, need rows read, draws by gain alone because all need
was 0."""


class Rule(NamedTuple):
    """``CliffwalkSettings`` and a method as numbers, for kernels."""

    draw: int
    need: int
    backward: bool
    magnitude: bool
    raw_need: bool
    pser: bool
    oracle: int
    n_actions: int
    discount: float
    step_size: float
    alpha: float
    need_alpha: float
    minibatch: int
    mean_of_batch: bool
    replay_period: int
    target_period: int
    priority_floor: float
    beta: float
    beta_end: float
    beta_updates: int
    weigh_gain_alone: bool
    need_after: bool
    epsilon: float
    trace_decay: float
    successor_step_size: float
    successor_discount: float
    trace_reset: int
    shift: bool
    threshold: float
    test_at_goal: bool
    pser_decay: float
    pser_window: int
    pser_retained: float
    largest_step: float
    budget: int


class Replayer(NamedTuple):
    """The world as pairs, the memory, and all that the agent learns."""

    pairs: Records
    """[pair]: Q, and the outcome that the memory holds of it"""
    ends: BoolArray
    """[pair]: whether the episode ends there"""
    counted: BoolArray
    """[pair]: whether the arrival counts as a visit (it does not after a fall that ends)"""
    right: BoolArray
    """[pair]: whether it leads on"""
    truth: FloatArray
    """[pair]: Q*"""
    judged: FloatArray
    """[pair]: what its squared error counts for"""
    target: FloatArray
    """[pair]: the target copy of Q; empty: Q is its own target"""
    slot_pair: npt.NDArray[np.int16]
    """[slot]: its pair"""
    before: npt.NDArray[np.int32]
    """[slot]: the slot lived just before it in its string; -1: none"""
    gain: FloatArray
    """[slot]: its raw gain, where PSER needs it; else empty"""
    tree: GroupedTree
    """gain^α of all slots, grouped by state"""
    order: RankOrder
    """all slots by gain, where ranks are drawn; else empty"""
    M: FloatArray
    trace: FloatArray
    error: FloatArray
    """room for one row of M's TD-errors"""
    need: FloatArray
    """[state]: the present need"""
    scores: FloatArray
    """room for the grouped draw"""
    best: IntArray
    """[state but the goal]: the set of greedy actions that M was computed for; 0: none yet"""
    system: FloatArray
    """room for M's linear system"""
    batch_pair: IntArray
    batch_step: FloatArray
    """[of the minibatch]: δ, times need where need scales the update"""
    batch_probability: FloatArray
    """[of the minibatch]: P(j), which weights correct for"""
    counts: IntArray
    largest: FloatArray
    """[0]: the largest absolute entry that M ever had"""


def rule_of(settings: CliffwalkSettings, method: Method, n: int, memory: int) -> Rule:
    """The numbers that kernels read, for ``n`` states and a memory of ``memory`` transitions."""
    discount = task_discount(settings, n)
    successor_discount = settings.successor_discount
    learned = method in ("need", "need-backward", "need-magnitude")
    fixed = method == "need-random" or (
        method == "need-optimal" and settings.optimal_need != "greedy"
    )
    need = GREEDY_NOW if method == "need-optimal" else NO_NEED
    draws = {"uniform": UNIFORM, "oracle": ORACLE, "rank": RANKED, "gain": RANKED}
    return Rule(
        draw=draws.get(method, GROUPED),
        need=LEARNED if learned else FIXED if fixed else need,
        backward=method == "need-backward",
        magnitude=method == "need-magnitude",
        raw_need=settings.need_scale == "raw",
        pser=method == "pser",
        oracle={"pair": ORACLE_PAIR, "global": ORACLE_GLOBAL, "right": ORACLE_RIGHT}[
            settings.oracle
        ],
        n_actions=2,
        discount=discount,
        step_size=float(settings.step_size),
        alpha=float(settings.alpha),
        need_alpha=float(settings.need_alpha),
        minibatch=int(settings.minibatch),
        mean_of_batch=settings.batch_step == "mean",
        replay_period=int(settings.replay_period),
        target_period=int(settings.target_period),
        priority_floor=float(settings.priority_floor),
        beta=float(settings.beta),
        beta_end=float(settings.beta_end),
        beta_updates=int(settings.beta_updates),
        weigh_gain_alone=settings.weights_correct == "gain",
        need_after=settings.need_from == "after",
        epsilon=float(settings.epsilon),
        trace_decay=float(settings.trace_decay),
        successor_step_size=float(settings.successor_step_size),
        successor_discount=discount if math.isnan(successor_discount) else successor_discount,
        trace_reset={"never": NEVER, "episode": EPISODE, "return": RETURN}[settings.trace_reset],
        shift=settings.negative_need == "shift",
        threshold=float(settings.threshold),
        test_at_goal=settings.tested == "goal",
        pser_decay=float(settings.pser_decay),
        pser_window=int(settings.pser_window),
        pser_retained=float(settings.pser_retained),
        largest_step=float(settings.largest_step),
        budget=max(int(settings.least_budget), int(settings.budget_per_transition) * memory),
    )


def new_replayer(
    table: TransitionTable, settings: CliffwalkSettings, method: Method, rng: np.random.Generator
) -> Replayer:
    """An agent whose memory is filled and who has learned nothing.

    ``rng`` draws Q's start and, where gains are ranked, the order of equal gains.
    """
    n = table.n_states - 1
    n_pairs = n * table.n_actions
    slot_pair, before = exhaustive_memory(table, n, until_fall=settings.strings == "until_fall")
    size = len(slot_pair)
    discount = task_discount(settings, n)
    right = np.zeros((n, table.n_actions), np.bool_)
    right[np.arange(n), right_actions(table)] = True
    ends = table.ends[:n].ravel()
    pairs = np.zeros(n_pairs + table.n_actions, PAIR)
    pairs["state"] = np.repeat(np.arange(n + 1), table.n_actions)
    pairs["next_state"] = table.next_state.ravel()
    pairs["reward"] = table.reward_mean.ravel()
    pairs["discount"][:n_pairs] = np.where(ends, 0.0, discount)
    pairs["q"][:n_pairs] = settings.q_start_std * rng.standard_normal(n_pairs)
    all_q = settings.judged == "mean_of_all"
    states = slot_pair.astype(np.int64) // table.n_actions
    grouped = rule_of(settings, method, n, size).draw == GROUPED
    ranked = method in ("rank", "gain")
    gain = np.full(size, float(settings.start_priority))
    return Replayer(
        pairs=pairs,
        ends=ends,
        counted=~ends | (table.next_state[:n].ravel() == n),
        right=right.ravel(),
        truth=true_values(table, discount)[:n].ravel(),
        judged=np.full(n_pairs, 1.0 / n_pairs) if all_q else right.ravel().astype(np.float64),
        target=pairs["q"].copy() if settings.target_period else np.zeros(0),
        slot_pair=slot_pair,
        before=before,
        gain=gain if method == "pser" else np.zeros(0),
        tree=(tree_of(states, gain, n + 1, settings.alpha) if grouped else empty_tree(0, n + 1)),
        order=rank_order(
            rng.permutation(size if ranked else 0),
            float(settings.start_priority),
            settings.rank_exponent if method == "rank" else None,
        ),
        M=np.ascontiguousarray(start_matrix(settings, method, table, discount)),
        trace=np.zeros(n + 1),
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
