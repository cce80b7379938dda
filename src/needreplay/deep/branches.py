"""The successor branches u: a small network for each action, of which a row needs only its own.

A row m = u_a(φ) is three layers: h₁ = relu(φ W₁ + b₁), h₂ = relu(h₁ W₂ + b₂), m = h₂ W₃ + b₃.
Torch can compute all branches for all rows in three products; on a CPU, kernels that take each row
through its own branch alone are several times faster, as long as a branch fits into the cache.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.types import FloatArray, IntArray
from needreplay.deep.losses import Gradients

_reassociating = partial(jit, reassociate=True)

_MOST_NUMBERS = 2**16
"""A branch of more does not stay in a core's cache; products of all rows at once win then."""


@_reassociating
def _dense(x: FloatArray, weight: FloatArray, bias: FloatArray, out: FloatArray) -> None:
    """out = x W + b of one row; four inputs at a time, so that ``out`` is gone over less often."""
    n_in, n_out = weight.shape
    whole = n_in - n_in % 4
    for k in range(n_out):
        out[k] = bias[k]
    for j in range(0, whole, 4):
        w0, w1, w2, w3 = weight[j], weight[j + 1], weight[j + 2], weight[j + 3]
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for k in range(n_out):
            out[k] += x0 * w0[k] + x1 * w1[k] + x2 * w2[k] + x3 * w3[k]
    for j in range(whole, n_in):
        for k in range(n_out):
            out[k] += x[j] * weight[j, k]


@jit
def _relu(x: FloatArray) -> None:
    """x = max(0, x), in place."""
    for k in range(len(x)):
        x[k] = max(x[k], x.dtype.type(0.0))


@jit
def _weight(numbers: FloatArray, start: int, n_in: int, n_out: int) -> FloatArray:
    """The weight of a layer that begins at ``start`` of a branch's numbers."""
    return numbers[start : start + n_in * n_out].reshape(n_in, n_out)


@_reassociating
def _add_outer(x: FloatArray, error: FloatArray, layer: FloatArray) -> None:
    """Adds ∂/∂W = x ⊗ error, and behind it ∂/∂b = error, to what begins ``layer``."""
    n_out = len(error)
    for j in range(len(x)):
        if x[j] != 0.0:
            row, x_j = layer[j * n_out : (j + 1) * n_out], x[j]
            for k in range(n_out):
                row[k] += x_j * error[k]
    bias = layer[len(x) * n_out :]
    for k in range(n_out):
        bias[k] += error[k]


