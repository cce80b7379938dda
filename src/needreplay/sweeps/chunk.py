"""Runs of kind ``chunk``: trials of several configs of one kind, one after the other.

What the studies run: one config's trials may take a tenth of a second, a process costs one or two.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.sweeps.kinds import REQUIRED, Config, filled, kind_named
from needreplay.sweeps.trials import Rows, Trials, trial_kind

_DEFAULTS: Config = {"of": REQUIRED, "parts": REQUIRED}


def complete(config: Config) -> Config:
    """All values of every part."""
    found = filled(config, _DEFAULTS, "chunk")
    _made_of_trials(found)
    if not found["parts"]:
        raise NeedReplayError("A chunk needs at least one part.")
    parts = [kind_named(found["of"]).complete(part) for part in found["parts"]]
    return {**found, "parts": parts}


def _made_of_trials(config: Config) -> Callable[[Config], Trials]:
    trials_of = kind_named(config["of"]).trials
    if trials_of is None:
        raise NeedReplayError(
            f"A run of kind {config['of']!r} is not made of trials; it is run by itself."
        )
    return trials_of


def trials_of(config: Config) -> Trials:
    """The trials of all parts; rows say which ``part`` they belong to."""
    parts = [_made_of_trials(config)(part) for part in config["parts"]]
    rows_a_case = parts[0].rows_a_case
    if any(part.rows_a_case != rows_a_case for part in parts):
        raise NeedReplayError("The trials of a chunk's parts must give equally many rows.")

    def rows_of(numbered: tuple[int, object]) -> Rows:
        number, case = numbered
        return {"part": np.full(rows_a_case, number), **parts[number].rows_of(case)}

    cases = [(number, case) for number, part in enumerate(parts) for case in part.cases]
    return Trials(cases, rows_of, rows_a_case)


def units(config: Config) -> int:
    """The trials of all parts."""
    kind = kind_named(config["of"])
    return sum(kind.units(part) for part in config["parts"])


KIND = trial_kind(trials_of, complete, units=units)
