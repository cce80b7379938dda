"""Which backup comes next: the chance of every remembered move, by model, given all that happened.

A simulation draws from these chances and a fit takes their logarithm, so both are the same model.
Each model writes parts that add up to the chances; what was replayed then says how likely each
part was. The parts are: one-step backups and the extended chain (EVB), the modes (SFMA), reverse
and forward order (recency).
"""

from __future__ import annotations

import numpy as np

from needlab.core.equations import successor_row
from needlab.core.jit import jit
from needlab.tabular.evb.backups import Agent, Rule, backup_gain, largest, run_backup
from needlab.tabular.evb.episodes import learn
from needlab.tabular.evb.need import need_of, policy_transitions
from needlab.tabular.rivals.mind import Memory, Mind, Moment
from needlab.tabular.rivals.parameters import (
    EVB_MODEL,
    GOALS_MODEL,
    RECENCY_MODEL,
    SFMA_MODEL,
    UNIFORM_MODEL,
    Values,
)
from needreplay._core.types import FloatArray, IntArray

SMALLEST_R = 1e-6
REVERSE_MODE, DEFAULT_MODE, FORWARD_MODE, SWEEPING_MODE = range(4)
"""Of SFMA: which states of the present and the next experience are similar."""


@jit
def towards(agent: Agent, memory: Memory, goal: int) -> Agent:
    """The agent as if only this candidate goal gave a reward."""
    return Agent(
        memory.values_of_goal[goal],
        memory.goal_reward[goal],
        agent.outcome,
        agent.T,
        agent.given,
        agent.returns,
    )


@jit
def experience(mind: Mind, s: int, a: int, reward: float, after: int, first: bool) -> None:
    """Learn from a real step; ``first`` of its episode."""
    agent, rule, memory = mind.agent, mind.rule, mind.memory
    error = reward + rule.discount * largest(agent.Q[after]) - agent.Q[s, a]
    memory.errors[0] = error if first else memory.errors[0] + error
    learn(agent, rule, s, a, reward, after)
    pair = s * agent.Q.shape[1] + a
    memory.clock[0] += 1
    memory.seen[pair] = memory.clock[0]
    if mind.model == SFMA_MODEL:
        memory.strength[:] *= mind.values.strength_decay
        memory.strength[pair] += 1.0
    single = np.empty((1, 2), np.int64)
    single[0, 0], single[0, 1] = s, a
    for goal in range(memory.goals.size if mind.model == GOALS_MODEL else 0):
        entered = after == memory.goals[goal]
        memory.goal_reward[goal, s, a] = 1.0 if entered else 0.0
        memory.visits[goal] += 1.0 if entered else 0.0
        run_backup(towards(agent, memory, goal), rule, single, 1)


