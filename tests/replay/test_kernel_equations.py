"""The equations that kernels repeat, against ``needreplay.equations``, on grids."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from needreplay.replay._kernels.features import projected, unit_rows
from needreplay.replay._kernels.kernel import equation, powers_of

from needreplay import equations
from needreplay._core.rng import stream

SIZES = [0.0, 1e-100, 1e-3, 0.5, 1.0, 3.7, 1e100]
SHARES = [0.0, 0.3, 0.6, 1.0]
GRIDS: dict[str, tuple[Callable[..., Any], list[Any], list[Any], list[Any]]] = {
    "discounted": (equations.discounted, [-2.0, 0.0, 0.7], SHARES, [-5.0, 0.0, 8.1]),
    "power": (equations.power, SIZES, [*SHARES, 2.0, 2.5], [None]),
    "combine": (
        lambda gain, need, alpha: equations.combine(gain, need, 1.0, alpha),
        SIZES, [0.0, 0.2, 1.0], [*SHARES, 6.0],
    ),
    "mixed_probability": (equations.mixed_probability, SHARES, SHARES, [1, 7]),
    "importance_weight": (equations.importance_weight, SIZES[1:], [1e-100, 1e-4], SHARES),
    "rank_priority": (equations.rank_priority, [1.0, 2.0, 1e6], SHARES, [None]),
    "pser_priority": (equations.pser_priority, SIZES, SIZES, SHARES),
    "pser_decayed": (equations.pser_decayed, SIZES, SHARES, [0, 1, 5]),
    "uniform_index": (equations.uniform_index, [0.0, 0.49, 1.0 - 2**-53, 1.0], [1, 7], [None]),
}  # fmt: skip


@pytest.mark.parametrize("name", GRIDS)
def test_each_equation(name: str) -> None:
    expected, *axes = GRIDS[name]
    for point in product(*axes):
        numbers = [number for number in point if number is not None]
        np.testing.assert_allclose(equation(name, *numbers), expected(*numbers), rtol=1e-14)


@pytest.mark.parametrize("alpha", SHARES)
def test_powers_of_many_with_runs_of_equal_ones(alpha: float) -> None:
    priorities = np.repeat(SIZES, [1, 2, 1, 3, 1, 1, 2])
    expected = [equations.power(one, alpha) for one in priorities.tolist()]
    np.testing.assert_allclose(powers_of(priorities, alpha), expected, rtol=1e-14)


@pytest.mark.parametrize("length", [1, 7, 16, 17, 64])
def test_projected_rows_and_rows_of_length_1(length: int) -> None:
    rows = stream(length, "rows").standard_normal((6, length))
    rows *= np.array([1.0, 1e-150, 1e150, 0.0, 1e-310, 1e-30])[:, None]
    expected = [equations.projector(row) for row in rows]
    np.testing.assert_allclose(projected(rows), expected, rtol=1e-12)
    units, positive = unit_rows(rows)
    np.testing.assert_array_equal(positive, rows.any(axis=1))
    lengths = np.linalg.norm(units[positive], axis=1)
    np.testing.assert_allclose(lengths, 1.0, rtol=1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        directions = rows / np.abs(rows).max(axis=1, keepdims=True)
    np.testing.assert_allclose(
        units[positive],
        (directions / np.linalg.norm(directions, axis=1, keepdims=True))[positive],
        rtol=1e-12,
    )
