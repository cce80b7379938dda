"""Hindsight with priorities in Stable-Baselines3: its names, its environment, its success."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
from gymnasium import spaces
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from stable_baselines3.her import GoalSelectionStrategy

from needreplay import Hindsight, NeedReplayError
from needreplay.integrations.sb3 import (
    DQN,
    NeedReplay,
    PrioritizedReplay,
    PrioritizedReplayBuffer,
)

from .sb3_models import assert_same, small

BITS = 4


def bits(**options: Any) -> DummyVecEnv:
    return DummyVecEnv([lambda: BitFlippingEnv(BITS, **options)] * 2)


def model(cls: str = "DQN", env: Any = None, **options: Any) -> Any:
    options = {"policy": "MultiInputPolicy", "learning_starts": 40, **options}
    return small(cls, bits() if env is None else env, **options)


def test_the_names_of_stable_baselines3_are_the_same_thing() -> None:
    theirs = model(
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={
            "n_sampled_goal": 3,
            "goal_selection_strategy": GoalSelectionStrategy.FINAL,
        },
    ).learn(100)
    assert isinstance(theirs.replay_buffer, PrioritizedReplayBuffer)
    ours = model(replay=PrioritizedReplay(hindsight=Hindsight(3, "final"))).learn(100)
    assert_same(ours, theirs)
    assert len(ours.replay_buffer.buffer) % 4 == 0
    assert ours.replay_buffer.buffer.sampler.priorities.max() > 1.0


@pytest.mark.parametrize(
    ("cls", "kind", "options"),
    [
        ("DQN", "proportional", {}),
        ("DQN", "rank", {"discrete_obs_space": True}),
        ("DQN", "pser", {"image_obs_space": True}),
        ("SAC", "proportional", {"continuous": True}),
    ],
)
def test_rewards_are_those_of_the_environment(cls: str, kind: Any, options: Any) -> None:
    env = bits(**options)
    replay = PrioritizedReplay(kind=kind, hindsight=Hindsight())
    learned = model(cls, env, replay=replay, n_steps=1).learn(60)
    samples = learned.replay_buffer.sample(64)
    goals = (
        samples.next_observations["achieved_goal"].numpy(),
        samples.observations["desired_goal"].numpy(),
    )
    expected = env.envs[0].unwrapped.compute_reward(*goals, None)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(samples.rewards[:, 0].numpy(), expected)
    assert (expected == 0.0).any()
    assert (expected == -1.0).any()
    relabeled = learned.replay_buffer.buffer.read(samples.ids)["relabeled"]
    assert 0.5 < relabeled.mean() < 1.0


class Boxes(BitFlippingEnv):
    """The same with numbers that can be normalized."""

    def __init__(self) -> None:
        super().__init__(BITS)
        box = spaces.Box(0.0, 1.0, (BITS,), np.float32)
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = spaces.Dict(dict.fromkeys(names, box))


def test_goals_are_compared_before_they_are_normalized() -> None:
    env = VecNormalize(DummyVecEnv([Boxes]), norm_obs_keys=["achieved_goal"])
    buffer = model(env=env, replay=PrioritizedReplay(hindsight=Hindsight())).learn(80).replay_buffer
    columns = buffer.buffer.read(range(buffer.buffer.oldest_id, buffer.buffer.next_id))
    reached = (columns["next_obs"]["achieved_goal"] == columns["obs"]["desired_goal"]).all(1)
    np.testing.assert_array_equal(columns["reward"], np.where(reached, 0.0, -1.0))
    shown = buffer.sample(32, env).next_observations["achieved_goal"]
    assert not set(np.unique(shown)) <= {0.0, 1.0}


def test_a_saved_model_and_its_buffer_learn_on(tmp_path: Path) -> None:
    first = model(replay=PrioritizedReplay(hindsight=Hindsight(2, "episode"))).learn(60)
    first.save(tmp_path / "model")
    first.save_replay_buffer(tmp_path / "buffer")
    loaded: Any = DQN.load(tmp_path / "model", env=bits())
    assert loaded.replay.hindsight == Hindsight(2, "episode")
    loaded.load_replay_buffer(tmp_path / "buffer")
    one, other = (m.replay_buffer.sample(16) for m in (first, loaded))
    np.testing.assert_array_equal(one.ids, other.ids)
    count = loaded.replay_buffer.buffer.next_id
    loaded.learn(60)
    assert loaded.replay_buffer.buffer.next_id > count


def test_it_reaches_the_goal() -> None:
    """Six bits. The same agent without hindsight reached the goal in a third of the episodes."""
    learner = DQN(
        "MultiInputPolicy",
        BitFlippingEnv(6),
        replay=PrioritizedReplay(hindsight=Hindsight()),
        learning_rate=1e-3,
        gamma=0.9,
        learning_starts=100,
        train_freq=2,
        target_update_interval=100,
        exploration_fraction=0.5,
        policy_kwargs={"net_arch": [64]},
        batch_size=64,
        seed=0,
    ).learn(1_500)
    env, reached = BitFlippingEnv(6), 0
    env.seed(1)
    for _ in range(50):
        obs: Any = env.reset()[0]
        ended = False
        while not ended:
            action, _ = learner.predict(obs, deterministic=True)
            obs, _, terminated, truncated, _ = env.step(int(action))
            ended = terminated or truncated
        reached += terminated
    assert reached >= 45


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(NeedReplayError, match="NeedReplay has no hindsight"):
        NeedReplay(hindsight=Hindsight())
    with pytest.raises(NeedReplayError, match="NeedReplay has no hindsight"):
        model(replay=NeedReplay(), replay_buffer_class=HerReplayBuffer)
    with pytest.raises(NeedReplayError, match="copy_info_dict is True"):
        model(replay_buffer_class=HerReplayBuffer, replay_buffer_kwargs={"copy_info_dict": True})
    with pytest.raises(NeedReplayError, match="hindsight is 4"):
        PrioritizedReplay(hindsight=4)  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="hindsight needs a Dict observation"):
        small("DQN", replay=PrioritizedReplay(hindsight=Hindsight()))
    own = stable_baselines3.DQN(
        "MultiInputPolicy",
        bits(),
        learning_starts=1_000,
        replay_buffer_class=PrioritizedReplayBuffer,
        replay_buffer_kwargs={"replay": PrioritizedReplay(hindsight=Hindsight())},
    )
    with pytest.raises(NeedReplayError, match="no environment to compute rewards with; call set_e"):
        own.learn(60)
    buffer: Any = own.replay_buffer
    buffer.set_env(own.env)
    own.learn(60)
    assert len(buffer.buffer) > 0
