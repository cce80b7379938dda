"""With equal indices our classes make the updates of Stable-Baselines3, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.env_util import make_vec_env

from needreplay.integrations.sb3 import PrioritizedReplay, UniformReplay
from needreplay.replay import UniformSampler
from needreplay.replay.samplers.base import Sampled

from .sb3_models import ALGORITHMS, assert_same, env_for, sb3s, small


class SB3Sampler(UniformSampler):
    """Samples what Stable-Baselines3's buffer would sample, from its random numbers."""

    def __init__(self, n_envs: int) -> None:
        super().__init__()
        self.n_envs = n_envs

    def _sample(self, size: int, *_: Any) -> Sampled:
        rows = np.random.randint(0, self._window[1] // self.n_envs, size=size)
        envs = np.random.randint(0, self.n_envs, size=size)
        return Sampled(rows * self.n_envs + envs, np.full(size, 1.0 / self._window[1]))


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_with_sb3s_indices_is_sb3s(
    name: str, n_envs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The losses are replaced and weights are 1: nothing else differs in a full run."""
    monkeypatch.setattr(PrioritizedReplay, "sampler", lambda _: SB3Sampler(n_envs))

    def run(**options: Any) -> Any:
        env = make_vec_env(lambda: env_for(name), n_envs, seed=0)
        options |= {"gradient_steps": 2, "target_update_interval": 10} if "QN" in name else {}
        return small(name, env, batch_size=15, buffer_size=90, **options).learn(150)

    theirs = run(cls=sb3s(name))
    mine = run(replay=PrioritizedReplay())
    assert mine.replay_buffer.buffer.batches == theirs._n_updates > 10
    assert mine.replay_buffer.buffer.next_id > 90
    assert_same(mine, theirs)


def test_uniform_replay_is_the_original_class() -> None:
    mine = small("DQN", replay=UniformReplay()).learn(80)
    assert_same(mine, small("DQN", cls=sb3s("DQN")).learn(80))
    assert type(mine.replay_buffer).__module__.startswith("stable_baselines3")
