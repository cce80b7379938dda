"""The task: true values, transition matrices, and the buffer, filled beforehand and ranked.

States 0 (the start) to n − 1 are the chain, state n is the goal; see ``worlds.cliffwalk``.
Schaul et al. 2016, section 3.1; Yuan & Mattar, appendix B.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from needlab.core.jit import compiled_in_place, jit
from needlab.studies.cliffwalk.settings import CliffwalkSettings
from needlab.tabular.successor import random_policy_matrix, transition_matrix
from needlab.worlds.tabular import TabularWorld
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.equations import closed_form

MAX_TRANSITIONS = 2**27
"""A trial takes some 60 bytes for each."""


def task_discount(settings: CliffwalkSettings, n: int) -> float:
    """γ = 1 − 1 / (n + offset)."""
    return 1.0 - 1.0 / (n + settings.discount_offset)


def right_actions(table: TabularWorld) -> IntArray:
    """The right action of each state of the chain."""
    n = table.n_states - 1
    right: IntArray = np.argmax(table.next_state[:n] == np.arange(1, n + 1)[:, np.newaxis], axis=1)
    return right


def check_world(table: TabularWorld, settings: CliffwalkSettings) -> None:
    """Raise for a table whose right actions or falls are not those of the settings."""
    n = table.n_states - 1
    states = np.arange(n)
    right = states % 2 if settings.right_actions == "alternate" else np.zeros_like(states)
    if table.n_actions != 2 or (table.next_state[states, right] != states + 1).any():
        raise NeedReplayError(
            f'The settings have right_actions="{settings.right_actions}", but in the table another '
            "action is right, or it is no cliffwalk. Make it with "
            "cliffwalk_world(n, settings.fall, settings.right_actions)."
        )
    if (table.ends[states, 1 - right] != (settings.fall == "ends")).any():
        raise NeedReplayError(
            f'The settings have fall="{settings.fall}", but not every fall of the table does so. '
            "Make it with cliffwalk_world(n, settings.fall, settings.right_actions)."
        )


def true_values(table: TabularWorld, discount: float) -> FloatArray:
    """Q*[s, a]: γ^(n − 1 − s) for the right action; for the wrong one γ V*(start), or 0."""
    n = table.n_states - 1
    states, right = np.arange(n), right_actions(table)
    q = np.zeros((n + 1, 2))
    q[states, right] = discount ** (n - 1.0 - states)
    fall = ~table.ends[states, 1 - right]
    q[states, 1 - right] = np.where(fall, discount * q[0, right[0]], 0.0)
    return q


def optimal_transitions(table: TabularWorld) -> FloatArray:
    """T of the policy that always takes the right action."""
    policy = np.zeros(table.next_state.shape)
    policy[np.arange(table.n_states - 1), right_actions(table)] = 1.0
    return transition_matrix(table.next_state, table.ends, policy)


def faulty_transitions(table: TabularWorld, *, optimal: bool) -> FloatArray:
    """The authors' T: right, back to the start (random policy only), and a self-loop, equally.

    The start has no self-loop of its own. The other rows sum to 1.5 (0.5 each), or to 2 (1 each).
    """
    n = table.n_states - 1
    states = np.arange(n)
    T = np.zeros((n + 1, n + 1))
    T[states, states] = T[states, states + 1] = 1.0 if optimal else 0.5
    T[table.start, table.start] = 0.0
    if not optimal:
        T[states, table.start] = 0.5
    return T


def initial_matrix(
    settings: CliffwalkSettings, method: str, table: TabularWorld, discount: float
) -> FloatArray:
    """The initial M of a method; only learned need and greedy optimal need change it."""
    if method == "need-optimal" and settings.optimal_need == "true":
        T = optimal_transitions(table)
    elif method == "need-optimal" and settings.optimal_need == "faulty":
        T = faulty_transitions(table, optimal=True)
    elif settings.random_need == "faulty":
        T = faulty_transitions(table, optimal=False)
    else:
        T = random_policy_matrix(table.next_state, table.ends)
    return np.ascontiguousarray(closed_form(T, discount))


@compiled_in_place
def greedy_changed(pairs: AnyArray, best: IntArray) -> bool:
    """Whether any state's set of best actions differs from ``best``. Changes ``best``.

    A set is a number: bit a is 1 where action a is one of the best of two.
    """
    changed = False
    for state in range(best.shape[0]):
        q0, q1 = pairs[2 * state]["q"], pairs[2 * state + 1]["q"]
        chosen = 3 if q0 == q1 else 1 if q0 > q1 else 2
        if chosen != best[state]:
            best[state] = chosen
            changed = True
    return changed


@compiled_in_place
def greedy_occupancy(
    pairs: AnyArray,
    best: IntArray,
    counted: BoolArray,
    discount: float,
    system: FloatArray,
    M: FloatArray,
) -> None:
    """M = (I − γ T)⁻¹, T of the greedy policy, ties equally likely. Changes ``system`` and ``M``.

    Rows of γ T sum to less than 1, so elimination without pivoting is stable. The last state is the
    goal: nothing follows it.
    """
    n_states = M.shape[0]
    for row in range(n_states):
        for column in range(n_states):
            M[row, column] = 1.0 if row == column else 0.0
            system[row, column] = M[row, column]
    for state in range(n_states - 1):
        ties = 2 if best[state] == 3 else 1
        for action in range(2):
            pair = 2 * state + action
            if (best[state] >> action) & 1 and counted[pair]:
                system[state, pairs[pair]["next_state"]] -= discount / ties
    for pivot in range(n_states):
        scale = system[pivot, pivot]
        for column in range(n_states):
            system[pivot, column] /= scale
            M[pivot, column] /= scale
        for row in range(n_states):
            factor = system[row, pivot]
            if row != pivot and factor != 0.0:
                for column in range(n_states):
                    system[row, column] -= factor * system[pivot, column]
                    M[row, column] -= factor * M[pivot, column]


class FilledBuffer(NamedTuple):
    """Slot i holds one transition of a deterministic world: its pair (s, a) says all of it.

    Slots are sorted by state, and within a state by the order in which they were experienced.
    """

    pair: npt.NDArray[np.int16]
    """[slot]: s · actions + a"""
    before: npt.NDArray[np.int32]
    """[slot]: the slot of the transition just before it in the same string; -1: none"""


def filled_buffer(table: TabularWorld, length: int, *, until_fall: bool) -> FilledBuffer:
    """Every string of ``length`` actions, followed once from the start.

    Args:
        table: the world.
        length: actions of each string.
        until_fall: stop a string where it returns to the start; otherwise continue from there.
    """
    n_strings = table.n_actions**length
    if n_strings * length > MAX_TRANSITIONS:
        raise NeedReplayError(
            f"{length} states are a buffer of up to {n_strings * length:,} transitions, and more "
            f"than {MAX_TRANSITIONS:,} would not fit; choose fewer states."
        )
    pairs = np.empty(n_strings * length, np.int16)
    begins = np.zeros(pairs.size, np.bool_)
    stored = _follow_all(table.next_state, table.start, length, until_fall, pairs, begins)
    pairs, begins = pairs[:stored], begins[:stored]
    order = np.argsort(pairs // table.n_actions, kind="stable")
    slot_of = np.empty(stored, np.int32)
    slot_of[order] = np.arange(stored, dtype=np.int32)
    before = np.where(begins, np.int32(-1), np.roll(slot_of, 1))
    return FilledBuffer(pairs[order], before[order])


@jit
def _follow_all(
    next_state: IntArray,
    start: int,
    length: int,
    until_fall: bool,
    pairs: npt.NDArray[np.int16],
    begins: BoolArray,
) -> int:
    """Follow every string; changes ``pairs`` and ``begins``, returns how many were stored.

    String number i, written in base ``actions`` with ``length`` digits, is its list of actions.
    """
    n_actions = next_state.shape[1]
    n_strings = n_actions**length
    stored = 0
    for string in range(n_strings):
        state = start
        digit = n_strings // n_actions
        begins[stored] = True
        for _ in range(length):
            action = (string // digit) % n_actions
            digit = max(digit // n_actions, 1)
            pairs[stored] = state * n_actions + action
            stored += 1
            state = next_state[state, action]
            if until_fall and state == start:
                break
    return stored


class RankOrder(NamedTuple):
    """Slots from the largest gain to the smallest, for rank-based and greedy sampling.

    Equal gains stay in the order in which they came; the library's ``RankSampler`` orders them by
    slot, which for slots sorted by state would be a bias. A change costs as much as the slot moves.
    """

    slot: npt.NDArray[np.int32]
    """[place]"""
    minus_gain: FloatArray
    """[place]: its slot's gain with a minus, so that places ascend"""
    cumulative: FloatArray
    """[place]: Σ of P up to it; empty for greedy sampling"""


