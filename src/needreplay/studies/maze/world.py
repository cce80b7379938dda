"""What the maze studies share: the maze, a trial's random numbers, and steps per episode."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from needreplay.core.rng import stream
from needreplay.core.types import FloatArray, IntArray, TransitionTable
from needreplay.rules.policy import epsilon_greedy_policy, expected_steps
from needreplay.rules.successor import transition_matrix
from needreplay.studies.study import Options
from needreplay.studies.trials import TrialRunner
from needreplay.tabular.settings import PS_SR, LearningSettings
from needreplay.tabular.trial import run_trials
from needreplay.worlds import DYNA_MAZE, Layout, maze_table, parse_layout

AGENTS = ("ps", "ps-sr")
EPISODES = 50
EPSILON = PS_SR["printed"].epsilon
_SECONDS = 0.002
"""of one trial, about"""


@cache
def dyna_layout() -> Layout:
    """The paper's maze, 6 x 9."""
    return parse_layout(DYNA_MAZE)


@cache
def dyna_table(reward_std: float = 0.1) -> TransitionTable:
    """The paper's maze as a table."""
    return maze_table(dyna_layout(), reward_std)


def trial_stream(seed: int, trial: int) -> np.random.Generator:
    """The random numbers of one trial, the same for every preset and agent.

    So differences between agents are paired: until one of them has learned something, they take
    exactly the same steps.
    """
    return stream(seed, "maze", trial)


class _Case(NamedTuple):
    settings: LearningSettings
    reward_std: float
    seed: int


def _steps(case: _Case, trial: int) -> dict[str, IntArray]:
    table = dyna_table(case.reward_std)
    found = run_trials(case.settings, table, EPISODES, 1, case.seed, first_trial=trial)
    return {"steps": found["steps"]}


def run_steps(
    settings: Sequence[LearningSettings],
    trials: int,
    options: Options,
    runner: TrialRunner,
    label: str,
    reward_std: float = 0.1,
) -> list[IntArray]:
    """For each agent [trial, episode]: the steps of every episode in the Dyna maze."""
    cases = [_Case(one, reward_std, options.seed) for one in settings]
    found = runner.run(_steps, cases, trials, label=label, seconds=_SECONDS)
    return [columns["steps"] for columns in found]


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


def best_mean_steps(table: TransitionTable, epsilon: float) -> float:
    """The mean length of an episode that follows shortest paths, random actions included."""
    distance = np.where(table.ends, 0.0, np.inf).min(axis=1)
    while True:
        following = np.where(table.ends, 0.0, distance[table.next_state])
        nearer = 1.0 + following.min(axis=1)
        if (nearer == distance).all():
            break
        distance = nearer
    policy = epsilon_greedy_policy(-following, epsilon)
    T = transition_matrix(table.next_state, table.ends, policy)
    return expected_steps(T, table.start)


@cache
def best_steps() -> float:
    """``best_mean_steps`` of the Dyna maze with the agents' epsilon."""
    return best_mean_steps(dyna_table(), EPSILON)


def converged_at(curve: FloatArray, factor: float = 1.1) -> float:
    """The first episode (from 1) from which a curve stays within ``factor`` of the best possible.

    One more than the number of episodes if it never does.
    """
    too_long = np.flatnonzero(curve > factor * best_steps())
    return 1.0 if too_long.size == 0 else float(too_long[-1] + 2)
