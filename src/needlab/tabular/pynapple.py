"""Decoded states and events as pynapple's ``Tsd`` and ``IntervalSet``, and back.

pynapple reads NWB files, so this is also the way from NWB. Needs ``needreplay[pynapple]``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from needlab.core.tables import Table, joined
from needlab.tabular.decoded import UNKNOWN_STATE, detect_events
from needreplay._core.errors import NeedReplayError, not_installed
from needreplay._core.types import FloatArray, IntArray

_GAP = 1e-6
"""Seconds between intervals that would touch, which an ``IntervalSet`` does not allow."""


def decoded_table(states: Any, epochs: Any) -> Table:
    """The states decoded in each epoch: ``event``, ``time``, ``state``.

    ``write_table`` makes the file of it that ``needreplay watch`` and ``needreplay fit`` read, and
    ``data_from`` takes the table. An epoch without a bin is left out; events keep its number.

    Args:
        states: a ``Tsd`` of states, whole numbers; NaN or -1 where the decoder gives none.
        epochs: an ``IntervalSet``: the ripples, or other candidate events.
    """
    times, listed = _bins(states)
    begins, ends = _ends_of(epochs)
    first = np.searchsorted(times, begins, side="left")
    count = np.searchsorted(times, ends, side="right") - first
    event = np.repeat(np.arange(count.size), count)
    bins = np.arange(event.size) - np.repeat(np.cumsum(count) - count - first, count)
    return Table({"event": event, "time": times[bins], "state": listed[bins]})


def detect_in(states: Any, epochs: Any, **how: Any) -> Table:
    """The events in each epoch, with the columns of ``detect_events`` and ``epoch``.

    Args:
        states: a ``Tsd`` of states, as in ``decoded_table``.
        epochs: an ``IntervalSet``: no event goes on from one epoch to the next.
        how: arguments of ``detect_events``: adjacency, skip, stay, order, shortest.
    """
    table = decoded_table(states, epochs)
    parts = []
    for epoch in range(len(epochs)):
        own = table.where(event=epoch)
        found = dict(detect_events(own["state"], own["time"], **how))
        parts.append({**found, "epoch": np.full(len(found["event"]), epoch)})
    if not parts:
        raise NeedReplayError("epochs is empty; it needs at least one interval.")
    found_in_all = joined(parts)
    return Table({**dict(found_in_all), "event": np.arange(len(found_in_all))})


def interval_set(events: Table) -> Any:
    """Events as an ``IntervalSet``; the other columns become its metadata.

    Two events that share a bin are one microsecond apart, since intervals may not touch.

    Args:
        events: of ``detect_events`` or ``detect_in`` (start, stop), or decoded states (event, time,
            state), of which an event is the time from its first bin to its last.
    """
    own = events if {"start", "stop"} <= set(events.names) else _spans(events)
    order = np.argsort(own["start"], kind="stable")
    start, stop = own["start"][order], own["stop"][order].astype(np.float64)
    for wrong, why in (
        (stop <= start, "has no duration; leave out events of one bin"),
        (np.r_[start[1:] < stop[:-1], False], "ends after the next one begins"),
    ):
        if np.any(wrong):
            raise NeedReplayError(f"Event {own['event'][order][np.argmax(wrong)]} {why}.")
    stop[:-1] = np.where(stop[:-1] >= start[1:], stop[:-1] - _GAP, stop[:-1])
    metadata = {name: own[name][order] for name in own.names if name not in ("start", "stop")}
    return _pynapple().IntervalSet(start=start, end=stop, metadata=metadata)


def state_series(table: Table) -> Any:
    """The states of a table of decoded states (event, time, state) as a ``Tsd``.

    Restricted to ``interval_set(table)``, so that ``decoded_table`` of both is the table again, up
    to the numbers of events.
    """
    order = np.argsort(table["time"], kind="stable")
    times, states = table["time"][order].astype(np.float64), table["state"][order]
    if np.any(np.diff(times) <= 0.0):
        at = times[1:][np.diff(times) <= 0.0][0]
        raise NeedReplayError(f"time is {at:g} in two rows; a Tsd has one state at a time.")
    return _pynapple().Tsd(t=times, d=states, time_support=interval_set(table))


def _pynapple() -> Any:
    try:
        return import_module("pynapple")
    except ImportError as error:
        raise not_installed("needlab.tabular.pynapple needs pynapple", "pynapple") from error


def _bins(states: Any) -> tuple[FloatArray, IntArray]:
    """Times and states of a ``Tsd``."""
    if not (hasattr(states, "t") and hasattr(states, "d")):
        raise NeedReplayError(
            f"states is {type(states).__name__}; it must be a pynapple.Tsd of decoded states."
        )
    values = np.asarray(states.d, np.float64)
    if values.ndim != 1:
        raise NeedReplayError(
            f"states has {values.ndim} dimensions; decode one state per bin first, for example "
            "the most likely one: probabilities.argmax(axis=1)."
        )
    known = np.where(np.isnan(values), UNKNOWN_STATE, values)
    wrong = (known != np.floor(known)) | (known < UNKNOWN_STATE) | np.isinf(known)
    if wrong.any():
        raise NeedReplayError(
            f"states has {known[np.argmax(wrong)]:g}; states are whole numbers from 0, or NaN or "
            "-1 where none is decoded. Positions must be put into the cells of the maze first."
        )
    return np.asarray(states.t, np.float64), known.astype(np.int64)


def _ends_of(epochs: Any) -> tuple[FloatArray, FloatArray]:
    if not (hasattr(epochs, "start") and hasattr(epochs, "end")):
        raise NeedReplayError(
            f"epochs is {type(epochs).__name__}; it must be a pynapple.IntervalSet."
        )
    return np.asarray(epochs.start, np.float64), np.asarray(epochs.end, np.float64)


def _spans(decoded: Table) -> Table:
    """One row per event of decoded states: event, start, stop, and direction if it is known."""
    if not {"event", "time"} <= set(decoded.names):
        raise NeedReplayError(
            f"The table has the columns {', '.join(decoded.names)}; events need start and stop, or "
            "event and time."
        )
    events, first, count = np.unique(decoded["event"], return_index=True, return_counts=True)
    columns = {
        "event": events,
        "start": decoded["time"][first],
        "stop": decoded["time"][first + count - 1],
    }
    if "direction" in decoded.names:
        columns["direction"] = decoded["direction"][first]
    return Table(columns)
