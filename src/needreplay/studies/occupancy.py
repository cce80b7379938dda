"""Figure 1's trials: M's start row as an agent learns it, and how far it is from the truth."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from needreplay.core.types import FloatArray
from needreplay.rules.policy import epsilon_greedy_policy
from needreplay.rules.successor import closed_form, transition_matrix
from needreplay.studies.maze_world import dyna_table, trial_stream
from needreplay.sweeps.kinds import REQUIRED, Config, filled
from needreplay.sweeps.trials import Trials, numbers_of, trial_kind
from needreplay.tabular.layout import Knowledge, q_values
from needreplay.tabular.settings import OCCUPANCY, SweepingSettings, preset
from needreplay.tabular.trial import live, new_agent

SNAPSHOTS = (1, 10, 30, 100)
"""After how many episodes an agent is looked at."""

_DEFAULTS: Config = {
    "preset": REQUIRED,
    "trace_decay": REQUIRED,
    "seed": REQUIRED,
    "first_trial": REQUIRED,
    "trials": REQUIRED,
}


class Snapshots(NamedTuple):
    """One trial, looked at once a snapshot."""

    occupancy: FloatArray
    """[snapshot, state]: M's start row"""
    distance: FloatArray
    """[snapshot]: of that row to the closed form of the policy of that moment"""


def settings_of(preset_name: str, trace_decay: float) -> SweepingSettings:
    """Figure 1's agent under a preset, with this λ."""
    return preset(OCCUPANCY, preset_name, trace_decay=trace_decay)


def snapshots(settings: SweepingSettings, seed: int, trial: int) -> Snapshots:
    """Let an agent live to each snapshot and look at its start row."""
    table = dyna_table()
    occupancy, distance = np.zeros((len(SNAPSHOTS), table.n_states)), np.zeros(len(SNAPSHOTS))
    rng = trial_stream(seed, trial)
    knowledge = new_agent(table, settings)
    lived = 0
    for row, episodes in enumerate(SNAPSHOTS):
        live(knowledge, table, settings, episodes - lived, rng, first_episode=lived)
        lived = episodes
        occupancy[row] = knowledge.M[table.start]
        distance[row] = distance_to_truth(knowledge, settings)
    return Snapshots(occupancy, distance)


def distance_to_truth(knowledge: Knowledge, settings: SweepingSettings) -> float:
    """|M_start − M*_start|₁ / |M*_start|₁, where M* is the closed form of the present policy."""
    table = dyna_table()
    policy = epsilon_greedy_policy(q_values(knowledge), settings.epsilon)
    T = transition_matrix(table.next_state, table.ends, policy)
    truth = closed_form(T, settings.discount)[table.start]
    return float(np.abs(knowledge.M[table.start] - truth).sum() / np.abs(truth).sum())


def trials_of(config: Config) -> Trials:
    """The distances of each trial."""
    settings = settings_of(config["preset"], config["trace_decay"])
    return Trials(numbers_of(config), partial(_rows, settings, config["seed"]), len(SNAPSHOTS))


def _rows(settings: SweepingSettings, seed: int, trial: int) -> dict[str, Any]:
    return {
        "trial": np.full(len(SNAPSHOTS), trial),
        "episodes": np.array(SNAPSHOTS),
        "distance": snapshots(settings, seed, trial).distance,
    }


def complete(config: Config) -> Config:
    """All values; refuses names that mean nothing."""
    return filled(config, _DEFAULTS, "occupancy")


KIND = trial_kind(trials_of, complete)
