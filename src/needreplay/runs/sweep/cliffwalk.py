"""Runs of kind ``cliffwalk``: trials of one method in Blind Cliffwalks of several sizes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from needreplay.errors import NeedReplayError, unknown
from needreplay.runs.sweep.kinds import REQUIRED, Config, Kind, OnUnits, filled, require_whole
from needreplay.runs.sweep.trials import run_trials
from needreplay.tabular.cliffwalk_settings import METHODS, CliffwalkSettings, cliffwalk_preset

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


def complete(config: Config) -> Config:
    """All values, with the preset's own sizes where none are said."""
    found = filled(config, _DEFAULTS, "cliffwalk")
    if found["world"] != "cliffwalk":
        raise unknown("world of kind cliffwalk", found["world"], ["cliffwalk"])
    if found["agent"] not in METHODS:
        raise unknown("agent of kind cliffwalk", found["agent"], METHODS)
    for name, low in (("seed", 0), ("first_trial", 0), ("trials", 1)):
        require_whole(name, found[name], low)
    settings = cliffwalk_preset(found["preset"], **found["overrides"])
    if "sizes" in found["overrides"]:
        raise NeedReplayError("Say sizes beside the overrides of a cliffwalk run, not in them.")
    sizes = list(found["sizes"]) or list(settings.sizes)
    for size in sizes:
        require_whole("a size of the cliffwalk", size, 2)
    return {**found, "sizes": sizes}


def _cases(config: Config) -> list[tuple[int, int]]:
    trials = range(config["first_trial"], config["first_trial"] + config["trials"])
    return [(states, trial) for states in config["sizes"] for trial in trials]


def run(config: Config, folder: Path, on_units: OnUnits) -> None:
    """Updates until Q is right; a trial that is given up counts as its budget."""
    settings = cliffwalk_preset(config["preset"], **config["overrides"])
    run_trials(_cases(config), partial(_row, settings, config), 1, folder, on_units)


def _row(settings: CliffwalkSettings, config: Config, case: tuple[int, int]) -> dict[str, Any]:
    from needreplay.tabular.per_sr import run_trial
    from needreplay.worlds.cliffwalk import cliffwalk_table

    states, number = case
    table = cliffwalk_table(states, settings.fall, settings.right_actions)
    trial = run_trial(table, settings, config["agent"], seed=config["seed"], trial=number)
    return {
        "states": np.array([states]),
        "trial": np.array([number]),
        "updates": np.array([trial.updates if trial.converged else trial.budget]),
        "converged": np.array([trial.converged]),
    }


def probe(config: Config) -> Config:
    """Few trials at every size."""
    return {**config, "trials": min(config["trials"], 3)}


KIND = Kind(
    run=run, complete=complete, units=lambda config: len(_cases(config)), unit="trials",
    probe=probe,
)  # fmt: skip
