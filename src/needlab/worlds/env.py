"""Gymnasium environments that walk a tabular world: any world, and mazes with a picture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from needlab.core.types import Info
from needlab.worlds.cliffwalk import Fall, RightActions, cliffwalk_world, right_action_of
from needlab.worlds.make import tabular_world
from needlab.worlds.picture import (
    FREE_COLOR,
    GOAL_COLOR,
    RGB,
    START_COLOR,
    WALL_COLOR,
    Picture,
    paint_board,
)
from needlab.worlds.tabular import (
    TabularWorld,
    check_world,
    sampled_reward,
    slipped,
    start_after,
)
from needreplay._core.errors import NeedReplayError, unknown

AGENT = "A"
FALL_COLOR: RGB = (150, 58, 52)
NOT_DRAWN: Info = {"render_modes": [], "render_fps": 8}
DRAWN: Info = {"render_modes": ["ansi", "rgb_array"], "render_fps": 8}


class TabularEnv(gymnasium.Env[Any, Any]):
    """A Gymnasium environment that walks a ``TabularWorld``.

    Observations are states and actions are actions, both integers from 0. Random numbers are drawn
    only where the world has chance: slip, noisy rewards, several magnitudes or random starts. They
    come from the generator that ``reset(seed=...)`` sets. ``env.unwrapped.world`` is the world.
    """

    metadata = NOT_DRAWN

    def __init__(self, world: TabularWorld, render_mode: str | None = None) -> None:
        check_world(world)
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise unknown("render mode", render_mode, [*self.metadata["render_modes"], "None"])
        self.world = world
        self.render_mode = render_mode
        self.observation_space = spaces.Discrete(world.n_states)
        self.action_space = spaces.Discrete(world.n_actions)
        self.state = world.start
        self._ended = True
        self._following, self._episode = -1, 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[int, Info]:
        """Begin an episode; with a seed, the first one. ``options`` are ignored."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self._following, self._episode = -1, 0
        if self._following < 0:
            self._following = start_after(self.world, -1, self._episode, self.np_random)
        self.state, self._following = self._following, -1
        self._ended = False
        return self.state, {}

    def step(self, action: int | np.integer[Any]) -> tuple[int, float, bool, bool, Info]:
        """Take one step; it never truncates (``gymnasium.wrappers.TimeLimit`` does)."""
        if self._ended:
            raise NeedReplayError("No episode is under way: call reset() before step().")
        if not self.action_space.contains(action):
            raise NeedReplayError(
                f"action must be an integer from 0 to {self.world.n_actions - 1}; "
                f"it was {action!r}."
            )
        world, made = self.world, slipped(self.world, int(action), self.np_random)
        reward = sampled_reward(world, self.state, made, self.np_random)
        self._ended = bool(world.ends[self.state, made])
        self.state = int(world.next_state[self.state, made])
        if self._ended:
            self._episode += 1
            goal = int(world.goal[self.state])
            self._following = start_after(world, goal, self._episode, self.np_random)
        return self.state, reward, self._ended, False, {}

    def render(self) -> Any:
        """Warn: a render mode was not chosen, or the world has none."""
        gymnasium.logger.warn(
            "render() was called but no render_mode was chosen; choose one when the environment "
            f"is made, from: {', '.join(self.metadata['render_modes']) or 'none here'}."
        )


class BoardEnv(TabularEnv, ABC):
    """A world with a picture."""

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
        maze: the name of a board, a world as text (see ``worlds.text``) or the path of a file.
        resolution: each cell becomes ``resolution`` x ``resolution`` cells.
        reward_std: the standard deviation of every reward, in place of those of the text.
        render_mode: ``"ansi"`` (a string), ``"rgb_array"`` or None.
    """

    def __init__(
        self,
        maze: str | Path = "dyna-maze",
        resolution: int = 1,
        reward_std: float | None = None,
        render_mode: str | None = None,
    ) -> None:
        world = tabular_world(maze, resolution=resolution, reward_std=reward_std)
        super().__init__(world, render_mode)

    def text(self) -> str:
        """The walls, starts and goals, with an ``A`` where the agent is."""
        marks, columns = list(self.world.marks()), self.world.columns
        marks[self.state] = AGENT
        return "\n".join(
            "".join(marks[first : first + columns]) for first in range(0, len(marks), columns)
        )

    def picture(self) -> Picture:
        """Walls dark, starts blue, goals green, the agent an orange disc."""
        colors_of = {".": FREE_COLOR, "#": WALL_COLOR, "S": START_COLOR, "G": GOAL_COLOR}
        colors = np.array([colors_of[mark] for mark in self.world.marks()], np.uint8)
        return paint_board(colors.reshape(-1, self.world.columns, 3), self.world.cell(self.state))


class BlindCliffwalkEnv(BoardEnv):
    """The Blind Cliffwalk as a Gymnasium environment; the arguments are ``cliffwalk_world``'s.

    Args:
        n: how many states are not the goal; 2 or more.
        fall: what a wrong action does: ``"ends"`` the episode, or ``"teleports"`` to the start.
        right_actions: ``"alternate"`` with the state, or the ``"first"`` everywhere.
        render_mode: ``"ansi"`` (a string), ``"rgb_array"`` or None.
    """

    def __init__(
        self,
        n: int = 10,
        fall: Fall = "ends",
        right_actions: RightActions = "alternate",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(cliffwalk_world(n, fall, right_actions), render_mode)
        self.right = right_action_of(np.arange(int(n)), right_actions)

    def text(self) -> str:
        """The chain with an ``A`` where the agent is, and each state's right action below."""
        chain = ["S", *"." * (self.right.size - 1), "G"]
        chain[self.state] = AGENT
        return f"state  {''.join(chain)}\nright  {''.join(map(str, self.right))}"

    def picture(self) -> Picture:
        """The ledge above the cliff: the start blue, the goal green, the agent an orange disc.

        Below each state are its two actions, 0 above 1: white is right, red falls.
        """
        n = self.right.size
        colors = np.full((3, n + 1, 3), WALL_COLOR, dtype=np.uint8)
        colors[0] = FREE_COLOR
        colors[0, 0], colors[0, n] = START_COLOR, GOAL_COLOR
        colors[1:, :n] = FALL_COLOR
        colors[1 + self.right, np.arange(n)] = FREE_COLOR
        return paint_board(colors, (0, self.state))
