"""The sampler by state against the distribution written out."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy.stats import chisquare

from needreplay._core.errors import NeedReplayError, NeedReplayWarning
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray, IntArray
from needreplay.replay.samplers import StateNeedSampler
from needreplay.replay.samplers.need import BY_SCORE

MANY = 10**4 if os.environ.get("NUMBA_DISABLE_JIT") else 10**6


def filled(
    states: ArrayLike,
    priorities: ArrayLike,
    n_states: int,
    alpha: float = 0.6,
    need_alpha: float = 0.6,
) -> StateNeedSampler:
    sampler = StateNeedSampler(n_states, alpha=alpha, need_alpha=need_alpha)
    slots = np.arange(np.size(states))
    sampler.allocate(len(slots))
    sampler.set_state(slots, np.asarray(states, dtype=np.int64))
    sampler.set_priorities(slots, np.asarray(priorities, dtype=np.float64))
    return sampler


def exact(
    states: IntArray, priorities: FloatArray, need: FloatArray, a: float = 0.6, b: float = 0.6
) -> FloatArray:
    scores = priorities**a * np.maximum(0.0, need)[states] ** b
    p: FloatArray = scores / scores.sum()
    return p


def test_by_hand() -> None:
    # priorities^1 * need^1: 1*2, 2*2, 3*1, 4*1 of a total of 13
    sampler = filled([0, 0, 1, 1], [1, 2, 3, 4], 2, 1.0, 1.0)
    np.testing.assert_allclose(
        sampler.probabilities(np.array([2.0, 1.0])), np.array([2, 4, 3, 4]) / 13
    )


def test_probabilities_and_samples_after_many_updates_are_exact() -> None:
    rng = stream(1, "grouped")
    n, n_states = 700, 13
    states, priorities = rng.integers(0, n_states, n), rng.random(n)
    sampler = filled(states, priorities, n_states)
    for _ in range(MANY // 1000):
        slots = rng.integers(0, n, 500)
        last = np.unique(slots[::-1], return_index=True)[1]
        slots = slots[::-1][last]
        states[slots], priorities[slots] = (
            rng.integers(0, n_states, len(slots)),
            rng.random(len(slots)),
        )
        sampler.set_state(slots, states[slots])
        sampler.set_priorities(slots, priorities[slots])
    slots = rng.integers(0, n, MANY)
    new = rng.random(MANY) * 10.0 ** rng.integers(-3, 4, MANY)
    sampler.set_priorities(slots, new)
    priorities[slots] = new
    sampler.check_valid()
    need = rng.random(n_states) * (rng.random(n_states) < 0.8)
    expected = exact(states, priorities, need)
    np.testing.assert_allclose(sampler.probabilities(need), expected, rtol=1e-12, atol=0)
    sampled = sampler.sample(MANY, rng, need)
    np.testing.assert_allclose(sampled.probabilities, expected[sampled.slots], rtol=1e-12, atol=0)
    assert sampled.normalized
    counts = np.bincount(sampled.slots, minlength=n)
    assert counts[expected == 0].sum() == 0
    likely = expected * MANY >= 5
    rest = [counts[~likely].sum()], [expected[~likely].sum() * MANY]
    observed = np.append(counts[likely], rest[0])
    wanted = np.append(expected[likely] * MANY, rest[1])
    assert chisquare(observed[wanted > 0], wanted[wanted > 0]).pvalue > 0.01


def test_kernels_on_a_full_buffer() -> None:
    rng = stream(2, "grouped")
    states, priorities, need = rng.integers(0, 5, 300), rng.random(300), rng.random(5)
    sampler = filled(states, priorities, 5)
    for slot in (7, 0, 299, 7):
        priorities[slot] = rng.random()
        sampler.set_priorities(np.array([slot]), priorities[slot : slot + 1])
    kernel, scores = sampler.compiled, np.empty(6)
    assert kernel is not None
    total, found = kernel.score(need, 0.6, scores)
    assert found == BY_SCORE
    p = kernel.probabilities(scores, total, found, np.arange(300))
    np.testing.assert_allclose(p, exact(states, priorities, need), rtol=1e-12)
    edges = kernel.sample(scores, total, found, np.array([0.0, np.nextafter(1.0, 0.0)]))
    assert np.all((edges >= 0) & (edges < 300))
    np.testing.assert_allclose(p, sampler.probabilities(need), rtol=1e-12)


def test_need_alpha_0_is_priority_alone_slot_for_slot() -> None:
    rng = stream(3, "grouped")
    states, priorities, need = rng.integers(0, 5, 300), rng.random(300), rng.random(5)
    without = filled(states, priorities, 5, need_alpha=0.0)
    flat = filled(states, priorities, 5, need_alpha=0.6)
    for passed in (None, need, np.zeros(5), -need):
        a = without.sample(1000, stream(4, "a"), passed)
        b = flat.sample(1000, stream(4, "a"), np.full(5, 3.0))
        np.testing.assert_array_equal(a.slots, b.slots)
        np.testing.assert_allclose(
            a.probabilities, priorities[a.slots] ** 0.6 / (priorities**0.6).sum()
        )


def test_both_exponents_0_are_uniform() -> None:
    sampler = filled([0, 1, 1, 2], [0.0, 1.0, 2.0, 3.0], 3, 0.0, 0.0)
    np.testing.assert_allclose(sampler.probabilities(), 0.25)


def test_no_need_falls_back_to_priority_and_no_priority_to_uniform() -> None:
    rng = stream(5, "grouped")
    sampler = filled([0, 0, 1], [1.0, 0.0, 0.0], 3)
    for need in ([0, 0, 0], [0, 1, 1], [-1, -1, -1]):
        sampled = sampler.sample(10, rng, np.array(need))
        np.testing.assert_array_equal(sampled.slots, 0)
        np.testing.assert_array_equal(sampled.probabilities, 1.0)
    sampler.set_priorities(np.array([0]), np.array([0.0]))
    with pytest.warns(NeedReplayWarning, match="Every priority"):
        sampled = sampler.sample(3000, rng, np.array([1, 2, 3]))
    np.testing.assert_allclose(sampled.probabilities, 1 / 3)
    assert chisquare(np.bincount(sampled.slots)).pvalue > 0.01
    assert sampler.fallbacks == (0, 30, 3000, 0)


def test_a_slot_without_a_state_has_no_need_until_it_is_set() -> None:
    rng = stream(6, "grouped")
    sampler = StateNeedSampler(2, alpha=1.0, need_alpha=1.0)
    sampler.allocate(3)
    sampler.set_priorities(np.array([0, 1]), np.array([1.0, 3.0]))
    np.testing.assert_allclose(sampler.probabilities(np.ones(2)), [0.25, 0.75, 0.0])
    sampler.set_state(np.array([0]), np.array([1]))
    np.testing.assert_allclose(sampler.probabilities(np.ones(2)), [1.0, 0.0, 0.0])
    sampler.set_state(np.array([1]), np.array([1]))
    np.testing.assert_allclose(sampler.probabilities(np.ones(2)), [0.25, 0.75, 0.0])
    sampler.place(np.array([0]), np.array([-1]))
    np.testing.assert_allclose(sampler.probabilities(np.ones(2)), [0.0, 1.0, 0.0])
    assert set(sampler.sample(20, rng, np.ones(2)).slots) == {1}


def test_a_diverged_row_neither_overflows_nor_vanishes() -> None:
    sampler = filled([0, 1], [9.0, 9.0], 2, need_alpha=1.0)
    for scale in (1e-100, 1.0, 1e100):
        np.testing.assert_allclose(
            sampler.probabilities(np.array([1.0, 0.5]) * scale), [2 / 3, 1 / 3]
        )


def test_what_is_rejected() -> None:
    rng = stream(7, "grouped")
    sampler = StateNeedSampler(2)
    sampler.allocate(2)
    with pytest.raises(NeedReplayError, match="empty"):
        sampler.sample(1, rng, np.ones(2))
    sampler.set_priorities(np.array([0]), np.ones(1))
    with pytest.raises(NeedReplayError, match="need is missing"):
        sampler.sample(1, rng)
    with pytest.raises(NeedReplayError, match="shape"):
        sampler.sample(1, rng, np.ones(3))
    with pytest.raises(NeedReplayError, match="NaN"):
        sampler.sample(1, rng, np.array([1.0, np.nan]))
    with pytest.raises(NeedReplayError, match="2 states"):
        sampler.set_state(np.array([0]), np.array([2]))
    with pytest.raises(NeedReplayError, match="alpha"):
        StateNeedSampler(2, alpha=-1.0)
    with pytest.raises(NeedReplayError, match="n_states"):
        StateNeedSampler(0)


@settings(max_examples=60, deadline=None)
@given(capacity=st.integers(1, 70), n_states=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_any_sequence_of_changes_keeps_the_trees_valid(
    capacity: int, n_states: int, seed: int
) -> None:
    rng = stream(seed, "grouped")
    sampler = StateNeedSampler(n_states, need_alpha=0.6)
    sampler.allocate(capacity)
    state = np.full(capacity, -1)
    priorities = np.zeros(capacity)
    occupied = np.zeros(capacity, dtype=bool)
    for _ in range(12):
        slots = rng.permutation(capacity)[: rng.integers(1, capacity + 1)]
        kind = rng.integers(4)
        if kind == 0:
            priorities[slots] = rng.random(len(slots)) * (rng.random(len(slots)) < 0.7)
            occupied[slots] = True
            sampler.set_priorities(slots, priorities[slots])
        elif kind == 1:
            state[slots] = rng.integers(0, n_states, len(slots))
            sampler.set_state(slots, state[slots])
        elif kind == 2:
            state[slots[:2]] = -1
            sampler.place(slots[:2], slots[:2])
        else:
            state[slots[:2]], priorities[slots[:2]], occupied[slots[:2]] = -1, 0.0, False
            sampler.clear(slots[:2])
        sampler.check_valid()
        need = rng.random(n_states)
        scores = np.where(occupied & (state >= 0), priorities**0.6 * need[state] ** 0.6, 0.0)
        if scores.sum() > 0:
            expected = scores / scores.sum()
            np.testing.assert_allclose(sampler.probabilities(need), expected, rtol=1e-12)
            sampled = sampler.sample(20, rng, need)
            assert (scores[sampled.slots] > 0).all()