def rank_order(slots: npt.NDArray[np.integer], gain: float, exponent: float | None) -> RankOrder:
    """``slots`` with equal gains, in the order given.

    Args:
        slots: every slot once; empty: an order that is not used.
        gain: the gain of all of them.
        exponent: P(r) ∝ r^−α for ranks r from 1; ``None``: greedy sampling.
    """
    mass = np.zeros(0)
    if exponent is not None and len(slots):
        mass = np.arange(1.0, len(slots) + 1.0) ** -exponent
    cumulative = np.cumsum(mass) / mass.sum()
    return RankOrder(slots.astype(np.int32), np.full(len(slots), -gain), cumulative)


@compiled_in_place
def place_above(ascending: FloatArray, value: float) -> int:
    """The first place whose entry is above ``value``; the length where none is."""
    low, high = 0, ascending.shape[0]
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low


@compiled_in_place
def move(order: RankOrder, place: int, gain: float) -> None:
    """Set the gain of the slot at ``place``, and move it behind its equals. Changes ``order``."""
    slot, target = order.slot[place], place_above(order.minus_gain, -gain)
    if target > place:
        target -= 1
        for hole in range(place, target):
            order.slot[hole] = order.slot[hole + 1]
            order.minus_gain[hole] = order.minus_gain[hole + 1]
    else:
        for hole in range(place, target, -1):
            order.slot[hole] = order.slot[hole - 1]
            order.minus_gain[hole] = order.minus_gain[hole - 1]
    order.slot[target] = slot
    order.minus_gain[target] = -gain
