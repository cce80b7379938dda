"""A recurrent DQN in a T-maze: a cue at the start says which way to turn at the end.

python examples/tmaze_lstm.py                 # learns: its LSTM keeps the cue
python examples/tmaze_lstm.py --no-memory     # cannot: at the junction both cues look the same

The replay buffer samples sequences of steps with the recurrent state of their first (R2D2,
Kapturowski et al. 2019), by the TD errors of their steps.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from needreplay import ProportionalSampler, ReplayBuffer, Sequences

HIDDEN, DISCOUNT = 16, 0.95
FORWARD, LEFT, RIGHT = range(3)
BEGIN = torch.zeros(1, 2, HIDDEN)


class TMaze(gymnasium.Env[Any, Any]):
    """A corridor that ends in a junction. Seen are the cue (at the start), and the junction."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, length: int) -> None:
        self.length = length

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        """Begin with a new cue."""
        super().reset(seed=seed)
        self.place, self.steps = 0, 0
        self.cue = int(self.np_random.choice([-1, 1]))
        return self._seen(), {}

    def _seen(self) -> Any:
        return np.array([self.cue * (self.place == 0), self.place == self.length], np.float32)

    def step(self, action: Any) -> Any:
        """Go forward, or turn at the junction: 1 where the cue said, -1 elsewhere."""
        self.steps += 1
        if self.place == self.length and action != FORWARD:
            is_right = action == (LEFT if self.cue < 0 else RIGHT)
            return self._seen(), 1.0 if is_right else -1.0, True, False, {}
        self.place = min(self.place + (action == FORWARD), self.length)
        return self._seen(), 0.0, False, self.steps >= 4 * self.length, {}


class QNetwork(nn.Module):
    """Action values from an LSTM. Without memory the LSTM begins anew at every step."""

    def __init__(self, memory: bool) -> None:
        super().__init__()
        self.memory = memory
        self.lstm, self.head = nn.LSTM(2, HIDDEN, batch_first=True), nn.Linear(HIDDEN, 3)

    def forward(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Values of (batch, time, 2) observations from ``state`` (batch, 2, hidden); and after."""
        if not self.memory:
            out, _ = self.lstm(obs.reshape(-1, 1, 2))
            return self.head(out.reshape(*obs.shape[:2], HIDDEN)), state
        h, c = state.transpose(0, 1).contiguous().unsqueeze(1).unbind(0)
        out, (h, c) = self.lstm(obs, (h, c))
        return self.head(out), torch.stack([h[0], c[0]], dim=1)


def learn(online: QNetwork, target: QNetwork, optimizer: Any, replay: ReplayBuffer) -> None:
    """One double-DQN update with a batch of sequences."""
    batch = replay.sample(32).torch()
    # Rows follow each other, so the first observation and all next ones are the whole sequence.
    seen = torch.cat([batch["obs"][:, :1], batch["next_obs"]], dim=1)
    values, _ = online(seen, batch["lstm"])
    with torch.no_grad():
        best = values[:, 1:].argmax(2, keepdim=True)
        later = target(seen, batch["lstm"])[0][:, 1:].gather(2, best)[..., 0]
        goal = batch["reward"] + batch["discount"] * later
    error = values[:, :-1].gather(2, batch["action"][..., None])[..., 0] - goal
    error = torch.where(batch["mask"], error, 0.0)
    loss = (batch.weights * error.square().sum(1) / batch["mask"].sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    replay.update_priorities(batch.ids, error.detach().abs().numpy())


def train(memory: bool, steps: int, length: int, seed: int) -> float:
    """The mean return of the last 100 episodes: 1 at best, 0 if turns are guessed."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    env, rng = TMaze(length), np.random.default_rng(seed)
    replay = ReplayBuffer.for_env(
        env,
        capacity=10_000,
        discount=DISCOUNT,
        sampler=ProportionalSampler(0.6),
        sequences=Sequences(length=2 * length, burn_in=length // 2, state="lstm"),
        extra_columns={"lstm": (np.float32, (2, HIDDEN))},
        seed=seed,
    )
    online, target = QNetwork(memory), QNetwork(memory)
    optimizer = torch.optim.Adam(online.parameters(), lr=3e-3)
    returns, obs, state = [0.0], env.reset(seed=seed)[0], BEGIN
    for step in range(steps):
        with torch.no_grad():
            values, after = online(torch.from_numpy(obs)[None, None], state)
        explores = rng.random() < 1.0 - 2.0 * step / steps  # not at all in the second half
        action = int(rng.integers(3)) if explores else int(values.argmax())
        next_obs, reward, terminated, truncated, _ = env.step(action)
        replay.add(
            obs=obs,
            action=action,
            reward=reward,
            next_obs=next_obs,
            terminated=terminated,
            truncated=truncated,
            lstm=state[0].numpy(),
        )
        obs, state, returns[-1] = next_obs, after, returns[-1] + reward
        if terminated or truncated:
            obs, state = env.reset()[0], BEGIN
            returns.append(0.0)
        if len(replay) >= 50 and step % 4 == 0:
            learn(online, target, optimizer, replay)
        if step % 200 == 0:
            target.load_state_dict(online.state_dict())
    return float(np.mean(returns[-101:-1]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--no-memory", action="store_true", help="the same agent without memory")
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--length", type=int, default=8, help="of the corridor")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(train(not options.no_memory, options.steps, options.length, options.seed))
