"""Numbers worked out by hand, and the definitions they shorten."""

from __future__ import annotations

import pytest

from needreplay.rules import priority as rules
from needreplay.rules.returns import discounted


def test_priority_is_the_product() -> None:
    assert rules.priority(0.5, 3.0) == 1.5


@pytest.mark.parametrize(
    ("value", "exponent", "expected"),
    [(4.0, 0.5, 2.0), (4.0, 1.0, 4.0), (4.0, 0.0, 1.0), (0.0, 0.5, 0.0), (0.0, 0.0, 1.0)],
)
def test_shaped(value: float, exponent: float, expected: float) -> None:
    assert rules.shaped(value, exponent) == expected


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


def test_rank_mass() -> None:
    assert rules.rank_mass(1, 0.7) == 1.0
    assert rules.rank_mass(4, 0.5) == 0.5


def test_sequence_gain_falls_by_a_share_only() -> None:
    assert rules.sequence_gain(0.1, 1.0, 0.7) == 0.7
    assert rules.sequence_gain(0.9, 1.0, 0.7) == 0.9


def test_decayed_back() -> None:
    assert rules.decayed_back(2.0, 0.5, 3) == 0.25


def test_discounted_from_the_end() -> None:
    total = 0.0
    for reward in (4.0, 2.0, 1.0):
        total = discounted(reward, 0.5, total)
    assert total == 1.0 + 0.5 * 2.0 + 0.25 * 4.0
