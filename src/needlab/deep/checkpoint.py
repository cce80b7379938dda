"""An agent in a folder: networks and optimizer, replay buffer, counters. Loading runs no code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from needlab.core.tables import read_json, write_json
from needlab.deep.agent import DeepAgent
from needreplay._core.checks import COUNT, check_number
from needreplay._core.errors import NeedReplayError

NETWORKS, REPLAY, COUNTERS = "networks.pt", "replay", "agent.json"


def save_agent(agent: DeepAgent, folder: Path) -> None:
    """Write the agent's state; call it between episodes, when no n-step window is open."""
    state: dict[str, Any] = {
        "q": agent.q.online.state_dict(),
        "target": agent.q.target.state_dict(),
    }
    state["optimizer"] = agent.optimizer.state_dict()
    if agent.need is not None:
        state["need"] = agent.need.state_dict()
    try:
        with (folder / NETWORKS).open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
    except (OSError, RuntimeError) as error:
        # torch wraps a full disk in a RuntimeError of its archive writer.
        raise NeedReplayError(f"{str(folder / NETWORKS)!r} cannot be written: {error}.") from error
    agent.replay.save(folder / REPLAY)
    counters = {
        "steps": agent.steps,
        "updates": agent.updates,
        "action_rng": agent.action_rng.bit_generator.state,
    }
    write_json(folder / COUNTERS, counters)


def load_networks(agent: DeepAgent, folder: Path) -> None:
    """Load networks, need and optimizer only, which is enough to play."""
    path = folder / NETWORKS
    try:
        state = torch.load(path, map_location=agent.device, weights_only=True)
        agent.q.online.load_state_dict(state["q"])
        agent.q.target.load_state_dict(state["target"])
        agent.optimizer.load_state_dict(state["optimizer"])
        if agent.need is not None:
            agent.need.load_state_dict(state["need"])
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise NeedReplayError(
            f"{str(path)!r} is damaged, or was written by an agent with other settings or by "
            f"another version of needreplay: {reason}"
        ) from error


def load_agent(agent: DeepAgent, folder: Path) -> None:
    """Load what ``save_agent`` wrote into an agent with the same settings."""
    path = folder / COUNTERS
    counters = read_json(path)
    load_networks(agent, folder)
    agent.replay.load(folder / REPLAY)
    try:
        for name in ("steps", "updates"):
            check_number(name, counters[name], int, COUNT)
        agent.steps, agent.updates = counters["steps"], counters["updates"]
        agent.action_rng.bit_generator.state = counters["action_rng"]
    except (NeedReplayError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise NeedReplayError(f"{str(path)!r} is damaged: {error}.") from error
