"""Policies as probabilities, and how long their episodes take."""

from __future__ import annotations

import numpy as np

from needreplay._core.types import FloatArray
from needreplay.equations import closed_form


def epsilon_greedy_policy(Q: FloatArray, epsilon: float) -> FloatArray:
    """π(a | s) = ε / |A| + (1 − ε) [a is best] / (number of best actions)."""
    best = Q.max(axis=1, keepdims=True) == Q
    share: FloatArray = best / best.sum(axis=1, keepdims=True)
    policy: FloatArray = epsilon / Q.shape[1] + (1.0 - epsilon) * share
    return policy


def expected_steps(T: FloatArray, start: int) -> float:
    """Σ_s M[start, s] at γ = 1 over all states that are left again: the mean length of an episode.

    T's rows are 0 in final states, as ``successor.transition_matrix`` makes them.
    """
    moving = np.flatnonzero(T.any(axis=1) & (np.diag(T) < 1.0))
    M = closed_form(T[np.ix_(moving, moving)], 1.0)
    return float(M[int(np.searchsorted(moving, start))].sum())
