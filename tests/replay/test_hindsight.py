"""Hindsight against lists and loops: every relabeled transition, under random traffic."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from every_sampler import GAINS, check_by_need, check_distribution, expected
from gymnasium.spaces import Box, Dict, Discrete
from hypothesis import example, given, settings
from hypothesis import strategies as st

from needreplay import (
    ExhaustiveNeedSampler,
    Hindsight,
    NeedBuffer,
    NeedReplayError,
    PSERSampler,
    ReplayBuffer,
    Sequences,
)

GAMMA = 0.9
GOAL = Box(-np.inf, np.inf, (2,), np.float32)
SPACE = Dict({"observation": GOAL, "achieved_goal": GOAL, "desired_goal": GOAL})


def reward_of(achieved: Any, desired: Any, infos: Any) -> Any:
    assert [*infos] == [{}] * len(achieved)
    return -np.abs(achieved - desired).sum(axis=-1)


def make(capacity: int, hindsight: Hindsight, **options: Any) -> ReplayBuffer:
    return ReplayBuffer.for_spaces(
        SPACE,
        Discrete(1_000_000),
        capacity=capacity,
        discount=GAMMA,
        hindsight=hindsight,
        autoreset="same_step",
        **options,
    )


class World:
    """Environments whose goals are random numbers, each another one, and what they did."""

    def __init__(self, n_envs: int, seed: int, ends: float = 0.3) -> None:
        self.rng, self.ends = np.random.default_rng(seed), ends
        self.now = [self.look(None) for _ in range(n_envs)]
        self.episodes: list[list[dict[str, Any]]] = [[] for _ in range(n_envs)]

    def look(self, desired: Any) -> dict[str, Any]:
        see, achieved, wanted = self.rng.random((3, 2), dtype=np.float32)
        desired = wanted if desired is None else desired
        return {"observation": see, "achieved_goal": achieved, "desired_goal": desired}

    def step(self) -> tuple[dict[str, Any], list[list[dict[str, Any]]]]:
        """What ``add`` gets, and the episodes that end with it."""
        steps = []
        for env, obs in enumerate(self.now):
            after = self.look(obs["desired_goal"])
            ended = self.rng.random() < self.ends
            terminated = bool(ended and self.rng.random() < 0.5)
            (reward,) = reward_of(after["achieved_goal"][None], obs["desired_goal"][None], [{}])
            steps.append(
                {
                    "obs": obs,
                    "action": int(self.rng.integers(1_000_000)),
                    "reward": float(reward),
                    "next_obs": after,
                    "terminated": terminated,
                    "truncated": bool(ended and not terminated),
                }
            )
            self.episodes[env].append(steps[-1])
            self.now[env] = self.look(None) if ended else after
        over = [self.cut(e) for e, s in enumerate(steps) if s["terminated"] or s["truncated"]]
        return columns_of(steps), over

    def cut(self, env: int) -> list[dict[str, Any]]:
        episode, self.episodes[env] = self.episodes[env], []
        return episode


def columns_of(steps: list[Any]) -> Any:
    if isinstance(steps[0], dict):
        return {name: columns_of([step[name] for step in steps]) for name in steps[0]}
    return np.array(steps)


def check_entry(
    columns: dict[str, Any], i: int, episode: list[Any], t: int, n_step: int, allowed: range | None
) -> None:
    """Row ``i`` of a batch is step ``t`` of an episode, with a goal of one of the steps allowed."""
    window = episode[t : t + n_step]
    last = window[-1]
    goal = window[0]["obs"]["desired_goal"]
    assert columns["relabeled"][i] == (allowed is not None)
    if allowed is not None:
        goal = columns["obs"]["desired_goal"][i]
        reached = [s["next_obs"]["achieved_goal"] for s in episode]
        (chosen,) = [k for k, goal_k in enumerate(reached) if np.array_equal(goal_k, goal)]
        assert chosen in allowed
    for name, step in (("obs", window[0]), ("next_obs", last)):
        assert np.array_equal(columns[name]["desired_goal"][i], goal)
        for key in ("observation", "achieved_goal"):
            assert np.array_equal(columns[name][key][i], step[name][key])
    rewards = [reward_of(s["next_obs"]["achieved_goal"][None], goal[None], [{}])[0] for s in window]
    assert np.isclose(columns["reward"][i], sum(GAMMA**k * r for k, r in enumerate(rewards)))
    assert columns["action"][i] == window[0]["action"]
    discount = 0.0 if last["terminated"] else GAMMA ** len(window)
    assert np.isclose(columns["discount"][i], discount)


def allowed_steps(strategy: str, t: int, length: int) -> range:
    first = {"future": t, "final": length - 1, "episode": 0}[strategy]
    return range(first, length)


@settings(max_examples=50)
@given(
    capacity=st.integers(1, 50),
    n_envs=st.integers(1, 3),
    n_step=st.integers(1, 3),
    copies=st.integers(1, 4),
    strategy=st.sampled_from(["future", "final", "episode"]),
    seed=st.integers(0, 1_000),
)
@example(50, 1, 1, 4, "future", 0)
@example(5, 3, 3, 2, "episode", 0)
@example(1, 2, 3, 1, "final", 0)
def test_every_relabeled_transition_under_random_traffic(
    capacity: int, n_envs: int, n_step: int, copies: int, strategy: Any, seed: int
) -> None:
    hindsight = Hindsight(copies, strategy, reward_of)
    replay = make(capacity, hindsight, n_envs=n_envs, n_step=n_step, seed=seed)
    world, rng = World(n_envs, seed), np.random.default_rng(seed)
    known: dict[int, tuple[list[Any], int, range | None]] = {}
    priorities: dict[int, float] = {}
    row_of: dict[int, int] = {}
    open_rows: list[list[int]] = [[] for _ in range(n_envs)]
    rows, largest = 0, 1.0
    for turn in range(60):
        if turn % 17 == 16:
            env = int(rng.integers(n_envs))
            added, ended = replay.cut(env), [(env, world.cut(env))]
            world.now[env] = world.look(None)
        else:
            before = [len(episode) for episode in world.episodes]
            step, episodes = world.step()
            added = replay.add(**step)
            over = [e for e in range(n_envs) if len(world.episodes[e]) <= before[e]]
            ended = list(zip(over, episodes, strict=True))
        # The rows that this step stored, in the order in which their windows closed.
        of = dict(ended)
        for env in range(n_envs):
            done = len(open_rows[env])
            length = len(of[env]) if env in of else len(world.episodes[env]) - n_step + 1
            for _ in range(max(0, length - done)):
                open_rows[env].append(rows)
                rows += 1
        oldest = max(0, rows - capacity)
        expected = []
        for env, episode in ended:
            kept = [t for t in range(len(episode)) if open_rows[env][t] >= oldest]
            for t in kept:
                first = max(kept[0], allowed_steps(strategy, t, len(episode)).start)
                for c in range(1 + copies):
                    allowed = None if c == 0 else range(first, len(episode))
                    expected.append((episode, t, allowed))
                    row_of[added.start + len(expected) - 1] = open_rows[env][t]
            open_rows[env] = []
        assert len(added) == len(expected)
        known |= dict(zip(added, expected, strict=True))
        priorities |= dict.fromkeys(added, largest)
        columns = replay.read(added)
        for i, (episode, t, allowed) in enumerate(expected):
            check_entry(columns, i, episode, t, n_step, allowed)
        live = range(replay.oldest_id, replay.next_id)
        assert all(row_of[ident] >= oldest for ident in live)
        if strategy != "episode" and n_envs == 1:  # they leave one by one
            assert len(live) == sum(row >= oldest for row in row_of.values())
        replay.check_valid()
        if turn == 30:
            replay = pickle.loads(pickle.dumps(replay))
        if len(live) and turn % 5 == 0:
            batch = replay.sample(3)
            for i, ident in enumerate(batch.ids.tolist()):
                episode, t, allowed = known[ident]
                check_entry(batch.columns, i, episode, t, n_step, allowed)
            errors = rng.random(3)
            replay.update_priorities(batch.ids, errors)
            priorities |= dict(zip(batch.ids.tolist(), errors, strict=True))
            largest = max(largest, *errors)
        held: Any = replay.sampler.priorities  # type: ignore[attr-defined]
        assert all(held[i % (capacity * (1 + copies))] == priorities[i] for i in live)


def test_by_hand() -> None:
    """A walk 0, 1, 2, 3 that wants to be at 9, two-step returns, and the end as the goal."""
    at = Dict(dict.fromkeys(SPACE.spaces, Box(0, 9, (1,), np.float32)))
    replay = ReplayBuffer.for_spaces(
        at,
        Discrete(2),
        capacity=10,
        n_step=2,
        discount=0.5,
        hindsight=Hindsight(1, "final", lambda a, g, _: -(a != g)[:, 0].astype(float)),
    )
    ids = []
    for t in range(3):
        obs, next_obs = (
            {"observation": [x], "achieved_goal": [x], "desired_goal": [9.0]} for x in (t, t + 1.0)
        )
        added = replay.add(
            obs=obs,
            action=0,
            reward=-1.0,
            next_obs=next_obs,
            terminated=False,
            truncated=t == 2,
        )
        ids.append([*added])
    assert ids == [[], [], [0, 1, 2, 3, 4, 5]]
    columns = replay.read(range(6))
    assert columns["relabeled"].tolist() == [False, True] * 3
    assert columns["obs"]["desired_goal"][:, 0].tolist() == [9, 3] * 3
    assert columns["next_obs"]["desired_goal"][:, 0].tolist() == [9, 3] * 3
    assert columns["obs"]["achieved_goal"][:, 0].tolist() == [0, 0, 1, 1, 2, 2]
    assert columns["next_obs"]["achieved_goal"][:, 0].tolist() == [2, 2, 3, 3, 3, 3]
    # -1 - 1/2 twice; at 3 the reward is 0; the last window is one step.
    assert columns["reward"].tolist() == [-1.5, -1.5, -1.5, -1.0, -1.0, 0.0]
    assert columns["discount"].tolist() == [0.25] * 4 + [0.5] * 2


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_goals_are_as_likely_as_promised(strategy: Any) -> None:
    """Chi-square over the steps of an episode, for each step: 1e-6 at 4 degrees of freedom."""
    replay, length = make(5, Hindsight(4_000, strategy, reward_of)), 5
    world = World(1, 0, ends=0.0)
    for t in range(length):
        step, _ = world.step()
        replay.add(**{**step, "truncated": np.array([t == length - 1])})
    columns = replay.read(range(replay.next_id))
    reached = np.array([s["next_obs"]["achieved_goal"] for s in world.episodes[0]])
    chosen = (columns["obs"]["desired_goal"][:, None] == reached).all(-1)
    for t in range(length):
        counts = chosen[t * 4_001 + 1 : (t + 1) * 4_001].sum(0)
        allowed = allowed_steps(strategy, t, length)
        assert counts.sum() == counts[allowed].sum() == 4_000
        mean = 4_000 / len(allowed)
        assert ((counts[allowed] - mean) ** 2 / mean).sum() < 33.4


def filled(sampler: Any, copies: int = 1) -> ReplayBuffer:
    """Two episodes of two steps, each with its final goal: eight transitions."""
    replay = make(4, Hindsight(copies, "final", reward_of), sampler=sampler)
    world = World(1, 0, ends=0.0)
    for t in range(4):
        step, _ = world.step()
        replay.add(**{**step, "truncated": np.array([t % 2 == 1])})
    assert len(replay) == 8
    return replay


# Half of what new ones begin with, 1, is kept by PSER; 3/8 is passed to the step before, if it has
# the same goal: from 2 to 0, from 3 to 1, from 6 to 4, from 7 to 5.
PSER = PSERSampler(1.0, retained=0.5, decay=0.375, window=1)


@pytest.mark.parametrize(
    ("sampler", "expected"),
    expected(PSER, [4.0, 1.0, 0.5, 2.0, 8.0, 1.125, 0.5, 3.0]),
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_distribution_of_every_sampler(sampler: Any, expected: Any) -> None:
    replay = filled(sampler)
    replay.update_priorities(np.arange(8), GAINS)
    check_distribution(replay, expected)


def test_pser_passes_nothing_to_another_goal() -> None:
    """The relabeled steps of a walk have the goals they reach themselves: these differ."""
    replay = make(4, Hindsight(1, "future", reward_of), sampler=PSERSampler(1.0, retained=0.0))
    world = World(1, 0, ends=0.0)
    for t in range(3):
        step, _ = world.step()
        replay.add(**{**step, "truncated": np.array([t == 2])})
    steps = replay.read(range(6))
    replay.update_priorities(range(6), [1e-9] * 4 + [1.0, 1.0])
    held = replay.sampler.priorities  # type: ignore[attr-defined]
    assert held[:4:2].tolist() == pytest.approx([0.16, 0.4])
    reached = steps["next_obs"]["achieved_goal"]
    np.testing.assert_array_equal(steps["obs"]["desired_goal"][[3, 5]], reached[[3, 5]])
    assert held[3] == 1e-9


def test_by_need() -> None:
    check_by_need(filled)
    replay = filled(ExhaustiveNeedSampler(alpha=1.0))
    replay.update_priorities(np.arange(8), GAINS)
    check_distribution(replay, GAINS * np.arange(8), np.arange(8.0))


def test_the_reward_is_that_of_the_environment() -> None:
    pytest.importorskip("stable_baselines3")
    import gymnasium
    from stable_baselines3.common.envs import BitFlippingEnv
    from stable_baselines3.common.vec_env import DummyVecEnv

    def bits() -> Any:
        return gymnasium.wrappers.TimeLimit(BitFlippingEnv(3), 5)

    vectors = DummyVecEnv([bits]), gymnasium.vector.SyncVectorEnv([bits])
    for env in (bits(), *vectors):
        replay = ReplayBuffer.for_env(env, capacity=9, hindsight=Hindsight())
        entries: Any = replay._entries
        goals = np.array([[0, 1, 0], [1, 1, 1]])
        rewards = entries.hindsight.compute_reward(goals, goals[[0, 0]], [{}, {}])
        assert rewards.tolist() == [0.0, -1.0]


def test_a_reward_that_fails_loses_no_step() -> None:
    asked = []

    def fails(achieved: Any, desired: Any, infos: Any) -> Any:
        asked.append(len(achieved))
        return (
            reward_of(achieved, desired, infos) if len(asked) > 1 else np.full(len(infos), np.nan)
        )

    replay = make(20, Hindsight(2, "future", fails))
    world = World(1, 0, ends=0.0)
    for t in range(9):
        step, _ = world.step()
        step["truncated"] = np.array([t % 3 == 2])
        if t == 2:
            with pytest.raises(NeedReplayError, match=r"shape \(6,\) for 6 rows, or numbers"):
                replay.add(**step)
        else:
            replay.add(**step)
    assert (len(replay), len(replay._rows)) == (18, 9)
    replay.check_valid()
    step, _ = world.step()
    assert not replay.add(**step)
    replay._contents.reset()
    assert not replay.add(**step)
    assert replay.cut() == range(3)


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(NeedReplayError, match="n_sampled_goal is 0"):
        Hindsight(0)
    with pytest.raises(NeedReplayError, match=r"no goal_selection_strategy 'futur'.*Did you mean"):
        Hindsight(4, "futur")  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="compute_reward is 3"):
        Hindsight(compute_reward=3)  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="hindsight is 4; pass Hindsight"):
        make(9, 4)  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="does not know the rewards of other goals"):
        make(9, Hindsight())
    known = Hindsight(compute_reward=reward_of)
    with pytest.raises(NeedReplayError, match="hindsight needs a Dict observation"):
        ReplayBuffer.for_spaces(GOAL, Discrete(2), capacity=9, hindsight=known)
    with pytest.raises(NeedReplayError, match="hindsight needs to know which transitions follow"):
        ReplayBuffer(9, {"obs": SPACE}, hindsight=known)
    with pytest.raises(NeedReplayError, match="either sequences or transitions with hindsight"):
        make(9, known, sequences=Sequences(2))
    with pytest.raises(NeedReplayError, match="obs must be one array"):
        make(9, known, frame_stack=2)
    with pytest.raises(NeedReplayError, match="'relabeled'"):
        make(9, known, extra_columns={"relabeled": np.bool_})
    with pytest.raises(NeedReplayError, match="it is hindsight=Hindsight"):
        ReplayBuffer(9, {"x": float}, n_sampled_goal=4)
    with pytest.raises(NeedReplayError, match="buffer samples hindsight transitions"):
        NeedBuffer.for_spaces(SPACE, Discrete(2), capacity=9, hindsight=known)
    replay = make(9, known)
    step, _ = World(1, 0, ends=0.0).step()
    replay.add(**step)
    with pytest.raises(NeedReplayError, match="No hindsight transition is complete yet, though 1"):
        replay.sample(1)
