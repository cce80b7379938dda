"""Choosing an action: epsilon-greedy with ties broken at random."""

from __future__ import annotations

import numpy as np

from needreplay.compiled import compiled
from needreplay.types import FloatArray


@compiled
def epsilon_greedy(
    Q: FloatArray, value: FloatArray, state: int, epsilon: float, rng: np.random.Generator
) -> int:
    """A random action with probability ε, else one of the best, drawn among equals.

    ``value[s]`` is max_a Q[s, a]. One uniform number decides both, since what is left of it after
    the first decision is uniform again.
    """
    n_actions = Q.shape[1]
    u = rng.random()
    if u < epsilon:
        return int(u / epsilon * n_actions)
    best = value[state]
    ties = 0
    for action in range(n_actions):
        ties += Q[state, action] == best
    wanted = int((u - epsilon) / (1.0 - epsilon) * ties)
    for action in range(n_actions):
        if Q[state, action] == best:
            if wanted == 0:
                return action
            wanted -= 1
    return n_actions - 1


@compiled
def row_maximum(Q: FloatArray, state: int) -> float:
    """max_a Q(s, a)."""
    best = Q[state, 0]
    for action in range(1, Q.shape[1]):
        best = max(best, Q[state, action])
    return float(best)
