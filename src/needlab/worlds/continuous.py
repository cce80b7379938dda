"""A maze whose cells are crossed in small noisy steps: a world too large for a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from needlab.core.types import Info
from needlab.worlds.make import tabular_world
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import FloatArray

MOVES = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
"""Up, down, left, right, as (row, column)."""


class ContinuousMazeEnv(gymnasium.Env[Any, Any]):
    """A maze in which the agent is a point: observations are its row and column, in cells.

    An action moves it by ``stride`` up, down, left or right, with normal noise in both directions.
    It stays where it is if that would end in a wall or off the board. Episodes begin at the start,
    anywhere in its cell; entering the goal's cell ends them with reward 1.

    Args:
        maze: the name of a board, a world as text (see ``worlds.text``) or the path of a file.
        stride: the length of a move, in cells, below 1.
        noise: the standard deviation of the noise, as a share of the stride.
    """

    def __init__(
        self, maze: str | Path = "dyna-maze", stride: float = 0.5, noise: float = 0.2
    ) -> None:
        world = tabular_world(maze)
        if not world.columns:
            raise NeedReplayError(f"maze is {str(maze)!r}, which has no board; name one that has.")
        if not 0.0 < stride < 1.0 or not 0.0 <= noise < 1.0:
            raise NeedReplayError(
                f"stride is {stride} and noise {noise}; stride must be above 0 and below 1, noise "
                "from 0 to below 1."
            )
        self.world, self.stride, self.noise = world, stride, noise
        shape = world.n_states // world.columns, world.columns
        self._shape = np.array(shape)
        self._free, self._goal = world.free.reshape(shape), (world.goal >= 0).reshape(shape)
        self.observation_space = spaces.Box(np.zeros(2), self._shape.astype(float), dtype=float)
        self.action_space = spaces.Discrete(4)
        self._at = np.zeros(2)

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[FloatArray, Info]:
        """Begin an episode; ``options`` are ignored."""
        super().reset(seed=seed, options=options)
        start = int(self.np_random.choice(self.world.starts))
        self._at = np.array(divmod(start, self.world.columns)) + self.np_random.random(2)
        return self._at.copy(), {}

    def step(self, action: int) -> tuple[FloatArray, float, bool, bool, Info]:
        """Take one step; it never truncates (``gymnasium.wrappers.TimeLimit`` does)."""
        if not self.action_space.contains(action):
            raise NeedReplayError(f"action must be an integer from 0 to 3; it was {action!r}.")
        noise = self.noise * self.np_random.standard_normal(2)
        to = self._at + self.stride * (MOVES[action] + noise)
        row, column = int(np.floor(to[0])), int(np.floor(to[1]))
        inside = 0 <= row < self._shape[0] and 0 <= column < self._shape[1]
        if inside and self._free[row, column]:
            self._at = to
            ends = bool(self._goal[row, column])
        else:
            ends = False
        return self._at.copy(), float(ends), ends, False, {}
