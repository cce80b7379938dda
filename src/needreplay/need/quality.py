"""How accurate need is: can it tell the states that come next from others?

It is measured on episodes that the need model never learned from, whatever computes need, and the
same numbers are given for scores that know nothing of the future: a need that is not clearly above
these has shown nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from needreplay._core.types import AnyArray, BoolArray, Columns, FloatArray, IntArray, Observation
from needreplay.need.form import accurate_need
from needreplay.need.similarity import (
    SIMILARITY,
    is_real,
    looks_of,
    measure_of,
)
from needreplay.replay import ReplayBuffer

HORIZON = 10
"""Next steps that need should rank first."""
POOL = 512
"""Transitions of the whole buffer that need selects from."""
START_AMONG = 2_000
"""Queries are among so many of the newest transitions of withheld episodes."""
NEAR, RECENT = 5_000, 20_000
"""How far in age others are, before and after; and other episodes at the same time."""
_PAIRS, _TRIES = 20, 400
_NEAREST = 32

NeedsOf = Callable[[Observation, Columns], AnyArray]
"""A function of a batch of observations and of transitions (columns of the buffer, and their
``ids``); [i, j] is the need of transition j, seen from observation i."""


class Scores(NamedTuple):
    """Probabilities that one of the next 10 states is ranked above another: 0.5 is chance.

    Means over queries, NaN where there was nothing to compare with.
    """

    auc: float
    """above a state of another episode that is as old"""
    auc_past: float
    """above any earlier state of the same episode"""
    auc_last: float
    """above the 10 states just before"""
    auc_time: float
    """above a state of another episode at the same time steps"""


RECENCY, CLOCK, UNTRAINED, SHUFFLED = "recency", "clock", "untrained", "other query"
"""What is measured beside need: how new a transition is; how near its step in its episode is to the
query's; need before any update; need seen from a random transition of another episode. And how
similar its observation is to the query's, see ``similarity``."""
WITHHOLD = 20
"""One in so many episodes is not learned from, so that quality can be measured on it."""


