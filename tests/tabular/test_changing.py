"""Worlds that change: schedules, starts by rule, slip; and need has a horizon of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from needlab.tabular.settings import agent_settings, parameters_of
from needlab.tabular.successor import transition_matrix
from needlab.tabular.trial import new_agent, run_episodes, run_trial
from needlab.worlds.make import tabular_world
from needlab.worlds.tabular import START_RULES, TabularWorld, slipped, world_of_arrays
from needlab.worlds.text import DOWN, UP, world_of_text
from needreplay._core.rng import stream
from needreplay.equations import closed_form


@pytest.mark.parametrize("agent", ["ps", "ps-sr", "dyna-q"])
def test_a_change_to_the_same_world_is_no_change(agent: str) -> None:
    world, settings = tabular_world("dyna-maze"), agent_settings(agent)
    schedule = [(0, world), (7, world), (13, world)]
    changing, plain = (run_trial(one, settings, 20, stream(3)) for one in (schedule, world))
    assert changing.lengths.tolist() == plain.lengths.tolist()
    np.testing.assert_array_equal(changing.agent.Q, plain.agent.Q)


def corridor(cells: int, goal: int, **options: Any) -> TabularWorld:
    """Up and down stay; left and right move. Episodes begin in cell ``cells // 2``."""
    moves = [[s, s, max(s - 1, 0), min(s + 1, cells - 1)] for s in range(cells)]
    rewards = {goal: [(1.0, 0.0)]}
    return world_of_arrays(moves, [cells // 2], goals=[goal], rewards=rewards, **options)


def test_a_slip_goes_to_a_side() -> None:
    """Moves that always slip: up and down go left or right; left and right go nowhere."""
    world = corridor(4, 3, slip=1.0)
    q, rng = agent_settings("q-learning", epsilon=1.0), stream(0)
    steps = run_episodes(new_agent(world, q), world, q, 1, rng, episode_steps=500)
    assert steps[0] < 500
    stays = np.tile(world.next_state[:, :1], 4)
    walled = world._replace(next_state=stays, ends=np.zeros_like(world.ends))
    assert run_episodes(new_agent(world, q), walled, q, 1, rng, episode_steps=500)[0] == 500


def test_the_chance_of_a_slip() -> None:
    """From the middle of a cross, down slips left or right with .3 in all."""
    cross = world_of_text("#A#\nBSC\n#D#\n\nslip: 0.3\nA: 0\nB: 0\nC: 0\nD: 0")
    rng = stream(0)
    made = [slipped(cross, DOWN, rng) for _ in range(20_000)]
    counts = np.bincount(made, minlength=4)
    assert counts[UP] == 0
    expected = np.array([0.7, 0.15, 0.15]) * 20_000
    assert (((counts[1:] - expected) ** 2) / expected).sum() < 13.8  # chi-square, 2 df, p = .001


def test_the_goal_of_each_episode_ends_it() -> None:
    """Two neighbors of the start are goals in turn: greedy agents learn both."""
    schedule = [(0, corridor(3, 0)), (20, corridor(3, 2))]
    steps = run_trial(schedule, agent_settings("dyna-q", step_size=1.0), 40, stream(0)).lengths
    assert steps[19] <= 2
    assert steps[39] <= 2
    assert steps[20] > 1  # what it knows leads to the first goal


def test_starts_follow_their_rule() -> None:
    """With a lone way to the right, the steps of an episode tell its start."""
    world = world_of_arrays(
        [[1], [2], [3], [3]], [0, 1, 2], goals=[3], rewards={}, start_rule="in order"
    )
    q = agent_settings("q-learning")
    assert run_trial(world, q, 7, stream(0)).lengths.tolist() == [3, 2, 1, 3, 2, 1, 3]
    in_turn = world._replace(start_rule=START_RULES.index("in turn"))
    assert run_trial(in_turn, q, 4, stream(0)).lengths.tolist() == [3, 2, 2, 2]
    at_random = world._replace(start_rule=START_RULES.index("at random"))
    counts = np.bincount(run_trial(at_random, q, 3_000, stream(0)).lengths)
    assert (np.abs(counts[1:] - 1_000) < 110).all()  # 4 standard deviations


def test_need_has_a_horizon_of_its_own() -> None:
    table = tabular_world("dyna-maze", reward_std=0.0)
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
