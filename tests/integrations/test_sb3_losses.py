"""Weights reach the critics' gradients, and priorities are absolute TD errors, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sb3_contrib
import stable_baselines3
import torch
from torch import Tensor
from torch.nn import functional

from needreplay import NeedReplayError
from needreplay.integrations.sb3 import PrioritizedReplay

from .sb3_models import ALGORITHMS, CONTINUOUS, priorities, small

BY_HAND = [name for name in ALGORITHMS if name != "CrossQ"]
"""CrossQ sees both observations in one batch; its updates are compared with sb3-contrib's."""


def quantile_losses(current: Tensor, target: Tensor) -> Tensor:
    """Of each transition: sum over its quantiles, mean over the target's (Dabney et al. 2018)."""
    n = current.shape[1]
    losses: Tensor = torch.zeros(len(current))
    for i in range(n):
        share = (i + 0.5) / n
        for j in range(target.shape[1]):
            delta = target[:, j] - current[:, i]
            huber = functional.huber_loss(current[:, i], target[:, j], reduction="none")
            losses = losses + torch.where(delta < 0, 1 - share, share) * huber / target.shape[1]
    return losses


def by_hand(model: Any, data: Any) -> tuple[Tensor, Tensor]:
    """The losses of each transition, summed over critics, and TD errors with a row per critic."""
    reward: Tensor = data.rewards[:, 0]
    discount: Tensor = (1 - data.dones[:, 0]) * model.gamma

    def target_of(value: Tensor) -> Tensor:
        return reward + discount * value

    if hasattr(model, "q_net"):
        with torch.no_grad():
            target = target_of(model.q_net_target(data.next_observations).max(1).values)
        q = model.q_net(data.observations).gather(1, data.actions)[:, 0]
        return functional.smooth_l1_loss(q, target, reduction="none"), (target - q)[None]
    if hasattr(model, "quantile_net"):
        rows = torch.arange(len(reward))
        with torch.no_grad():
            after = model.quantile_net_target(data.next_observations)
            after = after[rows, :, after.mean(1).argmax(1)]
            target = reward[:, None] + discount[:, None] * after
        current = model.quantile_net(data.observations)[rows, :, data.actions[:, 0]]
        return quantile_losses(current, target), (target.mean(1) - current.mean(1))[None]
    if isinstance(model, sb3_contrib.TQC):
        with torch.no_grad():
            model.actor.action_log_prob(data.observations)  # the same random numbers as train
            action, log_probability = model.actor.action_log_prob(data.next_observations)
            after = model.critic_target(data.next_observations, action).flatten(1).sort(1).values
            after = after[:, : after.shape[1] - 2 * model.top_quantiles_to_drop_per_net]
            target = reward[:, None] + discount[:, None] * (after - 0.1 * log_probability[:, None])
        current = model.critic(data.observations, data.actions)
        of_each = [quantile_losses(current[:, i], target) / current.shape[2] for i in (0, 1)]
        errors = [target.mean(1) - current[:, i].mean(1) for i in (0, 1)]
        return (of_each[0] + of_each[1]) / 2, torch.stack(errors)
    with torch.no_grad():
        entropy: Any = 0.0
        if hasattr(model, "ent_coef_tensor"):
            model.actor.action_log_prob(data.observations)  # the same random numbers as train
            action, log_probability = model.actor.action_log_prob(data.next_observations)
            entropy = 0.1 * log_probability
        else:
            noise = torch.zeros_like(data.actions).normal_(0, model.target_policy_noise)
            noise = noise.clamp(-model.target_noise_clip, model.target_noise_clip)
            action = (model.actor_target(data.next_observations) + noise).clamp(-1, 1)
        values = torch.cat(model.critic_target(data.next_observations, action), 1)
        target = target_of(values.min(1).values - entropy)
    critics = [q[:, 0] for q in model.critic(data.observations, data.actions)]
    scale = 0.5 if hasattr(model, "ent_coef_tensor") else 1.0
    losses = sum(scale * (q - target).square() for q in critics)
    assert isinstance(losses, Tensor)
    return losses, torch.stack([target - q for q in critics])


def model_of(name: str, **options: Any) -> Any:
    """Always with the same parameters, and a buffer of 60 transitions that it has not learned."""
    if name == "QRDQN":
        options["policy_kwargs"] = {"net_arch": [8], "n_quantiles": 5}
    if name not in CONTINUOUS:
        options["max_grad_norm"] = 1e9
    return small(name, learning_starts=10**6, **options).learn(60)


def critic_of(model: Any) -> Any:
    return getattr(model, "critic", model.policy)


