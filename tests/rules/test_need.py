"""Projection on features: numbers worked out by hand, and what it equals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needreplay.rules.need import projector
from needreplay.rules.successor import closed_form


def test_projector_by_hand() -> None:
    np.testing.assert_allclose(projector(np.array([3.0, 4.0])), [0.12, 0.16], rtol=1e-15)
    np.testing.assert_array_equal(projector(np.zeros(3)), np.zeros(3))


@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1.0, 1e200])
def test_features_of_any_size_project_on_themselves_as_1(scale: float) -> None:
    features = scale * np.array([0.5, -2.0, 0.0, 1.0])
    assert features @ projector(features) == pytest.approx(1.0, rel=1e-14)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8))
def test_it_points_along_the_features(numbers: list[float]) -> None:
    features = np.array(numbers)
    projected = projector(features)
    assert np.isfinite(projected).all()
    square = float(features @ features)
    if square > 1e-200:
        np.testing.assert_allclose(projected * square, features, rtol=1e-10, atol=1e-300)


def test_it_is_the_occupancy_where_features_are_orthogonal() -> None:
    M = closed_form(np.array([[0.0, 1.0], [0.5, 0.5]]), 0.9)
    for features in (np.eye(2), np.diag([2.0, 5.0]), np.array([[1.0, 1.0], [-3.0, 3.0]])):
        successor = M @ features
        need = [[m @ projector(phi) for phi in features] for m in successor]
        np.testing.assert_allclose(need, M, rtol=1e-12)


def test_overlap_adds_the_occupancy_of_the_other_state() -> None:
    M = np.array([[3.0, 5.0], [0.0, 1.0]])
    features = np.array([[1.0, 0.0], [1.0, 1.0]])
    # Of state 1, |phi|^2 = 2: its own occupancy, and half of state 0's, which overlaps by 1.
    assert (M @ features)[0] @ projector(features[1]) == 5.0 + 3.0 / 2.0


@pytest.mark.parametrize("small", [5e-324, 2.2e-309, -1e-308])
def test_features_too_small_to_divide_by_are_as_good_as_0(small: float) -> None:
    assert projector(np.array([small, 0.0])).tolist() == [0.0, 0.0]
    assert np.isfinite(projector(np.array([1.0, small]))).all()
