"""One replay of vanilla PER-SR (the paper's Algorithm 2): read need, draw, learn, set gains."""

from __future__ import annotations

import numpy as np

from needreplay.core.jit import compiled_in_place, jit
from needreplay.replay.samplers.fallbacks import BY_GAIN as DRAWN_BY_GAIN
from needreplay.replay.samplers.state_tree import (
    OWN,
    TOTAL,
    draw_slot,
    probability_of,
    score_states,
    set_mass,
)
from needreplay.rules import gain as gain_rules
from needreplay.rules import need as need_rules
from needreplay.rules import priority as priority_rules
from needreplay.rules import td as td_rules
from needreplay.tabular.choose import largest_q, uniform_index
from needreplay.tabular.dense_successor import greedy_changed, greedy_occupancy
from needreplay.tabular.per_sr_layout import (
    AT_REST,
    BY_GAIN,
    GREEDY_NOW,
    NEED_READ,
    NEGATIVE_ROWS,
    NO_NEED,
    ORACLE,
    ORACLE_GLOBAL,
    ORACLE_PAIR,
    OVERFLOWED,
    RANKED,
    REPLAYED,
    SOUND,
    UNIFORM,
    Replayer,
    Rule,
)
from needreplay.tabular.rank_order import gain_at_place, move, place_at, slot_at_place

absolute_gain = jit(gain_rules.absolute_gain)
forward_need = compiled_in_place(need_rules.forward_need)
backward_need = compiled_in_place(need_rules.backward_need)
annealed = jit(priority_rules.annealed)
decayed_back = jit(priority_rules.decayed_back)
importance_weight = jit(priority_rules.importance_weight)
priority = jit(priority_rules.priority)
sequence_gain = jit(priority_rules.sequence_gain)
shaped = jit(priority_rules.shaped)
moved_towards = jit(td_rules.moved_towards)
td_error = jit(td_rules.td_error)

SHIFT_FLOOR = 1e-3
"""What the smallest entry of a shifted row has (the authors' code)."""


@compiled_in_place
def read_need(agent: Replayer, rule: Rule, state: int) -> bool:
    """Need(s, ·): M's row of ``state``, or its column. Writes ``agent.need``.

    A row with negative entries is shifted by −min + 1e-3 where the rule says so. Answers whether
    every entry is a finite number.
    """
    M, need = agent.M, agent.need
    n_states = need.shape[0]
    agent.counts[NEED_READ] += 1
    if rule.need == GREEDY_NOW and greedy_changed(agent.pairs, rule.n_actions, agent.best):
        greedy_occupancy(
            agent.pairs, rule.n_actions, agent.best, agent.counted, rule.discount,
            agent.system, M,
        )  # fmt: skip
    smallest, largest = np.inf, -np.inf
    for other in range(n_states):
        entry = backward_need(M, state, other) if rule.backward else forward_need(M, state, other)
        need[other] = entry
        smallest = entry if entry < smallest else smallest
        largest = entry if entry > largest else largest
    if smallest < 0.0:
        agent.counts[NEGATIVE_ROWS] += 1
        if rule.shift:
            for other in range(n_states):
                need[other] = need[other] - smallest + SHIFT_FLOOR
            largest = largest - smallest + SHIFT_FLOOR
    finite: bool = np.isfinite(largest)
    return finite


@compiled_in_place
def error_of(agent: Replayer, rule: Rule, pair: int) -> float:
    """δ = R + γ Q_target(S', argmax_a Q(S', a)) − Q(S, A)."""
    pairs, target = agent.pairs, agent.target
    arrival = pairs[pair]["next_state"]
    value = largest_q(pairs, rule.n_actions, arrival)
    if target.shape[0] > 0:
        first = arrival * rule.n_actions
        for action in range(rule.n_actions):
            if pairs[first + action]["q"] == value:
                value = target[first + action]
                break
    return td_error(pairs[pair]["reward"], pairs[pair]["discount"], value, pairs[pair]["q"])


