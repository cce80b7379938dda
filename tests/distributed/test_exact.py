"""Batches come from the exact distribution over all shards, while writers write and rows leave."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from ray_sources import COLUMNS, finished, first_priority, started, stored
from scipy import stats

from needreplay import (
    FeatureNeedSampler,
    ProportionalSampler,
    RankSampler,
)
from needreplay._core.types import AnyArray, FloatArray
from needreplay.distributed import RayReplayBuffer

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]

CAPACITY, WRITTEN, SIZE, BINS = 600, 6_000, 64, 25


def test_what_is_written_is_stored_once_and_in_order(cluster: Any) -> None:
    with closing(RayReplayBuffer(1_000, COLUMNS, shards=2, block=32)) as buffer:
        sources = started(buffer, 3)
        assert finished(buffer, [s.write.remote(300) for s in sources]) == [300] * 3
        assert stored(buffer) == {who: list(range(300)) for who in range(3)}
        facts = buffer.facts()
        assert facts["inserted"] == 900
        assert facts["lost"] == 0
        # 1,200 do not fit: the oldest leave.
        finished(buffer, [sources[0].write.remote(300)])
        assert len(buffer) == 1_000
        assert buffer.next_id == 1_200
        assert stored(buffer)[0][-300:] == list(range(300, 600))
        buffer.check_valid()


def scores_by_priority(priorities: FloatArray, _: AnyArray) -> FloatArray:
    scores: FloatArray = priorities**0.6
    return scores


def scores_by_rank(priorities: FloatArray, _: AnyArray) -> FloatArray:
    ranks = np.empty(len(priorities))
    ranks[np.argsort(-priorities)] = np.arange(1, len(priorities) + 1)
    scores: FloatArray = ranks**-0.7
    return scores


QUERY = np.array([1.0, 0.2, 0.5])


def features_of(numbers: AnyArray) -> FloatArray:
    return 0.2 + np.stack([numbers % 5, numbers % 3, numbers % 2], axis=1).astype(np.float64)


def scores_by_need(priorities: FloatArray, numbers: AnyArray) -> FloatArray:
    features = features_of(numbers)
    need = features @ QUERY / np.sum(features**2, axis=1)
    scores: FloatArray = priorities**0.6 * need
    return scores


SAMPLERS: dict[str, tuple[Callable[[], Any], Callable[[FloatArray, AnyArray], FloatArray]]] = {
    "proportional": (lambda: ProportionalSampler(0.6, stratified=False), scores_by_priority),
    "rank": (lambda: RankSampler(0.7, exact=True), scores_by_rank),
    "need": (
        lambda: FeatureNeedSampler(3, alpha=0.6, need_alpha=1.0, correct_for="both"),
        scores_by_need,
    ),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_batch_is_from_the_exact_distribution(cluster: Any, name: str) -> None:
    """With the distribution function of what is stored, samples become uniform on 0 to 1."""
    make, scores_of = SAMPLERS[name]
    rng = np.random.default_rng(5)
    need = QUERY if name == "need" else None
    with closing(
        RayReplayBuffer(CAPACITY, COLUMNS, sampler=make(), shards=3, block=25, prefetch=0)
    ) as buffer:
        sources = started(buffer, 3)
        for source in sources:
            source.first_priorities.remote("first_priority")
        writing = [s.write.remote(WRITTEN // 3) for s in sources]
        buffer.wait_for(100)
        known = dict[int, float]()
        uniforms, shards, moved = [], set[int](), 0
        for _ in range(150):
            before = buffer.next_id
            new = np.arange(max(buffer.oldest_id, before - 200), before)
            if name == "need":
                buffer.set_features(new, features_of(buffer.read(new)["number"]))
            batch = buffer.sample(SIZE, need=need, beta=0.7)
            moved += buffer.next_id > before
            ids = np.arange(buffer.oldest_id, buffer.next_id)
            columns = buffer.read(ids)
            if name == "need":  # those that came with this call have none yet
                features = buffer.features(ids)
                assert np.array_equal(features.any(axis=1), ids < before)
            sampler: Any = buffer.sampler
            priorities = sampler.priorities[ids % buffer._rows.capacity]
            first = first_priority(columns).tolist()
            own = [known.get(i, p) for i, p in zip(ids.tolist(), first, strict=True)]
            np.testing.assert_array_equal(priorities, own)
            scores = scores_of(priorities, columns["number"])
            if name == "need":
                scores = np.where(ids < before, scores, 0.0)
            probabilities = scores / scores.sum()
            places = batch.ids - buffer.oldest_id
            np.testing.assert_array_equal(batch["number"], columns["number"][places])
            np.testing.assert_array_equal(batch["who"], columns["who"][places])
            np.testing.assert_array_equal(batch["x"][:, 2], columns["number"][places] + 2.0)
            weights = probabilities[places] ** -0.7
            np.testing.assert_allclose(batch.weights, weights / weights.max(), rtol=1e-6)
            below = np.cumsum(probabilities) - probabilities
            uniforms.append(below[places] + rng.random(SIZE) * probabilities[places])
            numbers = buffer._rows.columns["block"][batch.ids % buffer._rows.capacity]
            shards |= {buffer._blocks[number].shard for number in numbers.tolist()}
            new_priorities = 0.1 + rng.random(SIZE)
            known |= dict(zip(batch.ids.tolist(), new_priorities.tolist(), strict=True))
            buffer.update_priorities(batch.ids, new_priorities)
        finished(buffer, writing)
        assert shards == {0, 1, 2}
        assert moved > 20, "the writers were to write meanwhile"
        assert buffer.oldest_id > CAPACITY, "and old rows to leave"
        buffer.check_valid()
    counts, _ = np.histogram(np.concatenate(uniforms), BINS, (0.0, 1.0))
    assert stats.chisquare(counts).pvalue > 1e-3
