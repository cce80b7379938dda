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
    state: dict[str, Any] = {name: net.state_dict() for name, net in agent.networks().items()}
    state["optimizer"] = agent.optimizer.state_dict()
    if agent.need_model is not None:
        state["need_model"] = agent.need_model.state_dict()
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
        "next_feature_id": agent.next_feature_id,
        "successor_updates": 0 if agent.successor is None else agent.successor.updates,
        "action_rng": agent.action_rng.bit_generator.state,
    }
    write_json(folder / COUNTERS, counters)


def load_networks(agent: DeepAgent, folder: Path) -> None:
    """Load networks and optimizer only, which is enough to play."""
    path = folder / NETWORKS
    try:
        state = torch.load(path, map_location=agent.device, weights_only=True)
        for name, network in agent.networks().items():
            network.load_state_dict(state[name])
        agent.optimizer.load_state_dict(state["optimizer"])
        if agent.need_model is not None:
            agent.need_model.load_state_dict(state["need_model"])
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
        for name in ("steps", "updates", "successor_updates", "next_feature_id"):
            check_number(name, counters[name], int, COUNT)
        check_number("next_feature_id", counters["next_feature_id"], int, (0, agent.replay.next_id))
        agent.steps, agent.updates = counters["steps"], counters["updates"]
        agent.next_feature_id = counters["next_feature_id"]
        if agent.successor is not None:
            agent.successor.updates = counters["successor_updates"]
        agent.action_rng.bit_generator.state = counters["action_rng"]
    except (NeedReplayError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise NeedReplayError(f"{str(path)!r} is damaged: {error}.") from error