@compiled_in_place
def oracle_pair(agent: Replayer, rule: Rule) -> int:
    """The pair that an oracle updates, which of them the rule says; ties: the first.

    ``pair``: the largest |δ|. ``global``: the largest fall of the squared error (q − Q*)².
    ``right``: the largest positive δ of a right action, or else the start's.
    """
    found, top = 0, -np.inf
    if rule.oracle != ORACLE_PAIR and rule.oracle != ORACLE_GLOBAL:
        top = 0.0
        while not agent.right[found]:
            found += 1
    for pair in range(agent.truth.shape[0]):
        error = error_of(agent, rule, pair)
        if rule.oracle == ORACLE_PAIR:
            worth = absolute_gain(error)
        elif rule.oracle == ORACLE_GLOBAL:
            before = agent.pairs[pair]["q"] - agent.truth[pair]
            after = moved_towards(before, rule.step_size, error)
            worth = before * before - after * after
        else:
            worth = error if agent.right[pair] else -np.inf
        if worth > top:
            found, top = pair, worth
    return found


@compiled_in_place
def hand_back(agent: Replayer, rule: Rule, slot: int, gain: float) -> None:
    """PSER: p_{i−k} ← max(p_{i−k}, p_i ρ^k) for k up to the window, within the string.

    Writes ``agent.gain`` and the tree.
    """
    handed = gain
    for _ in range(rule.pser_window):
        slot = agent.before[slot]
        if slot < 0:
            break
        handed = decayed_back(handed, rule.pser_decay, 1)
        if handed > agent.gain[slot]:
            agent.gain[slot] = handed
            set_mass(agent.tree, slot, shaped(handed, rule.alpha))


@compiled_in_place
def replay_one(agent: Replayer, rule: Rule, index: int, beta: float, uniform: float) -> None:
    """Choose one transition, compute its δ, set its gain. Writes entry ``index`` of the batch.

    P(j) ∝ gain_j^α need[s_j]^b. Where weights do not correct for it, it is written as 1.
    """
    slot, place, probability, factor = 0, 0, 1.0, 1.0
    weighs = rule.minibatch > 1 and beta > 0.0
    memory = agent.slot_pair.shape[0]
    if rule.draw == ORACLE:
        pair = oracle_pair(agent, rule)
    elif rule.draw == UNIFORM:
        slot = uniform_index(uniform, memory)
        pair = agent.slot_pair[slot]
    elif rule.draw == RANKED:
        cumulative = agent.order.cumulative
        if cumulative.shape[0] > 0:
            place = place_at(cumulative, uniform)
            if weighs:
                below = cumulative[place - 1] if place > 0 else 0.0
                probability = cumulative[place] - below
        slot = slot_at_place(agent.order, place)
        pair = agent.slot_pair[slot]
    else:
        tree, scores = agent.tree, agent.scores
        by_need = rule.need != NO_NEED and not rule.magnitude
        exponent = rule.need_alpha if by_need else 0.0
        total, found = score_states(tree, agent.need, exponent, scores)
        if by_need and found == DRAWN_BY_GAIN:
            agent.counts[BY_GAIN] += 1
        slot = draw_slot(tree, scores, total, found, uniform)
        pair = agent.slot_pair[slot]
        if rule.magnitude:
            factor = need_factor(agent, rule, agent.pairs[pair]["state"])
        if weighs:
            if rule.weigh_gain_alone:
                probability = tree.mass[slot, OWN] / total_gain(agent)
            else:
                probability = probability_of(tree, scores, total, found, slot)
    error = error_of(agent, rule, pair)
    gain = absolute_gain(error) + rule.priority_floor
    if rule.draw == RANKED:
        move(agent.order, place, memory, gain)
    elif rule.draw != ORACLE and rule.draw != UNIFORM:
        if rule.pser:
            gain = sequence_gain(gain, agent.gain[slot], rule.pser_retained)
            agent.gain[slot] = gain
        set_mass(agent.tree, slot, shaped(gain, rule.alpha))
        if rule.pser:
            hand_back(agent, rule, slot, gain)
    step_size = rule.step_size / rule.minibatch if rule.mean_of_batch else rule.step_size
    if rule.magnitude and step_size * factor > rule.largest_step:
        factor = rule.largest_step / step_size
    agent.batch_pair[index] = pair
    agent.batch_step[index] = factor * error
    agent.batch_probability[index] = probability


