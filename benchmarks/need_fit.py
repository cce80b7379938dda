"""How well the forms of need models can fit M / p at all: total variation in four small worlds.

    .venv/bin/python benchmarks/need_fit.py --out results/bench/need_fit.csv

Every state has free vectors, fitted by gradient descent on the exact discounted future (γ = 0.9,
from the next step on; all states are stored equally often). So this is the limit of a form, without
layers and without data. "cosine, offset c" is (|b| (c + cos(u, b)))^6; need models have c = 1.
"spectral" is in closed form: the largest singular values.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from needlab.core.tables import Table, long_table, write_table
from needreplay._core.types import FloatArray
from needreplay.equations import closed_form

DISCOUNT, POWER, STEPS = 0.9, 6, 3_000


def worlds() -> dict[str, FloatArray]:
    """Transition matrices."""
    found: dict[str, FloatArray] = {}
    for n in (50, 200):
        found[f"ring of {n}"] = np.roll(np.eye(n, dtype=np.float64), 1, axis=1)
    loop = np.roll(np.eye(10), 1, axis=1)
    found["40 loops of 10"] = np.kron(np.eye(40), loop).astype(np.float64)
    grid = np.zeros((100, 100))
    for row, column in np.ndindex(10, 10):
        for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            to = np.clip([row + down, column + right], 0, 9) @ [10, 1]
            grid[10 * row + column, to] += 0.25
    found["grid, 10 x 10"] = grid
    return found


def future(T: FloatArray) -> FloatArray:
    """The distribution of the discounted future from the next step on."""
    return (1.0 - DISCOUNT) * closed_form(T, DISCOUNT) @ T


def distance(fitted: FloatArray, true: FloatArray) -> float:
    """Total variation, mean over states."""
    return float(0.5 * np.abs(fitted - true).sum(1).mean())


def cosine(true: FloatArray, numbers: int, offset: float) -> float:
    """The best fit of a power of an offset cosine with so many numbers for each state."""
    torch.manual_seed(0)
    wanted = torch.from_numpy(true)
    u, b = (torch.nn.Parameter(0.3 * torch.randn(len(true), numbers - 1).double()) for _ in "ub")
    optimizer = torch.optim.Adam([u, b], lr=0.02)
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = 0.02 if step < 2 * STEPS // 3 else 0.004
        products = functional.normalize(u, dim=1) @ b.T + offset * b.norm(dim=1)
        fitted = torch.log_softmax(POWER * products.clamp(min=1e-4).log(), 1)
        optimizer.zero_grad()
        loss = -(wanted * fitted).sum(1).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return distance(fitted.detach().exp().numpy(), true)


def spectral(true: FloatArray, numbers: int) -> float:
    """The best fit by an inner product, without negative values."""
    U, S, V = np.linalg.svd(true)
    fitted = np.maximum(0.0, (U[:, :numbers] * S[:numbers]) @ V[:numbers])
    return distance(fitted / fitted.sum(1, keepdims=True), true)


def main() -> None:
    """Fit every form in every world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    rows = {}
    for world, T in worlds().items():
        true = future(T)
        forms = {f"cosine, offset {c:g}, 16 numbers": cosine(true, 16, c) for c in (1.0, 0.7)}
        forms["spectral, 64 numbers"] = spectral(true, 64)
        for form, found in forms.items():
            rows[world, form] = {"total_variation": round(found, 3)}
            print(world, form, f"{found:.3f}", flush=True)
    table: Table = long_table(("world", "form"), rows)
    write_table(out, table)


if __name__ == "__main__":
    main()
