"""Double DQN on CartPole: two actors in processes of their own, one learner, one replay, on Ray.

    python examples/ray_cartpole.py --updates 4000

Ray starts on this machine. After ``ray.init(address=...)`` the same loop runs on a cluster.
"""

from __future__ import annotations

import argparse

import gymnasium
import numpy as np
import ray
import torch
from cartpole_dqn import DISCOUNT, learn, network

from needreplay import ProportionalSampler
from needreplay.distributed import RayReplayBuffer, Writer


@ray.remote(num_cpus=0, max_concurrency=2)  # one thread plays, the other takes weights
class Actor:
    """Steps an environment with the newest weights that it got."""

    def __init__(self, writer: Writer, epsilon: float, seed: int) -> None:
        self.writer, self.epsilon, self.seed = writer, epsilon, seed
        self.net = network()

    def set_weights(self, weights: dict[str, torch.Tensor]) -> None:
        """Act by these from now on."""
        self.net.load_state_dict(weights)

    def play(self, episodes: int) -> list[float]:
        """Play and write; returns the return of every episode."""
        rng, env = np.random.default_rng(self.seed), gymnasium.make("CartPole-v1")
        returns = []
        for episode in range(episodes):
            obs, _ = env.reset(seed=self.seed + 1_000 * episode)
            total, ended = 0.0, False
            while not ended:
                with torch.no_grad():
                    greedy = int(self.net(torch.from_numpy(obs)).argmax())
                action = int(rng.integers(2)) if rng.random() < self.epsilon else greedy
                next_obs, reward, terminated, truncated, _ = env.step(action)
                self.writer.add(
                    obs=obs,
                    action=action,
                    reward=float(reward),
                    next_obs=next_obs,
                    terminated=terminated,
                    truncated=truncated,
                )
                obs, total, ended = next_obs, total + float(reward), terminated or truncated
            returns.append(total)
        return returns


def train(updates: int = 4_000, actors: int = 2, seed: int = 0) -> float:
    """Train; returns the mean return of 20 episodes without exploration after it."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    online, target = network(), network()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    buffer = RayReplayBuffer.for_env(
        gymnasium.make("CartPole-v1"),
        capacity=20_000,
        discount=DISCOUNT,
        sampler=ProportionalSampler(0.6),
        block=32,
        min_size=500,
        samples_per_insert=64.0,  # a batch of 64 for each step
        seed=seed,
    )
    epsilons = [0.4 ** (1 + 3 * k) for k in range(actors)]
    players = [Actor.remote(buffer.writer(), e, seed + k) for k, e in enumerate(epsilons)]
    for player in players:
        player.play.remote(1_000_000)
    for update in range(1, updates + 1):
        batch = buffer.sample(64, beta=0.4 + 0.6 * update / updates)
        buffer.update_priorities(batch.ids, learn(batch, online, target, optimizer) + 1e-6)
        if update % 20 == 0:
            weights = ray.put(online.state_dict())
            for player in players:
                player.set_weights.remote(weights)
        if update % 500 == 0:
            target.load_state_dict(online.state_dict())
    print(buffer, buffer.facts())
    buffer.close()
    return evaluate(online)


def evaluate(net: torch.nn.Module) -> float:
    """The mean return of 20 episodes."""
    env, total = gymnasium.make("CartPole-v1"), 0.0
    for episode in range(20):
        obs, _ = env.reset(seed=10**6 + episode)
        ended = False
        while not ended:
            with torch.no_grad():
                action = int(net(torch.from_numpy(obs)).argmax())
            obs, reward, terminated, truncated, _ = env.step(action)
            total, ended = total + float(reward), terminated or truncated
    return total / 20


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=4_000)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = train(options.updates, options.actors, options.seed)
    print(f"mean return of 20 episodes after it {found:.1f}")
