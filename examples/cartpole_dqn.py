"""Double DQN on CartPole in one file: uniform, prioritized and gain x need are one argument.

    python examples/cartpole_dqn.py --sampler need --steps 20000

``need`` learns from the buffer how soon the agent returns to each state. Three quarters of a
batch are sampled with probability ~ gain^0.6 x need, seen from the present state, the rest
uniformly.
"""

from __future__ import annotations

import argparse

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from needreplay import NeedBuffer, ProportionalSampler, ReplayBuffer, UniformSampler
from needreplay.replay import Batch

DISCOUNT = 0.99
SAMPLERS = ("uniform", "per", "need")
Buffer = ReplayBuffer | NeedBuffer


def network() -> nn.Sequential:
    """Q(s, .)."""
    return nn.Sequential(
        nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
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


def train(sampler: str = "need", steps: int = 20_000, seed: int = 0) -> list[float]:
    """Train; returns the return of every episode."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env = gymnasium.make("CartPole-v1")
    online, target = network(), network()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    buffer = make_buffer(sampler, env, 20_000, seed)
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
        )
        returns[-1] += float(reward)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
            returns.append(0.0)
        if step >= 500:
            batch = sample(buffer, 64, obs, beta=0.4 + 0.6 * step / steps)
            errors = learn(batch, online, target, optimizer)
            buffer.update_priorities(batch.ids, errors + 1e-6)
        if step % 500 == 0:
            target.load_state_dict(online.state_dict())
    env.close()
    return returns[:-1]


def learn(
    batch: Batch, online: nn.Module, target: nn.Module, optimizer: torch.optim.Optimizer
) -> np.ndarray:
    """One update with weighted losses; returns the absolute TD errors."""
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
    return error.detach().abs().numpy()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sampler", choices=SAMPLERS, default="need")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = train(options.sampler, options.steps, options.seed)
    print(f"{options.sampler}: mean return of the last 20 episodes {np.mean(found[-20:]):.1f}")