class Step:
    """One gradient step: its samples, the critics' gradients when they step, new priorities."""

    def __init__(self, name: str, weights: float | None = None, **replay: Any) -> None:
        self.model = model = model_of(name, replay=PrioritizedReplay(beta=0.9, **replay))
        buffer = model.replay_buffer
        spread = np.random.default_rng(0).exponential(size=60)
        buffer.buffer.update_priorities(np.arange(60), spread)
        sample = buffer.sample

        def sample_once(size: int, env: Any = None) -> Any:
            self.data = sample(size, env)
            if weights is not None:
                buffer.weights = torch.full_like(buffer.weights, weights)
            return self.data

        buffer.sample = sample_once
        self.gradients: list[Tensor] = []
        critic = critic_of(model)
        critic.optimizer.register_step_pre_hook(
            lambda *_: self.gradients.extend(
                p.grad.clone() for p in critic.parameters() if p.grad is not None
            )
        )
        torch.manual_seed(5)
        model.train(gradient_steps=1, batch_size=32)
        self.priorities = priorities(model)
        self.reference = model_of(name)
        self.reference.policy.set_training_mode(True)
        torch.manual_seed(5)
        self.losses, self.errors = by_hand(self.reference, self.data)


@pytest.mark.parametrize("name", BY_HAND)
def test_the_gradient_is_that_of_the_weighted_loss(name: str) -> None:
    step = Step(name)
    weights = step.data.weights[:, 0]
    assert weights.max() == 1.0
    assert weights.min() < 0.7
    (weights * step.losses).mean().backward()
    expected = [p.grad for p in critic_of(step.reference).parameters() if p.grad is not None]
    assert len(expected) == len(step.gradients) >= 4
    for found, wanted in zip(step.gradients, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BY_HAND)
def test_weights_of_zero_give_no_gradient(name: str) -> None:
    assert all((g == 0.0).all() for g in Step(name, weights=0.0).gradients)


@pytest.mark.parametrize("critics", ["max", "mean"])
@pytest.mark.parametrize("name", BY_HAND)
def test_priorities_are_the_absolute_td_errors_not_clipped(name: str, critics: Any) -> None:
    step = Step(name, critics=critics)
    absolute = step.errors.detach().abs()
    assert len(absolute) == (2 if name in ("SAC", "TD3", "TQC") else 1)
    expected = absolute.max(0).values if critics == "max" else absolute.mean(0)
    assert expected.max() > 3.0, "beyond where Huber's loss clips"
    last = dict(zip(step.data.ids.tolist(), expected.tolist(), strict=True))
    for number, error in last.items():
        assert step.priorities[number] == pytest.approx(error + 1e-6, rel=1e-4)


@pytest.mark.parametrize("name", ["DQN", "SAC", "TD3", "DDPG"])
def test_lap_is_hubers_loss_without_weights(name: str) -> None:
    floor = 2.0
    step = Step(name, alpha=0.4, priority_floor=floor)
    assert (step.data.weights == 1.0).all()
    absolute = step.errors.abs()
    assert absolute.min() < floor < absolute.max()
    huber = torch.where(
        absolute < floor, absolute.square() / 2, floor * (absolute - floor / 2)
    ).sum(0)
    loss: Tensor = ((0.5 if name == "SAC" else 1.0) * huber).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    expected = [p.grad for p in critic_of(step.reference).parameters() if p.grad is not None]
    for found, wanted in zip(step.gradients, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    sampler: Any = step.model.replay_buffer.buffer.sampler
    np.testing.assert_allclose(
        sampler._tree.masses[:60], np.maximum(sampler.priorities[:60], floor) ** 0.4
    )
    assert step.model.replay.beta_at(0.5) == 0.0


@pytest.mark.parametrize("kind", ["rank", "pser"])
def test_lap_is_proportional_alone(kind: Any) -> None:
    with pytest.raises(NeedReplayError, match=f"priority_floor is 1.0 and kind '{kind}'"):
        PrioritizedReplay(kind=kind, priority_floor=1.0)


@pytest.mark.parametrize("name", ["QRDQN", "TQC"])
def test_lap_is_not_for_quantiles(name: str) -> None:
    with pytest.raises(NeedReplayError, match=f"those of {name} are quantiles"):
        small(name, replay=PrioritizedReplay(priority_floor=1.0))


def test_the_actors_loss_has_no_weights() -> None:
    """Weights of 0 leave the critics as they were, so the actor's gradient can be worked out."""
    step = Step("SAC", weights=0.0)
    model, obs = step.reference, step.data.observations
    torch.manual_seed(5)
    action, log_probability = model.actor.action_log_prob(obs)
    value = torch.cat(model.critic(obs, action), 1).min(1).values
    (0.1 * log_probability - value).mean().backward()
    pairs = zip(step.model.actor.parameters(), model.actor.parameters(), strict=True)
    for found, wanted in pairs:
        torch.testing.assert_close(found.grad, wanted.grad)


def test_the_modules_of_sb3_are_untouched() -> None:
    Step("DQN")
    assert stable_baselines3.DQN.train.__globals__["F"] is functional
