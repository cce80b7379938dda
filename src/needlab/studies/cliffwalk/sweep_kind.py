"""Runs of kind ``cliffwalk``: trials of one method in Blind Cliffwalks of several sizes."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np

from needlab.runs.kinds import REQUIRED, Config, Kind
from needlab.runs.runner import OnUnits
from needlab.runs.tabular_runs import Rows, checked, fewer_trials, run_cases, trial_numbers
from needlab.studies.cliffwalk.settings import METHODS, CliffwalkSettings, cliffwalk_preset
from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError, unknown

_DEFAULTS: Config = {
    "world": "cliffwalk",
    "agent": REQUIRED,
    "preset": "corrected",
    "sizes": [],
    "seed": 0,
    "first_trial": 0,
    "trials": 100,
    "overrides": {},
}


def settings_of(config: Config) -> CliffwalkSettings:
    """The preset's settings with the overrides."""
    return cliffwalk_preset(config["preset"], **config["overrides"])


def complete(config: Config) -> Config:
    """All values, with the preset's own sizes where none are given."""
    found = checked(config, _DEFAULTS, "cliffwalk")
    if found["world"] != "cliffwalk":
        raise unknown("world of kind cliffwalk", found["world"], ["cliffwalk"])
    if found["agent"] not in METHODS:
        raise unknown("agent of kind cliffwalk", found["agent"], METHODS)
    if not isinstance(found["sizes"], list | tuple):
        raise NeedReplayError(f"sizes is {found['sizes']!r}; it must be a list.")
    settings = settings_of(found)
    if "sizes" in found["overrides"]:
        raise NeedReplayError(
            "sizes is in the overrides of a cliffwalk run; set it beside them instead."
        )
    sizes = list(found["sizes"]) or list(settings.sizes)
    for size in sizes:
        check_number("a size of the cliffwalk", size, int, (2, math.inf))
    return {**found, "sizes": sizes}


def _cases(config: Config) -> list[tuple[int, int]]:
    return [(states, trial) for states in config["sizes"] for trial in trial_numbers(config)]


def run(config: Config, folder: Path, on_units: OnUnits) -> None:
    """Updates until Q is right; a trial that did not converge counts as its budget."""
    rows_of = partial(_row, settings_of(config), config)
    run_cases(_cases(config), rows_of, 1, folder, on_units)


def _row(settings: CliffwalkSettings, config: Config, case: tuple[int, int]) -> Rows:
    from needlab.studies.cliffwalk.cases import Case, trial_row

    states, number = case
    row = trial_row(
        Case("", settings, config["agent"], states, config["trials"], config["seed"]), number
    )
    updates = row["updates"] if row["converged"] else row["budget"]
    need_row = " ".join(map(repr, row["need_row"].tolist()))
    row |= {"replayed": row["updates"], "updates": updates, "need_row": need_row}
    return {
        name: np.array([value])
        for name, value in {"states": states, "trial": number, **row}.items()
    }


KIND = Kind(
    run, complete, lambda config: len(_cases(config)), "trials", partial(fewer_trials, most=3)
)
