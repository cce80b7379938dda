"""Optional: the successor branches in numba, with their gradient (CPU, small branches).

Torch computes every branch for every row, because rows differ in their action. A kernel takes each
row through its own branch only. ``benchmarks/bench_deep.py`` measures what that saves; without
this module, ``networks.Branches`` computes the same in plain torch.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from needreplay.core.jit import jit
from needreplay.core.types import FloatArray, IntArray

_MAX_PARAMETERS = 2**16
"""A larger branch does not fit into a core's cache; one matrix product for all rows wins then."""

_dot = partial(jit, reassociate=True)


def can_run(features: Tensor, parameters: Tensor) -> bool:
    """Whether the kernels apply: CPU, small branches, and no gradient for the features."""
    small = features.is_cpu and parameters.shape[1] <= _MAX_PARAMETERS
    return small and not (features.requires_grad and torch.is_grad_enabled())


class BranchFunction(torch.autograd.Function):
    """Row i of ``features`` through branch ``branch[i]``; see ``networks.Branches``."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, branch: Tensor, parameters: Tensor, n_hidden: int
    ) -> Tensor:
        """The output of the last layer."""
        ctx.save_for_backward(features, branch, parameters)
        x = features.detach().numpy()
        first, second = (np.empty((len(x), n), x.dtype) for n in hidden_sizes(n_hidden))
        ctx.hidden = first, second
        out = torch.empty_like(features, requires_grad=False)
        forward(x, branch.numpy(), parameters.detach().numpy(), first, second, out.numpy())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the parameters, given ∂loss/∂out."""
        x, branch, parameters = (tensor.detach().numpy() for tensor in ctx.saved_tensors)
        first, second = ctx.hidden
        gradient = torch.zeros(parameters.shape)
        errors = error.contiguous().numpy()
        backward(x, branch, parameters, first, second, errors, gradient.numpy())
        return None, None, gradient, None


def hidden_sizes(n_hidden: int) -> tuple[int, int]:
    """Units of the two hidden layers of a branch."""
    return n_hidden, max(1, n_hidden // 2)


@jit
def _weight(own: FloatArray, start: int, n_in: int, n_out: int) -> FloatArray:
    """The weight of the layer that begins at ``start`` in a branch's parameters."""
    return own[start : start + n_in * n_out].reshape(n_in, n_out)


@_dot
def _dense(x: FloatArray, weight: FloatArray, bias: FloatArray, out: FloatArray) -> None:
    """out = x W + b for one row, four inputs at a time."""
    n_in, n_out = weight.shape
    for k in range(n_out):
        out[k] = bias[k]
    for j in range(0, n_in - 3, 4):
        w0, w1, w2, w3 = weight[j], weight[j + 1], weight[j + 2], weight[j + 3]
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for k in range(n_out):
            out[k] += x0 * w0[k] + x1 * w1[k] + x2 * w2[k] + x3 * w3[k]
    for j in range(n_in - n_in % 4, n_in):
        for k in range(n_out):
            out[k] += x[j] * weight[j, k]


@jit
def _relu(x: FloatArray) -> None:
    """x = max(0, x), in place."""
    for k in range(len(x)):
        x[k] = max(x[k], x.dtype.type(0.0))


@_dot
def _add_gradient(x: FloatArray, error: FloatArray, layer: FloatArray) -> None:
    """∂/∂W += x ⊗ error and ∂/∂b += error, where ``layer`` begins with both."""
    n_out = len(error)
    for j in range(len(x)):
        if x[j] != 0.0:
            row, x_j = layer[j * n_out : (j + 1) * n_out], x[j]
            for k in range(n_out):
                row[k] += x_j * error[k]
    bias = layer[len(x) * n_out :]
    for k in range(n_out):
        bias[k] += error[k]


@_dot
def _error_before(error: FloatArray, weight: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """out = W error for one row, and 0 where the ReLU that gave x was closed."""
    for j in range(len(x)):
        total = error.dtype.type(0.0)
        if x[j] > 0.0:
            row = weight[j]
            for k in range(len(error)):
                total += row[k] * error[k]
        out[j] = total


@jit
def forward(
    x: FloatArray,
    branch: IntArray,
    parameters: FloatArray,
    first: FloatArray,
    second: FloatArray,
    out: FloatArray,
) -> None:
    """h₁ = relu(x W₁ + b₁), h₂ = relu(h₁ W₂ + b₂), out = h₂ W₃ + b₃, each row in its branch."""
    d, h, half = x.shape[1], first.shape[1], second.shape[1]
    at2 = (d + 1) * h
    at3 = at2 + (h + 1) * half
    for i in range(len(x)):
        if not 0 <= branch[i] < len(parameters):
            raise IndexError("an action is not one of the agent's actions")
        own = parameters[branch[i]]
        _dense(x[i], _weight(own, 0, d, h), own[d * h :], first[i])
        _relu(first[i])
        _dense(first[i], _weight(own, at2, h, half), own[at2 + h * half :], second[i])
        _relu(second[i])
        _dense(second[i], _weight(own, at3, half, d), own[at3 + half * d :], out[i])


@jit
def backward(
    x: FloatArray,
    branch: IntArray,
    parameters: FloatArray,
    first: FloatArray,
    second: FloatArray,
    error: FloatArray,
    gradient: FloatArray,
) -> None:
    """Add ∂loss/∂parameters to ``gradient``, given ``error`` = ∂loss/∂out."""
    d, h, half = x.shape[1], first.shape[1], second.shape[1]
    at2 = (d + 1) * h
    at3 = at2 + (h + 1) * half
    error1, error2 = np.empty_like(first[0]), np.empty_like(second[0])
    for i in range(len(x)):
        own, moved = parameters[branch[i]], gradient[branch[i]]
        _add_gradient(second[i], error[i], moved[at3:])
        _error_before(error[i], _weight(own, at3, half, d), second[i], error2)
        _add_gradient(first[i], error2, moved[at2:])
        _error_before(error2, _weight(own, at2, h, half), first[i], error1)
        _add_gradient(x[i], error1, moved)
