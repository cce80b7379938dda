"""The successor representation M: expected discounted visits to every state, and how to learn it.

Yuan & Mattar, section 3 and appendix A; Dayan (1993).
"""

from __future__ import annotations

import numpy as np

from needreplay.core.types import BoolArray, FloatArray, IntArray


def final_states(next_state: IntArray, ends: BoolArray) -> BoolArray:
    """Which states nothing follows: episodes end there, and every action stays there."""
    arrived = np.zeros(next_state.shape[0], np.bool_)
    arrived[next_state[ends]] = True
    stays: BoolArray = (next_state == np.arange(next_state.shape[0])[:, np.newaxis]).all(axis=1)
    return arrived & stays


def transition_matrix(next_state: IntArray, ends: BoolArray, policy: FloatArray) -> FloatArray:
    """T[s, s'] = Σ_a π(a | s) [s' = next(s, a)]: how a policy moves through a deterministic table.

    Nothing follows a final state: its row is 0. A step that ends the episode in any other state
    leads nowhere, so that nothing is counted after it.
    """
    n_states = next_state.shape[0]
    final = final_states(next_state, ends)
    counted = np.where(~ends | final[next_state], policy, 0.0)
    T = np.zeros((n_states, n_states))
    states = np.repeat(np.arange(n_states), next_state.shape[1])
    np.add.at(T, (states, next_state.ravel()), counted.ravel())
    T[final] = 0.0
    return T


def closed_form(T: FloatArray, discount: float) -> FloatArray:
    """M = (I − γ T)⁻¹, the paper's equation 2."""
    identity = np.eye(T.shape[0])
    return np.linalg.solve(identity - discount * T, identity).astype(np.float64, copy=False)


def td_lambda(
    M: FloatArray,
    trace: FloatArray,
    state: int,
    next_state: int,
    *,
    ends: bool,
    discount: float,
    trace_decay: float,
    step_size: float,
    final: bool = True,
) -> None:
    """One step of TD(λ) with accumulating traces; writes ``M`` and ``trace``.

    e ← γ λ e + φ(s_t)
    M ← M + α eᵀ [φ(s_t) + γ φ(s_{t+1}) M − φ(s_t) M]

    Where the step ends the episode, an arrival at a final state is counted, γ φ(s_{t+1}), and
    nothing after it; an arrival at any other state (``final`` false) is not counted. So M goes to
    ``closed_form`` of ``transition_matrix``.
    This is the definition, on dense arrays; ``tabular.trace`` is the same rule, compiled, on only
    the rows whose trace is alive.
    """
    trace *= discount * trace_decay
    trace[state] += 1.0
    error = np.zeros_like(trace)
    error[state] += 1.0
    if ends:
        error[next_state] += discount * final
    else:
        error += discount * M[next_state]
    error -= M[state]
    M += step_size * np.outer(trace, error)
