"""Temporal-difference errors and the Q-learning update."""

from __future__ import annotations


def td_error(reward: float, discount: float, next_value: float, value: float) -> float:
    """δ = r + γ V(s') − V(s).

    ``discount`` is 0 where the episode terminated, so that nothing is bootstrapped there.
    """
    return reward + discount * next_value - value


def moved_towards(value: float, step_size: float, error: float) -> float:
    """V(s) ← V(s) + α δ: the value after a step of size α along the error."""
    return value + step_size * error
