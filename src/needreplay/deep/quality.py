"""How true need is: can it tell the states that come next from others?

Measured on a buffer's newest trajectories, whatever computes need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay import ReplayBuffer
from needreplay.rules.need import TRUE_NEED

HORIZON = 10
"""Next steps that need should rank first."""
POOL = 512
"""Transitions of the whole buffer that they are compared with."""
NEWEST, RECENT = 2_000, 20_000
"""Trajectories start among the newest; other episodes are looked for among the recent."""
_NEAREST, _COORDINATES = 32, 1_024


class NeedQuality(NamedTuple):
    """Means over queries, NaN where the buffer has no long enough trajectory."""

    auc: float
    """probability that need ranks one of the next 10 states above a random transition: 0.5 is
    chance, 1 is perfect"""
    auc_hard: float
    """the same against hard cases: the two that follow, together"""
    auc_past: float
    """against the last 10 states of the same episode"""
    auc_time: float
    """against states of other episodes at the same time steps"""
    auc_episode: float
    """against any earlier states of the same episode"""
    variation: float
    """standard deviation of need over the buffer / its mean"""
    effective: float
    """1 / Σ p² for p in proportion to need: how many transitions need selects, estimated"""
    nearness: float
    """distance of transitions sampled by need to the true next states: 0 as far as uniform samples,
    1 as near as the nearest 32"""

    def text(self) -> str:
        """One line, with the verdict."""
        if np.isnan(self.auc):
            return "no episode is long enough to measure its quality."
        verdict = "true" if self.auc >= TRUE_NEED else "not true: conclude nothing about it"
        return (
            f"AUC {self.auc:.2f} for the next {HORIZON} states ({verdict}), {self.auc_hard:.2f} "
            f"against hard cases; it selects about {self.effective:,.0f} transitions (variation "
            f"{self.variation:.2g}), nearness {self.nearness:.2f}."
        )


def auc(positive: AnyArray, negative: AnyArray) -> float:
    """P(a positive is above a negative), ties half.

    >>> auc(np.array([3.0, 1.0]), np.array([0.0, 1.0]))
    0.875
    """
    difference = np.subtract.outer(positive, negative)
    return float(np.mean((difference > 0.0) + 0.5 * (difference == 0.0)))


def need_quality(
    buffer: ReplayBuffer,
    need_of: Callable[[Any, dict[str, Any]], AnyArray],
    rng: np.random.Generator,
    *,
    queries: int = 32,
) -> NeedQuality:
    """Measure need on ``buffer``.

    Args:
        buffer: with episodes.
        need_of: the need of transitions (columns of the buffer, and their ``ids``), seen from an
            observation.
        rng: chooses trajectories and transitions.
        queries: states that need looks from.
    """
    found: list[tuple[float, ...]] = []
    first, end = max(buffer.oldest_id, buffer.next_id - RECENT), buffer.next_id
    if end - first > 2 * HORIZON:
        recent = _recent(buffer, first, end)
        starts = rng.integers(max(first, end - NEWEST), end, 8 * queries)
        starts = starts[buffer.future(starts, HORIZON + 1) >= 0][:queries]
        pool = rng.integers(buffer.oldest_id, end, POOL)
        found = [_one(buffer, need_of, rng, int(start), pool, recent) for start in starts]
    if not found:
        return NeedQuality(*[np.nan] * len(NeedQuality._fields))
    values = np.array(found)
    known = ~np.isnan(values)
    means = np.where(known, values, 0.0).sum(0) / np.where(known.any(0), known.sum(0), np.nan)
    return NeedQuality(*means.tolist())


def _one(
    buffer: ReplayBuffer,
    need_of: Callable[[Any, dict[str, Any]], AnyArray],
    rng: np.random.Generator,
    start: int,
    pool: IntArray,
    recent: _Recent,
) -> tuple[float, ...]:
    """One query, from the state ``HORIZON`` steps after ``start``."""
    steps = np.arange(2 * HORIZON + 1)
    path = buffer.future(np.full(len(steps), start), steps)
    past, now, future = path[:HORIZON], path[HORIZON], path[HORIZON + 1 :]
    future = future[future >= 0]
    pool = pool[~np.isin(pool, path)]
    first, times, episodes = recent
    at = times[future - first]
    same_time = np.flatnonzero((times >= max(0, at.min())) & (times <= at.max())) + first
    same_time = same_time[~np.isin(same_time, path)]
    if len(same_time):
        same_time = rng.choice(same_time, HORIZON)
    earlier = np.flatnonzero(episodes[: now - first] == episodes[now - first]) + first
    earlier = rng.choice(earlier, HORIZON)
    ids = np.concatenate([future, pool, past, same_time, earlier, [now]])
    columns = {**buffer.read(ids), "ids": ids}
    obs = _row(columns["obs"], -1)
    need = np.asarray(need_of(obs, columns), dtype=np.float64)
    end = len(future) + len(pool)
    own, random = need[: len(future)], need[len(future) : end]
    hard, earlier_need = need[end : -HORIZON - 1], need[-HORIZON - 1 : -1]
    past_need, time_need = hard[: len(past)], hard[len(past) :]
    shares = np.maximum(0.0, random)
    shares = shares / shares.sum() if shares.any() else np.full(len(pool), 1.0 / len(pool))
    return (
        auc(own, random),
        auc(own, hard),
        auc(own, past_need),
        auc(own, time_need) if len(time_need) else np.nan,
        auc(own, earlier_need),
        float(shares.std() * len(shares)),
        float(len(buffer) / len(shares) / np.square(shares).sum()),
        _nearness(columns["obs"], len(future), len(pool), shares),
    )


class _Recent(NamedTuple):
    """Transitions from id ``first`` on: the time step of each in its episode, and its episode.

    Time is negative where the start of an episode is not stored.
    """

    first: int
    times: IntArray
    episodes: IntArray


def _recent(buffer: ReplayBuffer, first: int, end: int) -> _Recent:
    following = (buffer.future(np.arange(first, end), 1) - first).tolist()
    times, episodes = [0] * (end - first), list(range(end - first))
    if first > 0:
        # Episodes that were under way are among the first; so are some that were not.
        times[:64] = [-(2**40)] * len(times[:64])
    for i, after in enumerate(following):
        if after >= 0:
            times[after], episodes[after] = times[i] + 1, episodes[i]
    return _Recent(first, np.array(times, dtype=np.int64), np.array(episodes, dtype=np.int64))


def _row(columns: Any, i: int) -> Any:
    if isinstance(columns, dict):
        return {name: _row(column, i) for name, column in columns.items()}
    return columns[i]


def _flat(columns: Any) -> AnyArray:
    """Observations as rows of numbers, of many at most ``_COORDINATES`` evenly spaced ones.

    Real numbers are divided by their standard deviation; pixels and planes have one unit.
    """
    if isinstance(columns, dict):
        return np.concatenate([_flat(column) for column in columns.values()], 1)
    rows: AnyArray = columns.reshape(len(columns), -1)
    rows = rows[:, :: max(1, rows.shape[1] // _COORDINATES)]
    if columns.dtype.kind != "f":
        return rows.astype(np.float32)
    spread = rows.std(0, dtype=np.float64)
    return rows / np.where(spread > 0.0, spread, 1.0)


def _nearness(obs: Any, n_future: int, n_pool: int, shares: FloatArray) -> float:
    rows = _flat(obs)
    future, pool = rows[:n_future], rows[n_future : n_future + n_pool]
    products = pool @ future.T
    both = np.square(pool).sum(1)[:, None] + np.square(future).sum(1)
    if isinstance(obs, dict) or obs.dtype.kind == "f":
        distances = np.sqrt(np.maximum(0.0, both - 2.0 * products))
    else:
        # Jaccard's distance of planes: an empty board is not near to every other.
        distances = 1.0 - products / np.maximum(both - products, 1e-9)
    distance = distances.min(1)
    uniform, nearest = distance.mean(), np.sort(distance)[:_NEAREST].mean()
    if uniform <= nearest:
        return float("nan")
    return float((uniform - shares @ distance) / (uniform - nearest))
