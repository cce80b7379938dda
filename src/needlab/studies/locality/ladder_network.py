"""A network of two layers in plain loops, for single updates in compiled code.

Its parameters are one row of numbers: biases of the first layer, weights and biases of the second
and of the head, and weights of the first, input by input. An input has two ones, so the first
layer is a sum of two rows. θ has five rows: the network, its target, Adam's two means, and the
gradient of the update that is being made.
"""

from __future__ import annotations

import numpy as np

from needreplay._core.types import FloatArray, IntArray

RATE, BETA, BETA_SQUARES, EPS = 1e-3, 0.9, 0.999, 1e-8


def first_parameters(
    n_inputs: int, hidden: int, n_actions: int, rng: np.random.Generator
) -> FloatArray:
    """θ before any update: uniform within 1 / sqrt(inputs of the layer), as in torch."""
    parts = [np.zeros(0)]
    if hidden:
        first, second, head = (
            rng.uniform(-1.0, 1.0, (n_in + 1) * n_out) / np.sqrt(n_in)
            for n_in, n_out in ((n_inputs, hidden), (hidden, hidden), (hidden, n_actions))
        )
        parts = [first[:hidden], second, head, first[hidden:]]
    row = np.concatenate(parts)
    theta = np.zeros((5, len(row)))
    theta[:2] = row
    return theta


def q_values(theta: FloatArray, ones: IntArray, layers: FloatArray, out: FloatArray) -> None:
    """Q(s, ·) into ``out``, and both hidden layers into ``layers[0]`` and ``layers[1]``."""
    hidden, n_actions = layers.shape[1], out.shape[0]
    second, bias = hidden, hidden + hidden * hidden
    head = bias + hidden
    first = head + n_actions * (hidden + 1)
    for unit in range(hidden):
        total = theta[unit]
        for one in ones:
            total += theta[first + one * hidden + unit]
        layers[0, unit] = max(total, 0.0)
    for unit in range(hidden):
        total = theta[bias + unit]
        for other in range(hidden):
            total += theta[second + unit * hidden + other] * layers[0, other]
        layers[1, unit] = max(total, 0.0)
    for action in range(n_actions):
        total = theta[head + n_actions * hidden + action]
        for unit in range(hidden):
            total += theta[head + action * hidden + unit] * layers[1, unit]
        out[action] = total


def gradient_step(
    theta: FloatArray,
    ones: IntArray,
    action: int,
    n_actions: int,
    error: float,
    share: float,
    layers: FloatArray,
) -> None:
    """Add ``share`` of the gradient of huber(error) to ``theta[4]``; ``layers`` are the state's."""
    hidden = layers.shape[1]
    slope = -share * min(max(error, -1.0), 1.0)
    second, bias = hidden, hidden + hidden * hidden
    head = bias + hidden
    first = head + n_actions * (hidden + 1)
    gradient = theta[4]
    gradient[head + n_actions * hidden + action] += slope
    for unit in range(hidden):
        gradient[head + action * hidden + unit] += slope * layers[1, unit]
        back = slope * theta[0, head + action * hidden + unit]
        layers[3, unit] = back if layers[1, unit] > 0.0 else 0.0
        layers[2, unit] = 0.0
    for unit in range(hidden):
        back = layers[3, unit]
        if back != 0.0:
            gradient[bias + unit] += back
            for other in range(hidden):
                gradient[second + unit * hidden + other] += back * layers[0, other]
                layers[2, other] += back * theta[0, second + unit * hidden + other]
    for unit in range(hidden):
        if layers[0, unit] > 0.0:
            gradient[unit] += layers[2, unit]
            for one in ones:
                gradient[first + one * hidden + unit] += layers[2, unit]


def adam(theta: FloatArray, steps: int) -> None:
    """Adam's update number ``steps`` with the gradient in ``theta[4]``, which becomes 0."""
    scale = RATE / (1.0 - BETA**steps)
    root = np.sqrt(1.0 - BETA_SQUARES**steps)
    for at in range(theta.shape[1]):
        g = theta[4, at]
        theta[2, at] = BETA * theta[2, at] + (1.0 - BETA) * g
        theta[3, at] = BETA_SQUARES * theta[3, at] + (1.0 - BETA_SQUARES) * g * g
        theta[0, at] -= scale * theta[2, at] / (np.sqrt(theta[3, at]) / root + EPS)
        theta[4, at] = 0.0


def parameters_of(
    row: FloatArray, n_inputs: int, hidden: int, n_actions: int
) -> dict[str, FloatArray]:
    """The parameters as torch names them in a network with ``body`` and ``head``."""
    sizes = (hidden, hidden * hidden, hidden, n_actions * hidden, n_actions, n_inputs * hidden)
    first, second, biases, head, head_biases, columns = np.split(row, np.cumsum(sizes)[:-1])
    return {
        "body.0.weight": columns.reshape(n_inputs, hidden).T.copy(),
        "body.0.bias": first,
        "body.2.weight": second.reshape(hidden, hidden),
        "body.2.bias": biases,
        "head.weight": head.reshape(n_actions, hidden),
        "head.bias": head_biases,
    }
