"""Returns: discounted sums of rewards."""

from __future__ import annotations


def discounted(reward: float, discount: float, later: float) -> float:
    """R_t = r_t + γ R_{t+1}: one step of a discounted sum, from its end."""
    return reward + discount * later
