"""Trials: where need begins, living on, logs that overflow, and when the path is optimal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from needreplay.rng import stream
from needreplay.tabular import trial as trial_module
from needreplay.tabular.layout import EVENTS, Records, new_knowledge, q_values
from needreplay.tabular.log import EVENT, new_log
from needreplay.tabular.settings import PS_SR, DynaSettings, LearningSettings, without_need
from needreplay.tabular.trial import (
    live,
    logged_trial,
    new_agent,
    random_policy_successor,
    run_trial,
    updates_until_optimal,
)
from needreplay.tabular.walk import greedy_path_is
from needreplay.types import TransitionTable

AGENTS = [PS_SR["printed"], PS_SR["released"], without_need(PS_SR["printed"]), DynaSettings()]
NAMES = ["ps-sr-printed", "ps-sr-released", "ps", "dyna-q"]


def test_need_begins_at_the_random_policy(maze: TransitionTable) -> None:
    M = random_policy_successor(maze, 0.9)
    np.testing.assert_array_equal(new_agent(maze, PS_SR["released"]).M, M)
    # The goal counts itself once, a wall counts itself for ever; walls are never reached.
    np.testing.assert_array_equal(M[8], np.eye(54)[8])
    np.testing.assert_allclose(M[11], 10.0 * np.eye(54)[11], atol=1e-12)
    assert (np.delete(M[:, 11], 11) == 0.0).all()
    # A neighbour of the goal, (1, 8): M = I + gamma T M, with two walls' sides to stay at.
    below = 17
    np.testing.assert_allclose(
        M[below],
        np.eye(54)[below] + 0.9 * (M[8] + 2 * M[below] + M[26]) / 4,
        atol=1e-12,
    )


@pytest.mark.parametrize("settings", AGENTS, ids=NAMES)
def test_the_same_stream_gives_the_same_trial(
    small_maze: TransitionTable, settings: LearningSettings
) -> None:
    first = run_trial(small_maze, settings, 5, stream(1, "a"))
    again = run_trial(small_maze, settings, 5, stream(1, "a"))
    other = run_trial(small_maze, settings, 5, stream(1, "b"))
    assert first.lengths.tolist() == again.lengths.tolist()
    np.testing.assert_array_equal(first.Q, again.Q)
    assert first.lengths.tolist() != other.lengths.tolist()


@pytest.mark.parametrize("settings", AGENTS, ids=NAMES)
def test_living_on_is_one_life(small_maze: TransitionTable, settings: LearningSettings) -> None:
    whole = run_trial(small_maze, settings, 6, stream(2))
    agent, rng = new_agent(small_maze, settings), stream(2)
    parts = [live(agent, small_maze, settings, episodes, rng) for episodes in (1, 2, 3)]
    assert np.concatenate(parts).tolist() == whole.lengths.tolist()
    np.testing.assert_array_equal(q_values(agent), whole.Q)
    np.testing.assert_array_equal(agent.M, whole.M)


def test_the_log_goes_on_where_it_stopped(small_maze: TransitionTable) -> None:
    settings = PS_SR["printed"]
    _, whole = logged_trial(small_maze, settings, 4, stream(3))
    agent, rng, log = new_agent(small_maze, settings), stream(3), new_log(5000)
    live(agent, small_maze, settings, 1, rng, log=log)
    live(agent, small_maze, settings, 3, rng, first_episode=1, log=log)
    np.testing.assert_array_equal(log[: agent.counts[EVENTS]], whole)
    assert set(whole["episode"]) == {0, 1, 2, 3}


def test_a_log_that_overflows_is_made_again(
    small_maze: TransitionTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = PS_SR["printed"]
    expected, events = logged_trial(small_maze, settings, 10, stream(4))
    assert len(events) == expected.updates > 50
    asked: list[int] = []

    def tight(capacity: int) -> Records:
        asked.append(capacity)
        return np.zeros(min(capacity, 50) if len(asked) == 1 else capacity, EVENT)

    monkeypatch.setattr(trial_module, "new_log", tight)
    rng = stream(4)
    trial, log = logged_trial(small_maze, settings, 10, rng)
    assert asked[1:] == [len(events)]
    np.testing.assert_array_equal(log, events)
    assert trial.lengths.tolist() == expected.lengths.tolist()
    np.testing.assert_array_equal(trial.M, expected.M)
    # The generator was put back, then used once: it goes on as if there had been one trial.
    once = stream(4)
    run_trial(small_maze, settings, 10, once)
    assert rng.random() == once.random()


def test_a_full_log_keeps_its_first_events_and_counts_the_rest(
    small_maze: TransitionTable,
) -> None:
    settings = PS_SR["printed"]
    trial, events = logged_trial(small_maze, settings, 10, stream(4))
    agent, log = new_agent(small_maze, settings), new_log(7)
    live(agent, small_maze, settings, 10, stream(4), log=log)
    np.testing.assert_array_equal(log, events[:7])
    assert agent.counts[EVENTS] == trial.updates


@pytest.mark.parametrize("settings", AGENTS, ids=NAMES)
def test_updates_until_the_path_is_optimal(
    small_maze: TransitionTable, settings: LearningSettings
) -> None:
    updates, found = updates_until_optimal(small_maze, settings, 4, 10_000, stream(5))
    assert found
    assert 4 <= updates < 10_000
    again = updates_until_optimal(small_maze, settings, 4, updates, stream(5))
    assert again == (updates, True)


@pytest.mark.parametrize("settings", AGENTS, ids=NAMES)
def test_the_search_stops_when_its_budget_is_spent(
    small_maze: TransitionTable, settings: LearningSettings
) -> None:
    updates, found = updates_until_optimal(small_maze, settings, 3, 200, stream(5))
    assert not found
    assert 200 <= updates < 210


def test_the_search_lives_like_a_trial(small_maze: TransitionTable) -> None:
    # It is the same life, stopped at the first step after which the path is optimal; with traces
    # reset between episodes (lambda 1 makes a forgotten reset visible).
    settings = replace(PS_SR["printed"], trace_decay=1.0, sweeps=1)
    updates, found = updates_until_optimal(small_maze, settings, 4, 10_000, stream(8))
    _, events = logged_trial(small_maze, settings, 30, stream(8))
    assert found
    Q = np.zeros((small_maze.n_states, small_maze.n_actions))
    paths = []
    for event in events[:updates]:
        Q[event["state"], event["action"]] = event["q_after"]
        agent = new_knowledge(*Q.shape)
        q_values(agent)[:] = Q
        agent.states["value"] = Q.max(axis=1)
        paths.append(bool(greedy_path_is(agent, small_maze, 4)))
    assert paths == [False] * (updates - 1) + [True]
    assert events["episode"][updates - 1] > 2


def test_the_greedy_path_by_hand(small_maze: TransitionTable) -> None:
    # S.# / #.. / ..G: right, down, right, down is the way; actions are up, down, left, right.
    agent = new_knowledge(9, 4)
    Q = q_values(agent)
    for state, action in ((0, 3), (1, 1), (4, 3), (5, 1)):
        Q[state, action] = 1.0
    agent.states["value"] = Q.max(axis=1)
    assert greedy_path_is(agent, small_maze, 4)
    assert not greedy_path_is(agent, small_maze, 3)
    assert not greedy_path_is(agent, small_maze, 5)
    Q[4] = [2.0, 0.0, 0.0, 1.0]
    agent.states["value"] = Q.max(axis=1)
    assert not greedy_path_is(agent, small_maze, 4)
