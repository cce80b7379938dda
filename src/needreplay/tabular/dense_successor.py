"""The successor matrix of a small world: TD(λ) on whole arrays, and the greedy policy's own M.

The rule is ``rules.successor.td_lambda``; here a step that ends the episode in a state where
episodes do not end (a fall) counts no arrival, as in ``rules.successor.transition_matrix``.
"""

from __future__ import annotations

from needreplay.core.jit import compiled_in_place
from needreplay.core.types import BoolArray, FloatArray, IntArray
from needreplay.tabular.layout import Records


@compiled_in_place
def learn_dense(
    M: FloatArray,
    trace: FloatArray,
    error: FloatArray,
    state: int,
    next_state: int,
    goes_on: bool,
    counted: bool,
    discount: float,
    trace_decay: float,
    step_size: float,
) -> None:
    """TD(λ): e ← γλ e + φ(s);  M ← M + α eᵀ [φ(s) + γ φ(s') M − φ(s) M]. Writes ``M``, ``trace``.

    Where the episode does not go on, φ(s') M is φ(s') if the arrival is counted, else 0.
    """
    n_states = M.shape[0]
    decay = discount * trace_decay
    for row in range(n_states):
        trace[row] *= decay
    trace[state] += 1.0
    if goes_on:
        for column in range(n_states):
            error[column] = discount * M[next_state, column] - M[state, column]
    else:
        for column in range(n_states):
            error[column] = -M[state, column]
        if counted:
            error[next_state] += discount
    error[state] += 1.0
    for row in range(n_states):
        size = step_size * trace[row]
        if size > 0.0:
            for column in range(n_states):
                M[row, column] += size * error[column]


@compiled_in_place
def largest_entry(M: FloatArray) -> float:
    """The largest |M[i, j]|."""
    largest = 0.0
    for row in range(M.shape[0]):
        for column in range(M.shape[1]):
            size = abs(M[row, column])
            largest = size if size > largest else largest
    return largest


@compiled_in_place
def greedy_changed(pairs: Records, n_actions: int, best: IntArray) -> bool:
    """Whether any state's set of best actions is another than in ``best``. Writes ``best``.

    A set is a number: bit a is set where action a is one of the best.
    """
    changed = False
    for state in range(best.shape[0]):
        first = state * n_actions
        top = pairs[first]["q"]
        chosen = 1
        for action in range(1, n_actions):
            q = pairs[first + action]["q"]
            if q > top:
                top = q
                chosen = 1 << action
            elif q == top:
                chosen += 1 << action
        if chosen != best[state]:
            best[state] = chosen
            changed = True
    return changed


@compiled_in_place
def greedy_occupancy(
    pairs: Records,
    n_actions: int,
    best: IntArray,
    counted: BoolArray,
    discount: float,
    system: FloatArray,
    M: FloatArray,
) -> None:
    """M = (I − γ T)⁻¹, T of the greedy policy, ties shared alike. Writes ``system`` and ``M``.

    γ T has rows below 1, so elimination without pivoting is stable. The last state is the goal:
    nothing follows it.
    """
    n_states = M.shape[0]
    for row in range(n_states):
        for column in range(n_states):
            M[row, column] = 1.0 if row == column else 0.0
            system[row, column] = M[row, column]
    for state in range(n_states - 1):
        ties = 0
        for action in range(n_actions):
            ties += (best[state] >> action) & 1
        for action in range(n_actions):
            pair = state * n_actions + action
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
