"""The released graph, pinned: for each loss, which parameters get a gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from needreplay.deep import DeepAgent
from needreplay.deep.losses import Losses, decoder_loss, q_loss
from needreplay.deep.need import rescaled, without_negatives
from needreplay.deep.networks import scaled
from needreplay.deep.successor_learner import SuccessorLearner
from needreplay.deep.tensors import Transitions, transitions

from .walks import small_agent, taught

PARTS = ("q", "f", "u", "g")
RELEASED = {"q": "qfu", "l_u": "fu", "l_g": "fg"}
"""Q-loss: through need also f and u. l_u: no stop-gradient, so f too. l_g: f and g."""
APART = {"q": "q", "l_u": "u", "l_g": "fg"}
"""As printed (completed from DSR) and corrected: l_u moves u alone, the Q-loss Q alone."""


def moved(agent: DeepAgent, made: Losses) -> str:
    """Which parts of the networks get a gradient that is not 0."""
    agent.optimizer.zero_grad()
    made.backward()
    assert agent.successor is not None
    network = agent.successor.online
    modules = dict(
        zip(
            PARTS, (agent.q.online, network.encoder, network.branches, network.decoder), strict=True
        )
    )
    return "".join(
        name
        for name, module in modules.items()
        if module is not None
        and any(p.grad is not None and bool(p.grad.any()) for p in module.parameters())
    )


def losses(agent: DeepAgent) -> tuple[SuccessorLearner, Transitions, dict[str, Losses]]:
    taught(agent, 12)
    successor, settings = agent.successor, agent.settings
    assert successor is not None
    asked_from = agent._asked_from(np.full(5, 0.3, np.float32))
    now = agent.algorithm.present(successor, asked_from, agent.q.seen(asked_from.obs))
    batch = transitions(agent.replay.sample(8), agent.device)
    features = successor.features(batch.obs)
    with torch.set_grad_enabled(settings.need_moves_features):
        raw = successor.need(now, features, batch.action)
    need = rescaled(without_negatives(raw, settings.negative), settings.scale)
    assert successor.online.decoder is not None
    pixels = scaled(batch.obs, successor.online.input_scale)
    made = {
        "q": Losses(q_loss(agent.q.errors(batch).delta, batch.weight, need)),
        "l_g": Losses(
            decoder_loss(successor.online.decoder(features), pixels, settings.pixel_loss)
        ),
    }
    kept, successor.online.decoder = successor.online.decoder, None
    made["l_u"] = successor.losses(batch, successor.features(batch.obs), batch.action)
    successor.online.decoder = kept
    return successor, batch, made


@pytest.mark.parametrize("preset", ["printed", "released", "corrected"])
@pytest.mark.parametrize("loss", ["q", "l_u", "l_g"])
def test_which_parameters_each_loss_moves(preset: str, loss: str) -> None:
    agent = small_agent(preset)
    _, _, made = losses(agent)
    expected = RELEASED if preset == "released" else APART
    assert moved(agent, made[loss]) == expected[loss]


def test_in_released_the_successor_of_the_next_state_is_moved_too() -> None:
    """No target network and no stop-gradient: l_u pulls φ(s') and u(φ(s'), a') as well."""
    agent = small_agent("released")
    successor, batch, _ = losses(agent)
    with torch.no_grad():
        fixed = successor.features(batch.obs)
    successor.online.decoder = None
    batch = batch._replace(obs=torch.zeros_like(batch.obs))
    assert "f" in moved(agent, successor.losses(batch, fixed.clone(), batch.action))
