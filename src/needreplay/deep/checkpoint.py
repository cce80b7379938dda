"""An agent in a folder: networks and optimiser, memory, counters. Reading it never runs code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from needreplay.core.errors import NeedReplayError
from needreplay.core.tables import read_json, write_json
from needreplay.deep.agent import DeepAgent

NETWORKS, MEMORY, COUNTERS = "networks.pt", "memory", "agent.json"
FORMAT = 2
"""Of the networks' parameters; 1 had a tensor for each layer of the successor branches. A file of
another format is taken if it fits all the same, as one without need does."""


def save_agent(agent: DeepAgent, folder: Path) -> None:
    """Write all that the agent is; call it between episodes, where no n-step window is open."""
    agent.tell_untold()
    state: dict[str, Any] = {name: net.state_dict() for name, net in agent.networks().items()}
    state["optimizer"] = agent.optimizer.state_dict()
    state["format"] = FORMAT
    try:
        with (folder / NETWORKS).open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
    except (OSError, RuntimeError) as error:
        # torch wraps a full disk in a RuntimeError of its archive writer.
        raise NeedReplayError(f"{str(folder / NETWORKS)!r} cannot be written: {error}.") from error
    agent.replay.save(folder / MEMORY)
    counters = {
        "steps": agent.steps,
        "updates": agent.updates,
        "successor_updates": 0 if agent.successor is None else agent.successor.updates,
        "choices": agent.choices.bit_generator.state,
    }
    write_json(folder / COUNTERS, counters)


def load_networks(agent: DeepAgent, folder: Path) -> None:
    """Read networks and optimiser back, which is enough to play."""
    path = folder / NETWORKS
    written = FORMAT
    try:
        state = torch.load(path, map_location=agent.device, weights_only=True)
        written = state.get("format", 1)
        for name, network in agent.networks().items():
            network.load_state_dict(state[name])
        agent.optimizer.load_state_dict(state["optimizer"])
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        what = (
            f"is damaged, or of an agent with other settings: {reason}"
            if written == FORMAT
            else f"was written by another version of needreplay (format {written}, this one reads "
            f"{FORMAT}); go on with that version, or begin a run in another folder."
        )
        raise NeedReplayError(f"{str(path)!r} {what}") from error


def load_agent(agent: DeepAgent, folder: Path) -> None:
    """Read back what ``save_agent`` wrote, into an agent of the same settings."""
    counters = read_json(folder / COUNTERS)
    load_networks(agent, folder)
    agent.replay.load(folder / MEMORY)
    agent.steps, agent.updates = counters["steps"], counters["updates"]
    if agent.successor is not None:
        agent.successor.updates = counters["successor_updates"]
    agent.choices.bit_generator.state = counters["choices"]
