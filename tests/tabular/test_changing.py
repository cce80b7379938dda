"""Worlds that change: the fixed case is the plain trial, slip goes sideways, need has a horizon."""

from __future__ import annotations

import numpy as np
import pytest

from needlab.tabular.changing import ChangingWorld, run_changing
from needlab.tabular.settings import agent_settings, parameters_of
from needlab.tabular.successor import transition_matrix
from needlab.tabular.trial import new_agent, run_episodes, run_trial
from needlab.worlds import DYNA_MAZE, maze_table, parse_layout
from needreplay._core.rng import stream
from needreplay.equations import closed_form


def fixed(episodes: int, slip: float = 0.0) -> ChangingWorld:
    table = maze_table(parse_layout(DYNA_MAZE), 0.0)
    starts, goals = np.full(episodes, table.start), np.full(episodes, 8)
    return ChangingWorld(table.next_state, starts, goals, slip, 100_000)


@pytest.mark.parametrize("agent", ["ps", "ps-sr", "dyna-q"])
def test_a_world_that_does_not_change_is_the_plain_trial(agent: str) -> None:
    table = maze_table(parse_layout(DYNA_MAZE), 0.0)
    settings = agent_settings(agent)
    M = new_agent(table, settings).M if agent == "ps-sr" else None
    found = run_changing(settings, fixed(20), stream(3), M)
    assert found.tolist() == run_trial(table, settings, 20, stream(3)).lengths.tolist()


def test_a_slip_goes_to_a_side() -> None:
    """In a corridor from left to right, moves that always slip up or down never leave the start."""
    corridor = np.array([[s, s, max(s - 1, 0), min(s + 1, 3)] for s in range(4)])
    start, goal = np.zeros(1, np.int64), np.full(1, 3)
    world = ChangingWorld(corridor, start, goal, 1.0, 500)
    settings = agent_settings("q-learning", epsilon=1.0)
    # Up and down slip to left or right, so the goal is reached; left and right never move.
    assert run_changing(settings, world, stream(0))[0] < 500
    walled = world._replace(next_state=np.tile(corridor[:, :1], 4))
    assert run_changing(settings, walled, stream(0))[0] == 500


def test_the_goal_of_each_episode_ends_it() -> None:
    """Two neighbors of the start are goals in turn: greedy agents with epsilon 0 learn both."""
    corridor = np.array([[s, s, max(s - 1, 0), min(s + 1, 2)] for s in range(3)])
    goals = np.repeat([0, 2], 20)
    world = ChangingWorld(corridor, np.ones(40, np.int64), goals, 0.0, 1_000)
    steps = run_changing(agent_settings("dyna-q", step_size=1.0), world, stream(0))
    assert steps[19] <= 2
    assert steps[39] <= 2


def test_need_has_a_horizon_of_its_own() -> None:
    table = maze_table(parse_layout(DYNA_MAZE), 0.0)
    settings = agent_settings("ps-sr", successor_discount=0.5)
    assert parameters_of(settings)[:2] == (0.95, 0.1)
    assert parameters_of(settings).successor_discount == 0.5
    assert parameters_of(agent_settings("ps-sr")).successor_discount == 0.95
    # With an epsilon of 1 the policy is random, and TD(lambda) stays near the closed form.
    settings = agent_settings(
        "ps-sr", successor_discount=0.5, epsilon=1.0, successor_step_size=0.02, trace_decay=0.0
    )
    agent = new_agent(table, settings)
    run_episodes(agent, table, settings, 60, stream(0))
    T = transition_matrix(table.next_state, table.ends, np.full((54, 4), 0.25))
    assert np.abs(agent.M - closed_form(T, 0.5)).max() < 0.15
