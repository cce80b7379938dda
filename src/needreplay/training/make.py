"""The world and the agent of a config."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from needreplay.core.errors import NeedReplayError
from needreplay.training.config import RunConfig
from needreplay.worlds.named import make_world

if TYPE_CHECKING:
    import gymnasium

    from needreplay.deep import DeepAgent


def made_world(config: RunConfig, *, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """The config's world, with its preset's settings and overrides."""
    return make_world(config.world, config.resolved().world, render_mode=render_mode)


def made_agent(
    config: RunConfig, env: gymnasium.Env[Any, Any], *, capacity: int | None = None
) -> DeepAgent:
    """An agent that has learned nothing; with another memory size for one that only plays."""
    import torch

    from needreplay.deep import DeepAgent

    _check_device(config.device)
    if config.device == "cpu":
        # More threads would add in another order, and a resumed run would not be the same.
        torch.set_num_threads(1)
    settings = config.resolved().agent
    if capacity is not None:
        settings = replace(settings, capacity=capacity)
    return DeepAgent(
        settings,
        env.observation_space,
        int(env.action_space.n),  # type: ignore[attr-defined]
        steps=config.steps,
        seed=config.seed,
        device=config.device,
    )


def _check_device(device: str) -> None:
    import torch

    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        said = str(error).splitlines()[0].rstrip(".")
        raise NeedReplayError(f"The device {device!r} cannot be used: {said}.") from error
