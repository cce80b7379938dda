"""Need: how much the agent expects to visit each state from where it is."""

from __future__ import annotations

import numpy as np
from numba import objmode

from needlab.core.equations import successor_row
from needlab.core.jit import jit
from needlab.tabular.evb.backups import (
    FIRST_EIGENVECTOR_NEED,
    GIVEN_NEED,
    ONE_NEED,
    ONLINE_NEED,
    POLICY_NEED,
    ZERO_NEED,
    Agent,
    Rule,
    softmax,
)
from needreplay._core.types import FloatArray


@jit
def policy_transitions(agent: Agent, beta: float) -> FloatArray:
    """T of the present softmax policy over the remembered outcomes; goals lead to starts."""
    T = agent.returns.copy()
    states, actions = agent.Q.shape
    chances = np.empty(actions)
    for s in range(states):
        if agent.outcome[s, 0] >= 0:
            softmax(agent.Q[s], beta, chances)
            for a in range(actions):
                T[s, agent.outcome[s, a]] += chances[a]
    return T


def left_eigenvector(T: FloatArray, first: bool) -> FloatArray:
    """An absolute left eigenvector of T.

    Args:
        T: transition frequencies.
        first: take the one that LAPACK lists first, with unit length, whatever its eigenvalue;
            otherwise that of the eigenvalue nearest to 1, with sum 1: the stationary distribution.
    """
    from scipy.linalg import eig

    values, vectors = eig(T, left=True, right=False)
    place = 0 if first else int(np.argmin(np.abs(values - 1.0)))
    need = np.abs(vectors[:, place])
    return np.ascontiguousarray(need if first else need / need.sum())


@jit
def need_of(agent: Agent, rule: Rule, state: int) -> FloatArray:
    """Need of every state if the agent is in ``state``."""
    if rule.need == ONLINE_NEED:
        return successor_row(agent.T, rule.discount, state)
    if rule.need == POLICY_NEED:
        return successor_row(
            policy_transitions(agent, rule.inverse_temperature), rule.discount, state
        )
    if rule.need == GIVEN_NEED:
        row: FloatArray = agent.given[state].copy()
        return row
    if rule.need == ONE_NEED:
        return np.ones(agent.T.shape[0])
    if rule.need == ZERO_NEED:
        return np.zeros(agent.T.shape[0])
    T, first = agent.T, rule.need == FIRST_EIGENVECTOR_NEED
    with objmode(need="float64[::1]"):
        need = left_eigenvector(T, first)
    return need  # noqa: RET504
