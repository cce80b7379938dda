"""Trials: the initial M, parts of a trial, logs that overflow, and when the path is optimal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from needlab.tabular import trial as trial_module
from needlab.tabular.arrays import EVENTS, new_arrays
from needlab.tabular.settings import (
    PS_SR,
    DynaSettings,
    LearningSettings,
    agent_settings,
    without_need,
)
from needlab.tabular.sweeping import EVENT
from needlab.tabular.trial import (
    SearchResult,
    greedy_path_is,
    logged_trial,
    model_holds_path,
    new_agent,
    random_policy_successor,
    run_episodes,
    run_trial,
    run_trials,
    search_until_optimal,
)
from needlab.worlds.tabular import TabularWorld
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray

AGENTS = [PS_SR["printed"], PS_SR["released"], without_need(PS_SR["printed"]), DynaSettings()]
NAMES = ["ps-sr-printed", "ps-sr-released", "ps", "dyna-q"]


def test_need_begins_at_the_random_policy(maze: TabularWorld) -> None:
    M = random_policy_successor(maze, 0.9)
    np.testing.assert_array_equal(new_agent(maze, PS_SR["released"]).M, M)
    # The goal counts itself once, a wall counts itself for ever; walls are never reached.
    np.testing.assert_array_equal(M[8], np.eye(54)[8])
    np.testing.assert_allclose(M[11], 10.0 * np.eye(54)[11], atol=1e-12)
    assert (np.delete(M[:, 11], 11) == 0.0).all()
    # A neighbor of the goal, (1, 8): M = I + gamma T M, with two walls' sides to stay at.
    below = 17
    np.testing.assert_allclose(
        M[below],
        np.eye(54)[below] + 0.9 * (M[8] + 2 * M[below] + M[26]) / 4,
        atol=1e-12,
    )


@pytest.mark.parametrize("settings", AGENTS, ids=NAMES)
def test_the_same_stream_gives_the_same_trial(
    small_maze: TabularWorld, settings: LearningSettings
) -> None:
    first = run_trial(small_maze, settings, 5, stream(1, "a"))
    again = run_trial(small_maze, settings, 5, stream(1, "a"))
    other = run_trial(small_maze, settings, 5, stream(1, "b"))
    assert first.lengths.tolist() == again.lengths.tolist()
    np.testing.assert_array_equal(first.agent.Q, again.agent.Q)
    assert first.lengths.tolist() != other.lengths.tolist()


@pytest.mark.parametrize("settings", AGENTS, ids=NAMES)
def test_episodes_can_be_run_in_parts(small_maze: TabularWorld, settings: LearningSettings) -> None:
    whole = run_trial(small_maze, settings, 6, stream(2))
    agent, rng = new_agent(small_maze, settings), stream(2)
    parts = [run_episodes(agent, small_maze, settings, episodes, rng) for episodes in (1, 2, 3)]
    assert np.concatenate(parts).tolist() == whole.lengths.tolist()
    np.testing.assert_array_equal(agent.Q, whole.agent.Q)
    np.testing.assert_array_equal(agent.M, whole.agent.M)


def test_the_log_continues_where_it_stopped(small_maze: TabularWorld) -> None:
    settings = PS_SR["printed"]
    _, whole = logged_trial(small_maze, settings, 4, stream(3))
    agent, rng, log = new_agent(small_maze, settings), stream(3), np.zeros(5000, EVENT)
    run_episodes(agent, small_maze, settings, 1, rng, log=log)
    run_episodes(agent, small_maze, settings, 3, rng, first_episode=1, log=log)
    np.testing.assert_array_equal(log[: agent.counts[EVENTS]], whole)
    assert set(whole["episode"]) == {0, 1, 2, 3}


def test_a_log_that_overflows_is_made_again(
    small_maze: TabularWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = PS_SR["printed"]
    expected, events = logged_trial(small_maze, settings, 10, stream(4))
    assert len(events) == expected.agent.updates > 50
    sizes: list[int] = []

    class Tight:
        """numpy, whose first array of events is too short."""

        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        def zeros(self, size: int, dtype: Any) -> AnyArray:
            if dtype == EVENT and size > 0:
                sizes.append(size)
                size = min(size, 50) if len(sizes) == 1 else size
            return np.zeros(size, dtype)

    monkeypatch.setattr(trial_module, "np", Tight())
    rng = stream(4)
    trial, log = logged_trial(small_maze, settings, 10, rng)
    assert sizes[1:] == [len(events)]
    np.testing.assert_array_equal(log, events)
    assert trial.lengths.tolist() == expected.lengths.tolist()
    np.testing.assert_array_equal(trial.agent.M, expected.agent.M)
    # The generator was put back, then used once: it continues as if there had been one trial.
    once = stream(4)
    run_trial(small_maze, settings, 10, once)
    assert rng.random() == once.random()


def test_a_full_log_keeps_its_first_events_and_counts_the_rest(
    small_maze: TabularWorld,
) -> None:
    settings = PS_SR["printed"]
    trial, events = logged_trial(small_maze, settings, 10, stream(4))
    agent, log = new_agent(small_maze, settings), np.zeros(7, EVENT)
    run_episodes(agent, small_maze, settings, 10, stream(4), log=log)
    np.testing.assert_array_equal(log, events[:7])
    assert agent.counts[EVENTS] == trial.agent.updates


@pytest.mark.parametrize("settings", AGENTS, ids=NAMES)
def test_updates_until_the_path_is_optimal(
    small_maze: TabularWorld, settings: LearningSettings
) -> None:
    search = search_until_optimal(small_maze, settings, 4, 10_000, stream(5))
    assert search.found
    assert search.updates >= 4
    assert 4 <= search.steps < 10_000
    assert model_holds_path(search.agent, small_maze, 4)
    again = search_until_optimal(small_maze, settings, 4, search.steps, stream(5))
    assert (again.found, again.updates, again.steps) == (True, search.updates, search.steps)
    short = search_until_optimal(small_maze, settings, 4, search.steps - 1, stream(5))
    assert (short.found, short.steps) == (False, search.steps - 1)


@pytest.mark.parametrize("settings", AGENTS, ids=NAMES)
def test_the_search_stops_when_its_budget_is_spent(
    small_maze: TabularWorld, settings: LearningSettings
) -> None:
    # There is no path of 3; PS then has an empty queue and makes no more updates, but it ends.
    search = search_until_optimal(small_maze, settings, 3, 20_000, stream(5))
    assert not search.found
    assert search.steps == 20_000
    if settings == without_need(PS_SR["printed"]):
        assert search.updates < 20_000
    assert not model_holds_path(search.agent, small_maze, 3)


class TestRunTrials:
    def test_any_agent_on_any_table(self, random_table: Callable[[int], TabularWorld]) -> None:
        for seed in range(4):
            table = random_table(seed)
            for agent in ("ps", "ps-sr", "q-learning", "dyna-q"):
                columns = run_trials(agent, table, 3, 2, seed=1, key=("any",))
                assert columns["trial"].tolist() == [0, 0, 0, 1, 1, 1]
                assert columns["episode"].tolist() == [0, 1, 2, 0, 1, 2]
                lengths = run_trial(table, agent_settings(agent), 3, stream(1, "any", 1)).lengths
                assert columns["steps"][3:].tolist() == lengths.tolist()
                assert columns["terminated"].all()

    def test_returns_are_sums_of_rewards(self, quiet_maze: TabularWorld) -> None:
        table = quiet_maze._replace(
            magnitudes=quiet_maze.magnitudes - 0.25, choices=np.ones_like(quiet_maze.choices)
        )
        columns = run_trials("ps", table, 2, 1)
        np.testing.assert_allclose(columns["return"], 1.0 - 0.25 * columns["steps"], rtol=1e-12)

    def test_a_part_of_the_trials_is_that_part(self, small_maze: TabularWorld) -> None:
        all_of_them = run_trials("ps-sr", small_maze, 4, 5)
        part = run_trials("ps-sr", small_maze, 4, 2, first_trial=3)
        for name, column in part.items():
            np.testing.assert_array_equal(column, all_of_them[name][12:])

    def test_an_episode_without_an_end_is_cut(self, small_maze: TabularWorld) -> None:
        table = small_maze._replace(ends=np.zeros_like(small_maze.ends))
        for agent in ("ps-sr", "dyna-q"):
            columns = run_trials(agent, table, 2, 1, max_episode_steps=30)
            assert columns["steps"].tolist() == [30, 30]
            assert not columns["terminated"].any()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"settings": "sarsa"}, "There is no agent 'sarsa'; choose from: ps, ps-sr, q-learn"),
            ({"episodes": 0}, "episodes is 0; it must be a whole number, 1 or more"),
            ({"trials": 1.5}, "trials is 1.5; it must be a whole number"),
            ({"seed": -1}, "seed is -1; it must be"),
            ({"first_trial": -1}, "first_trial is -1; it must be"),
            ({"max_episode_steps": 0}, "max_episode_steps is 0; it must be"),
        ],
    )
    def test_what_cannot_be_run_raises(
        self, small_maze: TabularWorld, change: dict[str, Any], message: str
    ) -> None:
        request: dict[str, Any] = {"settings": "ps", "world": small_maze, "episodes": 1}
        with pytest.raises(NeedReplayError, match=f"^{message}"):
            run_trials(**{**request, "trials": 1, **change})


def test_a_model_holds_a_path_once_all_its_moves_were_made(small_maze: TabularWorld) -> None:
    agent = new_agent(small_maze, DynaSettings())
    search = SearchResult(found=False, updates=0, steps=0, agent=agent)
    path = []
    for state, after in ((0, 1), (1, 4), (4, 7), (7, 8)):
        action = int(np.flatnonzero(small_maze.next_state[state] == after)[0])
        path.append(state * small_maze.n_actions + action)
    for pair in path:
        assert not model_holds_path(search.agent, small_maze, 4)
        agent.pairs["next_state"][pair] = small_maze.next_state.ravel()[pair]
    assert model_holds_path(search.agent, small_maze, 4)


def test_a_search_learns_like_a_trial(small_maze: TabularWorld) -> None:
    # It learns the same, stopped at the first step after which the path is optimal; with traces
    # reset between episodes (lambda 1 makes a forgotten reset visible).
    settings = replace(PS_SR["printed"], trace_decay=1.0, planning_updates=1)
    search = search_until_optimal(small_maze, settings, 4, 10_000, stream(8))
    updates, found = search.updates, search.found
    _, events = logged_trial(small_maze, settings, 30, stream(8))
    assert found
    Q = np.zeros((small_maze.n_states, small_maze.n_actions))
    paths = []
    for event in events[:updates]:
        Q[event["state"], event["action"]] = event["q_after"]
        agent = new_arrays(*Q.shape)
        agent.Q[:] = Q
        agent.states["value"] = Q.max(axis=1)
        paths.append(bool(greedy_path_is(agent, small_maze, 4)))
    assert paths == [False] * (updates - 1) + [True]
    assert events["episode"][updates - 1] > 2


def test_the_greedy_path_by_hand(small_maze: TabularWorld) -> None:
    # S.# / #.. / ..G: right, down, right, down is the way; actions are up, down, left, right.
    agent = new_arrays(9, 4)
    Q = agent.Q
    for state, action in ((0, 3), (1, 1), (4, 3), (5, 1)):
        Q[state, action] = 1.0
    agent.states["value"] = Q.max(axis=1)
    assert greedy_path_is(agent, small_maze, 4)
    assert not greedy_path_is(agent, small_maze, 3)
    assert not greedy_path_is(agent, small_maze, 5)
    Q[4] = [2.0, 0.0, 0.0, 1.0]
    agent.states["value"] = Q.max(axis=1)
    assert not greedy_path_is(agent, small_maze, 4)
