"""Runs of kind ``cliffwalk``: trials of one method in Blind Cliffwalks of several sizes."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from needreplay.core.checks import AT_LEAST_ONE, COUNT, check_number
from needreplay.core.errors import NeedReplayError, unknown
from needreplay.studies.cliffwalk.settings import METHODS, CliffwalkSettings, cliffwalk_preset
from needreplay.sweeps.kinds import REQUIRED, Config, filled
from needreplay.sweeps.trials import Trials, numbers_of, trial_kind

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
    found = filled(config, _DEFAULTS, "cliffwalk")
    if found["world"] != "cliffwalk":
        raise unknown("world of kind cliffwalk", found["world"], ["cliffwalk"])
    if found["agent"] not in METHODS:
        raise unknown("agent of kind cliffwalk", found["agent"], METHODS)
    for name, bounds in (("seed", COUNT), ("first_trial", COUNT), ("trials", AT_LEAST_ONE)):
        check_number(name, found[name], int, bounds)
    if not isinstance(found["sizes"], list | tuple):
        raise NeedReplayError(f"sizes must be a list, not {found['sizes']!r}.")
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
    return [(states, trial) for states in config["sizes"] for trial in numbers_of(config)]


def trials_of(config: Config) -> Trials:
    """Updates until Q is right; a trial that did not converge counts as its budget."""
    return Trials(_cases(config), partial(_row, settings_of(config), config), 1)


def _row(settings: CliffwalkSettings, config: Config, case: tuple[int, int]) -> dict[str, Any]:
    from needreplay.studies.cliffwalk.cases import Case, trial_row

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


def probe(config: Config) -> Config:
    """Few trials at every size, and two at least: the first may compile."""
    return {**config, "trials": max(2, min(config["trials"], 3))}


KIND = trial_kind(trials_of, complete, units=lambda config: len(_cases(config)), probe=probe)
