"""Every sampler, and what each should sample from eight entries with these priorities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from needreplay import (
    ExhaustiveNeedSampler,
    FeatureNeedSampler,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    RecencySampler,
    ReplayBuffer,
    StateNeedSampler,
    UniformSampler,
)
from needreplay._core.types import FloatArray
from needreplay.replay.samplers import Sampler

SAMPLERS: dict[str, Any] = {
    "uniform": UniformSampler,
    "proportional": ProportionalSampler,
    "rank": RankSampler,
    "pser": PSERSampler,
    "recency": lambda: RecencySampler(5.0, alpha=0.5),
    "features": lambda: FeatureNeedSampler(2),
    "states": lambda: StateNeedSampler(4),
    "exhaustive": lambda: ExhaustiveNeedSampler(n_states=4),
}

GAINS = np.array([4.0, 1.0, 0.0, 2.0, 8.0, 1.0, 0.5, 3.0])


def expected(pser: PSERSampler, by_pser: list[float]) -> list[tuple[Sampler, FloatArray]]:
    """Samplers by priority, and what each samples in proportion to; that of PSER is given."""
    return [
        (UniformSampler(), np.ones(8)),
        (ProportionalSampler(0.5, stratified=False), GAINS**0.5),
        (ProportionalSampler(1.0, uniform_mix=0.25), 0.75 * GAINS / GAINS.sum() + 0.25 / 8),
        (RankSampler(0.7, exact=True), np.array([2, 5, 8, 4, 1, 6, 7, 3]) ** -0.7),
        (pser, np.array(by_pser)),
        (RecencySampler(3.0, alpha=1.0), GAINS * 0.75 ** np.arange(7, -1, -1)),
    ]


def check_distribution(replay: ReplayBuffer, expected: FloatArray, need: Any = None) -> None:
    """Chi-square: 7 degrees of freedom, exceeded by one in a million."""
    expected, draws = expected / expected.sum(), 40_000
    batch = replay.sample(draws, need=need)
    if batch.normalized:
        assert np.allclose(batch.probabilities, expected[batch.ids])
    counts = np.bincount(batch.ids, minlength=8)
    possible = expected > 0.0
    assert not counts[~possible].any()
    chi = ((counts - draws * expected)[possible] ** 2 / (draws * expected[possible])).sum()
    assert chi < 43.0


def check_by_need(filled: Callable[[Sampler], ReplayBuffer]) -> None:
    """``filled`` makes a buffer of eight entries: gain x need, by features and by state."""
    phi = np.array([[1.0, 0], [2, 0], [0, 1], [1, 1], [3, 0], [0, 2], [1, 0], [0, 1]])
    need = np.array([1.0, 0.5])
    replay = filled(FeatureNeedSampler(2, alpha=1.0))
    replay.set_features(np.arange(8), phi)
    replay.update_priorities(np.arange(8), GAINS)
    check_distribution(replay, GAINS * (phi @ need) / (phi**2).sum(1), need)
    states = np.array([0, 1, 0, 1, 1, 1, 0, 0])
    replay = filled(StateNeedSampler(2, alpha=1.0))
    replay.set_states(np.arange(8), states)
    replay.update_priorities(np.arange(8), GAINS)
    check_distribution(replay, GAINS * need[states], need)


INTERNAL = {
    "rank": ("blocks", "block_of", "length", "order", "spare", "sizes"),
    "recency": ("tree", "base", "clock"),
    "feature need": ("place", "group", "axes", "axis_counts"),
}
"""How ranks are cut into blocks; from when recency counts ages; how vectors are grouped. Steps that
are added together may make other ones than steps one by one, with the same probabilities."""


def differing(one: ReplayBuffer, other: ReplayBuffer) -> list[str]:
    """The arrays that differ between two buffers, but for how their samplers keep order."""
    ours, theirs = one.arrays(), other.arrays()
    free = {f"sampler/{name}" for name in INTERNAL.get(one.sampler.name, ())}
    names = sorted((ours.keys() | theirs.keys()) - free)
    return [name for name in names if not _same(ours.get(name), theirs.get(name))]


def _same(one: Any, other: Any) -> bool:
    """Whether both arrays are there and equal; NaN is NaN."""
    if one is None or other is None:
        return False
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
