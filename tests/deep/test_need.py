"""Need from features, negatives and scale, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import tensor

from needlab.deep.need import need_stats, projected, remove_negatives, rescale, similarity


def test_projection_by_hand() -> None:
    m = tensor([[2.0, 1.0, 0.0]])
    features = tensor([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    # 2/1, 4/4, 3/3, and no need where there are no features.
    assert torch.allclose(projected(features) @ m[0], tensor([2.0, 1.0, 1.0, 0.0]))


def test_on_orthogonal_features_the_projection_is_the_occupancy() -> None:
    occupancy = torch.rand(4, 4, generator=torch.Generator().manual_seed(0))
    features = torch.diag(tensor([1.0, 2.0, 3.0, 4.0]))
    for row in occupancy:
        assert torch.allclose(projected(features) @ (row @ features), row)


def test_features_of_zero_pass_no_gradient_that_is_not_a_number() -> None:
    features = torch.zeros(1, 3, requires_grad=True)
    projected(features).sum().backward()  # type: ignore[no-untyped-call]
    assert features.grad is not None
    assert torch.isfinite(features.grad).all()


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("offset", [0.0, 2.0, 5.0]),
        ("fallback", [1.0, 1.0, 1.0]),
        ("clip", [0.0, 0.0, 3.0]),
    ],
)
def test_each_way_with_negative_need(how: str, expected: list[float]) -> None:
    need = tensor([-2.0, 0.0, 3.0])
    assert remove_negatives(need, how).tolist() == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["offset", "fallback", "clip"])
def test_need_remove_negatives_stays_as_it_is(how: str) -> None:
    need = tensor([0.5, 0.0, 3.0])
    assert torch.equal(remove_negatives(need, how), need)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("how", "expected"),
    [("raw", [1.0, 2.0, 6.0]), ("mean", [1 / 3, 2 / 3, 2.0]), ("max", [1 / 6, 1 / 3, 1.0])],
)
def test_each_scale(how: str, expected: list[float]) -> None:
    assert rescale(tensor([1.0, 2.0, 6.0]), how).tolist() == pytest.approx(expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["mean", "max"])
def test_a_batch_without_need_is_replayed_as_it_is(how: str) -> None:
    assert rescale(torch.zeros(3), how).tolist() == [1.0, 1.0, 1.0]  # type: ignore[arg-type]


def test_stats_by_hand() -> None:
    stats = need_stats(np.array([-1.0, 1.0, 3.0, 5.0], np.float32), np.eye(4, dtype=np.float32))
    assert stats.mean == 2.0
    assert stats.variation == pytest.approx(5.0**0.5 / 2.0)
    assert stats.negative == 0.25


def test_need_that_is_nothing_does_not_vary() -> None:
    assert need_stats(np.zeros(4), np.zeros((4, 2))).variation == 0.0


def test_similarity_is_the_mean_cosine_of_two_transitions() -> None:
    assert similarity(np.eye(3)) == pytest.approx(0.0, abs=1e-7)
    assert similarity(np.array([[1.0, 0.0], [5.0, 0.0]])) == pytest.approx(1.0)
    # Pairs: cos 0, cos 45 degrees, cos 45 degrees.
    three = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    assert similarity(three) == pytest.approx(2 * 0.5**0.5 / 3)
    assert similarity(np.ones((1, 2))) == pytest.approx(0.0, abs=1e-7)


def test_features_that_are_all_0_are_like_no_others() -> None:
    # Of three pairs only one is of two states with features, and those look alike.
    assert similarity(np.array([[2.0, 1.0], [0.0, 0.0], [4.0, 2.0]])) == pytest.approx(1 / 3)
