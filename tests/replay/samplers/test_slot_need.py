"""Need by hand, passed in each of the three ways."""

from __future__ import annotations

import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, FloatArray
from needreplay.replay.samplers import ExhaustiveNeedSampler

SLOTS = np.arange(3)


def made(
    n_states: int | None = None, n_features: int | None = None, *, backward: bool = False
) -> ExhaustiveNeedSampler:
    sampler = ExhaustiveNeedSampler(n_states=n_states, n_features=n_features, backward=backward)
    sampler.allocate(3)
    return sampler


def of(need: ExhaustiveNeedSampler, given: AnyArray) -> FloatArray:
    query = need._query(given)
    assert query is not None
    return need._need_of_slots(query)


def test_per_slot() -> None:
    np.testing.assert_array_equal(of(made(), np.array([5.0, 6.0, -7.0])), [5, 6, -7])


def test_per_state() -> None:
    need = made(n_states=2)
    need.set_state(np.array([0, 2]), np.array([1, 0]))
    np.testing.assert_array_equal(of(need, np.array([5.0, 6.0])), [6, 0, 5])
    need.place(np.array([0]), np.array([-1]))
    np.testing.assert_array_equal(of(need, np.array([5.0, 6.0])), [0, 0, 5])


def test_forward_need_is_projected_on_the_features_of_a_slot() -> None:
    need = made(n_features=2)
    need.features.set(SLOTS, np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 0.0]]))
    # m . phi / |phi|^2 = 3 * 2 / 4, (3 + 1) / 2, and 0 for phi = 0
    np.testing.assert_allclose(of(need, np.array([3.0, 1.0])), [1.5, 2.0, 0.0])
    need.place(np.array([1]), np.array([-1]))
    np.testing.assert_allclose(of(need, np.array([3.0, 1.0])), [1.5, 0.0, 0.0])


def test_backward_need_is_projected_on_the_current_features() -> None:
    need = made(n_features=2, backward=True)
    need.features.set(SLOTS, np.array([[2.0, 0.0], [1.0, 1.0], [0.0, -1.0]]))
    # m_j . phi / |phi|^2 with phi = (1, 2): 2 / 5, 3 / 5, -2 / 5
    np.testing.assert_allclose(of(need, np.array([1.0, 2.0])), [0.4, 0.6, -0.4])


def test_extreme_features_are_projected_without_overflow() -> None:
    need = made(n_features=2)
    need.features.set(np.arange(2), np.array([[1e30, 1e30], [1e-30, 0.0]]))
    np.testing.assert_allclose(of(need, np.array([1e30, 1e30]))[:2], [1.0, 1e60], rtol=1e-6)


def test_refusals() -> None:
    with pytest.raises(NeedReplayError, match="not both"):
        made(2, 2)
    for wrong in (0, -1, 1.5, True, "x"):
        for name in ("n_states", "n_features"):
            with pytest.raises(NeedReplayError, match=f"{name} is"):
                made(**{name: wrong})  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="n_states"):
        made().set_state(SLOTS, SLOTS)
    with pytest.raises(NeedReplayError, match="n_features"):
        _ = made().features
    with pytest.raises(NeedReplayError, match="beyond"):
        made(n_features=2).features.set(np.zeros(1, dtype=np.int64), np.array([[1e-40, 0.0]]))
