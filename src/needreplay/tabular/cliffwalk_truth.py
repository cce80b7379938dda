"""What is true of a Blind Cliffwalk: its values, and how policies move through it.

States 0 (the start) to n − 1 form the chain, state n is the goal; see ``worlds.cliffwalk``.
"""

from __future__ import annotations

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import FloatArray, IntArray, TransitionTable
from needreplay.rules.successor import closed_form, transition_matrix
from needreplay.tabular.cliffwalk_settings import CliffwalkSettings


def task_discount(settings: CliffwalkSettings, n: int) -> float:
    """γ = 1 − 1 / (n + offset)."""
    return 1.0 - 1.0 / (n + settings.discount_offset)


def right_actions(table: TransitionTable) -> IntArray:
    """The action that leads on, for each state of the chain."""
    n = table.n_states - 1
    right: IntArray = np.argmax(table.next_state[:n] == np.arange(1, n + 1)[:, np.newaxis], axis=1)
    return right


def refuse_another_world(table: TransitionTable, settings: CliffwalkSettings) -> None:
    """Refuse a table whose right actions or falls are not those of the settings."""
    n = table.n_states - 1
    states = np.arange(n)
    right = states % 2 if settings.right_actions == "alternate" else np.zeros_like(states)
    if table.n_actions != 2 or (table.next_state[states, right] != states + 1).any():
        raise NeedReplayError(
            f'The settings have right_actions="{settings.right_actions}", but in the table another '
            "action leads on, or it is no cliffwalk. Make it with "
            "cliffwalk_table(n, settings.fall, settings.right_actions)."
        )
    if (table.ends[states, 1 - right] != (settings.fall == "ends")).any():
        raise NeedReplayError(
            f'The settings have fall="{settings.fall}", but not every fall of the table does so. '
            "Make it with cliffwalk_table(n, settings.fall, settings.right_actions)."
        )


def true_values(table: TransitionTable, discount: float) -> FloatArray:
    """Q*[s, a]: γ^(n − 1 − s) for the right action; for the wrong one γ V*(start), or 0."""
    n = table.n_states - 1
    states, right = np.arange(n), right_actions(table)
    q = np.zeros((n + 1, 2))
    q[states, right] = discount ** (n - 1.0 - states)
    fall = ~table.ends[states, 1 - right]
    q[states, 1 - right] = np.where(fall, discount * q[0, right[0]], 0.0)
    return q


def random_transitions(table: TransitionTable) -> FloatArray:
    """T of the policy that takes each action alike."""
    policy = np.full(table.next_state.shape, 1.0 / table.n_actions)
    return transition_matrix(table.next_state, table.ends, policy)


def optimal_transitions(table: TransitionTable) -> FloatArray:
    """T of the policy that always takes the right action."""
    policy = np.zeros(table.next_state.shape)
    policy[np.arange(table.n_states - 1), right_actions(table)] = 1.0
    return transition_matrix(table.next_state, table.ends, policy)


def faulty_random_transitions(table: TransitionTable) -> FloatArray:
    """The authors' T: right, start and, but for the start itself, a self-loop, with 0.5 each."""
    n = table.n_states - 1
    states = np.arange(n)
    T = np.zeros((n + 1, n + 1))
    T[states, states] = T[states, states + 1] = T[states, table.start] = 0.5
    return T


def faulty_optimal_transitions(table: TransitionTable) -> FloatArray:
    """The authors' T: right and, but for the start, a self-loop, with 1 each."""
    n = table.n_states - 1
    states = np.arange(n)
    T = np.zeros((n + 1, n + 1))
    T[states, states] = T[states, states + 1] = 1.0
    T[table.start, table.start] = 0.0
    return T


def start_matrix(
    settings: CliffwalkSettings, method: str, table: TransitionTable, discount: float
) -> FloatArray:
    """The M that a method's need begins with, and, but for learned need, stays with.

    ``need-optimal`` with ``optimal_need="greedy"`` computes its own; it begins with the random one.
    """
    if method == "need-optimal" and settings.optimal_need != "greedy":
        kinds = {"true": optimal_transitions, "faulty": faulty_optimal_transitions}
        return closed_form(kinds[settings.optimal_need](table), discount)
    if settings.random_need == "faulty":
        return closed_form(faulty_random_transitions(table), discount)
    return closed_form(random_transitions(table), discount)
