"""Episodes as Minari has them, stored as their steps one by one would be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from needreplay import NeedReplayError, ReplayBuffer
from needreplay.integrations.minari import add_episodes, from_minari

PLACE = Box(-1, 1, (2,), np.float64)
SPACES = {"box": PLACE, "dict": Dict({"at": PLACE, "deep": Dict({"k": Discrete(9)})})}


def episode(space: Any, length: int, end: str, seed: int) -> Any:
    space.seed(seed)
    observed = [space.sample() for _ in range(length + 1)]
    rng = np.random.default_rng(seed)

    def stacked(values: list[Any]) -> Any:
        if isinstance(values[0], dict):
            return {name: stacked([value[name] for value in values]) for name in values[0]}
        return np.array(values)

    last = np.arange(length) == length - 1
    return SimpleNamespace(
        observations=stacked(observed),
        each=observed,
        actions=rng.integers(4, size=length),
        rewards=rng.normal(size=length),
        terminations=last & (end == "terminated"),
        truncations=last & (end == "truncated"),
    )


def dataset_of(space: Any) -> Any:
    ends = ("terminated", "truncated", "neither", "terminated")
    episodes = [episode(space, n, end, n) for n, end in zip((5, 1, 7, 4), ends, strict=True)]
    return SimpleNamespace(
        observation_space=space,
        action_space=Discrete(4),
        total_steps=17,
        iterate_episodes=lambda: iter(episodes),
        episodes=episodes,
    )


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("n_step", [1, 3])
def test_a_dataset_is_stored_step_by_step(space: Any, n_step: int) -> None:
    dataset = dataset_of(space)
    replay = from_minari(dataset, n_step=n_step)
    expected = ReplayBuffer.for_spaces(space, Discrete(4), capacity=17, n_step=n_step)
    for each in dataset.episodes:
        for t, (action, reward) in enumerate(zip(each.actions, each.rewards, strict=True)):
            expected.add(
                obs=each.each[t],
                action=action,
                reward=reward,
                next_obs=each.each[t + 1],
                terminated=each.terminations[t],
                truncated=each.truncations[t],
            )
        expected.cut()
    assert len(replay) == replay.capacity == 17
    for name, array in expected.arrays().items():
        if name not in ("writer/step", "writer/pending"):  # scratch memory
            np.testing.assert_array_equal(array, replay.arrays()[name], err_msg=name)
    assert replay.episodes(range(17))[0].tolist() == [0] * 5 + [1] + [2] * 7 + [3] * 4
    assert len(from_minari(dataset, capacity=6)) == 6


def test_an_open_episode_is_not_joined_to_another() -> None:
    """Of several environments, and after steps of the user's own."""
    dataset = dataset_of(PLACE)
    replay = ReplayBuffer.for_spaces(
        PLACE, Discrete(4), capacity=50, n_envs=2, autoreset="same_step"
    )
    step = {"action": 0, "reward": 0.0, "terminated": False, "truncated": False}
    replay.add(env=0, obs=np.zeros(2), next_obs=np.ones(2), **step)
    add_episodes(replay, dataset.episodes)
    assert replay.future([0], 1).tolist() == [-1]
    assert replay.episodes(range(18))[1].tolist() == [0, *range(5), 0, *range(7), *range(4)]


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(NeedReplayError, match=r"has no observation_space; pass what minari.load_d"):
        from_minari("D4RL/door/human-v2")
    dataset = dataset_of(PLACE)
    del dataset.episodes[1].rewards
    with pytest.raises(NeedReplayError, match="Episode 1 of episodes has no rewards"):
        from_minari(dataset)
    dataset = dataset_of(PLACE)
    dataset.observation_space = Tuple([PLACE])
    with pytest.raises(NeedReplayError, match="'obs' cannot be stored"):
        from_minari(dataset)
