"""TD-errors and the update along them: numbers worked out by hand."""

from __future__ import annotations

import pytest

from needreplay.equations import moved_towards, td_error


def test_td_error_by_hand() -> None:
    # 0.5 + 0.9 * 2 - 1.25 = 0.5 + 1.8 - 1.25
    assert td_error(0.5, 0.9, 2.0, 1.25) == pytest.approx(1.05, abs=1e-15)


def test_nothing_is_bootstrapped_where_the_episode_terminated() -> None:
    assert td_error(1.0, 0.0, 1000.0, 0.25) == 0.75


def test_an_update_moves_a_share_of_the_error() -> None:
    assert moved_towards(2.0, 0.25, -4.0) == 1.0
    assert moved_towards(2.0, 0.0, -4.0) == 2.0


def test_a_full_step_lands_on_the_target() -> None:
    error = td_error(0.5, 0.5, 3.0, 0.75)
    assert moved_towards(0.75, 1.0, error) == 0.5 + 0.5 * 3.0
