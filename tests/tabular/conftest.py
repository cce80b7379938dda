"""Worlds that the tests of tabular agents share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from needlab.worlds.layout import parse_layout
from needlab.worlds.maze import DYNA_MAZE, maze_table
from needlab.worlds.task import TransitionTable


@pytest.fixture
def uncompiled() -> bool:
    """Whether kernels run as plain Python, some hundred times slower: make less of everything."""
    config: Any = numba.config
    return bool(config.DISABLE_JIT)


@pytest.fixture
def maze() -> TransitionTable:
    """The Dyna maze, with the paper's noise on the reward."""
    return maze_table(parse_layout(DYNA_MAZE))


@pytest.fixture
def quiet_maze() -> TransitionTable:
    """The Dyna maze in which the goal always gives 1."""
    return maze_table(parse_layout(DYNA_MAZE), reward_std=0.0)


@pytest.fixture
def small_maze() -> TransitionTable:
    """Nine cells, of which seven are free; the shortest path has 4 steps."""
    return maze_table(parse_layout("S.#\n#..\n..G\n"), reward_std=0.0)


def _random_table(seed: int) -> TransitionTable:
    rng = np.random.default_rng(seed)
    n_states, n_actions = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    shape = (n_states, n_actions)
    ends = rng.random(shape) < 0.2
    ends[np.arange(n_states), rng.integers(0, n_actions, n_states)] = True
    return TransitionTable(
        next_state=rng.integers(0, n_states, shape),
        reward_mean=rng.choice(np.array([-1.0, 0.0, 0.0, 0.5, 1.0]), shape),
        reward_std=rng.choice(np.array([0.0, 0.0, 0.3]), shape),
        ends=ends,
        start=int(rng.integers(0, n_states)),
    )


@pytest.fixture
def random_table() -> Callable[[int], TransitionTable]:
    """Makes a small table from a seed; every state has a step that ends the episode."""
    return _random_table
