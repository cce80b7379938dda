"""Projection on features: numbers worked out by hand, and what it equals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needreplay._core.errors import NeedReplayError
from needreplay.equations import closed_form, projector
from needreplay.need.form import NeedForm, tabular_need


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


# A chain of three states, 0 -> 1 -> 2, with γ = ½; 2 leads nowhere.
CHAIN = np.array([[1.0, 0.5, 0.25], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
STORED = np.array([0.5, 0.5, 0.0])


@pytest.mark.parametrize(
    ("state", "form", "expected"),
    [
        (0, NeedForm(relative=False), [1.0, 0.5, 0.25]),
        (0, NeedForm(), [2.0, 1.0, 0.0]),  # state 2 is not stored
        (1, NeedForm(), [0.0, 2.0, 0.0]),
        (1, NeedForm(direction="backward"), [0.5, 1.0, 0.0]),
        (2, NeedForm(direction="backward"), [0.25, 0.5, 1.0]),
        (2, NeedForm(direction="backward", relative=False), [0.125, 0.25, 0.0]),
    ],
)
def test_forms_of_need_by_hand(state: int, form: NeedForm, expected: list[float]) -> None:
    np.testing.assert_array_equal(tabular_need(CHAIN, STORED, state, form), expected)


def test_need_does_not_share_memory_with_the_table() -> None:
    for direction in ("forward", "backward"):
        for relative in (True, False):
            form = NeedForm(direction=direction, relative=relative)
            assert not np.shares_memory(tabular_need(CHAIN, STORED, 0, form), CHAIN)


walks = st.integers(2, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.lists(st.floats(0.01, 1.0), min_size=n, max_size=n), min_size=n, max_size=n),
        st.lists(st.floats(1e-6, 1.0), min_size=n, max_size=n),
        st.integers(0, n - 1),
    )
)


@given(walks)
def test_relative_need_samples_states_as_often_as_they_will_be_visited(walk: Any) -> None:
    steps, counts, state = walk
    T, p = np.array(steps), np.array(counts)
    M, p = closed_form(T / T.sum(axis=1, keepdims=True), 0.9), p / p.sum()
    sampled = p * tabular_need(M, p, state, NeedForm())
    np.testing.assert_allclose(sampled / sampled.sum(), M[state] / M[state].sum(), rtol=1e-12)
    # Where all states are stored equally often, M samples as M / p does.
    even = np.full(len(p), 1.0 / len(p))
    need, row = (tabular_need(M, even, state, NeedForm(relative=r)) for r in (True, False))
    np.testing.assert_allclose(need / need.sum(), row / row.sum(), rtol=1e-12)


@given(walks)
def test_backward_need_is_the_occupancy_of_reversed_time(walk: Any) -> None:
    """Where p is stationary, M of the reversed chain is p(s') M[s', s] / p(s)."""
    steps, _, state = walk
    T = np.array(steps) / np.array(steps).sum(axis=1, keepdims=True)
    p = np.linalg.matrix_power(T, 20_000)[0]
    past = closed_form((p[:, np.newaxis] * T).T / p[:, np.newaxis], 0.9)[state]
    need = tabular_need(closed_form(T, 0.9), p, state, NeedForm(direction="backward"))
    np.testing.assert_allclose(need / p[state], past / p, rtol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"query": "past"}, "There is no query 'past'; choose from: present, recent, start."),
        ({"direction": "both"}, "choose from: forward, backward"),
        ({"relative": 1}, "relative is 1; it must be True or False."),
    ],
)
def test_a_form_that_does_not_exist_is_rejected(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(NeedReplayError, match=re.escape(words)):
        NeedForm(**wrong)
