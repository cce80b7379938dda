"""Buffers of every kind, and actors that tell two of them the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from needreplay import (
    FeatureNeedSampler,
    Hindsight,
    LinearBeta,
    ProportionalSampler,
    RankSampler,
    ReplayBuffer,
    Sequences,
    UniformSampler,
)
from needreplay.replay.batch import Batch
from needreplay.replay.storage import flatten

KINDS = ("uniform", "proportional", "rank", "need", "frames", "sequences", "hindsight")
STRATEGY: Any = "episode"
"""Of hindsight: a goal may be older than the step, or newer."""
STACK = (3, 4, 4)
GOALS = ("achieved_goal", "desired_goal")


def reward(achieved: Any, desired: Any, infos: Any) -> Any:
    """Tells every pair of goals from every other."""
    assert len(infos) == len(achieved)
    return (achieved - 2.0 * desired).sum(1)


def buffer_of(kind: str, capacity: int, n_step: int, seed: int, **options: Any) -> ReplayBuffer:
    """A buffer of two environments."""
    samplers: dict[str, Any] = {
        "uniform": UniformSampler(),
        "rank": RankSampler(),
        "need": FeatureNeedSampler(n_features=2),
    }
    space: Any = Box(0, 255, STACK, np.uint8)
    if kind == "hindsight":
        space = Dict({"observation": space, **{name: Box(0, 255, (4,)) for name in GOALS}})
        options["hindsight"] = Hindsight(2, STRATEGY, reward)
    return ReplayBuffer.for_spaces(
        space,
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

    def __init__(self, seed: int, kind: str) -> None:
        self.kind, self.rng = kind, np.random.default_rng(seed)
        self.obs = self.rng.integers(0, 256, (2, *STACK)).astype(np.uint8)

    def seen(self, stacks: Any) -> Any:
        """Stacks, or with hindsight observations with goals."""
        if self.kind != "hindsight":
            return stacks
        return {"observation": stacks, **dict.fromkeys(GOALS, stacks[:, 1, 1] * 1.0)}

    def step(self) -> dict[str, Any]:
        """One step of both."""
        new = self.rng.integers(0, 256, (2, 1, *STACK[1:])).astype(np.uint8)
        obs, self.obs = self.obs, np.concatenate([self.obs[:, 1:], new], axis=1)
        features = {"features": self.rng.random((2, 2)) + 0.1} if self.kind == "need" else {}
        return {
            "obs": self.seen(obs),
            "action": self.rng.integers(10_000, size=2),
            "reward": self.rng.normal(size=2),
            "next_obs": self.seen(self.obs),
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
