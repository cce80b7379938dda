"""Attacks by numbers at the ends of their ranges: exponents, vectors, columns, sums of rewards."""

from __future__ import annotations

import io
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from served import Served, serve

from needreplay import Episodes, ReplayBuffer
from needreplay._core.errors import NeedReplayError
from needreplay.replay.samplers import (
    ExhaustiveNeedSampler,
    FeatureNeedSampler,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    RecencySampler,
    StateNeedSampler,
)

SLOTS, FEATURES = 12, 4
EXPONENTS = [0, 1e-9, 0.3, 1, 2, 6, 20, 50, 100, 200, 1e3, 1e6, 1e300, 5e-324]
KINDS = [float, np.float64, np.float32, np.float16, np.longdouble, int, Fraction]
IMPOSSIBLE = 60.0
"""No sampled slot is less probable than the best by a factor of exp(60)."""


def exponent_of(rng: np.random.Generator) -> Any:
    """An exponent of some type."""
    value = EXPONENTS[int(rng.integers(len(EXPONENTS)))]
    kind = KINDS[int(rng.integers(len(KINDS)))] if rng.random() < 0.4 else float
    with np.errstate(all="ignore"):
        return kind(value)


def power_of_ten(rng: np.random.Generator, most: int, size: Any = None) -> Any:
    """Numbers spread evenly over their exponents."""
    return 10.0 ** rng.uniform(-most, most, size)


def attack_exponents(rng: np.random.Generator, _: Path) -> tuple[str, str]:
    """Any exponents with any vectors, priorities and queries: rejected, or sampled rightly."""
    exact = bool(rng.random() < 0.5)
    need_alpha, alpha = exponent_of(rng), float(rng.choice([0.0, 1e-9, 0.5, 1.0]))
    raw = bool(rng.random() < 0.5)
    options = {"alpha": alpha, "need_alpha": need_alpha, "correct_for": "both"}
    by_state = bool(rng.random() < 0.25)
    what = f"{options}, raw {raw}, exhaustive {exact}, states {by_state}"
    wide = int(rng.choice([0, 1, 3, 36, 45]))
    try:
        sampler: Any
        if by_state:
            sampler = (
                ExhaustiveNeedSampler(n_states=FEATURES, **options)
                if exact
                else StateNeedSampler(FEATURES, **options)
            )
        elif exact:
            sampler = ExhaustiveNeedSampler(n_features=FEATURES, raw=raw, **options)
        else:
            sampler = FeatureNeedSampler(FEATURES, raw=raw, **options)
        buffer = ReplayBuffer(SLOTS, {"x": np.int64}, sampler=sampler, seed=int(rng.integers(99)))
        states = rng.integers(0, FEATURES, SLOTS)
        given = rng.uniform(0.1, 1.0, (SLOTS, FEATURES)) * power_of_ten(rng, wide, (SLOTS, 1))
        info = {"state": states} if by_state else {"features": given}
        buffer.add(x=np.arange(SLOTS), **info)
        priorities = power_of_ten(rng, int(rng.choice([1, 10, 100])), SLOTS)
        buffer.update_priorities(np.arange(SLOTS), priorities)
        entries = rng.uniform(0.1, 1.0, FEATURES) * power_of_ten(rng, wide)
        if rng.random() < 0.3:
            entries *= power_of_ten(rng, 40, FEATURES)
        batch = buffer.sample(32, need=entries)
    except NeedReplayError:
        return f"rejected: {what}", ""
    except Exception as error:
        return what, repr(error)
    if by_state:
        need = entries[states]
    else:
        squares = 1.0 if raw else np.square(given / (big := given.max(1, keepdims=True))).sum(1)
        stored = given if raw else given / big / squares[:, None] / big  # type: ignore[index]
        need = np.array([math.fsum(row) for row in stored * (entries / entries.max())])
    if (need <= 0.0).any() or not np.isfinite(need).all():
        return f"sampled: {what}", ""
    logs = alpha * np.log(priorities) + float(need_alpha) * np.log(need)
    slots = batch.ids % SLOTS
    got = np.log(batch.probabilities)
    if not (np.isfinite(batch.weights).all() and (batch.weights >= 0.0).all()):
        return what, f"weights are {batch.weights}"
    if not np.isfinite(got).all():
        return what, f"probabilities are {batch.probabilities}"
    if sampler.fallbacks.by_priority or sampler.fallbacks.uniform:
        return what, f"need was dropped: {sampler.fallbacks}"
    if (behind := (logs.max() - logs[slots]).max()) > IMPOSSIBLE:
        return what, f"a slot was sampled that is exp({behind:g}) times less probable"
    wrong = np.abs((got - got[0]) - (logs[slots] - logs[slots[0]])).max()
    if wrong > 1e-6 * (1.0 + float(need_alpha)):  # vectors are float32
        return what, f"ratios of probabilities are wrong by exp({wrong:g})"
    return what, _goes_on(buffer)


