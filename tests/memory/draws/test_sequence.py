"""PSER: gains handed back along an episode, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from needreplay.errors import NeedReplayError
from needreplay.memory import Sequence
from needreplay.types import IntArray


def episode(length: int, **settings: float) -> Sequence:
    """One episode in slots 0, 1, ..., each of gain 1."""
    draw = Sequence(1.0, **settings)  # type: ignore[arg-type]
    draw.allocate(length)
    place(draw, np.arange(length), np.arange(-1, length - 1))
    draw.check_valid()
    return draw


def place(draw: Sequence, slots: IntArray, previous: IntArray, gain: float = 1.0) -> None:
    draw.place(slots, previous)
    draw.set_gain(slots, np.full(len(slots), gain))


def test_a_gain_is_handed_back_five_steps() -> None:
    draw = episode(8)
    draw.set_gain(np.array([7]), np.array([100.0]))
    draw.check_valid()
    expected = [1.0, 1.0, 100 * 0.4**5, 100 * 0.4**4, 100 * 0.4**3, 16.0, 40.0, 100.0]
    np.testing.assert_allclose(draw.gain, expected, rtol=1e-14)


def test_what_is_handed_back_never_lowers_a_gain() -> None:
    draw = episode(3)
    draw.set_gain(np.array([2]), np.array([1.5]))
    np.testing.assert_allclose(draw.gain, [1.0, 1.0, 1.5])


def test_a_gain_falls_by_a_share_only() -> None:
    draw = episode(2)
    draw.set_gain(np.array([0]), np.array([0.0]))
    np.testing.assert_allclose(draw.gain, [0.7, 1.0])
    draw.set_gain(np.array([0]), np.array([0.6]))
    np.testing.assert_allclose(draw.gain, [0.6, 1.0])


def test_it_stops_at_the_start_of_an_episode() -> None:
    draw = Sequence(1.0)
    draw.allocate(4)
    place(draw, np.arange(4), np.array([-1, 0, -1, 2]))
    draw.set_gain(np.array([3]), np.array([10.0]))
    np.testing.assert_allclose(draw.gain, [1.0, 1.0, 4.0, 10.0])


def test_the_window_is_a_setting() -> None:
    draw = episode(4, window=1, decay=0.5)
    draw.set_gain(np.array([3]), np.array([10.0]))
    np.testing.assert_allclose(draw.gain, [1.0, 1.0, 5.0, 10.0])


def test_a_new_transition_neither_keeps_an_old_gain_nor_hands_its_own_back() -> None:
    draw = episode(3)
    draw.set_gain(np.array([0]), np.array([50.0]))
    place(draw, np.array([0]), np.array([2]), gain=8.0)
    draw.check_valid()
    np.testing.assert_allclose(draw.gain, [8.0, 1.0, 1.0])
    draw.set_gain(np.array([0]), np.array([10.0]))
    np.testing.assert_allclose(draw.gain, [10.0, 1.6, 4.0])


def test_nothing_is_handed_to_an_overwritten_predecessor() -> None:
    draw = episode(3)
    place(draw, np.array([0]), np.array([-1]))
    draw.check_valid()
    draw.set_gain(np.array([2]), np.array([10.0]))
    np.testing.assert_allclose(draw.gain, [1.0, 4.0, 10.0])


def test_one_batch_counts_in_its_order() -> None:
    draw = episode(3)
    draw.set_gain(np.array([2, 1]), np.array([10.0, 0.0]))
    draw.check_valid()
    np.testing.assert_allclose(draw.gain, [1.6, 2.8, 10.0])


def test_cleared_slots_are_cut_off() -> None:
    draw = episode(3)
    draw.clear(np.array([0, 1]))
    draw.check_valid()
    draw.set_gain(np.array([2]), np.array([10.0]))
    assert draw.gain.tolist() == [-1.0, -1.0, 10.0]


def test_check_valid_sees_damage() -> None:
    draw = episode(3)
    draw.arrays()["after"][0] = 2
    with pytest.raises(NeedReplayError):
        draw.check_valid()
