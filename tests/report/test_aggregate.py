"""Aggregates, profiles and comparisons: worked by hand, and frozen from rliable's definitions."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from needlab.report import aggregate, comparison, page
from needlab.report.aggregate import (
    AGGREGATES,
    aggregate_interval,
    geometric_ratio,
    holm,
    improvement_probability,
    interquartile_mean,
    mean,
    median,
    optimality_gap,
    paired_test,
    performance_profile,
    stratified_difference,
)
from needlab.report.statistics import student_interval
from needreplay._core.errors import NeedReplayError

FIRST = np.random.default_rng(7).normal(0.5, 0.4, (4, 5))
SECOND = np.random.default_rng(8).normal(0.6, 0.4, (4, 5))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("module", [aggregate, comparison, page])
def test_examples_in_the_documentation(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


def test_aggregates_by_hand() -> None:
    tasks = [[0.0, 2.0, 4.0, 10.0], [0.5, 0.5, 1.5, 1.5], [1.0, 1.0, 1.0, 1.0]]
    estimates = {
        name: aggregate_interval(tasks, of, rng()).estimate for name, of in AGGREGATES.items()
    }
    # Of 12 sorted scores the middle six: 1, 1, 1, 1, 1.5, 1.5.
    assert estimates["interquartile mean"] == pytest.approx(7 / 6)
    # The tasks' means are 4, 1, 1.
    assert estimates["median"] == 1.0
    assert estimates["mean"] == 2.0
    # Cut at 1: means 0.75, 0.75, 1.
    assert estimates["optimality gap"] == pytest.approx(1 - 2.5 / 3)


def test_frozen_numbers_of_rliables_definitions() -> None:
    """scipy's trim_mean(0.25, axis=None), the median of task means, γ - mean(min(s, γ)), U / nm."""
    found = [float(of([row[np.newaxis] for row in FIRST])[0]) for of in AGGREGATES.values()]
    assert found == pytest.approx(FROZEN["aggregates"], abs=1e-12)
    probability = improvement_probability(list(FIRST), list(SECOND), rng()).estimate
    assert probability == pytest.approx(FROZEN["improvement"], abs=1e-12)
    profile = performance_profile(list(FIRST), [0.0, 0.5, 1.0], rng()).estimate
    assert profile.tolist() == pytest.approx(FROZEN["profile"], abs=1e-12)


FROZEN = {
    "aggregates": [0.3779135409514737, 0.4190642434543591, 0.37343483866155647, 0.6283694662495342],
    "improvement": 0.39,
    "profile": [0.85, 0.4, 0.05],
}


def test_intervals_are_stratified_by_task() -> None:
    """Tasks that differ by much, runs that do not: drawing across tasks would give a wide one."""
    tasks = [[0.0, 0.0, 0.0], [100.0, 100.0, 100.0], [5.0, 6.0, 7.0]]
    found = aggregate_interval(tasks, mean, rng())
    assert 35.0 <= found.low < found.estimate < found.high <= 35.7


def test_the_interval_of_a_mean_is_the_textbooks() -> None:
    """Of many runs the bootstrap has the spread σ / √n of the mean, averaged over tasks."""
    tasks = np.random.default_rng(1).normal(0.0, 1.0, (4, 100))
    found = aggregate_interval(list(tasks), mean, rng())
    spread = np.sqrt((tasks.var(axis=1) / 100).sum()) / 4
    assert found.high - found.low == pytest.approx(2 * 1.96 * spread, rel=0.06)


def test_the_same_seed_gives_the_same_interval() -> None:
    one, two, other = (
        aggregate_interval(list(FIRST), interquartile_mean, np.random.default_rng(seed))
        for seed in (0, 0, 1)
    )
    assert one == two
    assert one != other


def test_too_few_runs_have_no_interval() -> None:
    for found in (
        aggregate_interval([[1.0, 2.0, 3.0], [1.0, 2.0]], median, rng()),
        improvement_probability([[1.0, 2.0]], [[1.0, 2.0, 3.0]], rng()),
        performance_profile([[1.0, 2.0]], [1.5], rng())[0],
        geometric_ratio([[1.0, 2.0]], [[1.0, 2.0, 3.0]], rng()),
        stratified_difference([[1.0, 2.0], [1.0]], [[1.0, 2.0], [2.0]]).interval,
    ):
        assert (found.low, found.high) == (-np.inf, np.inf)
        assert np.isfinite(found.estimate)


@pytest.mark.parametrize("scores", [[], [[]], [[1.0, float("nan")]], [[[1.0]]]])
def test_scores_that_are_none_raise(scores: list[list[float]]) -> None:
    with pytest.raises(NeedReplayError, match="scores"):
        aggregate_interval(scores, optimality_gap, rng())


def test_other_tasks_are_not_compared() -> None:
    with pytest.raises(NeedReplayError, match="same tasks"):
        improvement_probability([[1.0]], [[1.0], [2.0]], rng())
    with pytest.raises(NeedReplayError, match="same tasks"):
        geometric_ratio([[1.0]], [[1.0], [2.0]], rng())
    with pytest.raises(NeedReplayError, match="positive"):
        geometric_ratio([[1.0]], [[0.0]], rng())
    with pytest.raises(NeedReplayError, match="paired"):
        stratified_difference([[1.0, 2.0]], [[1.0]])


