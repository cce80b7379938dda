"""Gymnasium environments that walk a transition table: any table, and mazes with a picture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from needlab.worlds.layout import Layout, parse_layout, to_layout
from needlab.worlds.maze import DYNA_MAZE, maze_table
from needlab.worlds.picture import (
    FREE_COLOR,
    GOAL_COLOR,
    START_COLOR,
    WALL_COLOR,
    Picture,
    paint_board,
)
from needlab.worlds.task import TransitionTable
from needreplay._core.errors import NeedReplayError, unknown

AGENT = "A"
NOT_DRAWN: dict[str, Any] = {"render_modes": [], "render_fps": 8}
DRAWN: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 8}


def check_table(table: TransitionTable) -> None:
    """Refuse a table that cannot be walked: shapes that differ, states that do not exist."""
    shape = table.next_state.shape
    if len(shape) != 2 or 0 in shape:
        raise NeedReplayError(
            f"The table's next_state must be a matrix, states x actions; its shape was {shape}."
        )
    for name in ("reward_mean", "reward_std", "ends"):
        other = getattr(table, name).shape
        if other != shape:
            raise NeedReplayError(
                f"The table's {name} must have the shape of next_state, {shape}; it was {other}."
            )
    if not np.issubdtype(table.next_state.dtype, np.integer):
        raise NeedReplayError(
            f"The table's next_state must hold integers; it holds {table.next_state.dtype}."
        )
    outside = np.argwhere((table.next_state < 0) | (table.next_state >= table.n_states))
    if outside.size:
        state, action = outside[0]
        raise NeedReplayError(
            f"The table has states 0 to {table.n_states - 1}, but action {action} in state {state} "
            f"leads to {table.next_state[state, action]}."
        )
    if not 0 <= table.start < table.n_states:
        raise NeedReplayError(
            f"The table's start must be a state, 0 to {table.n_states - 1}; it was {table.start}."
        )
    if not (np.all(np.isfinite(table.reward_mean)) and np.all(np.isfinite(table.reward_std))):
        raise NeedReplayError("The table's reward_mean and reward_std must be finite numbers.")
    if np.any(table.reward_std < 0.0):
        raise NeedReplayError("The table's reward_std must not be negative.")


class TableEnv(gymnasium.Env[Any, Any]):
    """A Gymnasium environment that walks a ``TransitionTable``.

    Observations are states and actions are actions, both integers from 0. Only a reward with a
    standard deviation above 0 takes a random number, from the generator that ``reset(seed=...)``
    sets. ``env.unwrapped.table`` is the table.
    """

    metadata = NOT_DRAWN

    def __init__(self, table: TransitionTable, render_mode: str | None = None) -> None:
        check_table(table)
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise unknown("render mode", render_mode, [*self.metadata["render_modes"], "None"])
        self.table = table
        self.render_mode = render_mode
        self.observation_space = spaces.Discrete(table.n_states)
        self.action_space = spaces.Discrete(table.n_actions)
        self.state = table.start
        self._ended = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Begin an episode in the table's start; ``options`` are ignored."""
        super().reset(seed=seed, options=options)
        self.state = int(self.table.start)
        self._ended = False
        return self.state, {}

    def step(self, action: int | np.integer[Any]) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take one step; it never truncates (``gymnasium.wrappers.TimeLimit`` does)."""
        if self._ended:
            raise NeedReplayError("No episode is under way: call reset() before step().")
        if not self.action_space.contains(action):
            raise NeedReplayError(
                f"action must be an integer from 0 to {self.table.n_actions - 1}; "
                f"it was {action!r}."
            )
        table, at = self.table, (self.state, int(action))
        reward, spread = float(table.reward_mean[at]), float(table.reward_std[at])
        if spread > 0.0:
            reward = float(self.np_random.normal(reward, spread))
        self.state = int(table.next_state[at])
        self._ended = bool(table.ends[at])
        return self.state, reward, self._ended, False, {}

    def render(self) -> Any:
        """Warn: a render mode was not chosen, or the world has none."""
        gymnasium.logger.warn(
            "render() was called but no render_mode was chosen; choose one when the environment "
            f"is made, from: {', '.join(self.metadata['render_modes']) or 'none here'}."
        )


class BoardEnv(TableEnv, ABC):
    """A table with a picture."""

    metadata = DRAWN

    def render(self) -> Any:
        """The board in the form of ``render_mode``: a string, an RGB array, or nothing."""
        if self.render_mode is None:
            return super().render()
        return self.text() if self.render_mode == "ansi" else self.picture()

    @abstractmethod
    def text(self) -> str:
        """The board in characters."""

    @abstractmethod
    def picture(self) -> Picture:
        """The board as an RGB array."""


class MazeEnv(BoardEnv):
    """A maze: states are cells, row-major; actions are up, down, left, right.

    Args:
        layout: a ``Layout``, a maze's text, or the path of a file; the Dyna maze if not given.
        resolution: each cell of the layout becomes ``resolution`` x ``resolution`` cells.
        reward_std: standard deviation of the reward at a goal, whose mean is 1.
        render_mode: ``"ansi"`` (a string), ``"rgb_array"`` or None.
    """

    def __init__(
        self,
        layout: str | Path | Layout | None = None,
        resolution: int = 1,
        reward_std: float = 0.1,
        render_mode: str | None = None,
    ) -> None:
        drawn = parse_layout(DYNA_MAZE, "the Dyna maze") if layout is None else to_layout(layout)
        self.layout = drawn.magnified(resolution)
        super().__init__(maze_table(self.layout, reward_std), render_mode)

    def text(self) -> str:
        """The layout's own characters, with an ``A`` where the agent is."""
        board = self.layout.characters()
        row, col = self.layout.cell(self.state)
        board[row][col] = AGENT
        return "\n".join("".join(line) for line in board)

    def picture(self) -> Picture:
        """Walls dark, the start blue, goals green, the agent an orange disc."""
        layout = self.layout
        colors = np.full((layout.rows, layout.cols, 3), FREE_COLOR, dtype=np.uint8)
        colors[layout.mask(layout.walls)] = WALL_COLOR
        colors[layout.mask(layout.goals)] = GOAL_COLOR
        colors[layout.start] = START_COLOR
        return paint_board(colors, layout.cell(self.state))
