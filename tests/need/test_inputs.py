"""Need of every kind of observation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from needreplay import NeedModel, ReplayBuffer
from needreplay.need import networks

SPACES: dict[str, Any] = {
    "row": spaces.Box(-1.0, 1.0, (3,)),
    "planes": spaces.Box(0, 1, (4, 10, 10), np.uint8),
    "bool planes": spaces.Box(0, 1, (4, 10, 10), np.bool_),
    "pixels, channels last": spaces.Box(0, 255, (12, 12, 3), np.uint8),
    "stack of frames": spaces.Box(0, 255, (4, 40, 40), np.uint8),
    "matrix": spaces.Box(-1.0, 1.0, (2, 3), np.float64),
    "numbered": spaces.Discrete(5, start=1),
    "several numbered": spaces.MultiDiscrete([2, 3]),
    "bits": spaces.MultiBinary(4),
    "dict": spaces.Dict({"a": spaces.Box(-1.0, 1.0, (2, 2)), "b": spaces.Discrete(3)}),
}


def _stacked(space: Any, given: list[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: np.stack([each[key] for each in given]) for key in space.spaces}
    return np.stack(given)


@pytest.mark.parametrize("name", SPACES)
def test_every_kind_of_observation(name: str) -> None:
    space = SPACES[name]
    space.seed(0)
    model = NeedModel(space, batch_size=32)
    buffer = ReplayBuffer.for_spaces(
        space,
        spaces.Box(-1.0, 1.0, (2,)),
        capacity=16,
        n_envs=2,
        autoreset="same_step",
        sampler=model.sampler(),
    )
    losses: list[float] = []
    for t in range(20):
        obs, after = (_stacked(space, [space.sample() for _ in range(2)]) for _ in range(2))
        buffer.add(
            obs=obs,
            next_obs=after,
            action=np.zeros((2, 2), np.float32),
            reward=np.zeros(2),
            terminated=np.full(2, t % 7 == 6),
            truncated=np.zeros(2, bool),
            features=model.features(obs),
        )
        losses.append(model.learn(buffer))
    assert np.isfinite(losses).sum() > 10
    one = space.sample()
    batch = buffer.sample(8, need=model.query(one))
    needs = model.need(one, batch["obs"])
    assert needs.shape == (8,)
    assert (needs > 0.0).all()
    buffer.set_features(batch.ids, model.vectors(buffer.read(batch.ids)))
    # A batch of observations is as many single ones.
    pair = _stacked(space, [one, space.sample()])
    np.testing.assert_allclose(model.features(pair)[0], model.features(one), rtol=1e-4)
    assert model.query(pair).shape == model.query(one).shape == (model.n_features,)


def test_need_sees_a_small_thing_that_moves_in_a_large_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in Atari: on frames as they are, need stays near chance."""
    space = spaces.Box(0, 255, (1, 36, 36), np.uint8)
    rng = np.random.default_rng(0)
    background = rng.integers(0, 200, (36, 36))

    def frame(time: int) -> Any:
        picture = background.astype(np.uint8)
        angle = 2.0 * np.pi * time / 60.0
        row, column = int(17 + 12 * np.sin(angle)), int(17 + 12 * np.cos(angle))
        picture[row : row + 2, column : column + 2] = 255
        return picture[None]

    buffer = ReplayBuffer.for_spaces(space, spaces.Discrete(2), capacity=1_200)
    for start in rng.integers(60, size=20):
        for time in range(start, start + 60):
            buffer.add(
                obs=frame(time),
                next_obs=frame(time + 1),
                action=0,
                reward=0.0,
                terminated=False,
                truncated=time == start + 59,
            )
    model = NeedModel(space, batch_size=32)
    for _ in range(150):
        model.learn(buffer)
    assert model.quality(buffer).auc > 0.8
    # Its picture of the frames is saved with it.
    again = NeedModel(space, batch_size=32)
    again.load_state_dict(model.state_dict())
    assert again.learn(buffer) == model.learn(buffer)
    monkeypatch.setattr(networks.Standardized, "fit", lambda *_: None)
    raw = NeedModel(space, batch_size=32)
    for _ in range(150):
        raw.learn(buffer)
    assert raw.quality(buffer).auc < 0.65
