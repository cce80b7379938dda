"""One replay of vanilla PER-SR (the paper's Algorithm 2): read need, sample, learn, set gains."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from needreplay.core.jit import compiled_in_place, jit
from needreplay.core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay.samplers.need import BY_PRIORITY as SAMPLED_BY_GAIN
from needreplay.replay.samplers.state_tree import (
    OWN,
    TOTAL,
    GroupedTree,
    probability_of,
    sample_slot,
    score_states,
    set_power,
)
from needreplay.rules import gain as gain_rules
from needreplay.rules import need as need_rules
from needreplay.rules import priority as priority_rules
from needreplay.studies.cliffwalk.rank_order import (
    RankOrder,
    gain_at_place,
    move,
    place_at,
    slot_at_place,
)
from needreplay.studies.cliffwalk.settings import (
    FOR_GAIN,
    GREEDY_NOW,
    MEAN,
    ORACLE_GLOBAL,
    ORACLE_PAIR,
    ORACLE_RIGHT,
    SHIFT,
    CliffwalkSettings,
    Method,
)
from needreplay.studies.cliffwalk.task import greedy_changed, greedy_occupancy, task_discount
from needreplay.tabular.dyna import largest_q, moved_towards, td_error, uniform_index
from needreplay.tabular.settings import numbers_of

absolute_gain = jit(gain_rules.absolute_gain)
forward_need = compiled_in_place(need_rules.forward_need)
backward_need = compiled_in_place(need_rules.backward_need)
importance_weight = jit(priority_rules.importance_weight)
combine = jit(priority_rules.combine)
power = jit(priority_rules.power)
pser_decayed = jit(priority_rules.pser_decayed)
pser_priority = jit(priority_rules.pser_priority)

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
    smallest, largest = np.inf, -np.inf
    for other in range(n_states):
        entry = backward_need(M, state, other) if p.backward else forward_need(M, state, other)
        need[other] = entry
        smallest = entry if entry < smallest else smallest
        largest = entry if entry > largest else largest
    if smallest < 0.0:
        agent.counts[NEGATIVE_ROWS] += 1
        if p.negative_need == SHIFT:
            for other in range(n_states):
                need[other] = need[other] - smallest + SHIFT_FLOOR
            largest = largest - smallest + SHIFT_FLOOR
    finite: bool = np.isfinite(largest)
    return finite


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
            place = place_at(cumulative, uniform)
            if weighs:
                below = cumulative[place - 1] if place > 0 else 0.0
                probability = cumulative[place] - below
        slot = slot_at_place(agent.order, place)
        pair = agent.slot_pair[slot]
    else:
        tree, scores = agent.tree, agent.scores
        by_need = p.need != NO_NEED and not p.scaled
        exponent = p.need_alpha if by_need else 0.0
        total, found = score_states(tree, agent.need, exponent, scores)
        if by_need and found == SAMPLED_BY_GAIN:
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
        move(agent.order, place, size, gain)
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
def replay(agent: CliffwalkAgent, p: Any, rng: np.random.Generator) -> int:
    """Sample a minibatch and update Q: θ ← θ + η Σ_j w_j δ_j φ(S_j, A_j). Changes ``agent``.

    Greedy sampling is at rest where the largest gain stays the largest, and neither it nor Q has
    changed: it would replay the same transition forever.
    """
    pairs, counts = agent.pairs, agent.counts
    greedy = p.sampler == GREEDY
    slot_before = slot_at_place(agent.order, 0) if greedy else -1
    gain_before = gain_at_place(agent.order, 0) if greedy else -1.0
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
        same_slot = slot_at_place(agent.order, 0) == slot_before
        if same_slot and gain_at_place(agent.order, 0) == gain_before:
            return AT_REST
    return CONTINUE
