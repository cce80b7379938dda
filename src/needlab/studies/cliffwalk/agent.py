"""Vanilla PER-SR (the paper's Algorithm 2) with a buffer that is filled beforehand.

Yuan & Mattar, section 4.2 and appendix B.2. The agent acts only to have a current state and to
learn M; what it replays comes from the buffer. A trial lasts until Q is right.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from needlab.core.equations import (
    absolute_gain,
    combine,
    importance_weight,
    moved_towards,
    power,
    pser_decayed,
    pser_priority,
    td_error,
    uniform_index,
)
from needlab.core.jit import compiled_in_place
from needlab.studies.cliffwalk.settings import (
    AFTER,
    AT_GOAL,
    EPISODE,
    FOR_GAIN,
    GREEDY_NOW,
    MEAN,
    METHODS,
    ORACLE_GLOBAL,
    ORACLE_PAIR,
    ORACLE_RIGHT,
    RETURN,
    SHIFT,
    CliffwalkSettings,
    Method,
)
from needlab.studies.cliffwalk.task import (
    RankOrder,
    check_world,
    filled_buffer,
    greedy_changed,
    greedy_occupancy,
    initial_matrix,
    move,
    place_above,
    rank_order,
    right_actions,
    task_discount,
    true_values,
)
from needlab.tabular.arrays import PAIR
from needlab.tabular.dyna import epsilon_greedy, largest_q
from needlab.tabular.settings import numbers_of
from needlab.tabular.state_tree import (
    BY_PRIORITY,
    OWN,
    TOTAL,
    GroupedTree,
    empty_tree,
    probability_of,
    sample_slot,
    score_states,
    set_power,
    tree_of,
)
from needlab.tabular.sweeping import clear_trace, copy_need, td_lambda
from needlab.worlds.tabular import TabularWorld
from needreplay._core.checks import COUNT, check_number
from needreplay._core.errors import unknown
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray

UNIFORM, BY_SCORE, RANKED, GREEDY, ORACLE = range(5)
"""How a transition is chosen."""
NO_NEED, FIXED, LEARNED, OPTIMAL = range(4)
"""Where need comes from."""
CONTINUE, OVERFLOWED, AT_REST = range(3)
"""What a replay returns: all is well; Q overflowed; a greedy sample that changed nothing at all."""
REPLAYED, CONVERGED, DIVERGED, STEPS, GOALS, NEGATIVE_ROWS, NEED_READ, BY_GAIN = range(8)
"""Places in ``counts``: transitions replayed, how the trial ended, steps in the world, goals
reached, need rows read with a negative entry, need rows read, samples by gain alone because all
need was 0."""

SHIFT_FLOOR = 1e-3
"""The smallest entry of a shifted row (the authors' code)."""
LARGEST_STEP = 1.0
"""A step that is scaled by need moves Q by this share of its error at most."""


class MethodKind(NamedTuple):
    """What a method does, as numbers."""

    sampler: int
    need: int = NO_NEED
    backward: bool = False
    """need is a column of M"""
    scaled: bool = False
    """need scales the step instead of the probability"""
    pser: bool = False


KINDS: dict[Method, MethodKind] = {
    "uniform": MethodKind(UNIFORM),
    "oracle": MethodKind(ORACLE),
    "per": MethodKind(BY_SCORE),
    "need": MethodKind(BY_SCORE, LEARNED),
    "need-random": MethodKind(BY_SCORE, FIXED),
    "need-optimal": MethodKind(BY_SCORE, OPTIMAL),
    "rank": MethodKind(RANKED),
    "pser": MethodKind(BY_SCORE, pser=True),
    "need-backward": MethodKind(BY_SCORE, LEARNED, backward=True),
    "need-magnitude": MethodKind(BY_SCORE, LEARNED, scaled=True),
    "gain": MethodKind(GREEDY),
}

_namedtuple: Any = namedtuple
_NUMBERS = (*numbers_of(CliffwalkSettings()), *MethodKind._fields)
Parameters = _namedtuple("Parameters", [*_NUMBERS, "discount", "budget"])
"""All that kernels read: the settings, the method, the task's γ and the trial's budget."""


def parameters_of(settings: CliffwalkSettings, method: Method, n: int, transitions: int) -> Any:
    """The numbers that kernels read, for ``n`` states and a buffer of ``transitions``."""
    numbers = numbers_of(settings)
    discount = task_discount(settings, n)
    if np.isnan(numbers["successor_discount"]):
        numbers["successor_discount"] = discount
    budget = max(numbers["least_budget"], numbers["budget_per_transition"] * transitions)
    return Parameters(**numbers, **KINDS[method]._asdict(), discount=discount, budget=budget)


class CliffwalkAgent(NamedTuple):
    """The world as pairs, the buffer, and all that the agent learns."""

    pairs: AnyArray
    """[pair]: Q, and the transition that the buffer holds of it"""
    ends: BoolArray
    """[pair]: whether the episode ends there"""
    counted: BoolArray
    """[pair]: whether the arrival counts as a visit (it does not after a fall that ends)"""
    right: BoolArray
    """[pair]: whether the action is right"""
    truth: FloatArray
    """[pair]: Q*"""
    error_weight: FloatArray
    """[pair]: the weight of its squared error in the test of convergence"""
    slot_pair: npt.NDArray[np.int16]
    """[slot]: its pair"""
    before: npt.NDArray[np.int32]
    """[slot]: the slot just before it in its string; -1: none"""
    gain: FloatArray
    """[slot]: its gain, for PSER; else empty"""
    tree: GroupedTree
    """gain^α of all slots, grouped by state"""
    order: RankOrder
    """all slots by gain, for rank-based and greedy sampling; else empty"""
    M: FloatArray
    trace: FloatArray
    active: IntArray
    error: FloatArray
    """work space for one row of TD errors of M"""
    need: FloatArray
    """[state]: the current need"""
    scores: FloatArray
    """work space for sampling by state"""
    best: IntArray
    """[state but the goal]: the set of greedy actions that M was computed for; 0: none yet"""
    system: FloatArray
    """work space for the linear system of M"""
    batch_pair: IntArray
    batch_step: FloatArray
    """[of the minibatch]: δ, times need where need scales the step"""
    batch_probability: FloatArray
    """[of the minibatch]: P(j), for the weights"""
    counts: IntArray
    largest: FloatArray
    """[0]: the largest absolute entry that M ever had"""


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
    table: TabularWorld,
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
        table: of ``worlds.cliffwalk.cliffwalk_world``, with the settings' own fall and actions;
            another raises.
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
    table: TabularWorld, settings: CliffwalkSettings, method: Method, rng: np.random.Generator
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


@compiled_in_place
def read_need(agent: CliffwalkAgent, p: Any, state: int) -> bool:
    """Need(s, ·): the row of ``state`` in M, or its column. Changes ``agent.need``.

    A row with negative entries is shifted by −min + 1e-3 where the settings say so. Returns whether
    every entry is a finite number.
    """
    M, need = agent.M, agent.need
    n_states = need.shape[0]
    agent.counts[NEED_READ] += 1
    greedy = p.need == OPTIMAL and p.optimal_need == GREEDY_NOW
    if greedy and greedy_changed(agent.pairs, agent.best):
        greedy_occupancy(agent.pairs, agent.best, agent.counted, p.discount, agent.system, M)
    copy_need(M, state, p.backward, need)
    smallest, largest = np.inf, -np.inf
    for other in range(n_states):
        smallest = need[other] if need[other] < smallest else smallest
        largest = need[other] if need[other] > largest else largest
    if smallest < 0.0:
        agent.counts[NEGATIVE_ROWS] += 1
        if p.negative_need == SHIFT:
            for other in range(n_states):
                need[other] = need[other] - smallest + SHIFT_FLOOR
            largest = largest - smallest + SHIFT_FLOOR
    finite: bool = np.isfinite(largest)
    return finite


@compiled_in_place
def replay(agent: CliffwalkAgent, p: Any, rng: np.random.Generator) -> int:
    """Sample a minibatch and update Q: θ ← θ + η Σ_j w_j δ_j φ(S_j, A_j). Changes ``agent``.

    Greedy sampling is at rest where the largest gain stays the largest, and neither it nor Q has
    changed: it would replay the same transition forever.
    """
    pairs, counts = agent.pairs, agent.counts
    greedy = p.sampler == GREEDY
    slot_before = agent.order.slot[0] if greedy else -1
    gain_before = agent.order.minus_gain[0] if greedy else -1.0
    size = p.minibatch
    for index in range(size):
        replay_one(agent, p, index, 0.0 if p.sampler == ORACLE else rng.random())
    smallest = np.inf
    for index in range(size):
        smallest = min(smallest, agent.batch_probability[index])
    finite, changed = True, False
    step_size = p.step_size / size if p.batch_step == MEAN else p.step_size
    for index in range(size):
        pair = agent.batch_pair[index]
        weight = importance_weight(agent.batch_probability[index], smallest, p.beta)
        step = weight * agent.batch_step[index]
        before = pairs[pair]["q"]
        pairs[pair]["q"] = moved_towards(before, step_size, step)
        finite = finite and np.isfinite(pairs[pair]["q"])
        changed = changed or pairs[pair]["q"] != before
    counts[REPLAYED] += size
    if not finite:
        return OVERFLOWED
    if greedy and not changed:
        order = agent.order
        if order.slot[0] == slot_before and order.minus_gain[0] == gain_before:
            return AT_REST
    return CONTINUE


@compiled_in_place
def replay_one(agent: CliffwalkAgent, p: Any, index: int, uniform: float) -> None:
    """Choose one transition, compute its δ, set its gain. Changes entry ``index`` of the batch.

    P(j) ∝ gain_j^α need[s_j]^b. Where weights do not correct for it, it is written as 1.
    """
    slot, place, probability, factor = 0, 0, 1.0, 1.0
    weighs = p.minibatch > 1 and p.beta > 0.0
    size = agent.slot_pair.shape[0]
    if p.sampler == ORACLE:
        pair = oracle_pair(agent, p)
    elif p.sampler == UNIFORM:
        slot = uniform_index(uniform, size)
        pair = agent.slot_pair[slot]
    elif p.sampler == RANKED or p.sampler == GREEDY:
        cumulative = agent.order.cumulative
        if p.sampler == RANKED:
            place = min(place_above(cumulative, uniform), size - 1)
            if weighs:
                below = cumulative[place - 1] if place > 0 else 0.0
                probability = cumulative[place] - below
        slot = agent.order.slot[place]
        pair = agent.slot_pair[slot]
    else:
        tree, scores = agent.tree, agent.scores
        by_need = p.need != NO_NEED and not p.scaled
        exponent = p.need_alpha if by_need else 0.0
        total, found = score_states(tree, agent.need, exponent, scores)
        if by_need and found == BY_PRIORITY:
            agent.counts[BY_GAIN] += 1
        slot = sample_slot(tree, scores, total, found, uniform)
        pair = agent.slot_pair[slot]
        if p.scaled:
            factor = need_factor(agent, p, agent.pairs[pair]["state"])
        if weighs:
            if p.weights_correct == FOR_GAIN:
                probability = tree.power[slot, OWN] / _total_gain(agent)
            else:
                probability = probability_of(tree, scores, total, found, slot)
    error = error_of(agent, pair)
    gain = absolute_gain(error) + p.priority_floor
    if p.sampler == RANKED or p.sampler == GREEDY:
        move(agent.order, place, gain)
    elif p.sampler == BY_SCORE:
        if p.pser:
            gain = pser_priority(gain, agent.gain[slot], p.pser_retained)
            agent.gain[slot] = gain
        set_power(agent.tree, slot, power(gain, p.alpha))
        if p.pser:
            _pass_back(agent, p, slot, gain)
    step_size = p.step_size / p.minibatch if p.batch_step == MEAN else p.step_size
    if p.scaled and step_size * factor > LARGEST_STEP:
        factor = LARGEST_STEP / step_size
    agent.batch_pair[index] = pair
    agent.batch_step[index] = factor * error
    agent.batch_probability[index] = probability


@compiled_in_place
def _pass_back(agent: CliffwalkAgent, p: Any, slot: int, gain: float) -> None:
    """PSER: p_{i−k} ← max(p_{i−k}, p_i ρ^k) for k up to the window, within the string."""
    passed = gain
    for _ in range(p.pser_window):
        slot = agent.before[slot]
        if slot < 0:
            break
        passed = pser_decayed(passed, p.pser_decay, 1)
        if passed > agent.gain[slot]:
            agent.gain[slot] = passed
            set_power(agent.tree, slot, power(passed, p.alpha))


@compiled_in_place
def _total_gain(agent: CliffwalkAgent) -> float:
    """Σ_j gain_j^α over the buffer."""
    total = 0.0
    for state in range(agent.need.shape[0]):
        root = agent.tree.root[state]
        if root >= 0:
            total += agent.tree.power[root, TOTAL]
    return total


@compiled_in_place
def need_factor(agent: CliffwalkAgent, p: Any, state: int) -> float:
    """need[s]^b, divided by its mean under sampling by gain: the scale of ``need-magnitude``.

    So the expected update is that of sampling by gain^α need^b. Negative need counts as 0; where
    all need is 0 the step is not scaled.
    """
    tree, need = agent.tree, agent.need
    largest = 0.0
    for other in range(need.shape[0]):
        largest = need[other] if need[other] > largest else largest
    total, together = 0.0, 0.0
    for other in range(need.shape[0]):
        root = tree.root[other]
        if root >= 0 and largest > 0.0:
            summed = tree.power[root, TOTAL]
            total += summed
            relative = max(need[other] / largest, 0.0)
            together += combine(summed, relative, 1.0, p.need_alpha)
    if together == 0.0:
        return 1.0
    return power(max(need[state] / largest, 0.0), p.need_alpha) * total / together


@compiled_in_place
def error_of(agent: CliffwalkAgent, pair: int) -> float:
    """δ = R + γ max_a Q(S', a) − Q(S, A)."""
    pairs = agent.pairs
    value = largest_q(pairs, 2, pairs[pair]["next_state"])
    return td_error(pairs[pair]["reward"], pairs[pair]["discount"], value, pairs[pair]["q"])


@compiled_in_place
def oracle_pair(agent: CliffwalkAgent, p: Any) -> int:
    """The pair that the oracle updates; of equals, the first.

    ``pair``: the largest |δ|. ``global``: the largest decrease of the squared error (q − Q*)².
    ``right``: the largest positive δ of a right action, or else the start's.
    """
    found, top = 0, -np.inf
    if p.oracle == ORACLE_RIGHT:
        top = 0.0
        while not agent.right[found]:
            found += 1
    for pair in range(agent.truth.shape[0]):
        error = error_of(agent, pair)
        if p.oracle == ORACLE_PAIR:
            worth = absolute_gain(error)
        elif p.oracle == ORACLE_GLOBAL:
            before = agent.pairs[pair]["q"] - agent.truth[pair]
            after = moved_towards(before, p.step_size, error)
            worth = before * before - after * after
        else:
            worth = error if agent.right[pair] else -np.inf
        if worth > top:
            found, top = pair, worth
    return found
