"""Atari 2600 games through ale-py and Gymnasium's own preprocessing; the extra ``atari``.

A lost life does not end the game here: it is reported in ``info["life_lost"]``, so that a learner
can treat it as an end while the game, its frames and its score continue.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, SupportsFloat

import gymnasium
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from needlab.core.types import Env, Info
from needlab.worlds.named import WorldSettings
from needreplay._core.errors import NeedReplayError, not_installed

SKIP = 4
"""Frames of the game in a step, the last two of them pooled."""
STACK = 4
"""Frames in an observation; before the first frame of a game they are black."""


def make_atari(game: str, settings: WorldSettings) -> Env:
    """``game`` (``Pong``, ``SpaceInvaders``) as stacks of four 84 x 84 gray frames, as bytes."""
    register_games()
    if f"ALE/{game}-v5" not in gymnasium.registry:
        raise _no_such(game)
    env = gymnasium.make(
        f"ALE/{game}-v5",
        frameskip=1,
        # Preprocessing reads the screen itself; colors would cost time for nothing.
        obs_type="grayscale",
        repeat_action_probability=settings.sticky,
        full_action_space=settings.action_set == "full",
        # The emulator's own cap, in frames, must not come before ours.
        max_num_frames_per_episode=0,
        disable_env_checker=True,
    )
    env = AtariPreprocessing(env, noop_max=settings.noops, frame_skip=SKIP)
    if settings.life_loss_ends:
        env = LifeLost(env)
    return FrameStackObservation(env, STACK, padding_type="zero")


class LifeLost(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Sets ``info["life_lost"]`` at a step that costs a life and does not end the game."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._lives = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin a game."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._lives = int(info["lives"])
        return obs, info

    def step(self, action: int) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        """One step; after a lost life the game continues."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        lives = int(info["lives"])
        info["life_lost"] = lives < self._lives and not terminated
        self._lives = lives
        return obs, reward, terminated, truncated, info


def register_games() -> None:
    """Register the games with Gymnasium, or raise an error that names the missing package."""
    try:
        import ale_py
        import cv2  # noqa: F401 - what Gymnasium's preprocessing shrinks frames with
    except ImportError as missing:
        needs = "Atari's games need ale-py with opencv-python-headless"
        raise not_installed(needs, "atari") from missing
    gymnasium.register_envs(ale_py)


def _no_such(game: str) -> NeedReplayError:
    """The error for an unknown game, with similar names."""
    games = sorted(
        name.removeprefix("ALE/").removesuffix("-v5")
        for name in gymnasium.registry
        if name.startswith("ALE/") and name.endswith("-v5")
    )
    plain = {name.lower(): name for name in games}
    close = get_close_matches(game.replace("_", "").replace(" ", "").lower(), plain, n=3)
    hint = " or ".join(plain[name] for name in close)
    return NeedReplayError(
        f"There is no Atari game {game!r}; "
        + (f"did you mean {hint}?" if hint else f"choose from: {', '.join(games)}.")
    )
