"""Runs of kind ``maze``: trials of a tabular agent in the Dyna maze (figure 2's)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from needreplay.core.checks import ANY, AT_LEAST_ONE, COUNT, check_number
from needreplay.core.errors import unknown
from needreplay.core.rng import stream
from needreplay.sweeps.kinds import REQUIRED, Config, filled
from needreplay.sweeps.trials import Trials, numbers_of, trial_kind
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
_WHOLE = {"seed": COUNT, "first_trial": COUNT, "trials": AT_LEAST_ONE, "episodes": AT_LEAST_ONE}
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
    for name, bounds in _WHOLE.items():
        check_number(name, found[name], int, bounds)
    check_number("reward_std", found["reward_std"], float, ANY)
    # Of every agent, though the settings of some do not depend on it: a wrong name is a mistake.
    if found["preset"] not in list(PS_SR):
        raise unknown("preset", found["preset"], PS_SR)
    settings_of(found)
    return found


def trials_of(config: Config) -> Trials:
    """Steps of each episode; a trial's random numbers do not depend on the agent or the preset."""
    from needreplay.worlds import DYNA_MAZE, maze_table, parse_layout

    table = maze_table(parse_layout(DYNA_MAZE), config["reward_std"])
    rows_of = partial(_rows, table, settings_of(config), config)
    return Trials(numbers_of(config), rows_of, config["episodes"])


def _rows(table: Any, settings: LearningSettings, config: Config, trial: int) -> dict[str, Any]:
    from needreplay.tabular.trial import run_trial

    episodes = config["episodes"]
    lengths = run_trial(table, settings, episodes, stream(config["seed"], "maze", trial)).lengths
    return {"trial": np.full(episodes, trial), "episode": np.arange(episodes), "steps": lengths}


def probe(config: Config) -> Config:
    """Few trials, and two at least: the first may compile."""
    return {**config, "trials": max(2, min(config["trials"], 200))}


KIND = trial_kind(trials_of, complete, probe=probe)
