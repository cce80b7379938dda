"""Dyna-Q against itself written plainly, and both kinds of agents against value iteration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from needlab.tabular.settings import DynaSettings, LearningSettings, SweepingSettings, without_need
from needlab.tabular.trial import run_trial
from needlab.worlds.tabular import TabularWorld
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray

Pair = tuple[int, int]


def plain_dyna(
    table: TabularWorld, settings: DynaSettings, episodes: int, rng: np.random.Generator
) -> tuple[list[int], dict[Pair, float], int]:
    """Sutton & Barto's Dyna-Q, line by line: lengths, Q, number of updates."""
    n_states, n_actions = table.next_state.shape
    Q = {(s, a): 0.0 for s in range(n_states) for a in range(n_actions)}
    model: dict[Pair, tuple[float, int, bool]] = {}
    lengths, updates = [], 0

    def update(pair: Pair) -> None:
        r, s2, ends = model[pair]
        following = 0.0 if ends else settings.discount * max(Q[s2, a] for a in range(n_actions))
        Q[pair] += settings.step_size * (r + following - Q[pair])

    for _ in range(episodes):
        s, ends, steps = table.start, False, 0
        while not ends:
            u = rng.random()
            if u < settings.epsilon:
                a = int(u / settings.epsilon * n_actions)
            else:
                best = max(Q[s, a] for a in range(n_actions))
                ties = [a for a in range(n_actions) if Q[s, a] == best]
                a = ties[int((u - settings.epsilon) / (1.0 - settings.epsilon) * len(ties))]
            r = float(table.reward_mean[s, a])
            if table.reward_std[s, a] > 0.0:
                r += float(table.reward_std[s, a]) * rng.standard_normal()
            s2, ends = int(table.next_state[s, a]), bool(table.ends[s, a])
            model[s, a] = r, s2, ends
            update((s, a))
            experienced = list(model)
            for _ in range(settings.planning_updates):
                update(experienced[int(rng.random() * len(experienced))])
            updates += 1 + settings.planning_updates
            s, steps = s2, steps + 1
        lengths.append(steps)
    return lengths, Q, updates


def optimal_values(table: TabularWorld, discount: float) -> FloatArray:
    """Q of the best policy, by value iteration."""
    Q = np.zeros(table.next_state.shape)
    for _ in range(2000):
        following = np.where(table.ends, 0.0, discount * Q.max(axis=1)[table.next_state])
        Q = table.reward_mean + following
    return Q


@pytest.mark.parametrize("planning_updates", [0, 1, 5])
def test_agrees_with_the_plain_algorithm(
    maze: TabularWorld, uncompiled: bool, planning_updates: int
) -> None:
    settings = DynaSettings(planning_updates=planning_updates)
    episodes = 2 if uncompiled else 10
    lengths, Q, updates = plain_dyna(maze, settings, episodes, stream(0, "dyna"))
    trial = run_trial(maze, settings, episodes, stream(0, "dyna"))
    assert trial.lengths.tolist() == lengths
    np.testing.assert_allclose(trial.agent.Q.ravel(), list(Q.values()), rtol=1e-12)
    assert trial.agent.updates == updates


def test_agrees_with_the_plain_algorithm_on_random_tables(
    random_table: Callable[[int], TabularWorld], uncompiled: bool
) -> None:
    for seed in range(5 if uncompiled else 30):
        table = random_table(seed)
        settings = DynaSettings(discount=0.8, step_size=0.5, epsilon=0.4, planning_updates=3)
        lengths, Q, _ = plain_dyna(table, settings, 10, stream(seed))
        trial = run_trial(table, settings, 10, stream(seed))
        assert trial.lengths.tolist() == lengths
        np.testing.assert_allclose(trial.agent.Q.ravel(), list(Q.values()), rtol=1e-12)


def test_without_planning_it_is_q_learning(maze: TabularWorld, uncompiled: bool) -> None:
    episodes = 2 if uncompiled else 10
    learning = run_trial(maze, LearningSettings(), episodes, stream(4))
    dyna = run_trial(maze, DynaSettings(planning_updates=0), episodes, stream(4))
    assert learning.lengths.tolist() == dyna.lengths.tolist()
    np.testing.assert_array_equal(learning.agent.Q, dyna.agent.Q)
    assert learning.agent.updates == dyna.agent.updates == dyna.lengths.sum()


def test_an_agent_without_need_has_no_successor_matrix(small_maze: TabularWorld) -> None:
    trial = run_trial(small_maze, DynaSettings(), 1, stream(0))
    assert trial.agent.M.shape == (0, 0)


# epsilon 1: every pair is tried for ever, so every Q that can be reached is learned.
CURIOUS = LearningSettings(epsilon=1.0, step_size=0.5, discount=0.9)
SWEEPING = SweepingSettings(epsilon=1.0, step_size=0.5, discount=0.9, threshold=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        CURIOUS,
        DynaSettings(epsilon=1.0, step_size=0.5, discount=0.9, planning_updates=10),
        without_need(SWEEPING),
        SWEEPING,
    ],
    ids=["q-learning", "dyna-q", "ps", "ps-sr"],
)
def test_q_converges_to_the_optimal_values(
    small_maze: TabularWorld, settings: LearningSettings
) -> None:
    trial = run_trial(small_maze, settings, 80, stream(5))
    expected = optimal_values(small_maze, 0.9)
    walls_and_goal = [2, 3, 8]
    expected[walls_and_goal] = 0.0
    np.testing.assert_allclose(trial.agent.Q, expected, rtol=0, atol=1e-6)
    assert expected[0].max() == pytest.approx(0.9**3)


def test_sweeping_converges_on_the_whole_dyna_maze(
    quiet_maze: TabularWorld, uncompiled: bool
) -> None:
    if uncompiled:
        pytest.skip("needs many steps; the small maze is run uncompiled")
    settings = without_need(SweepingSettings(epsilon=1.0, step_size=0.5, threshold=1e-12))
    trial = run_trial(quiet_maze, settings, 150, stream(6))
    expected = optimal_values(quiet_maze, 0.95)
    free = ~(quiet_maze.next_state == np.arange(54)[:, np.newaxis]).all(axis=1)
    np.testing.assert_allclose(trial.agent.Q[free], expected[free], rtol=0, atol=1e-6)
    assert expected[18].max() == pytest.approx(0.95**13)
