"""Numbers worked out by hand, and the definitions they shorten."""

from __future__ import annotations

import pytest

from needreplay import equations as rules
from needreplay.equations import discounted


@pytest.mark.parametrize(
    ("value", "exponent", "expected"),
    [(4.0, 0.5, 2.0), (4.0, 1.0, 4.0), (4.0, 0.0, 1.0), (0.0, 0.5, 0.0), (0.0, 0.0, 1.0)],
)
def test_power(value: float, exponent: float, expected: float) -> None:
    assert rules.power(value, exponent) == expected


def test_importance_weight_is_the_definition_divided_by_its_maximum() -> None:
    probabilities, n, beta = [0.5, 0.3, 0.2], 3, 0.4
    by_definition = [(n * p) ** -beta for p in probabilities]
    for p, weight in zip(probabilities, by_definition, strict=True):
        expected = weight / max(by_definition)
        assert rules.importance_weight(p, 0.2, beta) == pytest.approx(expected, rel=1e-14)


def test_importance_weight_by_hand() -> None:
    assert rules.importance_weight(0.4, 0.1, 0.5) == 0.5
    assert rules.importance_weight(0.4, 0.1, 0.0) == 1.0


@pytest.mark.parametrize(
    ("done", "expected"), [(0.0, 0.4), (0.5, 0.7), (1.0, 1.0), (2.0, 1.0), (-1.0, 0.4)]
)
def test_annealed(done: float, expected: float) -> None:
    assert rules.annealed(0.4, 1.0, done) == pytest.approx(expected)


def test_rank_priority() -> None:
    assert rules.rank_priority(1, 0.7) == 1.0
    assert rules.rank_priority(4, 0.5) == 0.5


def test_pser_priority_falls_by_a_share_only() -> None:
    assert rules.pser_priority(0.1, 1.0, 0.7) == 0.7
    assert rules.pser_priority(0.9, 1.0, 0.7) == 0.9


def test_pser_decayed() -> None:
    assert rules.pser_decayed(2.0, 0.5, 3) == 0.25


def test_mixed_probability_sums_to_1() -> None:
    mixed = [rules.mixed_probability(p, 0.2, 4) for p in (0.5, 0.5, 0.0, 0.0)]
    assert mixed == pytest.approx([0.45, 0.45, 0.05, 0.05], rel=1e-15)


def test_discounted_from_the_end() -> None:
    total = 0.0
    for reward in (4.0, 2.0, 1.0):
        total = discounted(reward, 0.5, total)
    assert total == 1.0 + 0.5 * 2.0 + 0.25 * 4.0
