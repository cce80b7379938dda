"""Choosing an action: epsilon-greedy with ties broken at random."""

from __future__ import annotations

import numpy as np

from needreplay.core.jit import compiled_in_place, jit
from needreplay.rules.policy import uniform_index as _uniform_index
from needreplay.tabular.layout import Records

uniform_index = jit(_uniform_index)


@compiled_in_place
def epsilon_greedy(
    pairs: Records, n_actions: int, state: int, value: float, epsilon: float, u: float
) -> int:
    """A random action with probability ε, else one of the best, drawn among equals.

    ``value`` is max_a Q(s, a). ``u`` is a uniform number; it decides both, since what is left of it
    after the first decision is uniform again.
    """
    if u < epsilon:
        return uniform_index(u / epsilon, n_actions)
    first = state * n_actions
    ties = 0
    for pair in range(first, first + n_actions):
        ties += pairs[pair]["q"] == value
    wanted = uniform_index((u - epsilon) / (1.0 - epsilon), ties)
    chosen = 0
    for pair in range(first, first + n_actions):
        if pairs[pair]["q"] == value:
            if wanted == 0:
                chosen = pair - first
                break
            wanted -= 1
    return chosen


@compiled_in_place
def largest_q(pairs: Records, n_actions: int, state: int) -> float:
    """max_a Q(s, a)."""
    best = -np.inf
    for pair in range(state * n_actions, (state + 1) * n_actions):
        q = pairs[pair]["q"]
        best = q if q > best else best
    return best