def test_the_ratio_of_two_agents_by_hand() -> None:
    """The mean of three draws from 1, 1, 4 is 1, 2, 3 or 4 in 8, 12, 6 and 1 of 27 cases.

    1 / 27 is above 2.5%, so the ends for the first task are 1 and 4. The second task's ratio
    is 1 in every draw: the geometric mean takes the root.
    """
    found = geometric_ratio([[1.0, 1.0, 4.0], [5.0] * 3], [[1.0] * 3, [5.0] * 3], rng())
    assert found.estimate == pytest.approx(2.0**0.5)
    assert (found.low, found.high) == pytest.approx((1.0, 2.0))
    # Doubling one agent's scores in a task of two multiplies all three numbers by the root of 2.
    twice = geometric_ratio([[1.0, 1.0, 4.0], [10.0] * 3], [[1.0] * 3, [5.0] * 3], rng())
    assert (twice.low, twice.high) == pytest.approx((2.0**0.5, 8.0**0.5))


def test_the_ratio_of_paired_runs_has_no_spread_where_every_pair_has_the_same() -> None:
    found = geometric_ratio([[1.0, 1.0, 4.0]] * 2, [[2.0, 2.0, 8.0]] * 2, rng(), paired=True)
    assert (found.estimate, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    with pytest.raises(NeedReplayError, match="paired"):
        geometric_ratio([[1.0, 2.0]], [[1.0]], rng(), paired=True)


def test_the_mean_over_tasks_has_students_interval() -> None:
    """By hand: a - b is 1, 3 in one task and 0, 4 in the other; v = s² / n is 1 and 4."""
    one = stratified_difference([np.array([1.0, 3.0])], [np.zeros(2)])
    assert one.interval == student_interval([1.0, 3.0])
    assert one.interval.high == pytest.approx(2.0 + 12.7062, abs=1e-4)
    both = stratified_difference(
        [np.array([1.0, 5.0]), np.array([0.0, 4.0])], [np.array([0.0, 2.0]), np.zeros(2)]
    )
    half = t.ppf(0.975, 25 / 17) * np.sqrt(5.0) / 2.0
    assert both.interval.estimate == 2.0
    assert both.interval.high == pytest.approx(2.0 + half)
    assert both.interval.low == pytest.approx(2.0 - half)
    assert both.visible == pytest.approx(half + t.ppf(0.9, 25 / 17) * np.sqrt(5.0) / 2.0)


def test_too_few_seeds_and_equal_seeds() -> None:
    alone = stratified_difference([np.array([1.0])], [np.array([0.5])])
    assert (alone.interval.estimate, alone.interval.high, alone.visible) == (0.5, np.inf, np.inf)
    equal = stratified_difference([np.full(3, 1.0)], [np.full(3, 0.5)])
    assert (equal.interval.low, equal.interval.high, equal.visible) == (0.5, 0.5, 0.0)


def test_a_visible_difference_is_seen_in_nine_of_ten_cases() -> None:
    """Three tasks of ten seeds with variance 1: the interval holds the mean, and leaves out 0."""
    rng = np.random.default_rng(0)
    spread = np.arange(10.0) / np.arange(10.0).std(ddof=1)
    true = stratified_difference([spread] * 3, [np.zeros(10)] * 3).visible
    found = [
        stratified_difference(list(rng.normal(true, 1.0, (3, 10))), [np.zeros(10)] * 3).interval
        for _ in range(2_000)
    ]
    assert np.mean([one.low > 0.0 for one in found]) == pytest.approx(0.9, abs=0.025)
    inside = [one.low <= true <= one.high for one in found]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=12), st.lists(st.floats(-3, 3), max_size=6))
def test_a_profile_counts_runs_above(runs: list[float], marks: list[float]) -> None:
    marks = sorted(marks)
    band = performance_profile([runs], marks, rng())
    assert band.estimate.tolist() == pytest.approx(
        [sum(run > mark for run in runs) / len(runs) for mark in marks]
    )


def test_a_profiles_band_is_a_proportions() -> None:
    runs = np.linspace(0, 1, 100)
    band = performance_profile([runs], [0.5], rng())
    assert band.high[0] - band.low[0] == pytest.approx(2 * 1.96 * 0.05, abs=0.025)
    with pytest.raises(NeedReplayError, match="thresholds"):
        performance_profile([runs], [1.0, 0.5], rng())


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=6),
    st.lists(st.integers(0, 3), min_size=1, max_size=6),
)
def test_improvement_is_antisymmetric(first: list[int], second: list[int]) -> None:
    there = improvement_probability([first], [second], rng()).estimate
    back = improvement_probability([second], [first], rng()).estimate
    assert there + back == pytest.approx(1.0)


def test_paired_tests_by_hand() -> None:
    a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    b = [0.9, 1.8, 2.7, 3.6, 4.5, 5.4]
    found = paired_test(a, b, rng())
    # All six differences have one sign: 2 of 2^6 assignments of signs are as extreme.
    assert found.p_value == pytest.approx(2 / 64)
    assert found.difference.estimate == pytest.approx(0.35)
    assert 0.1 < found.difference.low < found.difference.high < 0.6
    assert paired_test(a, a, rng()).p_value == 1.0


def test_holms_adjustment_never_falls() -> None:
    assert holm([0.001, 0.5, 0.001, 0.9]) == pytest.approx([0.004, 1.0, 0.004, 1.0])
    assert holm([]) == []


def test_human_scores() -> None:
    assert len(comparison.human_scores()) == 57
    # Pong: random -20.7, human 14.6.
    found = comparison.human_normalized("atari/Pong", np.array([-20.7, 14.6, 21.0]))
    assert found.tolist() == pytest.approx([0.0, 1.0, 41.7 / 35.3])
    assert comparison.has_human_score("atari/BattleZone")
    assert not comparison.has_human_score("atari/Pooyan")
    assert not comparison.has_human_score("minatar/breakout")
