"""Events in decoded states: positions in time, without actions, that repeat and skip bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from needlab.core.tables import Table
from needlab.tabular.replay_events import (
    DIRECTIONS,
    FORWARD,
    NONE,
    REVERSE,
    SHORTEST,
    as_array,
)
from needreplay._core.checks import AT_LEAST_ONE, check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import BoolArray, FloatArray, IntArray

UNKNOWN_STATE = -1
"""The state of a bin for which a decoder gives none."""


def detect_events(
    states: npt.ArrayLike,
    times: npt.ArrayLike | None = None,
    *,
    adjacency: Any,
    skip: int = 1,
    stay: bool = True,
    order: npt.ArrayLike | None = None,
    shortest: int = SHORTEST,
) -> Table:
    """The events in one sequence of decoded states: runs along the moves of the world.

    A step from one state to another is forward if at most ``skip`` moves lead there, and reverse if
    they lead back. Where moves go both ways, as in most mazes, states alone do not tell the
    direction: pass ``order``, or decode the running direction and make it part of the state. An
    event is a run of steps that share a direction and come to at least ``shortest`` states, none of
    them twice.

    >>> track = np.eye(9, k=1, dtype=bool)  # state s leads to s + 1
    >>> found = detect_events([0, 0, 1, 2, 4, 5, 3], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
    ...     adjacency=track, skip=2)
    >>> found["direction"].tolist(), found["start"].tolist(), found["stop"].tolist()
    (['forward'], [0.0], [0.5])

    Args:
        states: [bin]; -1 or NaN where the decoder gives none, which ends a run.
        times: [bin], rising; by default the numbers of the bins.
        adjacency: [state, state] of booleans, whether one move leads from one state to the other;
            or [state, action] of integers, the state that a move leads to; or a world that has
            such a table as ``next_state``.
        skip: the most moves in one step; 2 lets a step skip one state.
        stay: whether a state may repeat in successive bins; otherwise a repetition ends the run.
        order: [state], a number that rises along the way that the animal runs (the position on a
            track, minus the distance to the goal). A step is then forward if it rises, reverse if
            it falls.
        shortest: the fewest states of an event.

    Returns:
        One row per event: ``event`` (its number), ``direction`` (none: not known), ``first`` and
        ``last`` (bins), ``states`` (how many), ``start`` and ``stop`` (their times).
    """
    check_number("skip", skip, int, AT_LEAST_ONE)
    check_number("shortest", shortest, int, (2, float("inf")))
    moves = adjacency_of(adjacency)
    listed = _states(states, len(moves))
    clock = _times(times, listed.size)
    forward, reverse = _steps(moves, skip, order)
    found = _runs(listed, forward, reverse, stay, shortest)
    first, last, direction, count = np.array(found, np.int64).reshape(-1, 4).T
    return Table(
        {
            "event": np.arange(len(found)),
            "direction": np.array(DIRECTIONS)[direction],
            "first": first,
            "last": last,
            "states": count,
            "start": clock[first],
            "stop": clock[last],
        }
    )


def adjacency_of(world: Any) -> BoolArray:
    """[state, state]: whether one move leads from one state to another; see ``detect_events``."""
    table = as_array("adjacency", getattr(world, "next_state", world))
    if table.ndim == 2 and table.dtype == np.bool_ and table.shape[0] == table.shape[1]:
        return table
    if table.ndim != 2 or table.dtype.kind not in "iu":
        raise NeedReplayError(
            "adjacency must be a square matrix of booleans, [state, state], a matrix of integers, "
            f"[state, action], or a world; it was {table.ndim}-dimensional {table.dtype} of shape "
            f"{table.shape}."
        )
    if table.size and (table.min() < -1 or table.max() >= len(table)):
        raise NeedReplayError(
            f"adjacency, [state, action], must hold states, 0 to {len(table) - 1}, or -1 for "
            f"unknown; it holds {table.min()} to {table.max()}. A matrix of 0 and 1 must be "
            "boolean: adjacency.astype(bool)."
        )
    found = np.zeros((len(table), len(table) + 1), np.bool_)
    found[np.arange(len(table))[:, np.newaxis], table] = True
    return found[:, :-1]


def _states(states: npt.ArrayLike, count: int) -> IntArray:
    listed = as_array("states", states)
    if listed.dtype.kind == "f":
        # pandas writes whole numbers with gaps as floats, and NaN for a gap.
        filled = np.where(np.isnan(listed), UNKNOWN_STATE, listed)
        if np.all(np.isfinite(filled) & (filled == np.floor(filled))):
            listed = filled.astype(np.int64)
    if listed.ndim != 1 or (listed.size and listed.dtype.kind not in "iu"):
        raise NeedReplayError(
            f"states must be one row of whole numbers, the state of every bin; it was "
            f"{listed.ndim}-dimensional {listed.dtype}. Write -1 where no state is decoded."
        )
    if listed.size and (listed.min() < UNKNOWN_STATE or listed.max() >= count):
        raise NeedReplayError(
            f"states must be from 0 to {count - 1}, or -1 for none; they are from {listed.min()} "
            f"to {listed.max()}."
        )
    return listed.astype(np.int64)


def _times(times: npt.ArrayLike | None, count: int) -> FloatArray:
    if times is None:
        return np.arange(count, dtype=np.float64)
    try:
        clock = np.asarray(times, np.float64)
    except (TypeError, ValueError) as error:
        raise NeedReplayError(f"times must be numbers: {error}.") from error
    if clock.shape != (count,) or not np.isfinite(clock).all() or np.any(np.diff(clock) <= 0.0):
        raise NeedReplayError(
            f"times must be {count} finite numbers, one per state, each larger than the one before."
        )
    return clock


def _steps(moves: BoolArray, skip: int, order: npt.ArrayLike | None) -> tuple[BoolArray, BoolArray]:
    """[state, state]: whether a step is forward, and whether it is reverse."""
    within = moves.copy()
    for _ in range(min(skip, len(moves)) - 1):
        within |= (within.astype(np.float32) @ moves.astype(np.float32)) > 0.0
    if order is None:
        return within, within.T
    ranks = as_array("order", order)
    if ranks.shape != (len(moves),) or ranks.dtype.kind not in "biuf" or np.isnan(ranks).any():
        raise NeedReplayError(
            f"order must have one number per state, {len(moves)}; it was {ranks.dtype} of shape "
            f"{ranks.shape}."
        )
    rises = ranks[np.newaxis, :] > ranks[:, np.newaxis]
    near = within | within.T
    return near & rises, near & rises.T


def _runs(
    states: IntArray, forward: BoolArray, reverse: BoolArray, stay: bool, shortest: int
) -> list[tuple[int, int, int, int]]:
    """(first bin, last bin, direction, states) of every run that is long enough."""
    bins = np.arange(states.size)
    if stay:
        bins = np.flatnonzero(np.r_[True, states[1:] != states[:-1]][: states.size])
    listed = states[bins].tolist()
    found, first = [], 0
    while first < len(listed):
        ahead, back = True, True
        last, visited = first, {listed[first]}
        while last + 1 < len(listed):
            here, after = listed[last], listed[last + 1]
            on = min(here, after) >= 0 and after not in visited
            still_ahead = on and ahead and bool(forward[here, after])
            still_back = on and back and bool(reverse[here, after])
            if not (still_ahead or still_back):
                break
            ahead, back, last = still_ahead, still_back, last + 1
            visited.add(after)
        if last - first + 1 >= shortest:
            direction = NONE if ahead and back else FORWARD if ahead else REVERSE
            found.append((int(bins[first]), int(bins[last]), direction, last - first + 1))
        # A turning point ends one run and begins the next.
        first = max(last, first + 1)
    return found
