"""A chunk of tabular trials in a folder: rows are kept trial by trial, and gone on with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from needreplay.core.errors import NeedReplayError
from needreplay.core.tables import Table, joined, read_table, write_json, write_table
from needreplay.sweeps.kinds import Config, Kind, OnUnits

_SECONDS_BETWEEN_WRITES = 5.0
Rows = Mapping[str, Any]


class Trials(NamedTuple):
    """What a run of trials is made of."""

    cases: Sequence[Any]
    """what is run, one after the other"""
    rows_of: Callable[[Any], Rows]
    """the columns that one case gives"""
    rows_a_case: int
    """how many rows each gives"""


def trial_kind(
    trials_of: Callable[[Config], Trials],
    complete: Callable[[Config], Config],
    *,
    units: Callable[[Config], int] = lambda config: int(config["trials"]),
    probe: Callable[[Config], Config] | None = None,
) -> Kind:
    """The kind of runs that are trials: ``trials_of`` says which, ``units`` how many."""

    def run(config: Config, folder: Path, on_units: OnUnits) -> None:
        run_trials(trials_of(config), folder, on_units)

    return Kind(run, complete, units, "trials", probe=probe)


def numbers_of(config: Config) -> range:
    """Which trials a config asks for."""
    return range(config["first_trial"], config["first_trial"] + config["trials"])


def run_trials(trials: Trials, folder: Path, on_units: OnUnits) -> None:
    """Write ``metrics.csv`` with the rows of every case, in order, and mark it as complete.

    Args:
        trials: what is run.
        folder: where the table is; the cases that it holds already are not run again.
        on_units: told the number of cases done.
    """
    cases, rows_of, rows_a_case = trials
    path = folder / "metrics.csv"
    parts = [] if not path.exists() else [_kept(path, rows_a_case, len(cases))]
    done = sum(len(part) for part in parts) // rows_a_case
    written = time.monotonic()
    on_units(done)
    for number in range(done, len(cases)):
        parts.append(Table(rows_of(cases[number])))
        if time.monotonic() - written > _SECONDS_BETWEEN_WRITES:
            parts = [_joined(parts)]
            write_table(path, parts[0])
            written = time.monotonic()
        on_units(number + 1)
    write_table(path, _joined(parts))
    write_json(folder / "done.json", {"trials": len(cases)})


def _kept(path: Path, rows_a_case: int, cases: int) -> Table:
    table = read_table(path)
    if len(table) % rows_a_case or len(table) > rows_a_case * cases:
        raise NeedReplayError(
            f"{str(path)!r} does not hold whole trials of this run; remove its folder to begin "
            "the run anew."
        )
    return table


def _joined(parts: Sequence[Table]) -> Table:
    return joined([{name: part[name] for name in part.names} for part in parts])
