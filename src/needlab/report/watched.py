"""Runs that can be watched, by name: an agent or a table of events, in a world."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from needlab.core.presets import parsed_settings
from needlab.report.recording import evb_log, record_trial
from needlab.report.replay_log import Board, ReplayLog
from needlab.report.table_log import table_log
from needlab.tabular.evb import simulate
from needlab.tabular.evb.settings import AGENTS as EVB_AGENTS
from needlab.tabular.evb.settings import evb_settings
from needlab.tabular.replay_files import read_replay, runs_of
from needlab.tabular.settings import AGENTS, agent_settings
from needlab.worlds import BOARDS, TabularWorld
from needlab.worlds.changes import tabular_schedule
from needlab.worlds.tabular import Schedule, check_schedule
from needreplay._core.errors import NeedReplayError, unknown
from needreplay._core.rng import stream

WATCHABLE = (*EVB_AGENTS, *(agent for agent in AGENTS if agent != "q-learning"))
"""Agents that replay: EVB, Dyna at EVB's moments, and those of ``tabular.settings``."""


@dataclass(frozen=True, eq=False)
class World:
    """A tabular world, which may change, with the board on which it is shown."""

    board: Board
    schedule: Schedule


def world_named(name: str) -> World:
    """A world by name: of ``worlds.BOARDS``, "cliffwalk", a ``.txt`` file, or a Gymnasium id."""
    options: dict[str, Any] = {}
    if name == "cliffwalk":
        options["fall"] = "teleports"
    elif name.startswith("FrozenLake"):
        options["is_slippery"] = False
    elif not (name in BOARDS or ":" in name or name in gymnasium.registry or _is_file(name)):
        raise unknown("world", name, (*BOARDS, "cliffwalk", "FILE.txt", "a Gymnasium id"))
    return shown(tabular_schedule(name, **options), Path(name).name if _is_file(name) else name)


def shown(world: TabularWorld | Schedule, name: str) -> World:
    """Return a world, or one that changes, with its board under the name that is shown."""
    schedule = check_schedule(world)
    return World(Board.of_world(schedule[0][1], name), schedule)


def _is_file(name: str) -> bool:
    return name.endswith(".txt") or Path(name).is_file()


def watched_runs(
    name: str, world: World, *, episodes: int = 50, seed: int = 0, trial: int = 0
) -> list[ReplayLog]:
    """Read the runs of "FILE.csv", a table of replay events; else run and log an agent."""
    if name.endswith(".csv"):
        file = Path(name).name
        return [
            table_log(f"{file}: {run}" if run else file, world.board, own)
            for run, own in runs_of(read_replay(name))
        ]
    return [watched_run(name, world, episodes=episodes, seed=seed, trial=trial)]


def watched_run(
    name: str, world: World, *, episodes: int = 50, seed: int = 0, trial: int = 0
) -> ReplayLog:
    """Run and log an agent.

    Args:
        name: "AGENT" or "AGENT:PRESET", either with ",setting=value" any number of times.
        world: from ``world_named``.
        episodes: to play.
        seed: of the run.
        trial: its number; in the Dyna maze the trial of fig2 with the same seed and number.
    """
    if Path(name).is_dir():
        raise NeedReplayError(
            f"{name!r} is a folder; a page of a deep run comes from: needreplay eval {name} "
            "--watch FILE.html"
        )
    words, *pairs = name.split(",")
    agent, _, preset_name = words.partition(":")
    settings = parsed_settings(pairs, f"{name}:")
    if agent in EVB_AGENTS:
        chosen = evb_settings(agent, preset_name or "published", **settings)
        found = simulate(world.schedule, chosen, episodes=episodes, seed=seed, simulation=trial)
        return evb_log(name, world.board, found, world.schedule[0][1], chosen)
    if agent not in WATCHABLE:
        raise unknown("agent", agent, (*WATCHABLE, "FILE.csv"))
    learning = agent_settings(agent, preset_name or "printed", **settings)
    rng = stream(seed, "maze", trial)
    return record_trial(name, world.board, world.schedule, learning, episodes, rng)