def _goes_on(buffer: ReplayBuffer) -> str:
    try:
        buffer.check_valid()
        buffer.save(io.BytesIO())
    except Exception as error:
        return repr(error)
    return ""


FLOATS = [np.float16, np.float32, np.float64, np.longdouble]


def hostile_number(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Numbers of one of many types, near the ends of others."""
    with np.errstate(all="ignore"):
        sign = rng.choice([-1.0, 1.0], shape)
        ends = [65504.0, 65520.0, 3.4028235e38, 3.4028236e38, 1.79e308, 6e-8, 1e-45, 5e-324]
        values = np.where(rng.random(shape) < 0.5, power_of_ten(rng, 300, shape),
                          rng.choice(ends, shape)) * sign  # fmt: skip
        how = int(rng.integers(6))
        if how == 0:
            values = np.where(rng.random(shape) < 0.3, rng.choice([np.nan, np.inf, -np.inf], shape),
                              values)  # fmt: skip
        if how == 1:
            return values.astype(FLOATS[int(rng.integers(len(FLOATS)))])
        if how == 2:
            return values.tolist()
        if how == 3 and shape == ():
            return int(10 ** int(rng.integers(0, 400)))
        if how == 4:
            return np.clip(values, -1e18, 1e18).astype(np.int64)
        return values


def attack_columns(rng: np.random.Generator, _: Path) -> tuple[str, str]:
    """Numbers of any size into columns of any float: stored as they are, or rejected."""
    dtype = FLOATS[int(rng.integers(3))]
    shape = [(), (3,), (2, 2)][int(rng.integers(3))]
    many = int(rng.choice([0, 1, 5]))
    value = hostile_number(rng, (many, *shape) if many else shape)
    stepwise = bool(rng.random() < 0.4)
    what = f"{np.dtype(dtype)} of shape {shape}, {many or 'one'}, stepwise {stepwise}: {value!r}"
    episodes = Episodes(n_step=int(rng.integers(1, 4))) if stepwise else None
    name = str(rng.choice(["obs", "next_obs"])) if stepwise else "x"
    columns = {"obs": (dtype, shape), "action": np.int64} if stepwise else {"x": (dtype, shape)}
    buffer = ReplayBuffer(10, columns, episodes=episodes)
    axis = (many,) if many else ()
    values: dict[str, Any] = {"x": value}
    if stepwise:
        values = {
            **{own: np.zeros((*axis, *shape), dtype) for own in ("obs", "next_obs")},
            "action": np.zeros(axis, np.int64),
            "reward": np.zeros(axis),
            "terminated": np.ones(axis, bool),
            "truncated": np.zeros(axis, bool),
            name: value,
        }
    try:
        buffer.add(**values)
    except NeedReplayError:
        return f"rejected: {what}", "" if len(buffer) == 0 or many > 1 else "stored all the same"
    except Exception as error:
        return what, repr(error)
    stored = buffer[:][name]
    with np.errstate(all="ignore"):
        expected = np.asarray(value).astype(dtype).reshape(-1, *shape)
        lost = np.isinf(expected) & ~np.isinf(np.asarray(value, np.longdouble).reshape(-1, *shape))
    if lost.any():
        return what, f"overflowed to {stored[lost]}"
    if not np.array_equal(stored, expected, equal_nan=True):
        return what, f"stored {stored!r}"
    return what, _goes_on(buffer)


def attack_rewards(rng: np.random.Generator, _: Path) -> tuple[str, str]:
    """Sums of rewards of any size: as Python sums them, or rejected; none is infinite."""
    n_step = int(rng.integers(1, 6))
    rewards = np.asarray(hostile_number(rng, (8,)), np.float64)
    buffer = ReplayBuffer(
        20, {"obs": np.int64, "action": np.int64}, episodes=Episodes(n_step=n_step, discount=1.0)
    )
    what, stored = f"n_step {n_step}: {rewards.tolist()}", 0
    try:
        for t, reward in enumerate(rewards.tolist()):
            buffer.add(obs=t, action=0, reward=reward, next_obs=t + 1, terminated=t == 7,
                       truncated=False)  # fmt: skip
            stored = t + 1
    except NeedReplayError:
        return f"rejected at {stored}: {what}", _goes_on(buffer)
    except Exception as error:
        return what, repr(error)
    got = buffer[:]["reward"]
    for first, value in enumerate(got.tolist()):
        part = rewards[first : first + n_step]
        with np.errstate(all="ignore"):
            total = part.sum()
            bound = np.abs(part).sum() * 1e-6 + 1e-30
            fits = abs(total) <= np.finfo(got.dtype).max and np.isfinite(part).all()
        if fits and not abs(value - total) <= bound:
            return what, f"return {first} is {value}, not {total}"
        if np.isfinite(part).all() and not np.isfinite(value):
            return what, f"return {first} of finite rewards {part} is {value}"
    return what, _goes_on(buffer)


def attack_priorities(rng: np.random.Generator, _: Path) -> tuple[str, str]:
    """Priorities from 1e-100 to 1e100 with any alpha: right ratios, or rejected."""
    alpha = exponent_of(rng)
    makers: dict[str, Any] = {
        "proportional": lambda: ProportionalSampler(alpha),
        "rank": lambda: RankSampler(alpha),
        "pser": lambda: PSERSampler(alpha=alpha),
        "recency": lambda: RecencySampler(float(power_of_ten(rng, 5)), alpha=alpha),
    }
    name = list(makers)[int(rng.integers(len(makers)))]
    what = f"{name}, alpha {alpha!r}"
    try:
        buffer = ReplayBuffer(SLOTS, {"x": np.int64}, sampler=makers[name]())
        buffer.add(x=np.arange(SLOTS))
        priorities = power_of_ten(rng, int(rng.choice([1, 50, 100])), SLOTS)
        buffer.update_priorities(np.arange(SLOTS), priorities)
        batch = buffer.sample(16)
    except NeedReplayError:
        return f"rejected: {what}", ""
    except Exception as error:
        return what, repr(error)
    if not (np.isfinite(batch.weights).all() and (batch.probabilities > 0.0).all()):
        return what, f"{batch.weights}, {batch.probabilities}"
    if name == "proportional":
        logs = float(alpha) * np.log(priorities[batch.ids])
        got = np.log(batch.probabilities)
        if np.abs((got - got[0]) - (logs - logs[0])).max() > 1e-6:
            return what, "ratios of probabilities are wrong"
    return what, _goes_on(buffer)


ATTACKS = {
    "exponents": Served(__file__, "exponents"),
    "columns of floats": Served(__file__, "columns"),
    "sums of rewards": attack_rewards,
    "priorities": attack_priorities,
}

if __name__ == "__main__":
    serve({"exponents": attack_exponents, "columns": attack_columns})
