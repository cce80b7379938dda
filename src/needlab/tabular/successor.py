"""The successor representation M of a tabular world: its transition matrix, and TD(λ).

Yuan & Mattar, section 3 and appendix A; Dayan (1993). The closed form is
``needreplay.equations.closed_form``.
"""

from __future__ import annotations

import numpy as np

from needreplay._core.types import BoolArray, FloatArray, IntArray


def final_states(next_state: IntArray, ends: BoolArray) -> BoolArray:
    """The states in which episodes end and every action stays."""
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


def random_policy_matrix(next_state: IntArray, ends: BoolArray) -> FloatArray:
    """T of the policy that takes every action equally often."""
    policy = np.full(next_state.shape, 1.0 / next_state.shape[1])
    return transition_matrix(next_state, ends, policy)


def td_lambda(
    M: FloatArray,
    trace: FloatArray,
    active: IntArray,
    error: FloatArray,
    state: int,
    next_state: int,
    ends: bool,
    final: bool,
    discount: float,
    trace_decay: float,
    step_size: float,
    smallest: float,
) -> None:
    """One step of TD(λ) with accumulating traces (the paper's equations 3 to 5).

    e ← γ λ e + φ(s)
    M ← M + α eᵀ [φ(s) + γ φ(s') M − φ(s) M]

    Where the step ends the episode, the arrival at a final state is counted, γ φ(s'), and nothing
    after it; an arrival at any other state is not counted. So M converges to ``closed_form`` of
    ``transition_matrix``. Only rows with a trace change, so a step costs O(active states x states).

    Args:
        M: [state, state]; changed.
        trace: [state], e; changed. Zeros at first.
        active: [state + 1]: the states whose trace is not 0, and in the last entry how many they
            are; changed. Zeros at first.
        error: [state], work space.
        state: s.
        next_state: s'.
        ends: whether the episode ended with this step.
        final: whether episodes end in s'; read only where ``ends``.
        discount: γ.
        trace_decay: λ.
        step_size: α.
        smallest: a trace at or below this becomes 0.
    """
    n_states = M.shape[0]
    count = active[n_states]
    index = 0
    while index < count:
        row = active[index]
        decayed = trace[row] * (discount * trace_decay)
        if decayed <= smallest:
            trace[row] = 0.0
            count -= 1
            active[index] = active[count]
        else:
            trace[row] = decayed
            index += 1
    if trace[state] == 0.0:
        active[count] = state
        count += 1
    trace[state] += 1.0
    active[n_states] = count
    for column in range(n_states):
        following = 0.0 if ends else discount * M[next_state, column]
        error[column] = following - M[state, column]
    if ends and final:
        error[next_state] += discount
    error[state] += 1.0
    for index in range(count):
        row = active[index]
        size = step_size * trace[row]
        for column in range(n_states):
            M[row, column] += size * error[column]


def td_lambda_features(
    W: FloatArray,
    trace: FloatArray,
    features: FloatArray,
    next_features: FloatArray,
    ends: bool,
    final: bool,
    discount: float,
    trace_decay: float,
    step_size: float,
    smallest: float = 0.0,
) -> None:
    """One step of TD(λ) for successor features ψ(s) = φ(s) W of given features φ (section 3.1).

    It is ``td_lambda`` with features in the place of states: one-hot features give M. Coarse or
    tile codes share what they learn between states. Where R = φ · w, the value is ψ · w, so that a
    goal that moves needs a new w alone. Set ``trace`` to 0 where an episode begins. Features and
    traces of 0 cost nothing.

    Args:
        W: [feature, feature]; changed.
        trace: [feature], e; changed.
        features: φ(s).
        next_features: φ(s').
        ends: whether the episode ended with this step.
        final: whether episodes end in s'; read only where ``ends``.
        discount: γ.
        trace_decay: λ.
        step_size: α.
        smallest: a trace that is not larger becomes 0.
    """
    error = features.copy()
    if ends and final:
        error += discount * next_features
    for row in range(trace.shape[0]):
        trace[row] *= discount * trace_decay
        if abs(trace[row]) <= smallest:
            trace[row] = 0.0
        trace[row] += features[row]
        if features[row] != 0.0:
            error -= features[row] * W[row]
        if next_features[row] != 0.0 and not ends:
            error += discount * next_features[row] * W[row]
    for row in range(trace.shape[0]):
        if trace[row] != 0.0:
            W[row] += step_size * trace[row] * error


def clear_trace(trace: FloatArray, active: IntArray) -> None:
    """e ← 0, where an episode begins. Changes both, in O(active states)."""
    n_states = trace.shape[0]
    for index in range(active[n_states]):
        trace[active[index]] = 0.0
    active[n_states] = 0
