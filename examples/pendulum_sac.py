"""SAC on Pendulum in CleanRL's manner: uniform, prioritized and gain x need are one argument.

    python examples/pendulum_sac.py --sampler need --steps 8000

Only the lines with ``buffer`` and ``batch`` differ from plain SAC: need takes the state alone, so
continuous actions change nothing.
"""

from __future__ import annotations

import argparse

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from needreplay import NeedBuffer, ProportionalSampler, ReplayBuffer, UniformSampler
from needreplay.replay import Batch

DISCOUNT, TAU, ENTROPY, BATCH = 0.99, 0.005, 0.2, 256
SAMPLERS = ("uniform", "per", "need")
Buffer = ReplayBuffer | NeedBuffer


class Critic(nn.Module):
    """Two Q(s, a)."""

    def __init__(self, n_obs: int, n_actions: int) -> None:
        super().__init__()
        self.both = nn.ModuleList(layers(n_obs + n_actions, 1) for _ in range(2))

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """A row for each transition, a column for each critic."""
        return torch.cat([q(torch.cat([obs, action], 1)) for q in self.both], 1)


class Actor(nn.Module):
    """A Gaussian, squashed by tanh to the bounds of the actions."""

    def __init__(self, n_obs: int, n_actions: int, scale: float) -> None:
        super().__init__()
        self.layers, self.scale = layers(n_obs, 2 * n_actions), scale

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """An action for each observation, and the logarithm of its probability."""
        mean, log_std = self.layers(obs).chunk(2, -1)
        normal = torch.distributions.Normal(mean, (-1.5 + 3.5 * torch.tanh(log_std)).exp())
        x = normal.rsample()
        squashed = torch.tanh(x)
        log_prob = normal.log_prob(x) - torch.log(self.scale * (1 - squashed.square()) + 1e-6)
        return squashed * self.scale, log_prob.sum(-1)


def layers(n_in: int, n_out: int) -> nn.Sequential:
    """Two hidden layers."""
    return nn.Sequential(
        nn.Linear(n_in, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_out)
    )


def make_buffer(sampler: str, env: gymnasium.Env, capacity: int, seed: int) -> Buffer:
    """A buffer that samples uniformly, by priority, or by gain x need."""
    options = {"capacity": capacity, "discount": DISCOUNT, "seed": seed}
    if sampler == "need":
        return NeedBuffer.for_env(env, **options)
    chosen = UniformSampler() if sampler == "uniform" else ProportionalSampler(0.6)
    return ReplayBuffer.for_env(env, sampler=chosen, **options)


def sample(buffer: Buffer, size: int, obs: np.ndarray, beta: float) -> Batch:
    """A batch; need is seen from ``obs``, where the agent is now."""
    if isinstance(buffer, NeedBuffer):
        return buffer.sample(size, obs, beta=beta)
    return buffer.sample(size, beta=beta)


def train(sampler: str = "need", steps: int = 8_000, seed: int = 0) -> list[float]:
    """Train; returns the return of every episode."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    env = gymnasium.make("Pendulum-v1")
    env.action_space.seed(seed)
    actor, critic, target = Actor(3, 1, 2.0), Critic(3, 1), Critic(3, 1)
    target.load_state_dict(critic.state_dict())
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
    buffer = make_buffer(sampler, env, 100_000, seed)

    returns = [0.0]
    obs, _ = env.reset(seed=seed)
    for step in range(1, steps + 1):
        if step < 500:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                action = actor(torch.from_numpy(obs))[0].numpy()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        buffer.add(
            obs=obs,
            action=action,
            reward=reward,
            next_obs=next_obs,
            terminated=terminated,
            truncated=truncated,
        )
        returns[-1] += float(reward)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
            returns.append(0.0)
        if step < 500:
            continue

        batch = sample(buffer, BATCH, obs, beta=0.4 + 0.6 * step / steps)
        data = {name: torch.from_numpy(column) for name, column in batch.columns.items()}
        with torch.no_grad():
            next_action, next_log_prob = actor(data["next_obs"])
            next_q = target(data["next_obs"], next_action).min(1).values - ENTROPY * next_log_prob
            goal = data["reward"] + data["discount"] * next_q
        errors = critic(data["obs"], data["action"]) - goal[:, None]
        weights = torch.from_numpy(batch.weights).float()
        loss = (weights * errors.square().sum(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        buffer.update_priorities(batch.ids, errors.detach().abs().amax(1).numpy() + 1e-6)

        new_action, log_prob = actor(data["obs"])
        actor_loss = (ENTROPY * log_prob - critic(data["obs"], new_action).min(1).values).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()
        with torch.no_grad():
            for old, new in zip(target.parameters(), critic.parameters(), strict=True):
                old.lerp_(new, TAU)
    env.close()
    return returns[:-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sampler", choices=SAMPLERS, default="need")
    parser.add_argument("--steps", type=int, default=8_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = train(options.sampler, options.steps, options.seed)
    print(f"{options.sampler}: mean return of the last 20 episodes {np.mean(found[-20:]):.1f}")
