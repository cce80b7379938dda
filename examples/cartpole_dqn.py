"""Double DQN on CartPole in one file: uniform, prioritized and gain x need are one argument.

    python examples/cartpole_dqn.py --sampler need --steps 20000

``need`` learns from the buffer how soon the agent returns to each state (``NeedModel``). It samples
with probability ~ gain^0.6 x need, seen from the present state.
"""

from __future__ import annotations

import argparse

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from needreplay import NeedModel, ProportionalSampler, ReplayBuffer, UniformSampler

DISCOUNT = 0.99
SAMPLERS = ("uniform", "per", "need")


def network() -> nn.Sequential:
    """Q(s, .)."""
    return nn.Sequential(
        nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )


def train(sampler: str = "need", steps: int = 20_000, seed: int = 0) -> list[float]:
    """Train; returns the return of every episode."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env = gymnasium.make("CartPole-v1")
    online, target = network(), network()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    need = NeedModel(env.observation_space, discount=0.9, seed=seed) if sampler == "need" else None
    chosen = UniformSampler() if sampler == "uniform" else ProportionalSampler(0.6)
    buffer = ReplayBuffer.for_spaces(
        env.observation_space,
        env.action_space,
        capacity=20_000,
        discount=DISCOUNT,
        sampler=chosen if need is None else need.sampler(alpha=0.6),
        seed=seed,
    )
    returns = [0.0]
    obs, _ = env.reset(seed=seed)
    for step in range(1, steps + 1):
        epsilon = max(0.05, 1.0 - step / 4_000)
        with torch.no_grad():
            greedy = int(online(torch.from_numpy(obs)).argmax())
        action = int(rng.integers(2)) if rng.random() < epsilon else greedy
        next_obs, reward, terminated, truncated, _ = env.step(action)
        buffer.add(
            obs=obs,
            action=action,
            reward=reward,
            next_obs=next_obs,
            terminated=terminated,
            truncated=truncated,
            **({} if need is None else {"features": need.features(obs)}),
        )
        returns[-1] += float(reward)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
            returns.append(0.0)
        if step >= 500:
            query = None if need is None else need.query(obs)
            learn(buffer, online, target, optimizer, query, beta=0.4 + 0.6 * step / steps)
            if need is not None:
                need.learn(buffer)
                need.refresh(buffer, count=64)
        if step % 500 == 0:
            target.load_state_dict(online.state_dict())
    env.close()
    return returns[:-1]


def learn(
    buffer: ReplayBuffer,
    online: nn.Module,
    target: nn.Module,
    optimizer: torch.optim.Optimizer,
    query: np.ndarray | None,
    beta: float,
) -> None:
    """One update: sample, weight the losses, learn, and update priorities."""
    batch = buffer.sample(64, need=query, beta=beta)
    data = {name: torch.from_numpy(column) for name, column in batch.columns.items()}
    with torch.no_grad():
        best = online(data["next_obs"]).argmax(1, keepdim=True)
        next_q = target(data["next_obs"]).gather(1, best)[:, 0]
    q = online(data["obs"]).gather(1, data["action"][:, None])[:, 0]
    error = data["reward"] + data["discount"] * next_q - q
    losses = functional.huber_loss(error, torch.zeros_like(error), reduction="none")
    loss = (torch.from_numpy(batch.weights).float() * losses).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    buffer.update_priorities(batch.ids, error.detach().abs().numpy() + 1e-6)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sampler", choices=SAMPLERS, default="need")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = train(options.sampler, options.steps, options.seed)
    print(f"{options.sampler}: mean return of the last 20 episodes {np.mean(found[-20:]):.1f}")
