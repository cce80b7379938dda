"""Double DQN on CartPole in one file: uniform, prioritized and gain x need are one argument.

    python examples/cartpole_dqn.py --sampler need --steps 20000

``need`` learns successor features m of the Q network's last hidden layer phi, and samples with
probability ~ gain^0.6 x need, where need = m(now) . phi(then) / |phi(then)|^2.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from needreplay.replay import ProportionalSampler, ReplayBuffer, UniformSampler
from needreplay.replay.samplers import FeatureNeedSampler

HIDDEN = 32
DISCOUNT = 0.99
SAMPLERS: dict[str, Any] = {
    "uniform": lambda: UniformSampler(),
    "per": lambda: ProportionalSampler(0.6),
    "need": lambda: FeatureNeedSampler(HIDDEN, nonnegative=True, alpha=0.6, need_alpha=1.0),
}


class Network(nn.Module):
    """Q(s, .) on a hidden layer phi(s) >= 0, and successor features m(s) >= 0 on the same layer."""

    def __init__(self, n_inputs: int, n_actions: int) -> None:
        super().__init__()
        self.phi = nn.Sequential(
            nn.Linear(n_inputs, 64), nn.ReLU(), nn.Linear(64, HIDDEN), nn.ReLU()
        )
        self.q = nn.Linear(HIDDEN, n_actions)
        self.m = nn.Sequential(
            nn.Linear(HIDDEN, 64), nn.ReLU(), nn.Linear(64, HIDDEN), nn.Softplus()
        )


def train(sampler: str = "need", steps: int = 20_000, seed: int = 0) -> list[float]:
    """Train; returns the return of every episode."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env = gymnasium.make("CartPole-v1")
    online, target = Network(4, 2), Network(4, 2)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    replay = ReplayBuffer.for_spaces(
        env.observation_space,
        env.action_space,
        capacity=20_000,
        discount=DISCOUNT,
        sampler=SAMPLERS[sampler](),
        seed=seed,
    )
    returns = [0.0]
    obs, _ = env.reset(seed=seed)
    for step in range(1, steps + 1):
        epsilon = max(0.05, 1.0 - step / 4_000)
        seen = torch.from_numpy(obs)
        with torch.no_grad():
            phi = online.phi(seen)
            greedy, m = int(online.q(phi).argmax()), online.m(phi)
        action = int(rng.integers(2)) if rng.random() < epsilon else greedy
        next_obs, reward, terminated, truncated, _ = env.step(action)
        replay.add(
            obs=obs,
            action=action,
            reward=reward,
            next_obs=next_obs,
            terminated=terminated,
            truncated=truncated,
            **({"features": phi.numpy()} if sampler == "need" else {}),
        )
        returns[-1] += float(reward)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
            returns.append(0.0)
        if step >= 500:
            need = m.numpy() if sampler == "need" else None
            learn(replay, online, target, optimizer, need, beta=0.4 + 0.6 * step / steps)
        if step % 500 == 0:
            target.load_state_dict(online.state_dict())
    env.close()
    return returns[:-1]


def learn(
    replay: ReplayBuffer,
    online: Network,
    target: Network,
    optimizer: torch.optim.Optimizer,
    need: Any,
    beta: float,
) -> None:
    """One update: sample, weight the losses, learn, and update priorities and features."""
    batch = replay.sample(64, need=need, beta=beta)
    tensors = {name: torch.from_numpy(column) for name, column in batch.columns.items()}
    action, discount = tensors["action"], tensors["discount"]
    weights = torch.from_numpy(batch.weights).float()
    phi = online.phi(tensors["obs"])
    with torch.no_grad():
        best = online.q(online.phi(tensors["next_obs"])).argmax(1)
        next_phi = target.phi(tensors["next_obs"])
        next_q = target.q(next_phi).gather(1, best[:, None])[:, 0]
        m_target = target.phi(tensors["obs"]) + discount[:, None] * target.m(next_phi)
    q = online.q(phi).gather(1, action[:, None])[:, 0]
    error = tensors["reward"] + discount * next_q - q
    loss = (
        weights * functional.huber_loss(error, torch.zeros_like(error), reduction="none")
    ).mean()
    if need is not None:
        # The successor loss moves m alone: phi belongs to Q.
        loss = loss + (online.m(phi.detach()) - m_target).square().mean()
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    replay.update_priorities(batch.ids, error.detach().abs().numpy() + 1e-6)
    if need is not None:
        replay.set_features(batch.ids, phi.detach().numpy())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sampler", choices=SAMPLERS, default="need")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = train(options.sampler, options.steps, options.seed)
    print(f"{options.sampler}: mean return of the last 20 episodes {np.mean(found[-20:]):.1f}")
