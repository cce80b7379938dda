"""The released graph, pinned: for each loss, which parameters get a gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from needlab.deep import DeepAgent
from needlab.deep.dqn import Transitions, q_loss, to_transitions
from needlab.deep.need import remove_negatives, rescale
from needlab.deep.networks import scaled
from needlab.deep.successor import SuccessorLearner, decoder_loss

from .walks import small_agent, taught

PARTS = ("q", "f", "u", "g")
RELEASED = {"q": "qf", "l_u": "fu", "l_g": "fg"}
"""Q-loss: through 1/|φ|² also f, never u. l_u: no stop-gradient, so f too. l_g: f and g."""
APART = {"q": "q", "l_u": "u", "l_g": "fg"}
"""As printed (completed from DSR) and corrected: l_u moves u alone, the Q-loss Q alone."""


def moved(agent: DeepAgent, loss: Tensor) -> str:
    """Which parts of the networks get a gradient that is not 0."""
    agent.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
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


def losses(agent: DeepAgent) -> tuple[SuccessorLearner, Transitions, dict[str, Tensor]]:
    taught(agent, 12)
    successor, settings = agent.successor, agent.settings
    assert successor is not None
    obs = agent._row(np.full(5, 0.3, np.float32))
    hidden, greedy = agent.q.evaluate(obs)
    current = successor.current(obs, greedy, hidden)
    batch = to_transitions(agent.replay.sample(8), agent.device)
    features = successor.features(batch.obs)
    raw = successor.need(current, features, batch.action)
    need = rescale(remove_negatives(raw, settings.negative), settings.scale)
    assert successor.online.decoder is not None
    pixels = scaled(batch.obs, successor.online.input_scale)
    made = {
        "q": q_loss(agent.q.td_errors(batch).error, batch.weight, need),
        "l_g": decoder_loss(successor.online.decoder(features), pixels, settings.pixel_loss),
    }
    removed, successor.online.decoder = successor.online.decoder, None
    made["l_u"] = successor.loss(batch, successor.features(batch.obs), batch.action)
    successor.online.decoder = removed
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
    assert "f" in moved(agent, successor.loss(batch, fixed.clone(), batch.action))
