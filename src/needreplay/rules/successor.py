"""The successor representation M: expected discounted visits to every state, and how to learn it.

Yuan & Mattar, section 3 and appendix A; Dayan (1993).
"""

from __future__ import annotations

import numpy as np

from needreplay.types import BoolArray, FloatArray, IntArray


def transition_matrix(next_state: IntArray, ends: BoolArray, policy: FloatArray) -> FloatArray:
    """T[s, s'] = Σ_a π(a | s) [s' = next(s, a)]: how a policy moves through a deterministic table.

    A step that ends the episode still arrives at its next state; the row of a state that is only
    ever an end is set to 0 by ``stop_at`` in ``closed_form``'s caller, see ``absorbing_states``.
    """
    n_states = next_state.shape[0]
    T = np.zeros((n_states, n_states))
    states = np.repeat(np.arange(n_states), next_state.shape[1])
    np.add.at(T, (states, next_state.ravel()), policy.ravel())
    T[absorbing_states(next_state, ends)] = 0.0
    return T


def absorbing_states(next_state: IntArray, ends: BoolArray) -> IntArray:
    """The states in which episodes end: where a step with ``ends`` arrives. Nothing follows them."""
    return np.unique(next_state[ends])


def closed_form(T: FloatArray, discount: float) -> FloatArray:
    """M = (I − γ T)⁻¹, the paper's equation 2."""
    identity = np.eye(T.shape[0])
    M: FloatArray = np.linalg.solve(identity - discount * T, identity)
    return M


def decayed_trace(trace: float, discount: float, trace_decay: float) -> float:
    """γ λ e: what is left of an eligibility trace after one step (then 1 is added at s_t)."""
    return discount * trace_decay * trace


def occupancy_error(
    visit: float, discount: float, next_occupancy: float, occupancy: float
) -> float:
    """φ(s_t) + γ φ(s_{t+1}) M − φ(s_t) M, in one column: the TD-error of an expected visit count."""
    return visit + discount * next_occupancy - occupancy


def td_lambda(
    M: FloatArray,
    trace: FloatArray,
    state: int,
    next_state: int,
    *,
    discount: float,
    trace_decay: float,
    step_size: float,
) -> None:
    """One step of TD(λ) with accumulating traces; writes ``M`` and ``trace`` (both dense).

    e ← γ λ e + φ(s_t)
    M ← M + α eᵀ [φ(s_t) + γ φ(s_{t+1}) M − φ(s_t) M]

    This is the definition; ``tabular`` has a compiled form that touches only rows whose trace is
    alive.
    """
    trace *= discount * trace_decay
    trace[state] += 1.0
    error = discount * M[next_state] - M[state]
    error[state] += 1.0
    M += step_size * np.outer(trace, error)
