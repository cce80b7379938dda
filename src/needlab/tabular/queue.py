"""The queue of prioritized sweeping: pairs with a gain, popped by gain x need.

The queue stores the best gain of each state, and the best key of each block of about √states; so
a pop looks at some 2 √states numbers, and only a change of need costs a pass over all states.
Equal keys: first queued, first popped.
"""

from __future__ import annotations

import numpy as np

from needlab.core.equations import combine
from needlab.core.jit import compiled_in_place
from needlab.tabular.arrays import BLOCK_SHIFT, INSERTED, N_ACTIONS, QUEUED, AgentArrays


@compiled_in_place
def insert(agent: AgentArrays, pair: int, gain: float) -> None:
    """Queue a pair; one that is queued already keeps the larger gain. Changes the queue."""
    pairs, states, best = agent.pairs, agent.states, agent.best
    before = pairs[pair]["gain"]
    if gain <= before:
        return
    if before == 0.0:
        pairs[pair]["queued_at"] = agent.counts[INSERTED]
        agent.counts[INSERTED] += 1
        agent.counts[QUEUED] += 1
    pairs[pair]["gain"] = gain
    state = pairs[pair]["state"]
    if gain < best[state]:
        return
    if gain == best[state]:
        rival = states[state]["best_pair"]
        if pairs[pair]["queued_at"] > pairs[rival]["queued_at"]:
            return
    best[state] = gain
    states[state]["best_pair"] = pair
    key = combine(gain, agent.need[state])
    agent.key[state] = key
    place = state >> agent.counts[BLOCK_SHIFT]
    if key > agent.block[place]:
        agent.block[place] = key


@compiled_in_place
def remove(agent: AgentArrays, pair: int) -> None:
    """Take a queued pair out. Changes the queue."""
    pairs = agent.pairs
    pairs[pair]["gain"] = 0.0
    agent.counts[QUEUED] -= 1
    state = pairs[pair]["state"]
    n_actions = agent.counts[N_ACTIONS]
    first = state * n_actions
    best, best_pair = 0.0, first
    for other in range(first, first + n_actions):
        gain = pairs[other]["gain"]
        if gain > best or (
            gain == best
            and gain > 0.0
            and pairs[other]["queued_at"] < pairs[best_pair]["queued_at"]
        ):
            best, best_pair = gain, other
    agent.best[state] = best
    agent.states[state]["best_pair"] = best_pair
    agent.key[state] = combine(best, agent.need[state])
    _refresh_block(agent, state >> agent.counts[BLOCK_SHIFT])


@compiled_in_place
def _refresh_block(agent: AgentArrays, place: int) -> None:
    """Recompute the largest positive key of one block. Changes ``agent.block``."""
    shift = agent.counts[BLOCK_SHIFT]
    top = 0.0
    for state in range(place << shift, (place + 1) << shift):
        top = agent.key[state] if agent.key[state] > top else top
    agent.block[place] = top


@compiled_in_place
def refresh_keys(agent: AgentArrays) -> None:
    """Recompute every key after need changed: one pass over states. Changes the queue."""
    for state in range(agent.key.shape[0]):
        agent.key[state] = combine(agent.best[state], agent.need[state])
    for place in range(agent.block.shape[0]):
        _refresh_block(agent, place)


@compiled_in_place
def largest_product(agent: AgentArrays) -> int:
    """argmax_i P_i · M[S, S_i] as a pair, or −1 where no product is positive.

    A state's need is the same for all its pairs, so its largest product is its best gain's.
    """
    pairs, states, block, key = agent.pairs, agent.states, agent.block, agent.key
    top = 0.0
    for place in range(block.shape[0]):
        top = block[place] if block[place] > top else top
    found = -1
    if top == 0.0:
        return found
    shift = agent.counts[BLOCK_SHIFT]
    for place in range(block.shape[0]):
        if block[place] == top:
            for state in range(place << shift, (place + 1) << shift):
                if key[state] == top:
                    pair = states[state]["best_pair"]
                    if found < 0 or pairs[pair]["queued_at"] < pairs[found]["queued_at"]:
                        found = pair
    return found


@compiled_in_place
def largest_product_of_any_sign(agent: AgentArrays) -> int:
    """argmax_i P_i · M[S, S_i] as a pair, whatever its sign; −1 where nothing is queued.

    Under a negative need a state's largest product is its smallest gain's, so pairs are looked at
    one by one: the rare case, taken only after ``largest_product`` found nothing.
    """
    pairs = agent.pairs
    top, found = -np.inf, -1
    for pair in range(pairs.shape[0]):
        if pairs[pair]["gain"] == 0.0:
            continue
        product = combine(pairs[pair]["gain"], agent.need[pairs[pair]["state"]])
        if product > top or (
            product == top and (found < 0 or pairs[pair]["queued_at"] < pairs[found]["queued_at"])
        ):
            top, found = product, pair
    return found
