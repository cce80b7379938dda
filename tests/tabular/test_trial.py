"""Trials: where need begins, living on, logs that overflow, and when the path is optimal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from needreplay.core.rng import stream
from needreplay.core.types import TransitionTable
from needreplay.tabular import trial as trial_module
from needreplay.tabular.layout import EVENTS, Records, new_knowledge, q_values
from needreplay.tabular.log import EVENT, new_log
from needreplay.tabular.settings import (
    PS_SR,
    DynaSettings,
    LearningSettings,
    without_need,
)
from needreplay.tabular.trial import (
    Search,
    live,
    logged_trial,
    model_holds_path,
    new_agent,
    random_policy_successor,
    run_trial,
    search_until_optimal,
)
from needreplay.tabular.walk import greedy_path_is

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
    search = search_until_optimal(small_maze, settings, 4, 10_000, stream(5))
    assert search.found
    assert search.updates >= 4
    assert 4 <= search.steps < 10_000
    assert model_holds_path(search, small_maze, 4)
    again = search_until_optimal(small_maze, settings, 4, search.steps, stream(5))
    assert (again.found, again.updates, again.steps) == (True, search.updates, search.steps)
    short = search_until_optimal(small_maze, settings, 4, search.steps - 1, stream(5))
    assert (short.found, short.steps) == (False, search.steps - 1)


@pytest.mark.parametrize("settings", AGENTS, ids=NAMES)
def test_the_search_stops_when_its_budget_is_spent(
    small_maze: TransitionTable, settings: LearningSettings
) -> None:
    # There is no path of 3; PS then has an empty queue and makes no more updates, but it ends.
    search = search_until_optimal(small_maze, settings, 3, 20_000, stream(5))
    assert not search.found
    assert search.steps == 20_000
    if settings == without_need(PS_SR["printed"]):
        assert search.updates < 20_000
    assert not model_holds_path(search, small_maze, 3)


def test_a_model_holds_a_path_once_all_its_moves_were_made(small_maze: TransitionTable) -> None:
    agent = new_agent(small_maze, DynaSettings())
    search = Search(found=False, updates=0, steps=0, knowledge=agent)
    path = []
    for state, after in ((0, 1), (1, 4), (4, 7), (7, 8)):
        action = int(np.flatnonzero(small_maze.next_state[state] == after)[0])
        path.append(state * small_maze.n_actions + action)
    for pair in path:
        assert not model_holds_path(search, small_maze, 4)
        agent.pairs["next_state"][pair] = small_maze.next_state.ravel()[pair]
    assert model_holds_path(search, small_maze, 4)


def test_the_search_lives_like_a_trial(small_maze: TransitionTable) -> None:
    # It is the same life, stopped at the first step after which the path is optimal; with traces
    # reset between episodes (lambda 1 makes a forgotten reset visible).
    settings = replace(PS_SR["printed"], trace_decay=1.0, sweeps=1)
    search = search_until_optimal(small_maze, settings, 4, 10_000, stream(8))
    updates, found = search.updates, search.found
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
