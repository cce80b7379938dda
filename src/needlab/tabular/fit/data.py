"""Behavior and replay of one animal or agent, in order: what a fit takes.

Two tables say everything. ``steps`` is where the animal was: time, state, and if known reward,
episode and action (the one that led to the row). ``events`` is what was replayed: event, time,
state, and if known action, length (pairs of the backup's chain) and agent_state (the state
that need starts from).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from needlab.core.tables import Table, read_table, write_table
from needlab.tabular.evb.episodes import STEP
from needlab.tabular.evb.settings import EVB, EVBSettings
from needlab.tabular.evb.simulation import Simulation
from needlab.worlds.tabular import Schedule, TabularWorld, only_rewards_change
from needreplay._core.errors import NeedReplayError, counted
from needreplay._core.types import AnyArray, FloatArray, IntArray

UNKNOWN = -1

EVENT = np.dtype(
    [
        ("episode", np.int64),
        ("steps", np.int64),
        ("agent_state", np.int64),
        ("first", np.int64),
        ("count", np.int64),
    ]
)
"""A replay: its episode, how many steps were made before it, where need starts, and its backups."""
PAIR = np.dtype([("state", np.int64), ("action", np.int64), ("length", np.int64)])
"""A replayed pair; -1: its action is not known; 0: the length of its chain is not known."""


@dataclass(frozen=True, eq=False)
class ReplayData:
    """Behavior and replay in the order of time."""

    world: TabularWorld
    """The world that the animal lives in."""
    steps: AnyArray
    """Every step, with its episode, state, action, next_state and reward."""
    events: AnyArray
    """Every replay, as ``EVENT`` lists its columns."""
    pairs: AnyArray
    """What was replayed (``PAIR``), replay by replay."""
    notes: tuple[str, ...] = ()
    """Sentences that say what was left out."""

    @property
    def episodes(self) -> IntArray:
        """The episode of every replayed pair."""
        found: IntArray = np.repeat(self.events["episode"], self.events["count"])
        return found


def data_of(
    found: Simulation, world: TabularWorld | Schedule, settings: EVBSettings = EVB["published"]
) -> ReplayData:
    """The data of a simulation (``simulate`` or ``simulate_model``).

    Args:
        found: the simulation.
        world: its world, or the list of them if its rewards changed.
        settings: of its agent: whether a replay at the start is before or after the first step.
    """
    events = np.zeros(len(found.pauses), EVENT)
    for field, source in (("episode", "episode"), ("agent_state", "state"), ("first", "first")):
        events[field] = found.pauses[source]
    events["count"] = found.pauses["count"]
    early = settings.start_replay == "before-first-step"
    events["steps"] = found.pauses["step"] + ~((found.pauses["kind"] == 0) & early)
    pairs = np.zeros(len(found.backups), PAIR)
    for field in ("state", "action", "length"):
        pairs[field] = found.backups[field]
    events = events[events["count"] > 0]
    return _checked(ReplayData(only_rewards_change(world), found.steps, events, pairs))


def read_data(events: str | Path, steps: str | Path, world: TabularWorld) -> ReplayData:
    """Read two CSV files; see ``data_from``."""
    return data_from(read_table(events), read_table(steps), world, (str(events), str(steps)))


def data_from(
    events: Table, steps: Table, world: TabularWorld, names: Sequence[str] = ("events", "steps")
) -> ReplayData:
    """Put a table of replayed states and a table of positions together by their times.

    Repeated positions count once. A position that no single move of the world leads to begins anew
    there: after a goal, at a new episode, or after lost tracking. Replayed states that no model can
    replay (goals, bumps into walls) are left out. ``notes`` counts what was left out.

    >>> from needlab.worlds import tabular_world
    >>> steps = Table({"time": [0, 1, 2, 3], "state": [0, 1, 2, 3], "reward": [0, 0, 0, 1.0]})
    >>> events = Table({"event": [0, 0, 0], "time": [3.5, 3.6, 3.7], "state": [2, 1, 0]})
    >>> data = data_from(events, steps, tabular_world("S..G"))
    >>> len(data.steps), data.pairs["state"].tolist(), data.events["agent_state"].tolist()
    (3, [2, 1, 0], [3])

    Args:
        events: event, time, state; if known action, length, agent_state.
        steps: time, state; if known reward, episode, action.
        world: the world: its states are cells, row by row from 0.
        names: what to call the tables in messages.
    """
    return _events_of(events, world, names[0], _behavior_of(steps, world, names[1]))


def write_data(data: ReplayData, events: str | Path, steps: str | Path) -> None:
    """Write the two tables that ``read_data`` reads; times are numbers of steps."""
    made, rows = data.steps, []
    for number, step in enumerate(made.tolist()):
        episode, state, action, after, reward = step
        new = number == 0 or made["next_state"][number - 1] != state
        if new or made["episode"][number - 1] != episode:
            rows.append((number + 0.5, episode, state, UNKNOWN, 0.0))
        rows.append((number + 1.0, episode, after, action, reward))
    columns = dict(zip(("time", "episode", "state", "action", "reward"), zip(*rows, strict=True),
                       strict=True))  # fmt: skip
    write_table(steps, Table(columns))
    count = data.events["count"]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    begun = np.repeat(data.events["steps"] + 0.1, count)
    # A replay of the next episode, before its first step, comes after the animal was put there.
    last = np.repeat(data.events["steps"], count) - 1
    begun += 0.5 * (made["episode"][last] < data.episodes)
    write_table(
        events,
        Table({
            "event": np.repeat(np.arange(len(count)), count),
            "time": begun + 1e-4 * within,
            "state": data.pairs["state"],
            "action": data.pairs["action"],
            "length": data.pairs["length"],
            "agent_state": np.repeat(data.events["agent_state"], count),
        }),
    )  # fmt: skip


def _column(table: Table, name: str, where: str, default: float | None = None) -> FloatArray:
    """A column as finite numbers."""
    if name not in table.names:
        if default is not None:
            return np.full(len(table), default)
        raise NeedReplayError(
            f"{where} has no column {name!r}; its columns are {', '.join(table.names)}."
        )
    values = table[name]
    if values.dtype.kind not in "iufb" or not np.isfinite(values.astype(np.float64)).all():
        kind = "text" if values.dtype.kind not in "iufb" else "a value that is not finite"
        raise NeedReplayError(f"Column {name!r} of {where} has {kind}; it must hold numbers only.")
    return values.astype(np.float64)


def _whole(
    table: Table, name: str, where: str, count: int, least: int, default: float | None = None
) -> IntArray:
    """A column of whole numbers from ``least`` to ``count`` - 1."""
    values = _column(table, name, where, default)
    wrong = (values != np.floor(values)) | (values < least) | (values >= count)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise NeedReplayError(
            f"Row {row + 2} of {where} has {name} {values[row]:g}; it must be a whole number from "
            f"{least} to {count - 1}{'' if name == 'length' else ' in this world'}."
        )
    return values.astype(np.int64)


def _with_gaps(table: Table) -> Table:
    """The table with state -1 where a decoder gave none: an empty cell or NaN."""
    if "state" not in table.names:
        return table
    cells = [UNKNOWN if cell == "" or cell != cell else cell for cell in table["state"].tolist()]
    with suppress(ValueError):
        return Table({**dict(table), "state": np.array(cells, np.float64)})
    return table


def _inside(states: IntArray, world: TabularWorld, where: str) -> None:
    walls = (states >= 0) & ~world.free[states]
    if walls.any():
        row = int(np.flatnonzero(walls)[0])
        raise NeedReplayError(
            f"Row {row + 2} of {where} has state {states[row]}, which is a wall in this world; "
            "states are cells, row by row from 0."
        )


def _ordered(times: FloatArray, where: str) -> None:
    if len(times) == 0:
        raise NeedReplayError(f"{where} has no rows.")
    back = np.flatnonzero(np.diff(times) < 0)
    if back.size:
        raise NeedReplayError(
            f"Row {back[0] + 3} of {where} is earlier than the row before it; sort by time."
        )


class _Behavior(NamedTuple):
    times: FloatArray
    """The time of every position."""
    states: IntArray
    episodes: IntArray
    steps: AnyArray
    ends: FloatArray
    """When each step was complete."""
    notes: list[str]


def _behavior_of(table: Table, world: TabularWorld, where: str) -> _Behavior:
    """The positions in time, and the steps between them."""
    times = _column(table, "time", where)
    _ordered(times, where)
    states = _whole(table, "state", where, world.n_states, 0)
    _inside(states, world, where)
    actions = _whole(table, "action", where, world.n_actions, UNKNOWN, UNKNOWN)
    rewards = _column(table, "reward", where, 0.0)
    given = _column(table, "episode", where, 0.0)
    made: list[tuple[int, int, int, int, float]] = []
    ends: list[float] = []
    gaps, episode = 0, 0
    episodes = np.zeros(len(states), np.int64)
    for row in range(1, len(states)):
        before, after, action = int(states[row - 1]), int(states[row]), int(actions[row])
        moves = world.next_state[before] == after
        if given[row] != given[row - 1]:
            episode += 1
        elif action < 0 and before == after:
            # The animal stays; a reward that comes later belongs to the step that led here.
            if made and made[-1][3] == after:
                made[-1] = (*made[-1][:4], made[-1][4] + rewards[row])
        elif world.goal[before] >= 0:
            episode += 1
        elif action < 0 and not moves.any():
            gaps += 1
        elif action >= 0 and not moves[action]:
            raise NeedReplayError(
                f"Row {row + 2} of {where} goes from state {before} to {after} by action {action}, "
                f"which leads to {world.next_state[before, action]} in this world."
            )
        else:
            taken = action if action >= 0 else int(np.argmax(moves))
            made.append((episode, before, taken, after, rewards[row]))
            ends.append(times[row])
        episodes[row] = episode
    if not made:
        raise NeedReplayError(f"{where} has no move that is possible in this world.")
    if gaps > len(made):
        raise NeedReplayError(
            f"{where} has {counted(gaps, 'jump')} between cells that are no neighbors, and only "
            f"{counted(len(made), 'move')}: this seems to be another world, or bins are skipped."
        )
    notes = [f"{counted(gaps, 'jump')} of the position began anew."] if gaps else []
    return _Behavior(times, states, episodes, np.array(made, STEP), np.array(ends), notes)


def _events_of(table: Table, world: TabularWorld, where: str, behavior: _Behavior) -> ReplayData:
    """Events in their place in the behavior."""
    notes, table = behavior.notes, _with_gaps(table)
    when = _column(table, "time", where)
    if len(when) == 0:
        raise NeedReplayError(f"{where} has no rows.")
    states = _whole(table, "state", where, world.n_states, UNKNOWN)
    known = states >= 0
    _inside(states, world, where)
    actions = _whole(table, "action", where, world.n_actions, UNKNOWN, UNKNOWN)
    lengths = _whole(table, "length", where, 2**31, 0, 0.0)
    agents = _whole(table, "agent_state", where, world.n_states, UNKNOWN, UNKNOWN)
    number = _column(table, "event", where)
    borders = np.flatnonzero(np.r_[True, np.diff(number) != 0])
    if len(np.unique(number)) < len(borders):
        raise NeedReplayError(
            f"The rows of one event of {where} are not together; sort by event, then by time."
        )
    bumps = known & (actions >= 0) & (world.next_state[states, actions] == states)
    dead = ~world.acts[states] | (world.next_state[states] == states[:, np.newaxis]).all(axis=1)
    dead &= known & ~bumps
    again, decoded = np.zeros(len(states), np.bool_), np.flatnonzero(known)
    again[decoded[1:]] = (np.diff(states[decoded]) == 0) & (np.diff(number[decoded]) == 0)
    kept = known & ~(bumps | dead | (again & (actions < 0)))
    for rows, said, why in (
        (~known, "bin", "without a state"),
        (bumps, "bump", "into walls"),
        (dead, "replayed state", "at goals"),
    ):
        if rows.any():
            notes = [*notes, f"{counted(int(rows.sum()), said)} {why} left out."]
    begins = when[borders]
    if (begins < behavior.times[0]).any():
        raise NeedReplayError(
            f"{where} has an event at time {begins.min():g}, before the first position, at "
            f"{behavior.times[0]:g}."
        )
    event = np.cumsum(np.isin(np.arange(len(when)), borders)) - 1
    rows = np.flatnonzero(kept)
    rows = rows[np.argsort(begins[event[rows]], kind="stable")]
    first = np.flatnonzero(np.r_[True, np.diff(event[rows]) != 0][: len(rows)])
    place = np.searchsorted(behavior.times, begins[event[rows[first]]], side="right") - 1
    listed = np.zeros(len(first), EVENT)
    listed["episode"] = behavior.episodes[place]
    listed["steps"] = np.searchsorted(behavior.ends, begins[event[rows[first]]], side="right")
    own = agents[rows[first]]
    listed["agent_state"] = np.where(own >= 0, own, behavior.states[place])
    listed["first"], listed["count"] = first, np.diff(np.r_[first, len(rows)])
    pairs = np.zeros(len(rows), PAIR)
    pairs["state"], pairs["action"], pairs["length"] = states[rows], actions[rows], lengths[rows]
    return _checked(ReplayData(world, behavior.steps, listed, pairs, tuple(notes)))


def _checked(data: ReplayData) -> ReplayData:
    if len(data.pairs) == 0:
        raise NeedReplayError(
            "No event holds a state that can be replayed, so nothing can be fitted."
        )
    return data
