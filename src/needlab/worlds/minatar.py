"""MinAtar's games (Young & Tian 2019) as Gymnasium environments; the extra ``minatar``.

The package keeps its last action (which sticky actions repeat) across a reset, and returns booleans
with channels last. Here a reset clears it, and observations are bytes with channels first.
"""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from needlab.core.types import Info
from needreplay._core.errors import not_installed, unknown
from needreplay._core.types import AnyArray

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")

_COLORS = np.array(
    [
        (68, 119, 170),
        (238, 102, 119),
        (34, 136, 51),
        (204, 187, 68),
        (102, 204, 238),
        (170, 51, 119),
        (187, 187, 187),
        (255, 255, 255),
        (136, 34, 85),
        (221, 204, 119),
    ],
    dtype=np.uint8,
)
_CELL = 16


class MinAtarEnv(gymnasium.Env[AnyArray, int]):
    """One game.

    Args:
        game: one of ``GAMES``.
        actions: all six (``full``), or only those that do something in this game (``minimal``).
        sticky: the probability that the last action is repeated instead.
        ramping: whether the game becomes harder with time, as in the original.
        render_mode: ``rgb_array`` or none.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012

    def __init__(
        self,
        game: str,
        *,
        actions: Literal["full", "minimal"] = "full",
        sticky: float = 0.1,
        ramping: bool = True,
        render_mode: str | None = None,
    ) -> None:
        if game not in GAMES:
            raise unknown("MinAtar game", game, GAMES)
        if actions not in ("full", "minimal"):
            raise unknown("action set", actions, ("full", "minimal"))
        self._game = _package()(game, sticky_action_prob=sticky, difficulty_ramping=ramping)
        self._actions = (
            list(range(self._game.num_actions()))
            if actions == "full"
            else list(self._game.minimal_action_set())
        )
        self.action_space = Discrete(len(self._actions))  # type: ignore[assignment]
        height, width, channels = self._game.state_shape()
        self.observation_space = Box(0, 1, (channels, height, width), np.uint8)
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[AnyArray, Info]:
        """Begin an episode; with a seed, one that follows from it alone."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self._game.seed(seed)
        self._game.last_action = 0
        self._game.reset()
        return self._obs(), {}

    def step(self, action: int) -> tuple[AnyArray, float, bool, bool, Info]:
        """One action, by its place in the action set."""
        reward, ended = self._game.act(self._actions[int(action)])
        return self._obs(), float(reward), bool(ended), False, {}

    def _obs(self) -> AnyArray:
        return np.ascontiguousarray(self._game.state().transpose(2, 0, 1), dtype=np.uint8)

    def render(self) -> AnyArray | None:
        """The board as a picture: each channel has a color, the last channel is on top."""
        if self.render_mode is None:
            return None
        return colored(self._obs()).repeat(_CELL, axis=0).repeat(_CELL, axis=1)


def colored(planes: AnyArray) -> AnyArray:
    """[..., row, column, RGB] of [..., plane, row, column]: each plane's color, the last on top."""
    picture = np.zeros((*planes.shape[:-3], *planes.shape[-2:], 3), dtype=np.uint8)
    for number in range(planes.shape[-3]):
        picture[planes[..., number, :, :] > 0] = _COLORS[number % len(_COLORS)]
    return picture


def _package() -> Any:
    try:
        from minatar import Environment
    except ImportError as missing:
        raise not_installed("MinAtar's games need the package minatar", "minatar") from missing
    return Environment
