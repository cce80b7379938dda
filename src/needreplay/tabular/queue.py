"""The queue of prioritized sweeping: pairs (s, a) with a gain, popped by gain x need.

For each state the best queued gain is kept, and a list of the states that have any: a pop costs a
pass over those states, not over all queued pairs. Equal products: first inserted, first popped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.compiled import compiled
from needreplay.rules.priority import priority as _priority
from needreplay.types import FloatArray, IntArray

priority = compiled(_priority)


class PairQueue(NamedTuple):
    """Queued pairs; a gain of 0 means that the pair is not queued."""

    gain: FloatArray
    """[state, action]"""
    arrival: IntArray
    """[state, action]: when the pair was inserted, counted from 0"""
    best: FloatArray
    """[state]: the largest queued gain of the state, 0 where none is queued"""
    best_action: IntArray
    """[state]: the action that has it; of equals, the first inserted"""
    waiting: IntArray
    """the states with a queued pair, in no order, in the first ``counts[WAITING]`` places"""
    place: IntArray
    """[state]: where in ``waiting`` the state stands"""
    counts: IntArray
    """two numbers: how many states are waiting, and how many pairs were ever inserted"""


WAITING, INSERTED = 0, 1


def empty_queue(n_states: int, n_actions: int) -> PairQueue:
    """A queue for ``n_states`` x ``n_actions`` pairs with nothing in it."""
    return PairQueue(
        gain=np.zeros((n_states, n_actions)),
        arrival=np.zeros((n_states, n_actions), np.int64),
        best=np.zeros(n_states),
        best_action=np.zeros(n_states, np.int64),
        waiting=np.zeros(n_states, np.int64),
        place=np.zeros(n_states, np.int64),
        counts=np.zeros(2, np.int64),
    )


@compiled
def insert(queue: PairQueue, state: int, action: int, gain: float) -> None:
    """Queue a pair; one that is queued already keeps the larger gain. Writes ``queue``."""
    if gain <= queue.gain[state, action]:
        return
    if queue.gain[state, action] == 0.0:
        queue.arrival[state, action] = queue.counts[INSERTED]
        queue.counts[INSERTED] += 1
    queue.gain[state, action] = gain
    best = queue.best[state]
    if best == 0.0:
        last = queue.counts[WAITING]
        queue.waiting[last] = state
        queue.place[state] = last
        queue.counts[WAITING] = last + 1
    rival = queue.arrival[state, queue.best_action[state]]
    if gain > best or (gain == best and queue.arrival[state, action] < rival):
        queue.best[state] = gain
        queue.best_action[state] = action


@compiled
def remove(queue: PairQueue, state: int, action: int) -> None:
    """Take a queued pair out. Writes ``queue``."""
    queue.gain[state, action] = 0.0
    if queue.best_action[state] != action:
        return
    best, best_action = 0.0, 0
    for other in range(queue.gain.shape[1]):
        gain = queue.gain[state, other]
        earlier = queue.arrival[state, other] < queue.arrival[state, best_action]
        if gain > best or (gain == best and gain > 0.0 and earlier):
            best, best_action = gain, other
    queue.best[state] = best
    queue.best_action[state] = best_action
    if best == 0.0:
        last = queue.counts[WAITING] - 1
        moved = queue.waiting[last]
        hole = queue.place[state]
        queue.waiting[hole] = moved
        queue.place[moved] = hole
        queue.counts[WAITING] = last


@compiled
def largest_gain(queue: PairQueue) -> int:
    """argmax_i P_i as a state (its best action is the pair), or −1 where nothing is queued."""
    top, top_state, top_arrival = 0.0, -1, 0
    for index in range(queue.counts[WAITING]):
        state = queue.waiting[index]
        gain = queue.best[state]
        if gain > top:
            top, top_state = gain, state
            top_arrival = queue.arrival[state, queue.best_action[state]]
        elif gain == top:
            arrival = queue.arrival[state, queue.best_action[state]]
            if arrival < top_arrival:
                top_state, top_arrival = state, arrival
    return top_state


@compiled
def largest_product(queue: PairQueue, need: FloatArray) -> int:
    """argmax_i P_i · M[S, S_i] over states with positive need, or −1 where there is none.

    A state's need is the same for all its pairs, so its best product is its best gain's.
    """
    top, top_state, top_arrival = 0.0, -1, 0
    for index in range(queue.counts[WAITING]):
        state = queue.waiting[index]
        product = priority(queue.best[state], need[state])
        if product > top:
            top, top_state = product, state
            top_arrival = queue.arrival[state, queue.best_action[state]]
        elif product == top and top_state >= 0:
            arrival = queue.arrival[state, queue.best_action[state]]
            if arrival < top_arrival:
                top_state, top_arrival = state, arrival
    return top_state


@compiled
def largest_product_of_any_sign(queue: PairQueue, need: FloatArray) -> tuple[int, int]:
    """The pair (s, a) with the largest product where none is positive: (−1, −1) if none is queued.

    Under a negative need a state's best product is its smallest gain's, so pairs are looked at one
    by one: the rare case, taken only after ``largest_product`` found nothing.
    """
    top, top_state, top_action, top_arrival = -np.inf, -1, -1, 0
    for index in range(queue.counts[WAITING]):
        state = queue.waiting[index]
        for action in range(queue.gain.shape[1]):
            gain = queue.gain[state, action]
            if gain == 0.0:
                continue
            product = priority(gain, need[state])
            arrival = queue.arrival[state, action]
            if product > top or (product == top and arrival < top_arrival):
                top, top_state, top_action, top_arrival = product, state, action, arrival
    return top_state, top_action