def withholds(episodes: IntArray, every: int = WITHHOLD) -> BoolArray:
    """Of numbers of episodes: which ones are not learned from, one in ``every``; 0: none.

    Not the first, so that a buffer with one episode is learned from.
    """
    if not every:
        return np.zeros(len(episodes), dtype=np.bool_)
    withheld: BoolArray = episodes % every == max(1, every // 4)
    return withheld


@dataclass(frozen=True)
class NeedQuality:
    """How accurate need is, beside what trivial scores reach."""

    auc: float
    """see ``Scores``; so are the next three"""
    auc_past: float
    auc_last: float
    auc_time: float
    variation: float
    """standard deviation of need over the buffer / its mean"""
    effective: float
    """1 / Σ p² for p in proportion to need: how many transitions need selects, estimated"""
    effective_recent: float
    """the same of the mean p over recent queries: how many transitions stationary need selects"""
    nearness: float
    """distance of transitions sampled by need to the true next states: 0 as far as uniform samples,
    1 as near as the nearest 32"""
    baselines: Mapping[str, Scores]
    """of scores that know nothing of the future, by name"""

    def best_baseline(self, name: str = "auc") -> float:
        """The highest of the trivial scores in ``name``.

        What is right by construction does not count: the next states are near by the clock, and in
        their own episode they are newer than earlier ones.
        """
        left_out = (CLOCK, RECENCY) if name in ("auc_past", "auc_last") else (CLOCK,)
        found = [getattr(s, name) for which, s in self.baselines.items() if which not in left_out]
        known = [value for value in found if not np.isnan(value)]
        return max(known, default=float("nan"))

    @property
    def is_accurate(self) -> bool:
        """Whether conclusions about need can be drawn; see ``accurate_need``."""
        return accurate_need(self.auc, self.best_baseline())

    def text(self) -> str:
        """One line, with the verdict."""
        if np.isnan(self.auc):
            return (
                "not measured yet: it takes other episodes before and after one that the need "
                "model does not learn from (one in 20, if it withholds episodes)."
            )
        verdict = "accurate" if self.is_accurate else "not accurate: conclude nothing about it"
        return (
            f"AUC {self.auc:.2f} for the next {HORIZON} states ({verdict}; trivial scores reach "
            f"{self.best_baseline():.2f}), {self.auc_past:.2f} against the episode's past, "
            f"{self.auc_time:.2f} against other episodes at the same time; it selects about "
            f"{self.effective:,.0f} transitions (variation {self.variation:.2g}), nearness "
            f"{self.nearness:.2f}."
        )


def auc(positive: AnyArray, negative: AnyArray) -> float:
    """P(a positive is above a negative), ties half; NaN where there is none of either.

    >>> auc(np.array([3.0, 1.0]), np.array([0.0, 1.0]))
    0.875
    """
    difference = np.subtract.outer(positive, negative)
    if not difference.size:
        return float("nan")
    return float(np.mean((difference > 0.0) + 0.5 * (difference == 0.0)))


def need_quality(
    buffer: ReplayBuffer,
    needs_of: NeedsOf,
    rng: np.random.Generator,
    *,
    withheld: Callable[[IntArray], BoolArray],
    untrained: NeedsOf | None = None,
    direction: Literal["forward", "backward"] = "forward",
    queries: int = 32,
) -> NeedQuality:
    """Measure need on ``buffer``.

    Args:
        buffer: with episodes.
        needs_of: need; see ``NeedsOf``.
        rng: chooses queries and transitions.
        withheld: a function of numbers of episodes: which ones need did not learn from. Queries
            are from these alone.
        untrained: need before any update, one of the trivial scores.
        direction: of need; for backward need, read "before" for "after" and the reverse in the
            meaning of every number.
        queries: states that need is seen from.
    """
    found = _cases(buffer, rng, withheld, queries, backward=direction == "backward")
    if not found:
        unknown = Scores(*[np.nan] * len(Scores._fields))
        return NeedQuality(*unknown, np.nan, np.nan, np.nan, np.nan, {})
    first, end = buffer.oldest_id, buffer.next_id
    pool = rng.integers(first, end, POOL)
    # Each transition is read, and goes through the layers, once for all queries.
    ids = np.unique(np.concatenate([pool, *(np.concatenate(case[1:]) for case in found)]))
    now = np.array([case.now for case in found])
    seen = buffer.read(now)["obs"]
    elsewhere = buffer.read(_others(buffer, rng, now))["obs"]
    parts: dict[str, list[AnyArray]] = {}
    looks: dict[str, list[AnyArray]] = {}
    for some in np.array_split(ids, -(-len(ids) // POOL)):
        columns = {**buffer.read(some), "ids": some}
        scores = {"need": needs_of(seen, columns), SHUFFLED: needs_of(elsewhere, columns)}
        if untrained is not None:
            scores[UNTRAINED] = untrained(seen, columns)
        for name, values in scores.items():
            parts.setdefault(name, []).append(np.asarray(values, dtype=np.float64))
        for name, rows in looks_of(columns["obs"]).items():
            looks.setdefault(name, []).append(rows)
    needs = {name: np.concatenate(each, 1) for name, each in parts.items()}
    sign = -1.0 if direction == "backward" else 1.0
    needs[RECENCY] = np.broadcast_to(sign * ids, needs["need"].shape)
    later = np.unique(np.concatenate([case.future for case in found]))
    of_pool = np.searchsorted(ids, pool)
    steps, step_of_query = buffer.episodes(ids)[1], buffer.episodes(now)[1]
    needs[CLOCK] = -np.abs(np.subtract.outer(step_of_query, steps)).astype(np.float64)
    for name, of_queries in looks_of(seen).items():
        rows, unit = np.concatenate(looks[name]), np.ones(1)
        if name == SIMILARITY and (real := is_real(seen)).any():
            spread = rows[of_pool].std(0, dtype=np.float64)
            unit = np.where(real & (spread > 0.0), spread, 1.0)
        rows, of_queries, measure = rows / unit, of_queries / unit, measure_of(name, seen)
        needs[name] = -measure(of_queries, rows)
        if name == SIMILARITY:
            distances = measure(rows[of_pool], rows[np.searchsorted(ids, later)])
    selected = [
        _selection(case, needs["need"][i][of_pool], pool, len(buffer), distances, later)
        for i, case in enumerate(found)
    ]
    scores_of = {name: _scores(found, values, ids) for name, values in needs.items()}
    own = scores_of.pop("need")
    variation, effective, nearness = _known_means(np.array(selected))
    recent = buffer.read(rng.integers(max(first, end - START_AMONG), end, queries))["obs"]
    needed = needs_of(recent, {**buffer.read(pool), "ids": pool})
    shares = np.maximum(0.0, np.asarray(needed, dtype=np.float64))
    shares = (shares / np.maximum(shares.sum(1, keepdims=True), 1e-300)).mean(0)
    effective_recent = len(buffer) / POOL * shares.sum() ** 2 / max(np.square(shares).sum(), 1e-300)
    return NeedQuality(*own, variation, effective, effective_recent, nearness, scores_of)


class _Case(NamedTuple):
    """One query: the transition that need is seen from, and those that it should tell apart."""

    now: int
    future: IntArray
    others: IntArray
    past: IntArray
    last: IntArray
    same_time: IntArray


def _cases(
    buffer: ReplayBuffer,
    rng: np.random.Generator,
    withheld: Callable[[IntArray], BoolArray],
    queries: int,
    *,
    backward: bool,
) -> list[_Case]:
    first, end = buffer.oldest_id, buffer.next_id
    if end - first <= 2 * HORIZON:
        return []
    ids = np.arange(first, end)
    number, step = buffer.episodes(ids)
    known = ids[withheld(number)]
    # There is a next state, and 10 earlier ones that are stored (or the reverse).
    known = known[(step[known - first] >= HORIZON) & (buffer.future(known, 1) >= 0)]
    if backward:
        known = known[buffer.future(known, HORIZON) >= 0]
    known = known[-START_AMONG:]
    if not len(known):
        return []
    members: dict[int, IntArray] = {}
    cases = []
    for now in rng.choice(known, queries):
        episode = int(number[now - first])
        if episode not in members:
            members[episode] = ids[number == episode]
        own = members[episode]
        at = int(np.searchsorted(own, now))
        before, after = own[:at], own[at + 1 :]
        if backward:
            before, after = after[::-1], before[::-1]
        future, last = after[:HORIZON], before[-HORIZON:]
        if len(last) < HORIZON or not len(future):
            continue
        times = step[future - first]
        near = slice(max(0, now - first - RECENT), now - first + RECENT)
        same = (step[near] >= times.min()) & (step[near] <= times.max()) & (number[near] != episode)
        same_time = ids[near][same]
        if len(same_time):
            same_time = rng.choice(same_time, 2 * HORIZON)
        others = _as_old(rng, future - first, number, episode) + first
        past = rng.choice(before, HORIZON)
        cases.append(_Case(int(now), future, others, past, last, same_time))
    return cases


def _as_old(rng: np.random.Generator, future: IntArray, number: IntArray, episode: int) -> IntArray:
    """Transitions of other episodes in pairs, one as much older than a next state as one is newer.

    So a score that knows only how new a transition is has an AUC of 0.5.
    """
    for reach in (NEAR, len(number)):
        center = rng.choice(future, _TRIES)
        apart = rng.integers(1, reach + 1, _TRIES)
        older, newer = center - apart, center + apart
        stored = (older >= 0) & (newer < len(number))
        older, newer = older[stored], newer[stored]
        fine = (number[older] != episode) & (number[newer] != episode)
        if fine.sum() >= _PAIRS or reach == len(number):
            break
    pairs: IntArray = np.concatenate([older[fine][:_PAIRS], newer[fine][:_PAIRS]])
    return pairs


def _others(buffer: ReplayBuffer, rng: np.random.Generator, now: IntArray) -> IntArray:
    """For each query a random transition, of another episode if there is one."""
    first, end = buffer.oldest_id, buffer.next_id
    drawn = rng.integers(first, end, (8, len(now)))
    number, _ = buffer.episodes(drawn.ravel())
    differs = number.reshape(drawn.shape) != buffer.episodes(now)[0]
    others: IntArray = drawn[differs.argmax(0), np.arange(len(now))]
    return others


def _scores(cases: list[_Case], values: AnyArray, ids: IntArray) -> Scores:
    found = []
    for case, row in zip(cases, values, strict=True):
        future, *others = (row[np.searchsorted(ids, of)] for of in case[1:])
        found.append([auc(future, other) for other in others])
    return Scores(*_known_means(np.array(found)))


def _selection(
    case: _Case,
    need: FloatArray,
    pool: IntArray,
    size: int,
    distances: AnyArray,
    later: IntArray,
) -> tuple[float, float, float]:
    """Variation, effective number and nearness of one query; ``need`` is that of the pool."""
    is_other = ~np.isin(pool, np.concatenate([case.last, [case.now], case.future]))
    if not is_other.any():
        return np.nan, np.nan, np.nan
    shares = np.maximum(0.0, need[is_other])
    shares = shares / shares.sum() if shares.any() else np.full(len(shares), 1 / len(shares))
    distance = distances[is_other][:, np.isin(later, case.future)].min(1)
    return (
        float(shares.std() * len(shares)),
        float(size / len(shares) / np.square(shares).sum()),
        _nearness(distance, shares),
    )


def _known_means(values: FloatArray) -> list[float]:
    """Of each column, without NaN; NaN where nothing else is there."""
    known = ~np.isnan(values)
    means = np.where(known, values, 0.0).sum(0) / np.where(known.any(0), known.sum(0), np.nan)
    listed: list[float] = means.tolist()
    return listed


def _nearness(distance: AnyArray, shares: FloatArray) -> float:
    uniform, nearest = distance.mean(), np.sort(distance)[:_NEAREST].mean()
    if uniform <= nearest:
        return float("nan")
    return float((uniform - shares @ distance) / (uniform - nearest))
