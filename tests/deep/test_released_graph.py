"""The released graph, pinned: for each loss, which parameters get a gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from needlab.deep import DeepAgent
from needlab.deep.dqn import Transitions, q_loss, to_transitions
from needlab.deep.networks import scaled
from needlab.deep.successor import PaperNeed, decoder_loss

from .walks import paper_need, small_agent, taught

PARTS = ("q", "f", "u", "g")
RELEASED = {"q": "qf", "l_u": "fu", "l_g": "fg"}
"""Q-loss: through 1/|φ|² also f, never u. l_u: no stop-gradient, so f too. l_g: f and g."""
APART = {"q": "q", "l_u": "u", "l_g": "fg"}
"""As printed (completed from DSR) and corrected: l_u moves u alone, the Q-loss Q alone."""


def moved(agent: DeepAgent, loss: Tensor) -> str:
    """Which parts of the networks get a gradient that is not 0."""
    agent.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    network = paper_need(agent).online
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


def losses(agent: DeepAgent) -> tuple[PaperNeed, Transitions, dict[str, Tensor]]:
    taught(agent, 12)
    need, settings = paper_need(agent), agent.settings
    sampled = agent.replay.sample(8)
    batch = to_transitions(sampled, agent.buffer, settings, agent.device)
    factor, _ = agent._need_of(sampled, batch, np.full(5, 0.3, np.float32))
    assert need.online.decoder is not None
    pixels = scaled(batch.obs, need.online.input_scale)
    decoded = need.online.decoder(need.features(batch.obs))
    made = {
        "q": q_loss(agent.q.td_errors(batch).error, batch.weight, factor),
        "l_g": decoder_loss(decoded, pixels, settings.paper.pixel_loss),
    }
    removed, need.online.decoder = need.online.decoder, None
    made["l_u"] = need._loss(batch, None)
    need.online.decoder = removed
    return need, batch, made


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
    need, batch, _ = losses(agent)
    with torch.no_grad():
        fixed = need.features(batch.obs)
    need.online.decoder = None
    features = need.features
    need.features = lambda obs: fixed.clone() if obs is batch.obs else features(obs)  # type: ignore[method-assign]
    assert "f" in moved(agent, need._loss(batch, None))
