"""Training on a user's own Gymnasium environments: rows, images, Dict observations."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from needlab.runs.config import RunConfig
from needlab.runs.run import run_training
from needlab.worlds.named import observation_shape
from needreplay._core.errors import NeedReplayError

pytest.importorskip("torch")

MODULE = '''
import gymnasium
import numpy as np
from gymnasium import spaces


class Corridor(gymnasium.Env):
    """Go right five times; every spelling of the place has its own observation space."""

    def __init__(self, look="row", start=0):
        self.look, self.place = look, 0
        self.first = start
        self.action_space = spaces.Discrete(2, start=start)
        self.observation_space = {
            "row": spaces.Box(0.0, 5.0, (1,), np.float32),
            "image": spaces.Box(0, 255, (6, 8, 3), np.uint8),
            "large": spaces.Box(0, 255, (40, 44, 3), np.uint8),
            "dict": spaces.Dict(place=spaces.Discrete(6), pair=spaces.Box(-1, 1, (2,), np.float32)),
            "text": spaces.Dict(note=spaces.Text(5)),
        }[look]

    def _obs(self):
        if self.look == "dict":
            return {"place": self.place, "pair": np.array([-1.0, 1.0], np.float32)}
        if self.look == "row":
            return np.array([self.place], np.float32)
        image = np.zeros(self.observation_space.shape, np.uint8)
        image[0, self.place] = 255
        return image

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self._obs(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.place = max(0, self.place + (1 if action == self.first + 1 else -1))
        done = self.place == 5
        return self._obs(), float(done), done, False, {}


for look in ("row", "image", "large", "dict", "text"):
    gymnasium.register(f"{look.title()}-v0", Corridor, kwargs={"look": look}, max_episode_steps=30)
gymnasium.register("FromOne-v0", Corridor, kwargs={"start": 1}, max_episode_steps=30)
'''
SMALL: dict[str, Any] = {
    "capacity": 400,
    "min_history": 60,
    "batch_size": 8,
    "features": 8,
    "update_period": 4,
    "epsilon_steps": 200,
    "iteration_steps": 150,
    "eval_steps": 30,
    "checkpoint_steps": 150,
}


@pytest.fixture
def corridor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module stands in the current folder."""
    (tmp_path / "corridor_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    sys.modules.pop("corridor_module", None)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    observation_shape.cache_clear()


@pytest.mark.parametrize(
    ("world", "agent", "shape", "network"),
    [
        ("CartPole-v1", "per-sr-sampling", (4,), "vector"),
        ("corridor_module:Row-v0", "per", (1,), "vector"),
        ("corridor_module:FromOne-v0", "per", (1,), "vector"),
        ("corridor_module:Image-v0", "per-sr", (3, 6, 8), "minatar"),
        ("corridor_module:Large-v0", "per-sr", (3, 40, 44), "nature"),
        ("corridor_module:Dict-v0", "per-sr", (8,), "vector"),
    ],
)
def test_it_trains(
    corridor: None, tmp_path: Path, world: str, agent: str, shape: tuple[int, ...], network: str
) -> None:
    slow = {"decoder": "small", "update_period": 50} if network == "nature" else {}
    config = RunConfig(world, agent, steps=300, overrides={**SMALL, **slow})
    assert observation_shape(world) == shape
    assert config.resolved().agent.network == network
    assert not config.resolved().agent.reward_clip
    rows = list(csv.DictReader(run_training(config, tmp_path / "run").read_text().splitlines()))
    assert int(rows[-1]["updates"]) >= 5
    assert float(rows[-1]["loss"]) >= 0.0
    assert float(rows[-1]["eval_return"]) >= 0.0


def test_a_network_for_flattened_observations_learns_the_corridor(
    corridor: None, tmp_path: Path
) -> None:
    """One-hot codes carry the place: random walks need about 30 steps, five are enough."""
    overrides = {**SMALL, "update_period": 1, "target_period": 50, "eval_steps": 50}
    config = RunConfig("corridor_module:Dict-v0", "per", steps=1_000, overrides=overrides)
    rows = list(csv.DictReader(run_training(config, tmp_path / "run").read_text().splitlines()))
    assert float(rows[-1]["eval_episodes"]) == 10, "ten episodes of five steps each"
    assert float(rows[-1]["eval_return"]) == 1.0


def test_text_raises_before_anything_is_written(corridor: None, tmp_path: Path) -> None:
    with pytest.raises(NeedReplayError, match=r"Text-v0.*Supported are Box \(a row of"):
        run_training(RunConfig("corridor_module:Text-v0", steps=10), tmp_path / "run")
    assert not (tmp_path / "run").exists()
