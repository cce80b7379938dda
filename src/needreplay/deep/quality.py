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
START_AMONG, RECENT = 2_000, 20_000
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
    needs_of: Callable[[Any, dict[str, Any]], AnyArray],
    rng: np.random.Generator,
    *,
    queries: int = 32,
) -> NeedQuality:
    """Measure need on ``buffer``.

    Args:
        buffer: with episodes.
        needs_of: a function of a batch of observations and of transitions (columns of the buffer,
            and their ``ids``); [i, j] is the need of transition j, seen from observation i.
        rng: chooses trajectories and transitions.
        queries: states that need looks from.
    """
    cases: list[_Case] = []
    first, end = max(buffer.oldest_id, buffer.next_id - RECENT), buffer.next_id
    if end - first > 2 * HORIZON + 1:
        recent = _recent(buffer, first, end)
        starts = rng.integers(max(first, end - START_AMONG), end, 8 * queries)
        starts = starts[buffer.future(starts, HORIZON + 1) >= 0][:queries]
        pool = rng.integers(buffer.oldest_id, end, POOL)
        cases = [_case(buffer, rng, int(start), recent) for start in starts]
    if not cases:
        return NeedQuality(*[np.nan] * len(NeedQuality._fields))
    # Each transition is read, and goes through the layers, once for all queries.
    ids = np.unique(np.concatenate([pool, *(np.concatenate(case[1:]) for case in cases)]))
    later = np.unique(np.concatenate([case.future for case in cases]))
    seen = buffer.read(np.array([case.now for case in cases]))["obs"]
    parts = []
    for some in np.array_split(ids, -(-len(ids) // POOL)):
        columns = buffer.read(some)
        need = np.asarray(needs_of(seen, {**columns, "ids": some}), dtype=np.float64)
        parts.append((need, _flat(columns["obs"])))
    needs = np.concatenate([need for need, _ in parts], 1)
    rows = np.concatenate([flat for _, flat in parts])
    of_pool = np.searchsorted(ids, pool)
    is_real = _is_real(columns["obs"])
    if is_real.any():
        spread = rows[of_pool].std(0, dtype=np.float64)
        rows = rows / np.where(is_real & (spread > 0.0), spread, 1.0)
    jaccard = not isinstance(columns["obs"], dict) and not is_real.any()
    distances = _distances(rows[of_pool], rows[np.searchsorted(ids, later)], jaccard=jaccard)
    found = []
    for case, need in zip(cases, needs, strict=True):
        future, past, same_time, earlier = (need[np.searchsorted(ids, of)] for of in case[1:])
        is_other = ~np.isin(pool, np.concatenate([case.past, [case.now], case.future]))
        random = need[of_pool[is_other]]
        shares = np.maximum(0.0, random)
        shares = shares / shares.sum() if shares.any() else np.full(len(shares), 1 / len(shares))
        found.append(
            (
                auc(future, random),
                auc(future, np.concatenate([past, same_time])),
                auc(future, past),
                auc(future, same_time) if len(same_time) else np.nan,
                auc(future, earlier),
                float(shares.std() * len(shares)),
                float(len(buffer) / len(shares) / np.square(shares).sum()),
                _nearness(distances[is_other][:, np.isin(later, case.future)].min(1), shares),
            )
        )
    values = np.array(found)
    known = ~np.isnan(values)
    means = np.where(known, values, 0.0).sum(0) / np.where(known.any(0), known.sum(0), np.nan)
    return NeedQuality(*means.tolist())


class _Case(NamedTuple):
    """One query: the transition that need looks from, and those that it should tell apart."""

    now: int
    future: IntArray
    past: IntArray
    same_time: IntArray
    earlier: IntArray


def _case(buffer: ReplayBuffer, rng: np.random.Generator, start: int, recent: _Recent) -> _Case:
    """A query from the state ``HORIZON`` steps after ``start``."""
    steps = np.arange(2 * HORIZON + 1)
    path = buffer.future(np.full(len(steps), start), steps)
    past, now, future = path[:HORIZON], path[HORIZON], path[HORIZON + 1 :]
    future = future[future >= 0]
    first, times, episodes = recent
    at = times[future - first]
    same_time = np.flatnonzero((times >= max(0, int(at.min()))) & (times <= at.max())) + first
    same_time = same_time[~np.isin(same_time, path)]
    if len(same_time):
        same_time = rng.choice(same_time, HORIZON)
    earlier = np.flatnonzero(episodes[: now - first] == episodes[now - first]) + first
    return _Case(int(now), future, past, same_time, rng.choice(earlier, HORIZON))


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


def _is_real(columns: Any) -> AnyArray:
    """Which numbers of ``_flat`` are real ones; pixels and planes have one unit."""
    if isinstance(columns, dict):
        return np.concatenate([_is_real(column) for column in columns.values()])
    return np.full(_flat(columns).shape[1], columns.dtype.kind == "f")


def _flat(columns: Any) -> AnyArray:
    """Observations as rows of numbers, of many about ``_COORDINATES`` evenly spaced ones."""
    if isinstance(columns, dict):
        return np.concatenate([_flat(column) for column in columns.values()], 1)
    rows: AnyArray = columns.reshape(len(columns), -1)
    rows = rows[:, :: max(1, rows.shape[1] // _COORDINATES)]
    return rows if columns.dtype.kind == "f" else rows.astype(np.float32)


def _distances(pool: AnyArray, future: AnyArray, *, jaccard: bool) -> AnyArray:
    """Of each row of numbers of ``pool`` to each of ``future``."""
    products = pool @ future.T
    both = np.square(pool).sum(1)[:, None] + np.square(future).sum(1)
    if jaccard:
        # Jaccard's distance of planes: an empty board is not near to every other.
        return 1.0 - products / np.maximum(both - products, 1e-9)  # type: ignore[no-any-return]
    return np.sqrt(np.maximum(0.0, both - 2.0 * products))  # type: ignore[no-any-return]


def _nearness(distance: AnyArray, shares: FloatArray) -> float:
    uniform, nearest = distance.mean(), np.sort(distance)[:_NEAREST].mean()
    if uniform <= nearest:
        return float("nan")
    return float((uniform - shares @ distance) / (uniform - nearest))
