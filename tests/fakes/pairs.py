"""Two features of the buffer at a time: every row that they give back is checked by its number."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from needreplay import (
    ExhaustiveNeedSampler,
    FeatureNeedSampler,
    Hindsight,
    NeedBuffer,
    NeedReplayError,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    RecencySampler,
    ReplayBuffer,
    Sequences,
    StateNeedSampler,
    UniformSampler,
)
from needreplay.replay.batch import Batch

FEATURES = ("n-step", "frames", "hindsight", "sequences", "NeedBuffer", "disk", "prefetch")
PAIRS = list(itertools.combinations(FEATURES, 2))
SAMPLERS: dict[str, Any] = {
    "uniform": UniformSampler,
    "proportional": ProportionalSampler,
    "LAP": lambda: ProportionalSampler(0.4, priority_floor=1.0),
    "rank": RankSampler,
    "PSER": PSERSampler,
    "recency": lambda: RecencySampler(20.0, alpha=0.5),
    "need by features": lambda: FeatureNeedSampler(2),
    "need by state": lambda: StateNeedSampler(3),
    "need by slot": ExhaustiveNeedSampler,
}
EPISODE, EPISODES, CAPACITY, DISCOUNT, SIZE = 12, 8, 60, 0.5, 8


def outcome(pair: tuple[str, str], sampler: str = "proportional") -> tuple[bool, str]:
    """Whether both work together, every row right; or the sentence that says they do not.

    A ``NeedBuffer`` has a sampler of its own.
    """
    with tempfile.TemporaryDirectory() as place:
        try:
            check(set(pair), f"{place}/replay", sampler)
        except NeedReplayError as error:
            return False, str(error)
    return True, ""


def check(features: set[str], folder: str, sampler: str = "proportional") -> None:
    """Add episodes, sample, and compare each row with the step of its number."""
    stacks, n_step = "frames" in features, 3 if "n-step" in features else 1
    space: Any = Box(0, 255, (2, 1) if stacks else (1,), np.uint8)
    if "hindsight" in features:
        goal = Box(0, 255, (1,), np.uint8)
        space = Dict({"observation": space, "achieved_goal": goal, "desired_goal": goal})
    options: dict[str, Any] = {"capacity": CAPACITY, "n_step": n_step, "discount": DISCOUNT}
    options |= {"frame_stack": 2} if stacks else {}
    options |= {"folder": folder} if "disk" in features else {}
    options |= {"sequences": Sequences(5, burn_in=2)} if "sequences" in features else {}
    if "hindsight" in features:
        options["hindsight"] = Hindsight(compute_reward=minus_5)

    def made() -> Any:
        if "NeedBuffer" in features:
            return NeedBuffer.for_spaces(space, Discrete(256), **options)
        how = SAMPLERS[sampler]()
        return ReplayBuffer.for_spaces(space, Discrete(256), sampler=how, **options)

    buffer, now = made(), {}

    def seen(t: int) -> Any:
        at = np.array([t], np.uint8)
        whole = np.array([[max(t - 1, t // 16 * 16)], [t]], np.uint8) if stacks else at
        if "hindsight" not in features:
            return whole
        return {"observation": whole, "achieved_goal": at, "desired_goal": at * 0 + 255}

    for episode, step in itertools.product(range(EPISODES), range(EPISODE)):
        t = 16 * episode + step  # numbers of steps; the last of an episode is never acted in
        now["obs"] = seen(t + 1)
        buffer.add(
            obs=seen(t),
            action=t,
            reward=float(step),
            next_obs=now["obs"],
            terminated=step == EPISODE - 1,
            truncated=False,
        )
    if "NeedBuffer" not in features:
        now["need"] = describe(buffer, sampler)
    if "disk" in features:
        buffer.close()
        buffer = made()
    for batch in batches(buffer, features, now):
        check_rows(batch, n_step, seen)
        errors = np.ones(batch["mask"].shape if "sequences" in features else SIZE)
        buffer.update_priorities(batch.ids, errors)


def describe(buffer: ReplayBuffer, sampler: str) -> Any:
    """Set what need is read from, for a sampler by need; returns a query."""
    ids = np.arange(buffer.oldest_id, buffer.next_id)
    if sampler == "need by features":
        buffer.set_features(ids, np.stack([np.ones(len(ids)), ids % 3], axis=1))
        return np.ones(2)
    if sampler == "need by state":
        buffer.set_states(ids, ids % 3)
        return np.array([0.5, 0.0, 1.0])
    if sampler == "need by slot":
        return np.ones(len(buffer.sampler.occupied))  # type: ignore[attr-defined]
    return None


def minus_5(achieved: Any, desired: Any, infos: Any) -> Any:
    """The reward of every relabeled step."""
    return np.full(len(achieved), -5.0)


def batches(buffer: Any, features: set[str], now: dict[str, Any]) -> Iterator[Batch]:
    """Some, in the way that the features give them."""
    by_need = "NeedBuffer" in features
    if "prefetch" in features:
        views = [lambda: now["obs"]] if by_need else []
        query = {} if by_need else {"need": lambda: now["need"]}
        yield from itertools.islice(buffer.prefetch(SIZE, *views, depth=2, **query), 6)
        return
    for _ in range(6):
        yield buffer.sample(SIZE, now["obs"]) if by_need else buffer.sample(SIZE, need=now["need"])


def check_rows(batch: Batch, n_step: int, seen: Any) -> None:
    """Raise unless each row is the one of its step, from which ``action`` is taken."""
    mask = batch["mask"] if "mask" in batch.columns else np.ones(SIZE, bool)
    relabeled = batch.columns.get("relabeled", np.zeros_like(mask))
    for at in zip(*np.nonzero(mask), strict=True):
        t = int(batch["action"][at])
        left = min(n_step, EPISODE - t % 16)
        for name, step in (("obs", t), ("next_obs", t + left)):
            found, expected = batch[name], seen(step)
            if isinstance(expected, dict):
                assert np.array_equal(found["achieved_goal"][at], expected["achieved_goal"])
                found, expected = found["observation"], expected["observation"]
            assert np.array_equal(found[at], expected), (name, step)
        rewards = [-5.0 if relabeled[at] else t % 16 + k for k in range(left)]
        assert batch["reward"][at] == sum(DISCOUNT**k * r for k, r in enumerate(rewards))
        ends = t % 16 + left == EPISODE
        assert batch["discount"][at] == (0.0 if ends else DISCOUNT**n_step)
