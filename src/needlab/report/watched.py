"""Runs that can be watched, by name: an agent or a table of events, in a world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from needlab.core.presets import changed, parsed_settings, preset
from needlab.core.tables import Table
from needlab.tabular.evb import EVB, simulate
from needlab.tabular.evb.settings import dyna
from needlab.tabular.replay_events import read_replay
from needlab.tabular.replay_log import (
    Board,
    ReplayLog,
    agent_of,
    evb_log,
    record,
    record_trial,
    table_log,
)
from needlab.tabular.settings import AGENTS, agent_settings
from needlab.worlds import DYNA_MAZE, make_table
from needlab.worlds.tables import table_of_env
from needlab.worlds.task import Task, TransitionTable, make_task
from needlab.worlds.tasks import TaskEnv, parse_task, read_task
from needlab.worlds.tracks import linear_track, open_field, shock_track, t_maze
from needreplay._core.errors import NeedReplayError, unknown
from needreplay._core.rng import stream

TASKS: dict[str, Callable[[], Task]] = {
    "linear-track": linear_track,
    "open-field": open_field,
    "t-maze": t_maze,
    "shock-track": shock_track,
    "dyna-maze": lambda: parse_task(DYNA_MAZE),
}
WATCHABLE = ("evb", "evb-dyna", *(agent for agent in AGENTS if agent != "q-learning"))
"""Agents that replay: EVB, Dyna at EVB's moments, and those of ``tabular.settings``."""
RUN_COLUMNS = ("preset", "agent", "trial")
"""What tells the runs in one table of events apart."""


@dataclass(frozen=True, eq=False)
class World:
    """A world for every tabular agent."""

    board: Board
    task: Task | None
    """None: episodes end in more than goals, so EVB cannot run"""
    table: TransitionTable | None
    """None: it has several starts or slips"""


def world_named(name: str) -> World:
    """A world by name: of ``TASKS``, "cliffwalk", a ``.txt`` file, or a Gymnasium id."""
    if name in TASKS:
        task = TASKS[name]()
        table = make_table(name) if name == "dyna-maze" else None
        return World(Board.of_task(task, name), task, table)
    if name.endswith(".txt") or Path(name).is_file():
        task = read_task(name)
        return World(Board.of_task(task, Path(name).name), task, None)
    if name == "cliffwalk":
        return world_of_table(make_table(name, fall="teleports"), name)
    if ":" not in name and name not in gymnasium.registry:
        raise unknown("world", name, (*TASKS, "cliffwalk", "FILE.txt", "a Gymnasium id"))
    env = gymnasium.make(name, **({"is_slippery": False} if name.startswith("FrozenLake") else {}))
    try:
        inner: Any = env.unwrapped
        columns = getattr(inner, "ncol", 0) or (getattr(inner, "shape", None) or (0, 0))[1]
        return world_of_table(table_of_env(env), name, int(columns))
    finally:
        env.close()


def world_of_table(table: TransitionTable, name: str, columns: int = 0) -> World:
    """A table as a world; without ``columns`` its board is one row, or a square if that is long."""
    states = np.arange(table.n_states)
    entered = np.unique(table.next_state[table.ends])
    moves = table.next_state != states[:, np.newaxis]
    marks = np.full(table.n_states, ".")
    marks[entered] = "G"
    marks[table.start] = "S"
    width = columns or (
        table.n_states if table.n_states <= 40 else int(np.ceil(np.sqrt(table.n_states)))
    )
    task = None
    ends_at_goals = np.isin(table.next_state, entered) == table.ends
    if table.start not in entered and np.all(ends_at_goals | ~moves):
        rewards = {}
        for state in np.unique(table.next_state[moves & (table.reward_mean != 0.0)]).tolist():
            into = moves & (table.next_state == state)
            rewards[state] = [
                (float(table.reward_mean[into].max()), float(table.reward_std[into].max()))
            ]
        task = make_task(table.next_state, [table.start], entered.tolist(), rewards, columns=width)
    return World(Board(name, width, "".join(marks), table.next_state), task, table)


def watched_runs(
    name: str, world: World, *, episodes: int = 50, seed: int = 0, trial: int = 0
) -> list[ReplayLog]:
    """Read the runs of "FILE.csv", a table of replay events; else run and log an agent."""
    if name.endswith(".csv"):
        return _runs_of_table(Path(name).name, world.board, read_replay(name))
    return [watched_run(name, world, episodes=episodes, seed=seed, trial=trial)]


def _runs_of_table(name: str, board: Board, table: Table) -> list[ReplayLog]:
    """One log for each run of a table: those of a study name preset, agent and trial."""
    columns = [column for column in RUN_COLUMNS if column in table.names]
    keys = dict.fromkeys(zip(*(table[column].tolist() for column in columns), strict=True))
    if len(keys) < 2:
        return [table_log(name, board, table)]
    logs = []
    for key in keys:
        run = dict(zip(columns, key, strict=True))
        distinct = [str(run[each]) for each in columns if len(np.unique(table[each])) > 1]
        logs.append(table_log(f"{name}: {', '.join(distinct)}", board, table.where(**run)))
    return logs


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
    if agent in ("evb", "evb-dyna"):
        if world.task is None:
            raise NeedReplayError(
                f"{agent} needs a world whose episodes end at goals only, which "
                f"{world.board.name} is not; choose one of: {', '.join(AGENTS)}."
            )
        chosen = changed(preset(EVB, preset_name or "published"), **settings)
        chosen = dyna(chosen) if agent == "evb-dyna" else chosen
        found = simulate(world.task, chosen, episodes=episodes, seed=seed, simulation=trial)
        return evb_log(name, world.board, found, world.task, chosen)
    if agent not in WATCHABLE:
        raise unknown("agent", agent, (*WATCHABLE, "FILE.csv"))
    learning = agent_settings(agent, preset_name or "printed", **settings)
    if world.table is not None:
        rng = stream(seed, "maze", trial)
        return record_trial(name, world.board, world.table, learning, episodes, rng)
    assert world.task is not None
    fresh = agent_of(learning, world.task.next_state.shape)
    fresh.rng = stream(seed, "agent", trial)
    env_seed = int(stream(seed, "world", trial).integers(2**31))
    return record(name, world.board, fresh, TaskEnv(world.task), episodes, seed=env_seed)
