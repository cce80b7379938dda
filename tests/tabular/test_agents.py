"""Agents step by step: the same as compiled trials, and what raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest

from needlab.tabular.agents import DynaQ, PrioritizedSweeping, QLearning, TabularAgent, play
from needlab.tabular.settings import (
    PS_SR,
    DynaSettings,
    LearningSettings,
    SweepingSettings,
    without_need,
)
from needlab.tabular.trial import random_policy_successor, run_trial
from needlab.worlds import as_discrete, require_discrete
from needlab.worlds.tabular import TabularWorld
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream

Agent = DynaQ | PrioritizedSweeping
MAKERS: list[Callable[[int, int], Agent]] = [QLearning, DynaQ, PrioritizedSweeping]


def lived(agent: TabularAgent, table: TabularWorld, episodes: int) -> list[int]:
    """The steps of each episode of an agent that is led through a table by hand."""
    lengths = []
    for _ in range(episodes):
        state, terminated, steps = table.start, False, 0
        agent.begin(state)
        while not terminated:
            action = agent.act(state)
            next_state = int(table.next_state[state, action])
            terminated = bool(table.ends[state, action])
            reward = float(table.reward_mean[state, action])
            agent.learn(state, action, reward, next_state, terminated)
            state, steps = next_state, steps + 1
        lengths.append(steps)
    return lengths


@pytest.mark.parametrize("name", ["printed", "released"])
@pytest.mark.parametrize("without", [False, True], ids=["ps-sr", "ps"])
def test_sweeping_step_by_step_is_the_compiled_trial(
    quiet_maze: TabularWorld, uncompiled: bool, name: str, without: bool
) -> None:
    settings = without_need(PS_SR[name]) if without else PS_SR[name]
    M = random_policy_successor(quiet_maze, settings.discount)
    agent = PrioritizedSweeping(54, 4, settings, M=M, seed=7)
    episodes = 2 if uncompiled else 8
    trial = run_trial(quiet_maze, settings, episodes, stream(7, "agent"))
    assert lived(agent, quiet_maze, episodes) == trial.lengths.tolist()
    np.testing.assert_array_equal(agent.Q, trial.agent.Q)
    np.testing.assert_array_equal(agent.M, trial.agent.M)
    assert agent.updates == trial.agent.updates > 0
    assert (agent.M.size == 0) == without


@pytest.mark.parametrize("planning_updates", [0, 5])
def test_dyna_step_by_step_is_the_compiled_trial(
    quiet_maze: TabularWorld, uncompiled: bool, planning_updates: int
) -> None:
    settings = DynaSettings(planning_updates=planning_updates)
    episodes = 2 if uncompiled else 8
    agent = DynaQ(54, 4, settings, seed=7)
    trial = run_trial(quiet_maze, settings, episodes, stream(7, "agent"))
    assert lived(agent, quiet_maze, episodes) == trial.lengths.tolist()
    np.testing.assert_array_equal(agent.Q, trial.agent.Q)
    assert agent.updates == trial.agent.updates


def test_q_learning_is_dyna_without_planning(small_maze: TabularWorld) -> None:
    settings = DynaSettings(0.8, 0.3, 0.2, planning_updates=9)
    agent = QLearning(9, 4, settings, seed=1)
    other = DynaQ(9, 4, replace(settings, planning_updates=0), seed=1)
    assert lived(agent, small_maze, 5) == lived(other, small_maze, 5)
    np.testing.assert_array_equal(agent.Q, other.Q)
    assert agent.settings == DynaSettings(0.8, 0.3, 0.2, planning_updates=0)
    assert QLearning(9, 4).settings == DynaSettings(planning_updates=0)


def test_what_an_agent_begins_with() -> None:
    agent = PrioritizedSweeping(3, 2)
    assert agent.settings == PS_SR["printed"]
    np.testing.assert_array_equal(agent.M, np.eye(3))
    assert agent.Q.shape == (3, 2)
    assert agent.updates == 0
    assert DynaQ(3, 2).settings == DynaSettings()


def test_the_trace_is_forgotten_at_an_episodes_start_if_settings_say_so() -> None:
    """Both episodes end where nobody has acted, so M[0] += α γ φ(1) in the first.

    The second adds α (γ λ) γ φ(2) if the first state still has a trace.
    """
    for reset_trace, share in ((True, 0.0), (False, 1.0)):
        settings = SweepingSettings(reset_trace=reset_trace)
        alpha, decay = settings.successor_step_size, settings.trace_decay
        gamma = settings.horizon
        agent = PrioritizedSweeping(3, 1, settings)
        agent.begin(0)
        agent.learn(0, 0, 0.0, 1, terminated=True)
        agent.begin(1)
        agent.learn(1, 0, 0.0, 2, terminated=True)
        expected = [1.0, alpha * gamma, share * alpha * gamma * decay * gamma]
        np.testing.assert_allclose(agent.M[0], expected, rtol=1e-12)


def test_need_after_the_goal_is_read_from_this_episodes_start() -> None:
    # Pairs 0 and 1 have been seen; the last step ends. Row 2, the start's, wants pair 0 first.
    M = np.array([[1.0, 9.0, 1.0], [1.0, 9.0, 1.0], [9.0, 1.0, 1.0]])
    settings = SweepingSettings(need_from="next", learn_successor=False, planning_updates=1)
    agent = PrioritizedSweeping(3, 1, replace(settings, planning_updates=0), M=M)
    agent.begin(2)
    agent.learn(0, 0, 1.0, 1, terminated=False)
    swept = PrioritizedSweeping(3, 1, settings, M=M)
    swept.arrays.pairs[:] = agent.arrays.pairs
    for name in ("states", "counts", "best", "key", "block"):
        getattr(swept.arrays, name)[:] = getattr(agent.arrays, name)
    swept.begin(2)
    swept.learn(1, 0, 1.0, 1, terminated=True)
    assert swept.Q.ravel().tolist() == [0.1, 0.0, 0.0]


@pytest.mark.parametrize("make", MAKERS)
def test_a_step_that_is_not_terminal_bootstraps(make: Callable[[int, int], Agent]) -> None:
    agent = make(2, 1)
    agent.begin(0)
    for _ in range(200):
        agent.learn(1, 0, 1.0, 1, terminated=True)
    agent.learn(0, 0, 0.0, 1, terminated=False)
    assert agent.Q[0, 0] > 0.05
    ended = make(2, 1)
    ended.begin(0)
    for _ in range(200):
        ended.learn(1, 0, 1.0, 1, terminated=True)
    ended.learn(0, 0, 0.0, 1, terminated=True)
    assert ended.Q[0, 0] == 0.0


@pytest.mark.parametrize("make", MAKERS)
class TestErrors:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"state": 5}, r"^state is 5; it must be from 0 to 4\.$"),
            ({"state": -1}, r"^state is -1; it must be from 0 to 4\.$"),
            ({"state": 1.0}, r"^state is 1\.0; it must be a whole number\.$"),
            ({"action": 2}, r"^action is 2; it must be from 0 to 1\.$"),
            ({"action": True}, r"^action is True; it must be a whole number\.$"),
            ({"action": np.bool_(True)}, r"^action is .*True.*; it must be a whole number\.$"),
            ({"next_state": 9}, r"^next_state is 9; it must be from 0 to 4\.$"),
            ({"reward": float("nan")}, r"^reward is nan; it must be a finite number\.$"),
            ({"reward": float("inf")}, r"^reward is inf; it must be a finite number\.$"),
        ],
    )
    def test_a_step_that_cannot_be(
        self, make: Callable[[int, int], Agent], change: dict[str, Any], message: str
    ) -> None:
        agent = make(5, 2)
        agent.begin(0)
        step: dict[str, Any] = {
            "state": 0, "action": 1, "reward": 1.0, "next_state": 1, "terminated": False,
        }  # fmt: skip
        before = [array.copy() for array in agent.arrays]
        with pytest.raises(NeedReplayError, match=message):
            agent.learn(**{**step, **change})
        for array, was in zip(agent.arrays, before, strict=True):
            np.testing.assert_array_equal(array, was)

    def test_a_state_that_does_not_exist(self, make: Callable[[int, int], Agent]) -> None:
        agent = make(5, 2)
        with pytest.raises(NeedReplayError, match=r"^state is 5; it must be from 0 to 4"):
            agent.begin(5)
        with pytest.raises(NeedReplayError, match=r"^state is 'a'; it must be a whole number"):
            agent.act("a")  # type: ignore[arg-type]

    @pytest.mark.parametrize("size", [0, -3, 2.5, True, float("nan")])
    def test_sizes(self, make: Callable[[int, int], Agent], size: Any) -> None:
        with pytest.raises(NeedReplayError, match=r"^n_states is .*; it must be a whole number, 1"):
            make(size, 2)
        with pytest.raises(NeedReplayError, match=r"^n_actions is .*; it must be a whole number"):
            make(2, size)

    def test_numpy_integers_are_whole_numbers(self, make: Callable[[int, int], Agent]) -> None:
        agent = make(np.int64(5), np.int32(2))  # type: ignore[arg-type]
        agent.begin(np.int64(0))  # type: ignore[arg-type]
        agent.learn(np.int64(0), np.int8(1), np.float32(1), np.uint8(1), np.bool_(False))  # type: ignore[arg-type]
        assert isinstance(agent.act(np.int64(0)), int)  # type: ignore[arg-type]


def test_a_successor_matrix_that_does_not_fit_raises() -> None:
    with pytest.raises(NeedReplayError, match=r"^M has shape \(2, 3\); it must be \(3, 3\)"):
        PrioritizedSweeping(3, 2, M=np.zeros((2, 3)))
    with pytest.raises(NeedReplayError, match=r"^M has entries that are not finite"):
        PrioritizedSweeping(2, 2, M=np.array([[1.0, np.nan], [0.0, 1.0]]))


def newest(name: str) -> str:
    """An environment's id in the version that does not warn."""
    return max(known for known in gymnasium.registry if known.startswith(f"{name}-v"))


