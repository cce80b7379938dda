"""Runs of kind ``maze``: trials of a tabular agent in the Dyna maze (figure 2's)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from needreplay.errors import unknown
from needreplay.rng import stream
from needreplay.runs.sweep.kinds import REQUIRED, Config, Kind, OnUnits, filled, require_whole
from needreplay.runs.sweep.trials import run_trials
from needreplay.tabular.settings import PS_SR, DynaSettings, LearningSettings, preset, without_need

_DEFAULTS: Config = {
    "world": "dyna-maze",
    "agent": REQUIRED,
    "preset": "printed",
    "seed": 0,
    "first_trial": 0,
    "trials": 1000,
    "episodes": 50,
    "reward_std": 0.1,
    "overrides": {},
}
_DYNA = {"q-learning": 0, "dyna-q": 5}
AGENTS = ("ps", "ps-sr", *_DYNA)


def settings_of(config: Config) -> LearningSettings:
    """The agent's settings; those of q-learning and dyna-q do not depend on the preset."""
    agent, overrides = config["agent"], config["overrides"]
    if agent in _DYNA:
        return preset(
            {"printed": DynaSettings(planning_updates=_DYNA[agent])}, "printed", **overrides
        )
    settings = preset(PS_SR, config["preset"], **overrides)
    return settings if agent == "ps-sr" else without_need(settings)


def complete(config: Config) -> Config:
    """All values; refuses agents and settings that do not exist."""
    found = filled(config, _DEFAULTS, "maze")
    if found["world"] != "dyna-maze":
        raise unknown("world of kind maze", found["world"], ["dyna-maze"])
    if found["agent"] not in AGENTS:
        raise unknown("agent of kind maze", found["agent"], AGENTS)
    for name, low in (("seed", 0), ("first_trial", 0), ("trials", 1), ("episodes", 1)):
        require_whole(name, found[name], low)
    settings_of(found)
    return found


def run(config: Config, folder: Path, on_units: OnUnits) -> None:
    """Steps of each episode; a trial's random numbers are those of the studies."""
    from needreplay.worlds import DYNA_MAZE, maze_table, parse_layout

    table = maze_table(parse_layout(DYNA_MAZE), config["reward_std"])
    trials = range(config["first_trial"], config["first_trial"] + config["trials"])
    rows_of = partial(_rows, table, settings_of(config), config)
    run_trials(trials, rows_of, config["episodes"], folder, on_units)


def _rows(table: Any, settings: LearningSettings, config: Config, trial: int) -> dict[str, Any]:
    from needreplay.tabular.trial import run_trial

    episodes = config["episodes"]
    lengths = run_trial(table, settings, episodes, stream(config["seed"], "maze", trial)).lengths
    return {"trial": np.full(episodes, trial), "episode": np.arange(episodes), "steps": lengths}


def probe(config: Config) -> Config:
    """Few trials."""
    return {**config, "trials": min(config["trials"], 200)}


KIND = Kind(
    run=run, complete=complete, units=lambda config: int(config["trials"]), unit="trials",
    probe=probe,
)  # fmt: skip
