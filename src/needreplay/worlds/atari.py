"""Atari 2600 games through ale-py and Gymnasium's own preprocessing; the extra ``atari``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium

from needreplay.errors import NeedReplayError

if TYPE_CHECKING:
    from needreplay.worlds.named import WorldSettings


def make_atari(
    game: str, settings: WorldSettings, *, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """``game`` (``Pong``, ``SpaceInvaders``) as stacks of four 84 x 84 frames."""
    try:
        import ale_py
    except ImportError as missing:
        raise NeedReplayError(
            "Atari's games need the package ale-py, which is not installed; install it with: "
            "pip install 'needreplay[atari]'"
        ) from missing
    gymnasium.register_envs(ale_py)
    env = gymnasium.make(
        f"ALE/{game}-v5",
        frameskip=1,
        repeat_action_probability=settings.sticky,
        full_action_space=settings.action_set == "full",
        render_mode=render_mode,
    )
    env = gymnasium.wrappers.AtariPreprocessing(
        env,
        noop_max=settings.noops,
        frame_skip=4,
        terminal_on_life_loss=settings.life_loss_ends,
    )
    return gymnasium.wrappers.FrameStackObservation(env, 4, padding_type="zero")
