"""One need query for each row of a batch: every row is sampled by its own, exactly."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray, IntArray
from needreplay.replay import ProportionalSampler, ReplayBuffer
from needreplay.replay.samplers import (
    ExhaustiveNeedSampler,
    FeatureNeedSampler,
    StateNeedSampler,
    feature_need,
)
from needreplay.replay.samplers.need import FeatureStore

STATES = np.array([0, 1, 2, 3, 0, 1, 2, 3, 0, 0, 1, 2])
PRIORITIES = np.array([0.5, 1.0, 2.0, 0.0, 3.0, 1.0, 0.25, 1.0, 0.125, 4.0, 0.0, 1.0])
N, N_STATES = len(STATES), 4
QUERIES = np.array(
    [
        [1.0, 3.0, 0.0, 0.5],
        [0.0, 0.0, 2.0, 1.0],
        [0.0, 0.0, 0.0, 0.0],  # no need at all: by priority
        [1e-90, 0.0, 0.0, -1.0],  # the largest entry is negative
        [5.0, 5.0, 5.0, 5.0],
    ]
)
TURNS = 300 if os.environ.get("NUMBA_DISABLE_JIT") else 3000

MAKERS: dict[str, Callable[..., Any]] = {
    "state": lambda **options: StateNeedSampler(N_STATES, **options),
    "exhaustive, states": lambda **options: ExhaustiveNeedSampler(n_states=N_STATES, **options),
    "exhaustive, features": lambda **options: ExhaustiveNeedSampler(n_features=N_STATES, **options),
    "exhaustive, slots": ExhaustiveNeedSampler,
    "features": lambda **options: FeatureNeedSampler(N_STATES, **options),
}
each_sampler = pytest.mark.parametrize("name", MAKERS)


@pytest.fixture
def never_exhaustive(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few slots would soon be scored exhaustively; here the tree shows what it samples."""
    monkeypatch.setattr(feature_need, "SLOTS_PER_CANDIDATE", 1e-9)


def filled(name: str, **options: Any) -> Any:
    """A sampler of 12 slots; features are one-hot codes of their states."""
    sampler = MAKERS[name](**options)
    sampler.allocate(N)
    sampler.set_priorities(np.arange(N), PRIORITIES)
    if name in ("state", "exhaustive, states"):
        sampler.set_state(np.arange(N), STATES)
    elif name != "exhaustive, slots":
        sampler.set_features(np.arange(N), np.eye(N_STATES)[STATES])
    return sampler


def queries_for(name: str) -> FloatArray:
    """``QUERIES`` as this sampler takes them."""
    return QUERIES[:, STATES] if name == "exhaustive, slots" else QUERIES


def exact(query: FloatArray, mix: float = 0.0) -> FloatArray:
    """By hand: (1 - mix) priority^0.6 need / S + mix / N."""
    scores = PRIORITIES**0.6 * np.maximum(0.0, query[STATES])
    if not scores.any():
        scores = PRIORITIES**0.6
    probabilities: FloatArray = (1.0 - mix) * scores / scores.sum() + mix / N
    return probabilities


def check_row(slots: IntArray, expected: FloatArray) -> None:
    """Chi-square; what is too rare to count is counted together."""
    counts = np.bincount(slots, minlength=len(expected))
    assert counts[expected == 0.0].sum() == 0
    likely = expected * len(slots) >= 5
    observed = np.append(counts[likely], counts[~likely].sum())
    wanted = np.append(expected[likely], expected[~likely].sum()) * len(slots)
    if (wanted > 0).sum() > 1:
        assert chisquare(observed[wanted > 0], wanted[wanted > 0]).pvalue > 1e-4