@jit
def begin_replay(mind: Mind, state: int) -> None:
    """Forget the last replay; the agent is in ``state``."""
    model, agent, rule, memory, moment = mind.model, mind.agent, mind.rule, mind.memory, mind.moment
    actions = agent.Q.shape[1]
    for pair in range(moment.candidate.size):
        after = agent.outcome[pair // actions, pair % actions]
        moment.candidate[pair] = after >= 0 and after != pair // actions
    moment.length[0] = 0
    moment.changed[:] = True
    moment.inhibition[:] = 0.0
    moment.hidden[0], moment.hidden[1] = mind.values.reverse, 1.0 - mind.values.reverse
    if model == SFMA_MODEL:
        begin_modes(agent, memory, mind.values, moment, state)
    if model == EVB_MODEL:
        moment.need[0] = need_of(agent, rule, state)
    elif model == GOALS_MODEL:
        for goal in range(memory.goals.size):
            T = policy_transitions(towards(agent, memory, goal), rule.inverse_temperature)
            moment.need[goal] = successor_row(T, rule.discount, state)
    elif model == RECENCY_MODEL:
        moment.rank[:] = -1
        moment.order[:] = np.argsort(np.where(moment.candidate, -memory.seen, 0))
        for place in range(moment.order.size):
            pair = moment.order[place]
            if moment.candidate[pair] and memory.seen[pair] > 0:
                moment.rank[pair] = place


@jit
def begin_modes(agent: Agent, memory: Memory, values: Values, moment: Moment, state: int) -> None:
    """How likely each mode of SFMA is, and the present experience: the last move from here."""
    reverse, forward, sweeping = values.reverse, values.forward, values.sweeping
    if values.dynamic:
        reverse = 1.0 / (1.0 + np.exp(-(5.0 * memory.errors[0] - 2.0)))
    moment.hidden[REVERSE_MODE] = reverse
    moment.hidden[FORWARD_MODE] = (1.0 - reverse) * forward
    moment.hidden[SWEEPING_MODE] = (1.0 - reverse) * (1.0 - forward) * sweeping
    moment.hidden[DEFAULT_MODE] = (1.0 - reverse) * (1.0 - forward) * (1.0 - sweeping)
    actions, last = agent.Q.shape[1], np.argmax(memory.seen)
    here = memory.seen[last] > 0 and last // actions == state
    moment.present[0] = state
    moment.present[1] = agent.outcome[state, last % actions] if here else state


@jit
def find_chances(mind: Mind) -> float:
    """Write the parts; their sum, which is 1, or 0 if the model has nothing to replay."""
    model, agent, rule, memory = mind.model, mind.agent, mind.rule, mind.memory
    values, moment = mind.values, mind.moment
    moment.parts[:] = 0.0
    if model == EVB_MODEL:
        evb_chances(agent, rule, values, moment, mind.goal)
    elif model == GOALS_MODEL:
        goal_chances(agent, rule, memory, values, moment)
    elif model == SFMA_MODEL:
        for mode in range(moment.hidden.size):
            if moment.hidden[mode] > 0.0:
                sfma_chances(agent, memory, values, moment, mode)
    elif model == RECENCY_MODEL:
        recency_chances(values, moment)
    if model == UNIFORM_MODEL:
        for pair in range(moment.candidate.size):
            moment.parts[0, pair] = 1.0 if moment.candidate[pair] else 0.0
    total = moment.parts.sum()
    if total > 0.0:
        moment.parts[:] /= total
        return 1.0
    return 0.0


@jit
def log_power(value: float, exponent: float) -> float:
    """log(value^exponent); 0^0 is 1."""
    if exponent == 0.0:
        return 0.0
    return float(exponent * np.log(value)) if value > 0.0 else -np.inf


@jit
def evb_chances(agent: Agent, rule: Rule, values: Values, moment: Moment, goal: IntArray) -> None:
    """P(backup) ~ gain^a need^b over all one-step backups and the last chain with a greedy step.

    Where several actions are greedy, each is the extension equally often.
    """
    actions, chain, length = agent.Q.shape[1], moment.chain, moment.length[0]
    log_weight, best = moment.parts[0], -np.inf
    update_weights(agent, rule, values, moment)
    for pair in range(log_weight.size):
        log_weight[pair] = moment.gains[0, pair] if moment.candidate[pair] else -np.inf
        best = max(best, log_weight[pair])
    extension, ties = np.full(actions, -np.inf), 0
    end = agent.outcome[chain[length - 1, 0], chain[length - 1, 1]] if length > 0 else -1
    if 0 < length < values.chain and goal[end] < 0:
        for action in range(actions):
            if agent.Q[end, action] == largest(agent.Q[end]):
                ties += 1
                if fits(agent, chain, length, end, action):
                    chain[length, 0], chain[length, 1] = end, action
                    gain = backup_gain(agent, rule, chain, length + 1)
                    extension[action] = log_power(gain, values.gain_exponent) + log_power(
                        moment.need[0, end], values.need_exponent
                    )
                    best = max(best, extension[action])
    singles = 0.0
    for pair in range(log_weight.size):
        possible = log_weight[pair] > -np.inf
        moment.parts[0, pair] = np.exp(log_weight[pair] - best) if possible else 0.0
        singles += moment.parts[0, pair]
    if ties == 0:
        return
    share = 0.0
    for action in range(actions):
        if agent.Q[end, action] == largest(agent.Q[end]):
            weight = np.exp(extension[action] - best) if extension[action] > -np.inf else 0.0
            if singles + weight > 0.0:
                share += 1.0 / (singles + weight) / ties
                moment.parts[1, end * actions + action] = weight / (singles + weight) / ties
    moment.parts[0] *= share


@jit
def fits(agent: Agent, chain: IntArray, length: int, end: int, action: int) -> bool:
    """Whether the chain can go on with this action: it must move, and to a new state."""
    after = agent.outcome[end, action]
    if after < 0 or after == end:
        return False
    return not np.any(chain[:length, 0] == after)


@jit
def update_weights(agent: Agent, rule: Rule, values: Values, moment: Moment) -> None:
    """Compute a log(gain) + b log(need) of one-step backups again where Q changed."""
    single, actions = np.empty((1, 2), np.int64), agent.Q.shape[1]
    for pair in range(moment.candidate.size):
        if moment.candidate[pair]:
            s, a = pair // actions, pair % actions
            if moment.changed[s] or moment.changed[agent.outcome[s, a]]:
                single[0, 0], single[0, 1] = s, a
                gain = backup_gain(agent, rule, single, 1)
                moment.gains[0, pair] = log_power(gain, values.gain_exponent) + log_power(
                    moment.need[0, s], values.need_exponent
                )


@jit
def update_gains(agent: Agent, rule: Rule, moment: Moment, gains: FloatArray) -> None:
    """Compute the gains of one-step backups again where Q changed."""
    single, actions = np.empty((1, 2), np.int64), agent.Q.shape[1]
    for pair in range(gains.size):
        if moment.candidate[pair]:
            s, a = pair // actions, pair % actions
            if moment.changed[s] or moment.changed[agent.outcome[s, a]]:
                single[0, 0], single[0, 1] = s, a
                gains[pair] = backup_gain(agent, rule, single, 1)


@jit
def goal_chances(agent: Agent, rule: Rule, memory: Memory, values: Values, moment: Moment) -> None:
    """P(backup) ~ sum over g of p(g) gain_g^a need_g^b, p(g) as often as g was entered."""
    actions = agent.Q.shape[1]
    for goal in range(memory.goals.size):
        update_gains(towards(agent, memory, goal), rule, moment, moment.gains[goal])
        for pair in np.flatnonzero(moment.candidate):
            moment.parts[0, pair] += memory.visits[goal] * np.exp(
                log_power(moment.gains[goal, pair], values.gain_exponent)
                + log_power(moment.need[goal, pair // actions], values.need_exponent)
            )


@jit
def sfma_chances(agent: Agent, memory: Memory, values: Values, moment: Moment, mode: int) -> None:
    """P(e) ~ exp(k R(e)) - 1 with R(e) = C(e) D (1 - I(s_e)), divided by the largest R.

    D compares the present state (its next state in the forward and sweeping modes) with the state
    of e (its next state in the reverse and sweeping modes).
    """
    actions, best, total = agent.Q.shape[1], 0.0, 0.0
    row = moment.parts[mode]
    here: int = moment.present[1 if mode in (FORWARD_MODE, SWEEPING_MODE) else 0]
    to_next = mode in (REVERSE_MODE, SWEEPING_MODE)
    for pair in np.flatnonzero(moment.candidate):
        s: int = pair // actions
        other: int = agent.outcome[s, pair % actions] if to_next else s
        D = memory.similarity[here, other]
        R = memory.strength[pair] * D * (1.0 - moment.inhibition[s])
        row[pair] = R if R >= SMALLEST_R else 0.0
        best = max(best, row[pair])
    if best == 0.0:
        return
    for place in range(row.size):
        row[place] = np.expm1(values.sharpness * row[place] / best)
        total += row[place]
    if total > 0.0:
        row *= moment.hidden[mode] / total


@jit
def recency_chances(values: Values, moment: Moment) -> None:
    """Go on to the older or newer neighbor in time, else begin anew: P ~ recency^rank."""
    experienced = (moment.rank >= 0).sum()
    if experienced == 0:
        return
    actions = moment.candidate.size // moment.changed.size
    place = -1
    if moment.length[0] > 0:
        place = moment.rank[moment.chain[0, 0] * actions + moment.chain[0, 1]]
    begin = 1.0
    for part in range(2):
        neighbor = place + 1 if part == 0 else place - 1
        if place >= 0 and 0 <= neighbor < experienced:
            moment.parts[part, moment.order[neighbor]] = values.stay * moment.hidden[part]
            begin -= values.stay * moment.hidden[part]
    total = 0.0
    for rank in range(experienced):
        total += values.recency**rank
    for rank in range(experienced):
        chance = begin * values.recency**rank / total
        moment.parts[0, moment.order[rank]] += values.reverse * chance
        moment.parts[1, moment.order[rank]] += (1.0 - values.reverse) * chance


@jit
def run_chosen(mind: Mind, pair: int, part: int) -> None:
    """Replay the pair; ``part`` 1 of EVB extends the chain, -1 takes the likelier part."""
    model, agent, rule, memory, moment = mind.model, mind.agent, mind.rule, mind.memory, mind.moment
    actions = agent.Q.shape[1]
    s, a = pair // actions, pair % actions
    parts = moment.parts[:, pair]
    if model == EVB_MODEL:
        extends = parts[1] > parts[0] if part < 0 else part == 1
    else:
        extends = False
        if parts.sum() > 0.0:
            moment.hidden[:] = parts / parts.sum()
    place = moment.length[0] if extends else 0
    moment.chain[place, 0], moment.chain[place, 1] = s, a
    moment.length[0] = place + 1
    run_backup(agent, rule, moment.chain, place + 1)
    moment.changed[:] = False
    for j in range(place + 1):
        moment.changed[moment.chain[j, 0]] = True
    if model == GOALS_MODEL:
        for goal in range(memory.goals.size):
            run_backup(towards(agent, memory, goal), rule, moment.chain, 1)
    moment.inhibition[:] *= mind.values.inhibition_decay
    moment.inhibition[s] = min(moment.inhibition[s] + 1.0, 1.0)
    moment.present[0], moment.present[1] = s, agent.outcome[s, a]
