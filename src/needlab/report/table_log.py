"""Logs of tables: backups, or decoded states. Q is not known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from needlab.core.tables import Table
from needlab.report.replay_log import (
    BACKUP,
    PAUSE,
    STEP,
    WRITE,
    Board,
    ReplayLog,
    bare_log,
    check_not_empty,
    labeled,
    log_of,
)
from needlab.tabular.decoded import detect_events
from needlab.tabular.replay_events import DIRECTIONS, WHENS, pause_borders
from needlab.tabular.replay_files import is_decoded
from needreplay._core.errors import NeedReplayError


def table_log(name: str, board: Board, table: Table) -> ReplayLog:
    """The log of a table from ``replay_files.read_replay``; Q is not known.

    The table's own events and directions are shown; if it has none, they are computed.
    """
    check_not_empty(name, len(table))
    lowest = -1 if is_decoded(table) else 0
    for column, count in zip(("state", "action"), board.next_state.shape, strict=True):
        found = table[column] if column in table.names else np.zeros(1, np.int64)
        if found.max() >= count or found.min() < (lowest if column == "state" else -1):
            raise NeedReplayError(
                f"The cells of column {column!r} of {name} must be from 0 to {count - 1}, as the "
                f"world {board.name} has them; they are from {found.min()} to {found.max()}."
            )
    return (_decoded_log if is_decoded(table) else _backups_log)(name, board, table)


def _backups_log(name: str, board: Board, table: Table) -> ReplayLog:
    starts = np.array(pause_borders(table["pause"])[:-1])
    pauses = np.zeros(len(starts), PAUSE)
    pauses["first"], pauses["count"] = starts, np.diff(np.r_[starts, len(table)])
    pauses["episode"], pauses["state"] = table["episode"][starts], table["agent_state"][starts]
    pauses["kind"] = [WHENS.index(when) for when in table["when"][starts].tolist()]
    pauses["reward"] = table["reward"][starts]
    backups = np.zeros(len(table), BACKUP)
    backups["pause"] = np.repeat(np.arange(len(starts)), pauses["count"])
    backups["length"] = table["chain_length"]
    for field in ("state", "action", "gain", "need"):
        backups[field] = table[field]
    if "event" in table.names:
        return bare_log(name, board, pauses, labeled(backups, table))
    if np.any(table["action"] < 0):
        raise NeedReplayError(
            f"{name} has empty actions, without which events cannot be computed; give the columns "
            "'direction' and 'event', too."
        )
    nothing = np.zeros((0, 0), np.float32)
    return log_of(name, board, np.zeros(0, STEP), pauses, backups, np.zeros(0, WRITE), nothing)


def _decoded_log(name: str, board: Board, table: Table) -> ReplayLog:
    """Each event is a pause; bins without a state are left out.

    A bin's action is the move that leads to the next state, if there is one. An event without a
    direction in the table has that of all its steps, if they have one.
    """
    known = table["state"] >= 0
    check_not_empty(name, int(known.sum()))
    table = Table({column: table[column][known] for column in table.names})
    starts = np.array(pause_borders(table["event"])[:-1])
    counts = np.diff(np.r_[starts, len(table)])
    pauses = np.zeros(len(starts), PAUSE)
    pauses["first"], pauses["count"], pauses["state"] = starts, counts, -1
    pauses["kind"], pauses["reward"] = WHENS.index("unknown"), np.nan
    backups = np.zeros(len(table), BACKUP)
    backups["pause"], backups["length"] = np.repeat(np.arange(len(starts)), counts), 1
    backups["state"], backups["gain"], backups["need"] = table["state"], np.nan, np.nan
    backups["action"] = -1
    direction = np.full(len(table), DIRECTIONS[0], dtype="U10")
    for begin, count in zip(starts.tolist(), counts.tolist(), strict=True):
        states = table["state"][begin : begin + count]
        for i, (state, after) in enumerate(pairwise(states.tolist())):
            ways = np.flatnonzero(board.next_state[state] == after)
            if ways.size and state != after:
                backups["action"][begin + i] = ways[0]
        if "direction" in table.names:
            direction[begin : begin + count] = table["direction"][begin]
        elif np.unique(states).size > 1:
            found = detect_events(states, adjacency=board.next_state, skip=count, shortest=2)
            whole = found["first"].tolist() == [0] and states[found["last"][0]] == states[-1]
            direction[begin : begin + count] = found["direction"][0] if whole else DIRECTIONS[0]
    labels = Table({"event": table["event"], "direction": direction})
    return bare_log(name, board, pauses, labeled(backups, labels))