@each_sampler
@pytest.mark.parametrize("mix", [0.0, 0.3])
@pytest.mark.parametrize("rejecting", [False, True])
def test_each_row_is_sampled_by_its_own_query(
    name: str, mix: float, rejecting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rejecting:
        monkeypatch.setattr(feature_need, "SLOTS_PER_CANDIDATE", 1e-2)
    sampler, rng = filled(name, uniform_mix=mix), stream(1, "rows", name)
    queries = np.tile(queries_for(name), (50, 1))
    batches = [sampler.sample(len(queries), rng, queries) for _ in range(TURNS // 50)]
    sampler.check_valid()
    slots, probabilities, corrected = (
        np.concatenate([getattr(batch, part) for batch in batches]).reshape(-1, len(QUERIES))
        for part in ("slots", "probabilities", "corrected")
    )
    by_priority = PRIORITIES**0.6 / (PRIORITIES**0.6).sum()
    for row, query in enumerate(QUERIES):
        expected, own = exact(query, mix), slots[:, row]
        check_row(own, expected)
        known = ~np.isnan(probabilities[:, row])
        assert known.all() or name == "features"
        np.testing.assert_allclose(
            probabilities[known, row], expected[own[known]], rtol=1e-12, atol=1e-80
        )
        wanted = (1 - mix) * by_priority[own] + mix / N
        np.testing.assert_allclose(corrected[:, row], wanted, rtol=1e-12)
    assert all(batch.normalized for batch in batches) == (name != "features")
    assert sum(sampler.fallbacks) == slots.size
    if name != "features" or mix == 0.0:
        assert sampler.fallbacks.by_priority == slots.size // len(QUERIES)


@each_sampler
@pytest.mark.usefixtures("never_exhaustive")
def test_equal_rows_are_sampled_as_by_one_query(name: str) -> None:
    sampler, rng, query = filled(name), stream(2, "rows", name), queries_for(name)[0]
    size = 4 * TURNS
    one = sampler.sample(size, rng, query).slots
    rows = sampler.sample(size, rng, np.tile(query, (size, 1))).slots
    counts = np.array([np.bincount(slots, minlength=N) for slots in (one, rows)])
    assert chi2_contingency(counts[:, counts.sum(axis=0) > 0]).pvalue > 1e-3


def norm_pair(n: int, **options: Any) -> tuple[FeatureNeedSampler, ExhaustiveNeedSampler]:
    """The sampler of signed features, and the exhaustive sampler of the same."""
    rng = stream(3, "rows")
    pair = FeatureNeedSampler(6, **options), ExhaustiveNeedSampler(n_features=6, **options)
    priorities, features = rng.random(n), rng.standard_normal((n, 6))
    for sampler in pair:
        sampler.allocate(n)
        sampler.set_priorities(np.arange(n), priorities)
        sampler.set_features(np.arange(n), features)
    return pair


@pytest.mark.parametrize("mix", [0.0, 0.25])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("need_alpha", [0.6, 1.0, 6.0])
@pytest.mark.usefixtures("never_exhaustive")
def test_rows_by_features_are_those_of_the_exhaustive_sampler(
    need_alpha: float, backward: bool, mix: float
) -> None:
    tree, exhaustive = norm_pair(300, need_alpha=need_alpha, backward=backward, uniform_mix=mix)
    queries, rng = stream(4, "rows").standard_normal((3, 6)), stream(5, "rows")
    sampled = tree.sample(30 * TURNS, rng, np.tile(queries, (10 * TURNS, 1)))
    for row, query in enumerate(queries):
        check_row(sampled.slots[row::3], exhaustive.probabilities(query))
    assert np.isnan(sampled.probabilities).all()
    assert not sampled.normalized
    assert tree.fallbacks == (30 * TURNS, 0, 0, 0)
    assert 0.0 < tree.acceptance_rate < 1.0
    tree.check_valid()


def test_a_uniform_share_of_1_is_known() -> None:
    tree, _ = norm_pair(300, uniform_mix=1.0)
    sampled = tree.sample(20, stream(6, "rows"), np.ones((20, 6)))
    np.testing.assert_allclose(sampled.probabilities, 1 / 300)
    assert sampled.normalized


@pytest.mark.parametrize("mix", [0.0, 0.25])
def test_rows_by_a_pass_are_exact_and_know_their_probabilities(mix: float) -> None:
    """Few candidates were accepted lately: no row tries any."""
    tree, exhaustive = norm_pair(40, need_alpha=6.0, uniform_mix=mix)
    queries, rng = stream(7, "rows").standard_normal((2, 6)), stream(8, "rows")
    expected = [exhaustive.probabilities(query) for query in queries]
    slots: list[IntArray] = []
    known = 0
    for _ in range(TURNS):
        tree.arrays()["recent_rates"][:] = 1e-6
        sampled = tree.sample(2, rng, queries)
        slots.append(sampled.slots)
        for row in np.flatnonzero(~np.isnan(sampled.probabilities)):
            known += 1
            probability = expected[row][sampled.slots[row]]
            assert sampled.probabilities[row] == pytest.approx(probability, rel=1e-10)
    assert tree.arrays()["candidates"].tolist() == [0, 0]
    for own, wanted in zip(np.array(slots).T, expected, strict=True):
        check_row(own, wanted)
    assert known == tree.fallbacks.exhaustive
    assert (known == 2 * TURNS) == (mix == 0.0)


def test_only_the_row_that_is_rejected_too_often_takes_a_pass() -> None:
    """Two of 3,000 slots have need by the second query: its row gives up, and is exact still."""
    features = np.tile([3.0, 1.0, 1.0], (3000, 1))
    features[[5, 2900], 1] = [1.1, 1.3]
    tree = FeatureNeedSampler(3, alpha=1.0)
    tree.allocate(3000)
    tree.set_priorities(np.arange(3000), np.linspace(0.5, 1.5, 3000))
    tree.set_features(np.arange(3000), features)
    queries, rng = np.array([[1.0, 1.0, 1.0], [0.0, 1.0, -1.0]]), stream(9, "rows")
    batches = [tree.sample(2, rng, queries) for _ in range(TURNS)]
    slots = np.array([batch.slots for batch in batches])
    assert set(slots[:, 1]) == {5, 2900}
    assert len(set(slots[:, 0])) > min(500, TURNS // 2)
    passes = tree.fallbacks.exhaustive
    assert 0.9 * TURNS < passes < 1.1 * TURNS
    need = (features @ [0.0, 1.0, -1.0]) / (features**2).sum(axis=1)
    scores = np.maximum(0.0, need)[[5, 2900]] * np.linspace(0.5, 1.5, 3000)[[5, 2900]]
    check_row((slots[:, 1] == 2900).astype(np.int64), scores / scores.sum())
    said = np.array([batch.probabilities[1] for batch in batches])
    exactly = np.where(slots[:, 1] == 2900, scores[1], scores[0]) / scores.sum()
    np.testing.assert_allclose(said, np.where(np.isnan(said), np.nan, exactly), rtol=1e-6)


@each_sampler
@pytest.mark.filterwarnings("ignore:Every priority")
@pytest.mark.parametrize("mix", [0.0, 0.5])
def test_without_priorities_rows_are_uniform(name: str, mix: float) -> None:
    sampler, queries = filled(name, uniform_mix=mix), queries_for(name)
    sampler.set_priorities(np.arange(N), np.zeros(N))
    sampled = sampler.sample(60, stream(10, "rows"), np.tile(queries, (12, 1)))
    np.testing.assert_allclose(sampled.probabilities, 1 / N)
    assert sampled.normalized
    assert sampler.fallbacks.uniform == 60


@each_sampler
def test_need_alpha_0_is_prioritized_replay(name: str) -> None:
    sampler = filled(name, need_alpha=0.0)
    queries, rng = queries_for(name), stream(11, "rows")
    many = sampler.sample(4 * TURNS, rng, np.tile(queries, (4 * TURNS // 5, 1)))
    check_row(many.slots, exact(np.ones(N_STATES)))
    np.testing.assert_allclose(many.probabilities, exact(np.ones(N_STATES))[many.slots])
    assert many.normalized
    if name != "state":  # it orders slots by state: the same distribution, other samples
        plain = ProportionalSampler(stratified=False)
        plain.allocate(N)
        plain.set_priorities(np.arange(N), PRIORITIES)
        again = plain.sample(4 * TURNS, stream(11, "rows"))
        np.testing.assert_array_equal(many.slots, again.slots)


def buffer_of(name: str, **options: Any) -> ReplayBuffer:
    replay = ReplayBuffer(N, {"x": np.int64}, sampler=MAKERS[name](**options), seed=1)
    ids = np.array(replay.add(x=np.arange(N)))
    replay.update_priorities(ids, PRIORITIES)
    if name in ("state", "exhaustive, states"):
        replay.set_states(ids, STATES)
    elif name != "exhaustive, slots":
        replay.set_features(ids, np.eye(N_STATES)[STATES])
    return replay


@each_sampler
@pytest.mark.parametrize("mix", [0.0, 0.2])
def test_weights(name: str, mix: float) -> None:
    """By hand, of both or of gain alone; finite also where probabilities are not known."""
    by_priority = (1 - mix) * PRIORITIES**0.6 / (PRIORITIES**0.6).sum() + mix / N
    size = len(QUERIES)
    for correct_for in ("gain", "both"):
        replay = buffer_of(name, correct_for=correct_for, uniform_mix=mix)
        if name == "features" and correct_for == "both":
            with pytest.raises(NeedReplayError, match=r'\(5, 4\).*correct_for="both".*"gain"'):
                replay.sample(size, need=queries_for(name), beta=1.0)
            continue
        for _ in range(20):
            batch = replay.sample(size, need=queries_for(name), beta=1.0)
            of_rows = np.array([exact(QUERIES[i], mix)[id_] for i, id_ in enumerate(batch.ids)])
            corrected = of_rows if correct_for == "both" else by_priority[batch.ids]
            np.testing.assert_allclose(batch.weights, corrected.min() / corrected, rtol=1e-12)
            np.testing.assert_array_equal(batch["x"], batch.ids)


def test_a_batch_with_unknown_probabilities_becomes_tensors() -> None:
    torch = pytest.importorskip("torch")
    batch = buffer_of("features", uniform_mix=0.5).sample(5, need=QUERIES).torch()
    assert torch.isfinite(batch.weights).all()
    assert torch.isnan(batch.probabilities).any()
    assert not batch.normalized


@each_sampler
def test_what_is_rejected_names_the_shapes_and_changes_nothing(name: str) -> None:
    replay = buffer_of(name)
    length = queries_for(name).shape[1]
    rng, before = copy.deepcopy(replay._contents.rng), copy.deepcopy(replay.arrays())
    wrong: list[AnyArray] = [
        np.ones((4, length)),
        np.ones((5, length + 1)),
        np.ones((5, length, 1)),
        np.ones((length, 5)),
        np.ones((0, length)),
    ]
    for queries in wrong:
        allowed = rf"need has shape .* pass shape \({length},\), or \(5, {length}\), .*Nothing"
        with pytest.raises(NeedReplayError, match=allowed) as said:
            replay.sample(5, need=queries)
        assert str(queries.shape) in str(said.value)
    for bad in (np.nan, np.inf, 1e101, 1e-101):
        queries = np.zeros((5, length))
        queries[3, 2] = bad
        with pytest.raises(NeedReplayError, match=r"need\[3\] is .*Nothing was"):
            replay.sample(5, need=queries)
    assert replay._contents.rng.bit_generator.state == rng.bit_generator.state
    for part, array in replay.arrays().items():
        np.testing.assert_array_equal(array, before[part])


def test_a_rejected_correction_changes_nothing() -> None:
    replay = buffer_of("features", correct_for="both")
    before = copy.deepcopy(replay.arrays())
    with pytest.raises(NeedReplayError, match="Nothing was sampled"):
        replay.sample(5, need=QUERIES)
    for part, array in replay.arrays().items():
        np.testing.assert_array_equal(array, before[part])
    assert replay.sample(5, need=QUERIES[0]).weights.shape == (5,)


def test_backward_queries_are_projected_one_by_one() -> None:
    """By hand: φ / |φ|² of (3, 4) is (3, 4) / 25; φ = 0 has no need."""
    store = FeatureStore(2, 2, backward=True)
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, -0.5]])
    expected = [[0.12, 0.16], [0.0, 0.0], [0.0, -2.0]]
    np.testing.assert_allclose(store.query(rows, 3), expected, rtol=1e-15)
    np.testing.assert_allclose(store.query(rows[0]), expected[0], rtol=1e-15)


@pytest.mark.parametrize("name", ["features", "exhaustive, features"])
def test_a_batch_of_rows_is_one_batch(name: str) -> None:
    """The age of features is counted in batches."""
    sampler = filled(name)
    for _ in range(3):
        sampler.sample(5, stream(12, "rows"), queries_for(name))
    assert sampler.features.oldest_age == 3


@each_sampler
def test_lists_and_float32_are_taken(name: str) -> None:
    sampler, queries = filled(name), queries_for(name) + 1.0
    sampled = [
        sampler.sample(5, stream(13, "rows"), given).slots
        for given in (queries.tolist(), queries.astype(np.float32), queries[:, ::-1][:, ::-1])
    ]
    for slots in sampled[1:]:
        np.testing.assert_array_equal(slots, sampled[0])
