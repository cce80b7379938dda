"""Need by hand, told in each of the three ways."""

from __future__ import annotations

import numpy as np
import pytest

from needreplay.core.errors import NeedReplayError
from needreplay.replay.samplers.need_of_slots import NeedOfSlots

SLOTS = np.arange(3)


def test_per_slot() -> None:
    need = NeedOfSlots()
    need.allocate(3)
    np.testing.assert_array_equal(need.of(np.array([2, 0]), np.array([5.0, 6.0, -7.0])), [-7, 5])


def test_per_state() -> None:
    need = NeedOfSlots(n_states=2)
    need.allocate(3)
    need.set_state(np.array([0, 2]), np.array([1, 0]))
    np.testing.assert_array_equal(need.of(SLOTS, np.array([5.0, 6.0])), [6, 0, 5])
    need.forget(np.array([0]))
    np.testing.assert_array_equal(need.of(SLOTS, np.array([5.0, 6.0])), [0, 0, 5])


def test_forward_need_is_projected_on_the_features_of_a_slot() -> None:
    need = NeedOfSlots(n_features=2)
    need.allocate(3)
    need.set_features(SLOTS, np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 0.0]]))
    # m . phi / |phi|^2 = 3 * 2 / 4, (3 + 1) / 2, and 0 for phi = 0
    np.testing.assert_allclose(need.of(SLOTS, np.array([3.0, 1.0])), [1.5, 2.0, 0.0])
    need.forget(np.array([1]))
    np.testing.assert_allclose(need.of(SLOTS, np.array([3.0, 1.0])), [1.5, 0.0, 0.0])


def test_backward_need_is_projected_on_the_present_features() -> None:
    need = NeedOfSlots(n_features=2, backward=True)
    need.allocate(3)
    need.set_features(SLOTS, np.array([[2.0, 0.0], [1.0, 1.0], [0.0, -1.0]]))
    # m_j . phi / |phi|^2 with phi = (1, 2): 2 / 5, 3 / 5, -2 / 5
    np.testing.assert_allclose(need.of(SLOTS, np.array([1.0, 2.0])), [0.4, 0.6, -0.4])


def test_extreme_features_are_projected_without_overflow() -> None:
    need = NeedOfSlots(n_features=2)
    need.allocate(2)
    need.set_features(np.arange(2), np.array([[1e30, 1e30], [1e-30, 0.0]]))
    np.testing.assert_allclose(
        need.of(np.arange(2), np.array([1e30, 1e30])), [1.0, 1e60], rtol=1e-6
    )


def test_vectors_that_float32_cannot_hold_are_refused() -> None:
    need = NeedOfSlots(n_features=2)
    need.allocate(1)
    with pytest.raises(NeedReplayError, match="float32"):
        need.set_features(np.zeros(1, dtype=np.int64), np.array([[1e-40, 0.0]]))


def test_refusals() -> None:
    with pytest.raises(NeedReplayError, match="not both"):
        NeedOfSlots(2, 2)
    need = NeedOfSlots()
    with pytest.raises(NeedReplayError, match="n_states"):
        need.set_state(SLOTS, SLOTS)
    with pytest.raises(NeedReplayError, match="n_features"):
        need.set_features(SLOTS, np.ones((3, 2)))