@_reassociating
def _back(error: FloatArray, weight: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """out = ∂/∂x = W error of one row, and 0 where the ReLU that made x let nothing through."""
    for j in range(len(x)):
        total = error.dtype.type(0.0)
        if x[j] > 0.0:
            row = weight[j]
            for k in range(len(error)):
                total += row[k] * error[k]
        out[j] = total


@jit
def pass_forward(
    features: FloatArray,
    branch: IntArray,
    numbers: FloatArray,
    first: FloatArray,
    second: FloatArray,
    out: FloatArray,
) -> int:
    """Each row through its own branch; writes m, or what becomes m, and both hidden layers.

    Answers where the first row is whose branch there is not, or -1.
    """
    d, h, half = features.shape[1], first.shape[1], second.shape[1]
    for i in range(len(features)):
        if not 0 <= branch[i] < len(numbers):
            return i
        own = numbers[branch[i]]
        _dense(features[i], _weight(own, 0, d, h), own[d * h :], first[i])
        _relu(first[i])
        at = (d + 1) * h
        _dense(first[i], _weight(own, at, h, half), own[at + h * half :], second[i])
        _relu(second[i])
        at += (h + 1) * half
        _dense(second[i], _weight(own, at, half, d), own[at + half * d :], out[i])
    return -1


@jit
def pass_back(
    features: FloatArray,
    branch: IntArray,
    numbers: FloatArray,
    first: FloatArray,
    second: FloatArray,
    error: FloatArray,
    gradient: FloatArray,
) -> None:
    """Adds to the gradient of ``numbers`` what each row's ``error`` at the end says."""
    d, h, half = features.shape[1], first.shape[1], second.shape[1]
    at_second = (d + 1) * h
    at_third = at_second + (h + 1) * half
    d_first, d_second = np.empty_like(first[0]), np.empty_like(second[0])
    for i in range(len(features)):
        own, moved = numbers[branch[i]], gradient[branch[i]]
        _add_outer(second[i], error[i], moved[at_third:])
        _back(error[i], _weight(own, at_third, half, d), second[i], d_second)
        _add_outer(first[i], d_second, moved[at_second:])
        _back(d_second, _weight(own, at_second, h, half), first[i], d_first)
        _add_outer(features[i], d_first, moved)


class Passed(NamedTuple):
    """What a pass through the kernels leaves for the way back."""

    features: FloatArray
    branch: IntArray
    first: FloatArray
    second: FloatArray
    linear: Tensor
    """m, or where nothing may be negative what softplus makes m of."""


class Branches(nn.Module):
    """u: per action dense h, h / 2 (ReLU), d (linear, or softplus where nothing may be negative).

    From d features with h hidden units. ``numbers`` has a row for each branch with all its
    parameters, layer by layer, each weight (n_in x n_out) before its bias: one tensor is handed to
    kernels and moved by optimisers sooner than six.
    """

    def __init__(
        self, n_branches: int, n_features: int, n_hidden: int, *, nonnegative: bool
    ) -> None:
        super().__init__()
        sizes = [n_features, n_hidden, max(1, n_hidden // 2), n_features]
        self.shapes = tuple(pairwise(sizes))
        parts = []
        for n_in, n_out in self.shapes:
            bound = n_in**-0.5
            parts.append(torch.empty(n_branches, n_in * n_out).uniform_(-bound, bound))
            parts.append(torch.empty(n_branches, n_out).uniform_(-bound, bound))
        self.numbers = nn.Parameter(torch.cat(parts, 1))
        self._is_small = self.numbers.shape[1] <= _MOST_NUMBERS
        self.n_branches = n_branches
        self.nonnegative = nonnegative

    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Weight (branch, n_in, n_out) and bias (branch, 1, n_out) of each layer."""
        lengths = [length for n_in, n_out in self.shapes for length in (n_in * n_out, n_out)]
        parts = iter(torch.split(self.numbers, lengths, 1))
        return [(next(parts).view(-1, *shape), next(parts).unsqueeze(1)) for shape in self.shapes]

    def forward(self, features: Tensor, branch: Tensor) -> Tensor:
        """m of each row of ``features``, by the branch that ``branch`` names for it."""
        if self.has_kernels and not torch.is_grad_enabled():
            return self.signed(self.passed(features, branch).linear)
        x = features if self.n_branches == 1 else features.expand(self.n_branches, *features.shape)
        for layer, (weight, bias) in enumerate(self.layers()):
            x = functional.relu(x) if layer > 0 else x
            if self.n_branches == 1:
                x = torch.addmm(bias[0], x, weight[0])
            else:
                x = torch.baddbmm(bias, x, weight)
        if self.n_branches > 1:
            x = x.gather(0, branch.view(1, -1, 1).expand(1, *x.shape[1:])).squeeze(0)
        return self.signed(x)

    def signed(self, linear: Tensor) -> Tensor:
        """m of what the last layer gives: softplus of it where nothing may be negative."""
        return functional.softplus(linear) if self.nonnegative else linear

    @property
    def has_kernels(self) -> bool:
        """Whether rows can go through kernels, each through its own branch alone."""
        return self._is_small and self.numbers.is_cpu

    def passed(self, features: Tensor, branch: Tensor) -> Passed:
        """A pass through the kernels, which torch knows nothing of."""
        x, chosen = features.detach().numpy(), branch.numpy()
        first, second = (np.empty((len(x), n_out), x.dtype) for _, n_out in self.shapes[:2])
        linear = torch.empty_like(features, requires_grad=False)
        numbers = self.numbers.detach().numpy()
        bad = pass_forward(x, chosen, numbers, first, second, linear.numpy())
        if bad >= 0:
            raise NeedReplayError(
                f"Action {chosen[bad]} of row {bad} is not one of the {self.n_branches} that the "
                "agent was made for."
            )
        return Passed(x, chosen, first, second, linear)

    def gradients(self, passed: Passed, error: Tensor) -> Gradients:
        """The gradient of every parameter, where ``error`` is the loss's gradient by m."""
        features, branch, first, second, linear = passed
        if self.nonnegative:
            error = error * torch.sigmoid(linear)
        gradient = torch.zeros_like(self.numbers)
        numbers = self.numbers.detach().numpy()
        pass_back(features, branch, numbers, first, second, error.numpy(), gradient.numpy())
        return [(self.numbers, gradient)]