@compiled_in_place
def total_gain(agent: Replayer) -> float:
    """Σ_j gain_j^α over the memory."""
    total = 0.0
    for state in range(agent.need.shape[0]):
        root = agent.tree.root[state]
        if root >= 0:
            total += agent.tree.mass[root, TOTAL]
    return total


@compiled_in_place
def need_factor(agent: Replayer, rule: Rule, state: int) -> float:
    """need[s]^b, divided by its mean over draws by gain: what ``need-magnitude`` scales by.

    So the expected update is that of a draw by gain^α need^b. Negative need counts as 0; where all
    need is 0 the update is as it is without need.
    """
    tree, need = agent.tree, agent.need
    if rule.raw_need:
        return shaped(max(need[state], 0.0), rule.need_alpha)
    largest = 0.0
    for other in range(need.shape[0]):
        largest = need[other] if need[other] > largest else largest
    total, together = 0.0, 0.0
    for other in range(need.shape[0]):
        root = tree.root[other]
        if root >= 0 and largest > 0.0:
            mass = tree.mass[root, TOTAL]
            total += mass
            relative = shaped(max(need[other] / largest, 0.0), rule.need_alpha)
            together += priority(mass, relative)
    if together == 0.0:
        return 1.0
    return shaped(max(need[state] / largest, 0.0), rule.need_alpha) * total / together


@compiled_in_place
def replay(agent: Replayer, rule: Rule, rng: np.random.Generator) -> int:
    """Sampler a minibatch and move Q: θ ← θ + η Σ_j w_j δ_j φ(S_j, A_j). Writes ``agent``.

    Answers how it went. A greedy draw is at rest where the largest gain stays the largest, and
    neither it nor Q has changed: it will replay the same transition for ever.
    """
    pairs, counts = agent.pairs, agent.counts
    greedy = rule.draw == RANKED and agent.order.cumulative.shape[0] == 0
    slot_before = slot_at_place(agent.order, 0) if greedy else -1
    gain_before = gain_at_place(agent.order, 0) if greedy else -1.0
    size = rule.minibatch
    beta = annealed(rule.beta, rule.beta_end, counts[REPLAYED] / rule.beta_updates)
    for index in range(size):
        replay_one(agent, rule, index, beta, 0.0 if rule.draw == ORACLE else rng.random())
    smallest = np.inf
    for index in range(size):
        smallest = min(smallest, agent.batch_probability[index])
    finite, changed = True, False
    step_size = rule.step_size / size if rule.mean_of_batch else rule.step_size
    for index in range(size):
        pair = agent.batch_pair[index]
        weight = importance_weight(agent.batch_probability[index], smallest, beta)
        step = weight * agent.batch_step[index]
        before = pairs[pair]["q"]
        pairs[pair]["q"] = moved_towards(before, step_size, step)
        finite = finite and np.isfinite(pairs[pair]["q"])
        changed = changed or pairs[pair]["q"] != before
    counts[REPLAYED] += size
    if rule.target_period > 0 and counts[REPLAYED] // size % rule.target_period == 0:
        for pair in range(agent.target.shape[0]):
            agent.target[pair] = pairs[pair]["q"]
    if not finite:
        return OVERFLOWED
    if greedy and not changed and rule.target_period == 0:
        same_slot = slot_at_place(agent.order, 0) == slot_before
        if same_slot and gain_at_place(agent.order, 0) == gain_before:
            return AT_REST
    return SOUND
