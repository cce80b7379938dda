"""Runs of kind ``linear``: trials of a linear agent in a tabular world or a Gymnasium one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from needlab.core.types import Env
from needlab.linear import Encoding, LinearQ, encode_space, encode_world, linear_settings
from needlab.runs.kinds import REQUIRED, Config, Kind
from needlab.runs.runner import OnUnits
from needlab.runs.tabular_runs import Rows, checked, fewer_trials, run_cases, trial_numbers
from needlab.tabular.agents import play
from needlab.worlds import TabularWorld, tabular_world
from needlab.worlds.env import TabularEnv
from needreplay._core.checks import AT_LEAST_ONE, check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream

_LINEAR: Config = {
    "world": "dyna-maze",
    "world_options": {},
    "agent": REQUIRED,
    "code": "tile",
    "code_options": {},
    "max_episode_steps": 10_000,
    "seed": 0,
    "first_trial": 0,
    "trials": 10,
    "episodes": 50,
    "overrides": {},
}


def make_task(config: Config) -> tuple[Env, Encoding, int]:
    """The config's environment, the features of its observations, and how many actions it has.

    A world with a vector of numbers as observations is encoded as a Box; any other has to be
    tabular, and is encoded by its board.
    """
    world, code, options = config["world"], config["code"], config["world_options"]
    made = _gymnasium_env(world, options)
    most = check_number("max_episode_steps", config["max_episode_steps"], int, AT_LEAST_ONE)
    table: TabularWorld | None = None
    if made is None or isinstance(made.observation_space, spaces.Discrete):
        table = tabular_world(world, **options)
        made = TabularEnv(table)
    elif not isinstance(made.action_space, spaces.Discrete):
        raise NeedReplayError(
            f"{world} has the actions {made.action_space}; a linear agent needs Discrete ones."
        )
    try:
        encoding = (
            encode_space(code, made.observation_space, **config["code_options"])
            if table is None
            else encode_world(code, table, **config["code_options"])
        )
    except TypeError as error:
        raise NeedReplayError(f"code_options is {config['code_options']}: {error}.") from error
    return TimeLimit(made, most), encoding, int(made.action_space.n)  # type: ignore[attr-defined]


def _gymnasium_env(world: str, options: dict[str, Any]) -> Env | None:
    """The environment of a Gymnasium id without its time limit; None for other worlds."""
    try:
        return gymnasium.make(world, max_episode_steps=-1, **options)
    except gymnasium.error.Error:
        return None


def _complete(config: Config) -> Config:
    found = checked({**config, "preset": ""}, {**_LINEAR, "preset": ""}, "linear")
    found.pop("preset")
    for name in ("world_options", "code_options"):
        if not isinstance(found[name], dict):
            raise NeedReplayError(f"{name} is {found[name]!r}; it must be a table.")
    linear_settings(found["agent"], **found["overrides"])
    make_task(found)[0].close()
    return found


def _run(config: Config, folder: Path, on_units: OnUnits) -> None:
    """One row per trial and episode; trial i has the same seed for every agent."""
    env, encoding, n_actions = make_task(config)
    settings, episodes = linear_settings(config["agent"], **config["overrides"]), config["episodes"]

    def rows_of(trial: int) -> Rows:
        seed = int(stream(config["seed"], "linear", trial).integers(2**31))
        agent = LinearQ(encoding, n_actions, settings, seed=seed)
        played = play(agent, env, episodes, seed=seed)
        return {
            "trial": np.full(episodes, trial),
            "episode": np.arange(episodes),
            "steps": played.steps,
            "return": played.returns,
            "terminated": played.terminated,
        }

    run_cases(trial_numbers(config), rows_of, episodes, folder, on_units)
    env.close()


LINEAR = Kind(
    _run, _complete, lambda config: int(config["trials"]), "trials", partial(fewer_trials, most=2)
)
