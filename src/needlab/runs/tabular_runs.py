"""Runs of kind ``tabular``: trials of any tabular agent on any tabular world, resumed by trial."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from needlab.core.tables import Table, joined, read_table, write_json, write_table
from needlab.runs.kinds import REQUIRED, Config, Kind, filled
from needlab.runs.runner import OnUnits
from needlab.tabular.evb.settings import AGENTS as EVB_AGENTS
from needlab.tabular.evb.settings import EVBSettings, evb_settings
from needlab.tabular.evb.simulation import simulate
from needlab.tabular.settings import AGENTS, LearningSettings, agent_settings
from needlab.worlds.tabular import Schedule
from needreplay._core.checks import AT_LEAST_ONE, COUNT, check_number
from needreplay._core.errors import NeedReplayError, unknown
from needreplay._core.types import AnyArray

_SECONDS_BETWEEN_WRITES = 5.0
_COUNTS = {"seed": COUNT, "first_trial": COUNT, "trials": AT_LEAST_ONE, "episodes": AT_LEAST_ONE}
Rows = Mapping[str, AnyArray]


def run_cases(
    cases: Sequence[Any],
    rows_of: Callable[[Any], Rows],
    rows_per_case: int,
    folder: Path,
    on_units: OnUnits,
) -> None:
    """Write the rows of every case to ``metrics.csv``, in order, then ``done.json``.

    Args:
        cases: what to run, one after the other.
        rows_of: the rows of one case, as columns.
        rows_per_case: how many rows each case gives.
        folder: the run's folder; cases whose rows are there already do not run again.
        on_units: called with the number of cases done.
    """
    path = folder / "metrics.csv"
    parts: list[Rows] = []
    done = 0
    if path.exists():
        table = read_table(path)
        done, torn = divmod(len(table), rows_per_case)
        if torn or done > len(cases):
            raise NeedReplayError(
                f"{str(path)!r} does not hold complete trials of this run; remove its folder to "
                "start the run again."
            )
        parts = [{name: table[name] for name in table.names}]
    written = time.monotonic()
    on_units(done)
    for number in range(done, len(cases)):
        parts.append(rows_of(cases[number]))
        if time.monotonic() - written > _SECONDS_BETWEEN_WRITES:
            _write(path, parts)
            written = time.monotonic()
        on_units(number + 1)
    _write(path, parts)
    write_json(folder / "done.json", {"trials": len(cases)})


def _write(path: Path, parts: list[Rows]) -> None:
    table: Table = joined(parts)
    write_table(path, table)
    parts[:] = [{name: table[name] for name in table.names}]


def trial_numbers(config: Config) -> range:
    """The numbers of a run's trials."""
    return range(config["first_trial"], config["first_trial"] + config["trials"])


def checked(config: Config, defaults: Config, kind: str) -> Config:
    """Fill in ``defaults``, and raise for wrong types and counts."""
    found = filled(config, defaults, kind)
    for name in defaults.keys() & _COUNTS.keys():
        check_number(name, found[name], int, _COUNTS[name])
    for name in ("agent", "preset", "world"):
        if not isinstance(found[name], str):
            raise NeedReplayError(f"{name} is {found[name]!r}; it must be text.")
    return found


_TABULAR: Config = {
    "world": "dyna-maze",
    "world_options": {},
    "agent": REQUIRED,
    "preset": "",
    "seed": 0,
    "first_trial": 0,
    "trials": 1000,
    "episodes": 50,
    "overrides": {},
}


def _complete(config: Config) -> Config:
    from needlab.worlds.changes import tabular_schedule

    found = checked(config, _TABULAR, "tabular")
    if not isinstance(found["world_options"], dict):
        raise NeedReplayError(f"world_options is {found['world_options']!r}; it must be a table.")
    usual = "published" if found["agent"] in EVB_AGENTS else "printed"
    found["preset"] = found["preset"] or usual
    _settings(found)
    tabular_schedule(found["world"], **found["world_options"])
    return found


def _settings(config: Config) -> EVBSettings | LearningSettings:
    named = config["agent"], config["preset"]
    if config["agent"] in EVB_AGENTS:
        return evb_settings(*named, **config["overrides"])
    if config["agent"] not in AGENTS:
        raise unknown("agent", config["agent"], (*AGENTS, *EVB_AGENTS))
    return agent_settings(*named, **config["overrides"])


def _run(config: Config, folder: Path, on_units: OnUnits) -> None:
    """One row per trial and episode; trials do not depend on the agent or the preset."""
    from needlab.tabular.trial import run_trials
    from needlab.worlds.changes import tabular_schedule

    settings = _settings(config)
    world = tabular_schedule(config["world"], **config["world_options"])
    episodes, seed = config["episodes"], config["seed"]

    def rows_of(trial: int) -> Rows:
        if isinstance(settings, EVBSettings):
            return _evb_rows(settings, world, episodes, seed, trial)
        return run_trials(settings, world, episodes, 1, seed, first_trial=trial)

    run_cases(trial_numbers(config), rows_of, episodes, folder, on_units)


def _evb_rows(settings: EVBSettings, world: Schedule, episodes: int, seed: int, trial: int) -> Rows:
    """The columns of ``run_trials``, of one simulation; every episode ends at a goal."""
    found = simulate(world, settings, episodes=episodes, seed=seed, simulation=trial)
    returns = np.bincount(found.steps["episode"], found.steps["reward"], minlength=episodes)
    return {
        "trial": np.full(episodes, trial),
        "episode": np.arange(episodes),
        "steps": found.lengths,
        "return": returns,
        "terminated": np.ones(episodes, np.bool_),
    }


def fewer_trials(config: Config, most: int) -> Config:
    """Few trials, and two at least: the first may compile."""
    return {**config, "trials": max(2, min(config["trials"], most))}


TABULAR = Kind(
    _run, _complete, lambda config: int(config["trials"]), "trials", partial(fewer_trials, most=200)
)
