"""Small agents on a walk of random observations, for tests of what learning changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from needlab.deep import DeepAgent, UpdateStats, deep_preset
from needlab.deep.successor import PaperNeed
from needreplay._core.types import AnyArray
from needreplay.need import NeedBuffer

N_ACTIONS = 3
SPACES: dict[str, Box] = {
    "vector": Box(-1.0, 1.0, (5,), np.float32),
    "minatar": Box(0, 1, (2, 10, 10), np.uint8),
    "nature": Box(0, 255, (4, 84, 84), np.uint8),
}
SMALL = {"min_history": 8, "update_period": 1, "capacity": 64, "batch_size": 4, "features": 8}


def small_agent(
    preset: str = "corrected", network: str = "vector", sampler: str = "per-sr", **overrides: Any
) -> DeepAgent:
    """An agent that updates at every step from the eighth on."""
    device = overrides.pop("device", "cpu")
    settings = deep_preset(preset, network, sampler, **{**SMALL, **overrides})  # type: ignore[arg-type]
    return DeepAgent(settings, SPACES[network], N_ACTIONS, steps=100, seed=3, device=device)


def paper_need(agent: DeepAgent) -> PaperNeed:
    """The agent's need, which is the paper's."""
    assert isinstance(agent.need, PaperNeed)
    return agent.need


def query_of(agent: DeepAgent, obs: AnyArray) -> AnyArray:
    """What the buffer is asked for now; gives new transitions their vectors."""
    assert isinstance(agent.replay, NeedBuffer)
    return agent.replay.look(agent.settings.batch_size, obs)


class Step(NamedTuple):
    """One step of the walk."""

    obs: AnyArray
    action: int
    reward: float
    next_obs: AnyArray
    terminated: bool


def walk(network: str, count: int, *, seed: int = 0) -> Iterator[Step]:
    """Random observations; an episode ends after every seventh step."""
    rng = np.random.default_rng(seed)
    space = SPACES[network]

    def seen() -> AnyArray:
        if network == "vector":
            return rng.uniform(-1.0, 1.0, space.shape).astype(np.float32)
        return rng.integers(0, int(space.high.max()) + 1, space.shape).astype(np.uint8)

    obs = seen()
    for number in range(count):
        # In a stack of frames, the next observation drops the oldest frame and adds one.
        fresh = seen()
        next_obs = np.concatenate([obs[1:], fresh[:1]]) if network == "nature" else fresh
        ended = number % 7 == 6
        yield Step(obs, int(rng.integers(N_ACTIONS)), float(rng.normal()), next_obs, ended)
        obs = seen() if ended else next_obs


def taught(agent: DeepAgent, count: int = 20) -> list[UpdateStats]:
    """The agent's updates during ``count`` steps of the walk."""
    updates = []
    for step in walk(agent.settings.network, count):
        agent.observe(*step[:5], truncated=False)
        update = agent.learn(step.next_obs)
        if update is not None:
            updates.append(update)
    return updates
