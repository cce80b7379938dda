"""Buffers of every kind, and actors that tell two of them the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from needreplay import (
    FeatureNeedSampler,
    LinearBeta,
    ProportionalSampler,
    RankSampler,
    ReplayBuffer,
    Sequences,
    UniformSampler,
)
from needreplay.replay.batch import Batch
from needreplay.replay.storage import flatten

KINDS = ("uniform", "proportional", "rank", "need", "frames", "sequences")
STACK = (3, 4, 4)


def buffer_of(kind: str, capacity: int, n_step: int, seed: int, **options: Any) -> ReplayBuffer:
    """A buffer of two environments."""
    samplers: dict[str, Any] = {
        "uniform": UniformSampler(),
        "rank": RankSampler(),
        "need": FeatureNeedSampler(n_features=2),
    }
    return ReplayBuffer.for_spaces(
        Box(0, 255, STACK, np.uint8),
        Discrete(10_000),
        capacity=capacity,
        n_envs=2,
        n_step=n_step,
        frame_stack=3 if kind == "frames" else 0,
        autoreset="same_step",
        sampler=samplers.get(kind, ProportionalSampler()),
        sequences=Sequences(3, burn_in=1, stride=1) if kind == "sequences" else None,
        beta=LinearBeta(0.1, 1.0, batches=20),
        seed=seed,
        **options,
    )


class Actor:
    """Steps of two environments, the same for each seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.obs = self.rng.integers(0, 256, (2, *STACK)).astype(np.uint8)

    def step(self, need: bool) -> dict[str, Any]:
        new = self.rng.integers(0, 256, (2, 1, *STACK[1:])).astype(np.uint8)
        obs, self.obs = self.obs, np.concatenate([self.obs[:, 1:], new], axis=1)
        features = {"features": self.rng.random((2, 2)) + 0.1} if need else {}
        return {
            "obs": obs,
            "action": self.rng.integers(10_000, size=2),
            "reward": self.rng.normal(size=2),
            "next_obs": self.obs,
            "terminated": self.rng.random(2) < 0.1,
            "truncated": self.rng.random(2) < 0.1,
            **features,
        }


def check_equal(got: Batch, expected: Batch) -> None:
    np.testing.assert_array_equal(got.ids, expected.ids)
    np.testing.assert_array_equal(got.probabilities, expected.probabilities)
    np.testing.assert_array_equal(got.weights, expected.weights)
    ours, theirs = flatten(got.columns), flatten(expected.columns)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], name)
