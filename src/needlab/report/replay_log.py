"""A log of replay that can be shown: what an agent did, replayed and knew at every moment.

``recording`` logs agents, ``table_log`` reads tables of backups or of decoded states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from needlab.core.tables import Table
from needlab.tabular.replay_events import DIRECTIONS, WHENS, replay_table
from needlab.worlds.tabular import TabularWorld
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, IntArray

PAUSE = np.dtype(
    [
        ("episode", np.int32),
        ("steps", np.int32),  # that were made before it
        ("state", np.int32),  # where the agent is
        ("kind", np.int32),  # index in KINDS
        ("first", np.int32),  # backup
        ("count", np.int32),  # of backups
        ("reward", np.float32),  # the last one at a goal
    ]
)
"""A time at which the agent replays."""
KINDS = (
    "at the start of an episode",
    "at the end of an episode",
    "during an episode",
    "at a time that is not known",
)
"""As ``replay_events.WHENS``."""
BACKUP = np.dtype(
    [
        ("pause", np.int32),
        ("state", np.int32),
        ("action", np.int32),  # -1: not known
        ("gain", np.float32),
        ("need", np.float32),
        ("length", np.int32),  # pairs of its chain
        ("floor", np.int32),  # 1: its gain is only the floor of its agent
        ("event", np.int32),  # -1: in none
        ("direction", np.int32),  # index in replay_events.DIRECTIONS
    ]
)
WRITE = np.dtype([("frame", np.int32), ("pair", np.int32), ("value", np.float32)])
"""Q(pair) becomes ``value`` at ``frame``. Frame ``first + pause + i`` shows a pause after i of its
backups, so a log has as many frames as pauses and backups."""
STEP = np.dtype([("episode", np.int32), ("state", np.int32), ("next_state", np.int32)])

LONGEST_ROW = 40
"""A world without a board is drawn in one row if it has no more states than this."""


@dataclass(frozen=True, eq=False)
class Board:
    """How a tabular world is drawn."""

    name: str
    columns: int
    """The width of the board; states are counted row by row."""
    marks: str
    """One character per state: # wall, S start, a capital letter a goal, a small letter a reward,
    ^ v < > a one-way door, . other."""
    next_state: IntArray
    """[state, action]: where each move leads."""
    starts: str = ""
    """How starts are chosen, in words, if they are drawn."""

    @staticmethod
    def of_world(world: TabularWorld, name: str) -> Board:
        """The board of a world as it was drawn, else with S and G.

        Without columns it is a row, or a square if that is long.
        """
        row = world.n_states
        if row > LONGEST_ROW:
            row = math.isqrt(row - 1) + 1
        anywhere = len(world.starts) == world.acts.sum()
        starts = "starts anywhere" if anywhere else "starts at random"
        return Board(
            name,
            world.columns or row,
            world.picture(),
            world.next_state,
            starts * world.random_start,
        )


@dataclass(frozen=True, eq=False)
class ReplayLog:
    """All that a picture of replay needs."""

    name: str
    board: Board
    steps: AnyArray
    """What happened, as ``STEP``."""
    pauses: AnyArray
    """What happened, as ``PAUSE``; each has at least one backup."""
    backups: AnyArray
    """What happened, as ``BACKUP``."""
    writes: AnyArray
    """Changes of Q, as ``WRITE``, in the order of frames; empty if Q is not known."""
    need: AnyArray
    """[pause, state] as float32; empty if it is not known or too large."""

    def table(self) -> Table:
        """The log as a replay table, as ``replay_files.write_replay`` writes it."""
        pauses, backups = self.pauses, self.backups
        own = pauses[backups["pause"]]
        return Table(
            {
                "episode": own["episode"].astype(np.int64),
                "pause": backups["pause"].astype(np.int64),
                "order": np.arange(len(backups)) - own["first"],
                "when": np.array(WHENS)[own["kind"]],
                "agent_state": own["state"].astype(np.int64),
                "reward": own["reward"].astype(np.float64),
                "state": backups["state"].astype(np.int64),
                "action": backups["action"].astype(np.int64),
                "gain": backups["gain"].astype(np.float64),
                "need": backups["need"].astype(np.float64),
                "chain_length": backups["length"].astype(np.int64),
                "direction": np.array(DIRECTIONS)[backups["direction"]],
                "event": backups["event"].astype(np.int64),
            }
        )

    def _repr_html_(self) -> str:
        """The viewer, in a notebook."""
        from needlab.report.viewer import viewer_frame

        return viewer_frame([self])


def labeled(backups: AnyArray, table: Table) -> AnyArray:
    """Write the events and directions of a table into backups."""
    backups["event"] = table["event"]
    backups["direction"] = [DIRECTIONS.index(one) for one in table["direction"].tolist()]
    return backups


def bare_log(name: str, board: Board, pauses: AnyArray, backups: AnyArray) -> ReplayLog:
    """A log of backups alone."""
    nothing = np.zeros((0, 0), np.float32)
    return ReplayLog(name, board, np.zeros(0, STEP), pauses, backups, np.zeros(0, WRITE), nothing)


def check_not_empty(name: str, backups: int) -> None:
    """Raise an error if there is no backup to show."""
    if not backups:
        raise NeedReplayError(f"{name} replayed nothing, so there is nothing to show.")


def log_of(
    name: str, board: Board, steps: AnyArray, pauses: AnyArray, backups: AnyArray, *rest: AnyArray
) -> ReplayLog:
    """Name the event of every backup."""
    found = replay_table(
        pauses["episode"][backups["pause"]].astype(np.int64),
        backups["pause"].astype(np.int64),
        backups["state"].astype(np.int64),
        backups["action"].astype(np.int64),
        board.next_state,
    )
    return ReplayLog(name, board, steps, pauses, labeled(backups, found), *rest)
