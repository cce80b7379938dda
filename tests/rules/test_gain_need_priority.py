"""Gain, need and the one place where they are combined: numbers worked out by hand."""

from __future__ import annotations

import numpy as np

from needreplay.equations import absolute_gain, backward_need, combine, forward_need

M = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])


def test_gain_is_the_size_of_the_error() -> None:
    assert absolute_gain(-0.75) == 0.75
    assert absolute_gain(0.5) == 0.5
    assert absolute_gain(0.0) == 0.0


def test_forward_need_is_the_row() -> None:
    assert [forward_need(M, 1, other) for other in range(3)] == [4.0, 5.0, 6.0]


def test_backward_need_is_the_column() -> None:
    assert [backward_need(M, 1, other) for other in range(3)] == [2.0, 5.0, 8.0]


def test_combine_is_the_product_and_keeps_the_sign_of_need() -> None:
    assert combine(0.5, 3.0) == 1.5
    assert combine(0.5, -3.0) == -1.5
    assert combine(0.5, 0.0) == 0.0


def test_combine_has_an_exponent_for_each() -> None:
    assert combine(4.0, 3.0, 0.5) == 6.0
    assert combine(4.0, 3.0, 1.0, 2.0) == 36.0
    assert combine(4.0, 9.0, 0.5, 0.5) == 6.0
    assert combine(4.0, 0.0, 0.5, 0.0) == 2.0
