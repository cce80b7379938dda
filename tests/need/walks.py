"""Random walks in small worlds, stored, with what is known of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from needlab.worlds import tabular_world
from needreplay import ReplayBuffer, UniformSampler

N = 6

DISCOUNT = 0.8

CHAIN = np.clip(np.arange(N)[:, None] + [-1, 1, 1], 0, N - 1)
"""What three equally likely moves lead to."""

MAZE = tabular_world("S...\n.##.\n...G").next_state
"""Around a wall of two cells; four moves."""


def walk(moves: Any = CHAIN) -> tuple[ReplayBuffer, Any, Any]:
    """A random walk that may end anywhere; p of its states, and M of what it really did."""
    rng = np.random.default_rng(0)
    n = len(moves)
    buffer = ReplayBuffer.for_spaces(
        spaces.Discrete(n), np.int64, capacity=3_000, sampler=UniformSampler()
    )
    state, counts = 0, np.zeros((n, n))
    visits = np.zeros(n)
    for _ in range(3_000):
        after = int(rng.choice(moves[state]))
        ends = bool(rng.random() < 0.1)
        visits[state] += 1
        counts[state, after] += not ends
        buffer.add(
            obs=state, action=0, reward=0.0, next_obs=after, terminated=ends, truncated=False
        )
        state = 0 if ends else after
    p_next = counts / np.maximum(1, visits)[:, None]
    successor = np.linalg.inv(np.eye(n) - DISCOUNT * p_next)
    return buffer, visits / visits.sum(), (p_next, successor)
