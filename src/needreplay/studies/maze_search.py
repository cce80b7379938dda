"""The trials of the study mazes: an agent searches until its path is a shortest one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from needreplay.core.rng import stream
from needreplay.core.types import TransitionTable
from needreplay.studies.maze_world import dyna_layout
from needreplay.sweeps.kinds import REQUIRED, Config, filled
from needreplay.sweeps.trials import Trials, numbers_of, trial_kind
from needreplay.tabular.settings import PS_SR, DynaSettings, LearningSettings, without_need
from needreplay.tabular.trial import model_holds_path, search_until_optimal
from needreplay.worlds import maze_table, shortest_path_length

BUDGET = 5_000
"""Steps after which a trial is given up, in shortest paths."""

AGENTS: dict[str, LearningSettings] = {
    "dyna-q": DynaSettings(planning_updates=5),
    "ps": without_need(PS_SR["printed"]),
    "ps-sr": PS_SR["printed"],
}

_DEFAULTS: Config = {
    "step_size": REQUIRED,
    "resolution": REQUIRED,
    "agent": REQUIRED,
    "seed": REQUIRED,
    "first_trial": REQUIRED,
    "trials": REQUIRED,
}


class Found(NamedTuple):
    """How one trial ended."""

    updates: int
    steps: int
    found: bool
    known: bool
    """whether the agent's model held a shortest path at the end"""


@cache
def magnified_table(resolution: int) -> TransitionTable:
    """The Dyna maze with each cell cut into ``resolution`` squared, and a reward of 1."""
    return maze_table(dyna_layout().magnified(resolution), reward_std=0.0)


def search(config: Config, trial: int) -> Found:
    """Let an agent live until its greedy path is a shortest one, or its steps are spent."""
    table = magnified_table(config["resolution"])
    rng = stream(config["seed"], "mazes", config["resolution"], trial)
    shortest = shortest_path_length(table)
    settings = replace(AGENTS[config["agent"]], step_size=config["step_size"])
    ended = search_until_optimal(table, settings, shortest, BUDGET * shortest, rng)
    known = model_holds_path(ended, table, shortest)
    return Found(ended.updates, ended.steps, ended.found, known)


def trials_of(config: Config) -> Trials:
    """How each trial ended."""
    return Trials(numbers_of(config), partial(_row, config), 1)


def _row(config: Config, trial: int) -> dict[str, Any]:
    found = search(config, trial)._asdict()
    return {name: np.array([value]) for name, value in {"trial": trial, **found}.items()}


def complete(config: Config) -> Config:
    """All values; refuses names that mean nothing."""
    return filled(config, _DEFAULTS, "search")


KIND = trial_kind(trials_of, complete)
