"""Simulations of the EVB agent: the order of steps, replay's timing, presets, determinism."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

from needlab.tabular.evb import episodes
from needlab.tabular.evb.backups import BACKUP, rule_of
from needlab.tabular.evb.episodes import END, START, learn, move_row
from needlab.tabular.evb.settings import EVB, EVBSettings, dyna, without_replay
from needlab.tabular.evb.simulation import Simulation, new_agent, simulate, simulation_table
from needlab.tabular.replay_events import FORWARD, REVERSE, replay_events
from needlab.tabular.trial import sampled_reward, start_after
from needlab.worlds.boards import linear_track
from needlab.worlds.make import tabular_world
from needlab.worlds.tabular import world_of_arrays
from needlab.worlds.text import RIGHT, world_of_text
from needreplay._core.errors import NeedReplayError

PUBLISHED = EVB["published"]


@pytest.fixture(scope="module")
def lives() -> list[Simulation]:
    return [simulate(linear_track(), PUBLISHED, episodes=20, simulation=i) for i in range(6)]


def test_one_step_is_learned_in_order() -> None:
    task = world_of_text("S.G")
    agent, rule = new_agent(task, PUBLISHED), rule_of(PUBLISHED)
    agent.Q[1] = (0.0, 0.0, 0.0, 0.5)
    learn(agent, rule, 0, 3, 0.25, 1)
    np.testing.assert_allclose(agent.T[0], [0.1 * 0.75, 0.9 + 0.1 * 0.25, 0.0])
    assert agent.Q[0, 3] == pytest.approx(0.25 + 0.9 * 0.5)
    assert (agent.reward[0, 3], agent.outcome[0, 3]) == (0.25, 1)
    move_row(agent.T, 0, 0, 0.5)
    np.testing.assert_allclose(agent.T[0], [0.5 + 0.0375, 0.4625, 0.0])


def test_goals_lead_to_the_next_start_and_random_starts_are_uniform() -> None:
    rng = np.random.default_rng(0)
    track = linear_track()
    assert [start_after(track, goal, 1, rng) for goal in (0, 1)] == [29, 0]
    agent = new_agent(track, PUBLISHED)
    assert (agent.T[9, 29], agent.T[20, 0]) == (1.0, 1.0)
    field = tabular_world("open-field")
    np.testing.assert_allclose(new_agent(field, PUBLISHED).T[8, field.starts], 1 / 46)
    drawn = {start_after(field, 0, 1, rng) for _ in range(1000)}
    assert drawn == set(field.starts.tolist())


def test_rewards_are_drawn_per_visit_with_noise_that_does_not_turn_them_negative() -> None:
    rng = np.random.default_rng(0)
    task = world_of_text("SaSbG\n\na: 0 sd 5\nb: -1 sd 0.1\nG: 1 sd 0.1 or 4 sd 0.1")
    cut = np.array([sampled_reward(task, 0, RIGHT, rng) for _ in range(400)])
    assert cut.min() == 0.0
    assert abs((cut == 0.0).mean() - 0.5) < 0.1
    assert np.mean([sampled_reward(task, 2, RIGHT, rng) for _ in range(100)]) == pytest.approx(
        -1.0, abs=0.05
    )
    goal = np.array([sampled_reward(task, 3, RIGHT, rng) for _ in range(400)])
    assert abs((goal > 2.5).mean() - 0.5) < 0.1
    assert sampled_reward(task, 1, RIGHT, rng) == 0.0


def test_replay_comes_at_the_goal_and_after_the_first_step(lives: list[Simulation]) -> None:
    for life in lives:
        pauses, steps = life.pauses, life.steps
        assert pauses["kind"].tolist() == [END] + [START, END] * 19
        assert pauses["count"].tolist() == [20] * 39, "the floor leaves nothing out"
        first_steps = np.flatnonzero(np.diff(steps["episode"], prepend=-1))
        last_steps = np.append(first_steps[1:] - 1, len(steps) - 1)
        assert pauses["step"][pauses["kind"] == START].tolist() == first_steps[1:].tolist()
        assert pauses["step"][pauses["kind"] == END].tolist() == last_steps.tolist()
        # The current state is the one just left: the start, or the cell before the goal.
        np.testing.assert_array_equal(pauses["state"], steps["state"][pauses["step"]])
        assert set(pauses["state"][pauses["kind"] == START]) == {0, 29}
        assert set(pauses["state"][pauses["kind"] == END]) == {8, 21}
        assert life.lengths.sum() == len(steps)


def test_nothing_is_replayed_before_the_first_reward() -> None:
    task = world_of_text("S.G\n\nG: 0")
    life = simulate(task, PUBLISHED, episodes=3)
    assert life.pauses["episode"].tolist() == [1, 1, 2, 2] or 0 not in life.pauses["episode"]


def test_an_episode_of_one_step_has_one_replay() -> None:
    task = world_of_arrays([[1, 1], [1, 1]], starts=[0], goals=[1], rewards={1: [(1.0, 0.0)]})
    life = simulate(task, PUBLISHED, episodes=5)
    assert life.pauses["kind"].tolist() == [END] * 5


def test_timing_switches() -> None:
    track = linear_track()
    before = simulate(track, replace(PUBLISHED, start_replay="before-first-step"), episodes=4)
    starts = before.pauses[before.pauses["kind"] == START]
    assert starts["state"].tolist() == [29, 0, 29]
    first_steps = np.flatnonzero(np.diff(before.steps["episode"], prepend=-1))
    assert starts["step"].tolist() == first_steps[1:].tolist()
    at_goal = simulate(track, replace(PUBLISHED, end_replay="at-goal"), episodes=4)
    assert set(at_goal.pauses["state"][at_goal.pauses["kind"] == END]) == {9, 20}
    neither = replace(PUBLISHED, start_replay="never", end_replay="never")
    assert len(simulate(track, neither, episodes=4).pauses) == 0
    every = simulate(track, replace(PUBLISHED, replay_every_step=True), episodes=3)
    assert len(every.pauses) == len(every.steps) - every.lengths[0] + 1


def test_the_same_numbers_whatever_ran_before_and_in_any_process(
    lives: list[Simulation], uncompiled: bool
) -> None:
    again = [simulate(linear_track(), PUBLISHED, episodes=20, simulation=i) for i in (5, 2)]
    for mine, other in zip(again, (lives[5], lives[2]), strict=True):
        for name in ("lengths", "backups", "pauses", "steps"):
            assert getattr(mine, name).tobytes() == getattr(other, name).tobytes()
    assert lives[5].backups.tobytes() != lives[2].backups.tobytes()
    if uncompiled:
        return
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        for i in (3, 4):
            job = pool.submit(simulate, linear_track(), PUBLISHED, episodes=20, simulation=i)
            assert job.result().backups.tobytes() == lives[i].backups.tobytes()


def _counts(settings: EVBSettings, simulations: int) -> dict[tuple[int, int], float]:
    """Events per episode by (kind of pause, direction)."""
    task, counts = linear_track(), {(k, d): 0.0 for k in (START, END) for d in (FORWARD, REVERSE)}
    for i in range(simulations):
        life = simulate(task, settings, simulation=i)
        for pause in life.pauses:
            part = life.backups[pause["first"] : pause["first"] + pause["count"]]
            for event in replay_events(part["state"], part["action"], task.next_state):
                counts[int(pause["kind"]), int(event["direction"])] += 1
    return {key: count / 50 / simulations for key, count in counts.items()}


def test_published_has_forward_events_before_runs_and_reverse_events_after(
    uncompiled: bool,
) -> None:
    if uncompiled:
        pytest.skip("too slow")
    found = _counts(PUBLISHED, 12)
    assert 0.5 < found[START, FORWARD] < 0.9
    assert found[END, FORWARD] < 0.01
    assert 0.3 < found[END, REVERSE] < 0.45
    assert found[START, REVERSE] < 0.03


@pytest.mark.parametrize("change", [{"floor": "none"}, {"floor": "sum"}, {"extend_chains": False}])
def test_forward_events_need_chains_and_a_floor_for_each_element(
    change: dict[str, Any], uncompiled: bool
) -> None:
    if uncompiled:
        pytest.skip("too slow")
    found = _counts(replace(PUBLISHED, **change), 4)
    assert found[START, FORWARD] == found[END, FORWARD] == 0.0
    assert 0.1 < found[END, REVERSE] < 0.4


def test_behavior_gets_worse_with_practice_as_in_the_published_code(uncompiled: bool) -> None:
    if uncompiled:
        pytest.skip("too slow")
    steps = np.array([simulate(linear_track(), PUBLISHED, simulation=i).lengths for i in range(30)])
    assert 13 < steps[:, 2:10].mean() < 17
    assert 23 < steps[:, 10:].mean() < 29


def test_replay_beats_dyna_and_dyna_beats_no_replay(uncompiled: bool) -> None:
    if uncompiled:
        pytest.skip("too slow")
    greedy = replace(PUBLISHED, behavior="epsilon-greedy")
    totals = [
        sum(simulate(linear_track(), own, simulation=i).lengths[2:].sum() for i in range(10))
        for own in (greedy, dyna(greedy), without_replay(greedy))
    ]
    assert totals[0] < totals[1] < totals[2]
    assert totals[0] < 1.02 * 10 * 48 * 9, "two laps teach both corridors"


def test_epsilon_one_is_a_random_walk() -> None:
    task, rng = linear_track(), np.random.default_rng(0)
    settings = replace(PUBLISHED, behavior="epsilon-greedy", epsilon=1.0)
    agent = new_agent(task, settings)
    agent.Q[0, 3] = 9.0
    drawn = [episodes.choose(agent, rule_of(settings), 0, rng) for _ in range(400)]
    assert np.bincount(drawn, minlength=4).min() > 60


def test_a_world_can_change_while_the_agent_remembers() -> None:
    before, after = world_of_text("S..G\n\nG: 1"), world_of_text("S..G\n\nG: 4")
    life = simulate([(0, before), (5, after)], PUBLISHED, episodes=10)
    rewards = life.pauses[life.pauses["kind"] == END]["last_reward"]
    assert rewards.tolist() == [1.0] * 5 + [4.0] * 5
    assert life.agent.Q[2, 3] == 4.0
    with pytest.raises(NeedReplayError, match="in order"):
        simulate([(0, before), (0, after)], PUBLISHED)
    with pytest.raises(NeedReplayError, match="only moves, goals and rewards can change"):
        simulate([(0, before), (2, world_of_text("S...G"))], PUBLISHED)
    with pytest.raises(NeedReplayError, match="from 0 on"):
        simulate([(1, before)], PUBLISHED)
    other = world_of_text("SG..")._replace(starts=before.starts)
    with pytest.raises(NeedReplayError, match="must have the goals of the first"):
        simulate([(0, before), (2, other)], PUBLISHED)


def test_presets() -> None:
    assert EVB["published"] == EVBSettings()
    text = EVB["text"]
    assert (text.need, text.floor) == ("policy", "sum")
    assert (text.start_replay, text.end_replay) == ("before-first-step", "at-goal")
    assert len(simulate(tabular_world("t-maze"), text, episodes=3).pauses) > 0


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("discount", 1.0, "must be below 1"),
        ("discount", -0.1, "discount is -0.1"),
        ("gain", "td-error", "There is no gain"),
        ("need", "M", "There is no need"),
        ("backups", 2.5, "a whole number"),
        ("floor_size", -1e-10, "0.0 or more"),
    ],
)
def test_settings_that_mean_nothing_raise(field: str, value: Any, message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        EVBSettings(**{field: value})


def test_what_raises() -> None:
    with pytest.raises(NeedReplayError, match=r"slip 0\.1"):
        simulate(world_of_text("S..G\n\nslip: 0.1"), PUBLISHED)
    with pytest.raises(NeedReplayError, match="episodes end at goals only"):
        simulate(tabular_world("cliffwalk"), PUBLISHED)
    with pytest.raises(NeedReplayError, match="pass both or neither"):
        simulate(linear_track(), replace(PUBLISHED, need="given"))
    with pytest.raises(NeedReplayError, match="shape was"):
        simulate(linear_track(), replace(PUBLISHED, need="given"), successor=np.eye(3))
    with pytest.raises(NeedReplayError, match="episodes is 0"):
        simulate(linear_track(), PUBLISHED, episodes=0)


def test_the_tidy_table_of_a_simulation(lives: list[Simulation]) -> None:
    table = simulation_table(lives[0], linear_track())
    assert len(table) == len(lives[0].backups) == 39 * 20
    assert table["pause"].tolist() == np.repeat(np.arange(39), 20).tolist()
    assert set(table["direction"]) == {"forward", "reverse", "none"}
    first = table["pause"] == 0
    assert set(table["direction"][first]) == {"reverse", "none"}
    assert table["event"].max() >= 1
    np.testing.assert_array_equal(table["chain_length"], lives[0].backups["length"])


def test_given_need_equal_to_one_is_need_one() -> None:
    task = linear_track()
    given = simulate(
        task, replace(PUBLISHED, need="given"), episodes=5, successor=np.ones((30, 30))
    )
    ones = simulate(task, replace(PUBLISHED, need="one"), episodes=5)
    assert given.backups.tobytes() == ones.backups.tobytes()
    assert given.backups.dtype == BACKUP
