"""PSER: priorities passed back along an episode, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay._core.types import IntArray
from needreplay.replay import PSERSampler


def episode(length: int, **settings: float) -> PSERSampler:
    """One episode in slots 0, 1, ..., each of gain 1."""
    sampler = PSERSampler(1.0, **settings)  # type: ignore[arg-type]
    sampler.allocate(length)
    place(sampler, np.arange(length), np.arange(-1, length - 1))
    sampler.check_valid()
    return sampler


def place(sampler: PSERSampler, slots: IntArray, previous: IntArray, gain: float = 1.0) -> None:
    sampler.place(slots, previous)
    sampler.set_priorities(slots, np.full(len(slots), gain))


def test_a_gain_is_handed_back_five_steps() -> None:
    sampler = episode(8)
    sampler.set_priorities(np.array([7]), np.array([100.0]))
    sampler.check_valid()
    expected = [1.0, 1.0, 100 * 0.4**5, 100 * 0.4**4, 100 * 0.4**3, 16.0, 40.0, 100.0]
    np.testing.assert_allclose(sampler.priorities, expected, rtol=1e-14)


def test_what_is_handed_back_never_lowers_a_gain() -> None:
    sampler = episode(3)
    sampler.set_priorities(np.array([2]), np.array([1.5]))
    np.testing.assert_allclose(sampler.priorities, [1.0, 1.0, 1.5])


def test_a_gain_falls_by_a_share_only() -> None:
    sampler = episode(2)
    sampler.set_priorities(np.array([0]), np.array([0.0]))
    np.testing.assert_allclose(sampler.priorities, [0.7, 1.0])
    sampler.set_priorities(np.array([0]), np.array([0.6]))
    np.testing.assert_allclose(sampler.priorities, [0.6, 1.0])


def test_it_stops_at_the_start_of_an_episode() -> None:
    sampler = PSERSampler(1.0)
    sampler.allocate(4)
    place(sampler, np.arange(4), np.array([-1, 0, -1, 2]))
    sampler.set_priorities(np.array([3]), np.array([10.0]))
    np.testing.assert_allclose(sampler.priorities, [1.0, 1.0, 4.0, 10.0])


def test_the_window_is_a_setting() -> None:
    sampler = episode(4, window=1, decay=0.5)
    sampler.set_priorities(np.array([3]), np.array([10.0]))
    np.testing.assert_allclose(sampler.priorities, [1.0, 1.0, 5.0, 10.0])


def test_a_new_transition_neither_keeps_an_old_gain_nor_hands_its_own_back() -> None:
    sampler = episode(3)
    sampler.set_priorities(np.array([0]), np.array([50.0]))
    place(sampler, np.array([0]), np.array([2]), gain=8.0)
    sampler.check_valid()
    np.testing.assert_allclose(sampler.priorities, [8.0, 1.0, 1.0])
    sampler.set_priorities(np.array([0]), np.array([10.0]))
    np.testing.assert_allclose(sampler.priorities, [10.0, 1.6, 4.0])


def test_nothing_is_handed_to_an_overwritten_predecessor() -> None:
    sampler = episode(3)
    place(sampler, np.array([0]), np.array([-1]))
    sampler.check_valid()
    sampler.set_priorities(np.array([2]), np.array([10.0]))
    np.testing.assert_allclose(sampler.priorities, [1.0, 4.0, 10.0])


def test_one_batch_counts_in_its_order() -> None:
    sampler = episode(3)
    sampler.set_priorities(np.array([2, 1]), np.array([10.0, 0.0]))
    sampler.check_valid()
    np.testing.assert_allclose(sampler.priorities, [1.6, 2.8, 10.0])


def test_cleared_slots_are_cut_off() -> None:
    sampler = episode(3)
    sampler.clear(np.array([0, 1]))
    sampler.check_valid()
    sampler.set_priorities(np.array([2]), np.array([10.0]))
    assert sampler.priorities.tolist() == [-1.0, -1.0, 10.0]


def test_check_valid_sees_damage() -> None:
    sampler = episode(3)
    sampler.arrays()["after"][0] = 2
    with pytest.raises(NeedReplayError):
        sampler.check_valid()
