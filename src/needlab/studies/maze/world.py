"""What the maze studies share: the maze, a trial's random numbers, and steps per episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeVar

import numpy as np
from matplotlib.axes import Axes

from needlab.report.figures import draw_band
from needlab.report.statistics import Band
from needlab.runs.trials import TrialRunner
from needlab.studies.study import Options
from needlab.tabular.policy import epsilon_greedy_policy, expected_steps
from needlab.tabular.settings import PS_SR, LearningSettings
from needlab.tabular.successor import transition_matrix
from needlab.tabular.trial import run_trials
from needlab.worlds.make import tabular_world
from needlab.worlds.tabular import TabularWorld, steps_to_end
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray, IntArray

K = TypeVar("K")
AGENTS = ("ps", "ps-sr")
EPISODES = 50
EPSILON = PS_SR["printed"].epsilon
_SECONDS = 0.002
"""of one trial, about"""


@cache
def dyna_world(reward_std: float = 0.1, resolution: int = 1) -> TabularWorld:
    """The paper's maze, 6 x 9, with each cell cut into ``resolution`` squared."""
    return tabular_world("dyna-maze", reward_std=reward_std, resolution=resolution)


def trial_stream(seed: int, trial: int) -> np.random.Generator:
    """The random numbers of one trial, the same for every preset and agent.

    So differences between agents are paired: until one of them has learned something, they take
    exactly the same steps.
    """
    return stream(seed, "maze", trial)


def _steps(case: tuple[LearningSettings, float, int], trial: int) -> dict[str, IntArray]:
    settings, reward_std, seed = case
    found = run_trials(settings, dyna_world(reward_std), EPISODES, 1, seed, first_trial=trial)
    return {"steps": found["steps"]}


def run_steps(
    settings: Mapping[K, LearningSettings],
    trials: int,
    options: Options,
    runner: TrialRunner,
    label: str,
    reward_std: float = 0.1,
) -> dict[K, IntArray]:
    """For each agent [trial, episode]: the steps of every episode in the Dyna maze."""
    cases = {key: (own, reward_std, options.seed) for key, own in settings.items()}
    found = runner.run(_steps, list(cases.values()), trials, label=label, seconds=_SECONDS)
    return {key: found[case]["steps"] for key, case in cases.items()}


def draw_steps(
    row: Sequence[Axes],
    bands: Mapping[str, Band],
    colors: Mapping[str, str],
    labels: Mapping[str, str],
    highest: int,
) -> None:
    """Mean steps by episode, linear up to ``highest`` (left) and logarithmic (right)."""
    for axes, scale in zip(row, ("linear", "log"), strict=True):
        for agent, band in bands.items():
            x = np.arange(1, EPISODES + 1)
            draw_band(axes, x, band, color=colors[agent], label=labels[agent])
        axes.axhline(best_steps(), color="#999999", linewidth=1, linestyle=":")
        axes.set_yscale(scale)
    row[0].set_ylim(0, highest)
    row[0].set_ylabel("steps per episode")
    row[1].legend()


def later_steps(steps: IntArray) -> IntArray:
    """Each trial's steps in all episodes but the first, which no agent has learned from."""
    total: IntArray = steps[:, 1:].sum(axis=1)
    return total


def episode_columns(steps: IntArray) -> dict[str, IntArray]:
    """[trial, episode] as columns of a table."""
    trials, episodes = steps.shape
    return {
        "trial": np.repeat(np.arange(trials), episodes),
        "episode": np.tile(np.arange(episodes), trials),
        "steps": steps.ravel(),
    }


def best_mean_steps(world: TabularWorld, epsilon: float) -> float:
    """The mean length of an episode that follows shortest paths, random actions included."""
    distance = steps_to_end(world, world.ends)
    following = np.where(world.ends, 0.0, distance[world.next_state])
    policy = epsilon_greedy_policy(-following, epsilon)
    T = transition_matrix(world.next_state, world.ends, policy)
    return expected_steps(T, world.start)


@cache
def best_steps() -> float:
    """``best_mean_steps`` of the Dyna maze with the agents' epsilon."""
    return best_mean_steps(dyna_world(), EPSILON)


def converged_at(curve: FloatArray, factor: float = 1.1) -> float:
    """The first episode (from 1) from which a curve stays within ``factor`` of the best possible.

    One more than the number of episodes if it never does.
    """
    too_long = np.flatnonzero(curve > factor * best_steps())
    return 1.0 if too_long.size == 0 else float(too_long[-1] + 2)
