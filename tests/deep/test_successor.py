"""Successor losses by hand, and need against the occupancy that can be computed exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn, tensor

from needlab.deep.dqn import to_transitions
from needlab.deep.networks import QNetwork, SuccessorNetwork
from needlab.deep.optimizers import make_optimizer
from needlab.deep.presets import deep_preset
from needlab.deep.successor import PaperNeed, decoder_loss, successor_loss, successor_target
from needreplay._core.types import FloatArray

from .chains import DISCOUNT, Chain, ergodic_chain
from .walks import small_agent

N_INPUTS = 64


def learner(**overrides: Any) -> tuple[PaperNeed, torch.optim.Optimizer]:
    torch.manual_seed(0)
    settings = deep_preset(
        "corrected",
        "vector",
        "per-sr",
        **{"discount": DISCOUNT, "features": N_INPUTS, "learning_rate": 3e-3, **overrides},
    )
    q = QNetwork("vector", (N_INPUTS,), 2)
    network = SuccessorNetwork(settings, (N_INPUTS,), 2, q.n_hidden)
    with torch.no_grad():  # a greedy action of the chain's one kind: 0
        q.head.weight.zero_()
        q.head.bias.copy_(tensor([1.0, 0.0]))
    optimizer = make_optimizer(settings, q.parameters())
    return PaperNeed(settings, network, q, optimizer), optimizer


def learn(made: PaperNeed, optimizer: torch.optim.Optimizer, chain: Chain, updates: int) -> None:
    for update in range(updates):
        optimizer.zero_grad()
        loss = made.loss(chain.batch)
        assert loss is not None
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if made.has_target and update % 20 == 0:
            made.update_target()
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1.0 - update / updates)


def need_matrix(made: PaperNeed, chain: Chain) -> FloatArray:
    obs = chain.obs.numpy()
    return made.needs_of(obs, {"obs": obs, "action": np.zeros(len(obs), np.int64)})


@pytest.fixture(scope="module")
def identity() -> tuple[PaperNeed, Chain]:
    chain = ergodic_chain(6, N_INPUTS)
    made, optimizer = learner(decoder="none")
    made.online.encoder = nn.Identity()
    made.target.encoder = nn.Identity()
    learn(made, optimizer, chain, 1_500)
    return made, chain


def test_with_features_fixed_to_the_identity_need_is_the_occupancy(
    identity: tuple[PaperNeed, Chain],
) -> None:
    """Entries of M are up to 4; each is found to within 0.05."""
    made, chain = identity
    made.settings = replace(made.settings, direction="forward")
    assert np.abs(need_matrix(made, chain) - chain.M).max() < 0.05


def test_backward_need_is_a_column_of_the_occupancy(
    identity: tuple[PaperNeed, Chain],
) -> None:
    made, chain = identity
    made.settings = replace(made.settings, direction="backward")
    assert np.abs(need_matrix(made, chain) - chain.M.T).max() < 0.05


def test_with_learned_features_need_is_the_occupancy_seen_through_their_overlap() -> None:
    """M Φ Φᵀ / |φ|², to within 3% of its largest entry, with the features as learned."""
    chain = ergodic_chain(6, N_INPUTS)
    made, optimizer = learner()
    learn(made, optimizer, chain, 1_000)
    assert made.online.encoder is not None
    made.online.encoder.requires_grad_(False)
    made.online.decoder = made.target.decoder = None
    learn(made, optimizer, chain, 1_500)
    with torch.no_grad():
        Phi = made.features(chain.obs).double().numpy()
    exact = chain.M @ Phi @ Phi.T / (Phi**2).sum(1)
    assert np.abs(need_matrix(made, chain) - exact).max() < 0.03 * exact.max()


def test_the_decoder_learns_to_see_the_observations() -> None:
    chain = ergodic_chain(6, N_INPUTS)
    made, optimizer = learner()
    learn(made, optimizer, chain, 1_000)
    assert made.online.decoder is not None
    with torch.no_grad():
        decoded = made.online.decoder(made.features(chain.obs))
    assert (decoded - chain.obs).abs().max() < 0.1


def test_decoder_losses_by_hand() -> None:
    decoded, obs = tensor([[0.0, 1.0], [0.5, 0.5]]), tensor([[1.0, 1.0], [0.5, 0.0]])
    assert decoder_loss(decoded, obs, "squared").item() == pytest.approx((1.0 + 0.25) / 2)
    # On pixels: errors of 255 and 127.5, Huber 254.5 and 127, and two zeros.
    assert decoder_loss(decoded, obs, "huber").item() == pytest.approx((254.5 + 127.0) / 4)


@pytest.mark.parametrize(
    ("terminal", "ended_row"),
    [
        ("masked", [1.0, 2.0]),
        ("last", [1.0 + 0.9 * 3.0, 2.0]),
        ("unmasked", [1.0 + 0.9 * 10.0, 2.0]),
    ],
)
def test_the_successor_target_at_a_terminal(terminal: str, ended_row: list[float]) -> None:
    features = tensor([[1.0, 2.0], [1.0, 2.0]])
    next_features = tensor([[3.0, 0.0], [3.0, 0.0]])
    next_successor = tensor([[10.0, 0.0], [10.0, 0.0]])
    discount = tensor([0.9, 0.0])
    target = successor_target(
        features,
        next_features,
        next_successor,
        discount,
        0.9,
        terminal,  # type: ignore[arg-type]
    )
    assert target[0].tolist() == pytest.approx([10.0, 2.0])
    assert target[1].tolist() == pytest.approx(ended_row)


@pytest.mark.parametrize("terminal", ["last", "unmasked"])
def test_n_step_successors_at_a_terminal_by_hand(terminal: str) -> None:
    """Two episodes of 4 and 2 steps with n = 3 and γ = 0.5, across the end of the ring."""
    agent = small_agent("printed", n_step=3, discount=0.5, successor_terminal=terminal, capacity=5)
    for t, ends in enumerate((False, False, False, True, False, True)):
        obs = np.full(5, 0.1 * t, np.float32)
        agent.observe(obs, 0, 0.0, obs, ends, False)
    batch = agent.replay.sample(64)
    found = to_transitions(batch, agent.buffer, agent.settings, agent.device)
    assert found.power is not None
    # Ids 1 to 3 are 3, 2, 1 steps from the first end, ids 4 and 5 are 2 and 1 from the second.
    powers = {1: 0.125, 2: 0.25, 3: 0.5, 4: 0.25, 5: 0.5}
    assert {int(i): float(p) for i, p in zip(batch.ids, found.power, strict=True)} == powers
    assert not found.discount.any()
    ones, twos, threes = (torch.full((64, 1), x) for x in (1.0, 2.0, 3.0))
    target = successor_target(ones, twos, threes, found.discount, found.power, terminal)  # type: ignore[arg-type]
    following = 2.0 if terminal == "last" else 3.0
    assert target[:, 0].tolist() == [1.0 + powers[int(i)] * following for i in batch.ids]


def test_successor_loss_by_hand() -> None:
    predicted, target = torch.zeros(2, 2), tensor([[1.0, 1.0], [2.0, 0.0]])
    assert successor_loss(predicted, target, "sum").item() == 3.0
    assert successor_loss(predicted, target, "mean").item() == 1.5
