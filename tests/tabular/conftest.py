"""Worlds that the tests of tabular agents share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from needlab.worlds import DYNA_MAZE, world_of_text
from needlab.worlds.tabular import TabularWorld, world_of_arrays


@pytest.fixture
def uncompiled() -> bool:
    """Whether kernels run as plain Python, some hundred times slower: make less of everything."""
    config: Any = numba.config
    return bool(config.DISABLE_JIT)


@pytest.fixture
def maze() -> TabularWorld:
    """The Dyna maze, with the paper's noise on the reward."""
    return world_of_text(DYNA_MAZE)


@pytest.fixture
def quiet_maze() -> TabularWorld:
    """The Dyna maze in which the goal always gives 1."""
    return world_of_text(DYNA_MAZE, reward_std=0.0)


@pytest.fixture
def small_maze() -> TabularWorld:
    """Nine cells, of which seven are free; the shortest path has 4 steps."""
    return world_of_text("S.#\n#..\n..G\n", reward_std=0.0)


def _random_table(seed: int) -> TabularWorld:
    rng = np.random.default_rng(seed)
    n_states, n_actions = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    shape = (n_states, n_actions)
    ends = rng.random(shape) < 0.2
    ends[np.arange(n_states), rng.integers(0, n_actions, n_states)] = True
    return world_of_arrays(
        next_state=rng.integers(0, n_states, shape),
        reward_mean=rng.choice(np.array([-1.0, 0.0, 0.0, 0.5, 1.0]), shape),
        reward_std=rng.choice(np.array([0.0, 0.0, 0.3]), shape),
        ends=ends,
        starts=[int(rng.integers(0, n_states))],
    )


@pytest.fixture
def random_table() -> Callable[[int], TabularWorld]:
    """Makes a small table from a seed; every state has a step that ends the episode."""
    return _random_table
