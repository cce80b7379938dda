"""Observations as the networks get them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from needreplay.deep.networks import QNetwork, scaled
from needreplay.deep.tensors import observed

CPU = torch.device("cpu")


@pytest.mark.parametrize("n_channels", [2, 3, 4, 5])
def test_large_images_come_as_pixels_from_0_to_1_with_channels_last(n_channels: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, n_channels, 40, 36), dtype=np.uint8)
    seen = observed(images, CPU)
    assert torch.equal(seen, torch.from_numpy(images).float() / 255.0)
    assert seen.is_contiguous(memory_format=torch.channels_last)


def test_the_network_sees_the_same_in_both_forms() -> None:
    images = np.random.default_rng(1).integers(0, 256, (2, 4, 84, 84), dtype=np.uint8)
    network = QNetwork("nature", (4, 84, 84), 3)
    with torch.no_grad():
        as_stored, as_observed = network(torch.from_numpy(images)), network(observed(images, CPU))
    assert torch.allclose(as_stored, as_observed, atol=1e-5)
    assert as_stored.abs().max() > 1e-3


@pytest.mark.parametrize(
    "obs",
    [
        np.ones((2, 4, 10, 10), dtype=np.uint8),
        np.ones((2, 4, 84, 84), dtype=np.float32),
        np.ones((2, 8), dtype=np.float32),
    ],
)
def test_everything_else_shares_the_memory_it_is_stored_in(obs: np.ndarray) -> None:
    seen = observed(obs, CPU)
    obs[0] = 0
    assert seen[0].abs().max() == 0


def test_floats_are_taken_as_they_are() -> None:
    assert scaled(torch.tensor([0.5], dtype=torch.float64), 255.0).tolist() == [0.5]
    assert scaled(torch.tensor([51], dtype=torch.uint8), 255.0).item() == pytest.approx(0.2)
