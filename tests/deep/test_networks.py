"""Layers: the sizes of the released networks, and TensorFlow's 'same' padding."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from needlab.deep.networks import (
    Branches,
    QNetwork,
    SameConv,
    SameDeconv,
    SuccessorNetwork,
    decoder,
)
from needlab.deep.presets import deep_preset

N_ACTIONS = 6


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def released() -> SuccessorNetwork:
    settings = deep_preset("released", "nature", "per-sr")
    return SuccessorNetwork(settings, (4, 84, 84), N_ACTIONS, 512)


def test_the_nature_network_has_its_published_size() -> None:
    # 32 8x8 of 4, 64 4x4 of 32, 64 3x3 of 64, 3136 to 512, 512 to 6, each with its biases.
    convolutions = 8 * 8 * 4 * 32 + 32 + 4 * 4 * 32 * 64 + 64 + 3 * 3 * 64 * 64 + 64
    assert count(QNetwork("nature", (4, 84, 84), N_ACTIONS)) == (
        convolutions + 3136 * 512 + 512 + 512 * N_ACTIONS + N_ACTIONS
    )


def test_the_released_successor_network_has_its_size() -> None:
    network = released()
    assert network.encoder is not None
    assert network.decoder is not None
    f = 8 * 8 * 4 * 32 + 32 + 6 * 6 * 32 * 64 + 64 + 3 * 3 * 64 * 64 + 64 + 7 * 7 * 64 * 512 + 512
    g_dense = 512 * 196 + 196
    g_deconvolutions = 3 * 3 * 4 * 64 + 64 + 6 * 6 * 64 * 64 + 64 + 8 * 8 * 64 * 32 + 32
    g_convolution = 4 * 4 * 32 * 4 + 4
    u = 512 * 512 + 512 + 512 * 256 + 256 + 256 * 512 + 512
    assert count(network.encoder) == f == 1_725_088
    assert count(network.decoder) == g_dense + g_deconvolutions + g_convolution == 383_592
    assert count(network.branches) == N_ACTIONS * u == N_ACTIONS * 525_568


def test_the_decoder_gives_back_what_the_encoder_saw() -> None:
    network = released()
    assert network.decoder is not None
    obs = torch.zeros(2, 4, 84, 84, dtype=torch.uint8)
    features = network.features(obs)
    assert features.shape == (2, 512)
    assert network.decoder(features).shape == obs.shape
    small = decoder("nature", (4, 84, 84), 512, small=True)
    assert small(features).shape == obs.shape
    assert count(small) < count(network.decoder) / 3


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "before", "rows"),
    [(84, 8, 4, 2, 21), (21, 6, 3, 1, 7), (7, 3, 1, 1, 7), (84, 4, 1, 1, 84)],
)
def test_same_padding_is_tensorflows(
    size: int, kernel: int, stride: int, before: int, rows: int
) -> None:
    """The odd cell of padding is after the image: a kernel of ones counts what it covers."""
    layer = SameConv(1, 1, kernel, stride)
    nn.init.ones_(layer.convolution.weight)
    nn.init.zeros_(layer.convolution.bias)  # type: ignore[arg-type]
    with torch.no_grad():
        out = layer(torch.ones(1, 1, size, size))[0, 0]
    assert out.shape == (rows, rows)
    after = (rows - 1) * stride + kernel - size - before
    assert out[0, rows // 2] == (kernel - before) * kernel
    assert out[-1, rows // 2] == (kernel - after) * kernel


@pytest.mark.parametrize(("size", "kernel", "stride"), [(7, 3, 1), (7, 6, 3), (21, 8, 4)])
def test_a_same_deconvolution_is_the_transpose_of_the_convolution(
    size: int, kernel: int, stride: int
) -> None:
    """⟨conv(x), y⟩ = ⟨x, deconv(y)⟩ for every x and y, where both have the same kernel."""
    torch.manual_seed(0)
    forth, back = SameConv(2, 3, kernel, stride), SameDeconv(3, 2, kernel, stride)
    back.convolution.weight = forth.convolution.weight
    for layer in (forth, back):
        nn.init.zeros_(layer.convolution.bias)  # type: ignore[arg-type]
    x, y = torch.randn(1, 2, size * stride, size * stride), torch.randn(1, 3, size, size)
    with torch.no_grad():
        assert torch.allclose((forth(x) * y).sum(), (x * back(y)).sum(), rtol=1e-4)


def test_each_action_has_a_branch_of_its_own() -> None:
    branches = Branches(3, 4, 8, nonnegative=False)
    features, pull = torch.randn(5, 4), torch.randn(5, 4)
    action = torch.tensor([0, 1, 0, 1, 0])
    parameters = list(branches.parameters())
    together = branches(features, action)
    rows = []
    for row, branch in enumerate(action.tolist()):
        x = features[row]
        for layer, (weight, bias) in enumerate(zip(branches.weights, branches.biases, strict=True)):
            x = x @ weight[branch] + bias[branch, 0]
            x = torch.relu(x) if layer < 2 else x
        rows.append(x)
    assert torch.allclose(together, torch.stack(rows), atol=1e-6)
    found, expected = (
        torch.autograd.grad(out, parameters, pull) for out in (together, torch.stack(rows))
    )
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
        assert one[1].any()
        assert not one[2].any(), "no row is in the last branch"


@pytest.mark.parametrize("network", ["vector", "minatar", "nature"])
def test_nonnegative_features_and_successors_are_not_negative(network: str) -> None:
    shape = {"vector": (5,), "minatar": (4, 10, 10), "nature": (4, 84, 84)}[network]
    settings = deep_preset("corrected", network, "per-sr", features=16)  # type: ignore[arg-type]
    made = SuccessorNetwork(settings, shape, 2, 128)
    with torch.no_grad():
        features = made.features(torch.randint(0, 2, (7, *shape)))
        successor = made.successor(features, torch.zeros(7, dtype=torch.int64))
    assert (features >= 0.0).all()
    assert (features > 0.0).any()
    assert (successor >= 0.0).all()


def test_pixels_are_seen_from_0_to_1() -> None:
    network = QNetwork("nature", (4, 84, 84), 2)
    obs = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8)
    with torch.no_grad():
        assert torch.allclose(network.hidden(obs), network.body(obs.float() / 255.0))