class Corridor(gymnasium.Env[Any, Any]):
    """States 0 to 3; each step leads on with reward 1 and is cut short after three."""

    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(self) -> None:
        self.seeds: list[int | None] = []
        self.state = 0

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> tuple[int, dict[str, Any]]:
        self.seeds.append(seed)
        self.state = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        self.state += 1
        return self.state, 1.0, False, self.state == 3, {}


@pytest.mark.parametrize("make", MAKERS)
def test_an_episode_cut_short_is_not_terminated(
    make: Callable[[int, int], Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[tuple[int, bool]] = []
    agent, env = make(4, 1), Corridor()
    learn = agent.learn

    def listening(*step: Any) -> None:
        got.append(step[3:])
        learn(*step)

    monkeypatch.setattr(agent, "learn", listening)
    played = play(agent, env, 2, seed=5)
    assert got == [(1, False), (2, False), (3, False)] * 2
    assert played.steps.tolist() == [3, 3]
    assert played.returns.tolist() == [3.0, 3.0]
    assert env.seeds == [5, None]
    assert (agent.arrays.pairs["discount"][:3] == 0.95).all()


def test_no_episodes_raise() -> None:
    env = Corridor()
    with pytest.raises(NeedReplayError, match=r"^episodes is 0; it must be at least 1\.$"):
        play(QLearning(4, 1), env, 0)
    assert env.seeds == []


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("name", "options"), [("FrozenLake", {"is_slippery": True}), ("Taxi", {})])
def test_plays_any_discrete_environment(
    make: Callable[[int, int], Agent], name: str, options: dict[str, Any], uncompiled: bool
) -> None:
    if uncompiled and name.startswith("Taxi"):
        pytest.skip("500 states are too many for uncompiled kernels")
    env = as_discrete(gymnasium.make(newest(name), max_episode_steps=60, **options))
    n_states, n_actions = require_discrete(env)
    agent = make(n_states, n_actions)
    played = play(agent, env, 3 if uncompiled else 10)
    assert ((played.steps >= 1) & (played.steps <= 60)).all()
    assert np.isfinite(agent.Q).all()
    assert (agent.arrays.pairs["next_state"] >= 0).any()
    again = play(make(n_states, n_actions), env, 3 if uncompiled else 10)
    assert again.steps.tolist() == played.steps.tolist()
    env.close()


def test_learns_to_cross_the_lake(uncompiled: bool) -> None:
    if uncompiled:
        pytest.skip("needs many episodes")
    env = as_discrete(gymnasium.make(newest("FrozenLake"), is_slippery=False))
    settings = SweepingSettings(epsilon=0.2, discount=0.9)
    agent = PrioritizedSweeping(16, 4, settings)
    play(agent, env, 300)
    greedy = replace(LearningSettings(), epsilon=0.0)
    agent.settings = greedy
    assert play(agent, env, 5).steps.tolist() == [6] * 5
    env.close()


def test_an_environment_that_is_not_discrete_raises() -> None:
    with (
        gymnasium.make(newest("CartPole")) as env,
        pytest.raises(NeedReplayError, match=r"observation space of CartPole-v\d is Box"),
    ):
        as_discrete(env)
