"""The sum tree at every small capacity, its draws, and its sums after very many updates."""

from __future__ import annotations

import numpy as np
import pytest
from needreplay.replay._kernels.sumtree import SumTree
from scipy import stats

from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray, IntArray

CAPACITIES = [*range(1, 71), 512, 513, 4097]


def found(tree: SumTree, targets: FloatArray) -> IntArray:
    slots: IntArray = tree.sample(targets / tree.total)[0]
    return slots


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_total_and_leaves_at_every_capacity(capacity: int) -> None:
    rng = stream(0, "sumtree", capacity)
    tree = SumTree(capacity)
    masses = np.zeros(capacity)
    for _ in range(20):
        slots = rng.integers(0, capacity, size=rng.integers(1, 9))
        values = rng.random(len(slots)) * (rng.random(len(slots)) < 0.8)
        for slot, value in zip(slots, values, strict=True):
            masses[slot] = value
        tree.set(slots, values)
        tree.check_valid()
        np.testing.assert_array_equal(tree.masses, masses)
        assert tree.total == pytest.approx(masses.sum(), rel=1e-14)


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_find_walks_the_leaves_laid_end_to_end(capacity: int) -> None:
    rng = stream(1, "sumtree", capacity)
    tree = SumTree(capacity)
    masses = rng.integers(0, 4, size=capacity).astype(np.float64)
    masses[rng.integers(capacity)] = 3.0
    tree.set(np.arange(capacity), masses)
    targets = np.arange(0.25, masses.sum(), 0.5)  # never on a border
    expected = np.searchsorted(np.cumsum(masses), targets, side="right")
    np.testing.assert_array_equal(found(tree, targets), expected)


@pytest.mark.parametrize("capacity", [1, 7, 8, 9, 63, 64, 65, 600])
@pytest.mark.parametrize("beyond", [0.0, 1e-3, 1.0])
def test_a_leaf_without_mass_is_never_found(capacity: int, beyond: float) -> None:
    rng = stream(2, "sumtree", capacity)
    tree = SumTree(capacity)
    for _ in range(50):
        masses = rng.random(capacity) * (rng.random(capacity) < 0.3)
        masses[rng.integers(capacity)] = 1e-12
        tree.set(np.arange(capacity), masses)
        targets = np.array([0.0, np.nextafter(tree.total, 0.0), tree.total * (1 + beyond)])
        assert np.all(tree.masses[found(tree, targets)] > 0.0)


@pytest.mark.parametrize("stratified", [False, True])
def test_leaves_are_sampled_in_proportion(stratified: bool) -> None:
    tree = SumTree(70)
    masses = np.arange(70, dtype=np.float64) % 7
    tree.set(np.arange(70), masses)
    rng = stream(3, "sumtree")
    draws = np.concatenate([tree.sample(rng.random(16), stratified)[0] for _ in range(4000)])
    possible = masses > 0
    expected = masses[possible] / masses.sum() * len(draws)
    counts = np.bincount(draws, minlength=70)
    assert counts[~possible].sum() == 0
    statistic = ((counts[possible] - expected) ** 2 / expected).sum()
    assert statistic < stats.chi2.ppf(1 - 1e-4, possible.sum() - 1)


def test_a_stratified_batch_has_one_sample_in_each_share() -> None:
    tree = SumTree(64)
    tree.set(np.arange(64), np.ones(64))
    slots = tree.sample(stream(4, "sumtree").random(16), True)[0]
    np.testing.assert_array_equal(slots // 4, np.arange(16))


def test_a_million_updates_do_not_drift() -> None:
    """Single updates at random places, of sizes from 1e-6 to 1e6."""
    tree, rng = SumTree(1000), stream(5, "sumtree")
    slots = rng.integers(0, 1000, (1000, 1000))
    masses = 10.0 ** rng.integers(-6, 7, (1000, 1000))
    for some, values in zip(slots, masses, strict=True):
        tree.set(some, values)
    tree.check_valid()
    tree.set(np.arange(1000), np.full(1000, 1e-9))  # beside which any drift so far is large
    exact = float(np.sum(tree.masses.astype(np.longdouble)))
    assert abs(tree.total - exact) <= 1e-12 * exact


@pytest.mark.parametrize("damage", ["sum", "unused leaf", "negative", "infinite"])
def test_check_valid_sees_damage(damage: str) -> None:
    tree = SumTree(20)
    tree.set(np.arange(20), np.ones(20))
    if damage == "sum":
        tree.array[24] += 1e-9
    elif damage == "unused leaf":
        tree.array[21] = 1.0
    else:
        tree.set(np.array([3]), np.array([-1.0 if damage == "negative" else np.inf]))
    with pytest.raises(NeedReplayError):
        tree.check_valid()


def test_a_tree_needs_a_leaf() -> None:
    with pytest.raises(NeedReplayError, match="at least one leaf"):
        SumTree(0)


def test_overhead_is_a_seventh() -> None:
    assert len(SumTree(10**6).array) < 1.15 * 10**6


def test_duplicates_in_one_call_let_the_last_win() -> None:
    tree = SumTree(9)
    slots: IntArray = np.array([3, 8, 3])
    tree.set(slots, np.array([1.0, 2.0, 5.0]))
    tree.check_valid()
    assert tree.masses[3] == 5.0
    assert tree.total == 7.0
