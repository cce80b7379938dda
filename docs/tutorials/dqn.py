"""A DQN of your own with gain x need.

In this tutorial you write DQN for CartPole in sixty lines of torch, with a replay buffer of
needreplay that samples by gain x need. Then you measure whether need knows the future. It takes
two minutes and needs `pip install '.[lab,deep]'` in a clone.
"""

#: ## A network and a buffer
#:
#: The buffer takes the spaces of the environment. `NeedBuffer` samples three quarters of a batch
#: with probability proportional to priority^0.6 x need, and the rest uniformly. It learns need from
#: its own transitions. A `ReplayBuffer` in its place is prioritized replay; all else stays.

import gymnasium
import numpy as np
import torch
from needreplay import NeedBuffer
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
rng = np.random.default_rng(0)
env = gymnasium.make("CartPole-v1")

q, target = (nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)) for _ in range(2))
optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
buffer = NeedBuffer.for_env(env, capacity=10_000, n_step=3, discount=0.99, alpha=0.6, seed=0)

#: ## One update
#:
#: Sample a batch by gain x need as seen from where the agent is. Multiply the losses by the
#: weights. The new priorities are the TD errors.


def learn(obs):
    """One update of Q."""
    batch = buffer.sample(32, obs, beta=0.4)
    column = {name: torch.from_numpy(values) for name, values in batch.columns.items()}
    with torch.no_grad():
        best = q(column["next_obs"]).argmax(1, keepdim=True)
        after = target(column["next_obs"]).gather(1, best)[:, 0]
        goal = column["reward"] + column["discount"] * after
    error = goal - q(column["obs"]).gather(1, column["action"][:, None])[:, 0]
    loss = (torch.from_numpy(batch.weights).float() * error.square()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    buffer.update_priorities(batch.ids, error.detach().abs().numpy() + 1e-6)


#: `discount` is a column of the buffer: 0.99^3, or less where the episode ended. `sample` does
#: what need takes: at every fourth batch the need model learns, and the vectors of the replayed
#: transitions, and of others in turn, are computed again.
#:
#: ## The loop

returns, total = [], 0.0
obs, _ = env.reset(seed=0)
for step in range(3_000):
    greedy = int(q(torch.from_numpy(obs)).argmax())
    action = int(rng.integers(2)) if rng.random() < max(0.05, 1 - step / 1_500) else greedy
    next_obs, reward, terminated, truncated, _ = env.step(action)
    buffer.add(
        obs=obs,
        action=action,
        reward=reward,
        next_obs=next_obs,
        terminated=terminated,
        truncated=truncated,
    )
    total += reward
    obs = next_obs
    if terminated or truncated:
        returns.append(total)
        total, (obs, _) = 0.0, env.reset()
    if step >= 500:
        learn(obs)
    if step % 250 == 0:
        target.load_state_dict(q.state_dict())
print("it learns:", np.mean(returns[-10:]) > 1.5 * np.mean(returns[:10]))

#: ## Does need know the future?
#:
#: A learned quantity is worth what it predicts. `quality` asks: seen from a state, does need rank
#: the states that really came next above others that are as old? 0.5 is chance, 1 is perfect. It is
#: measured on the episodes that the model did not learn from, beside scores that know nothing of
#: the future. If need is not clearly above the best of these, conclude nothing about it.

quality = buffer.quality()
print(f"auc {quality.auc:.1f}, the best trivial score {quality.best_baseline():.1f}")

#: [Need in deep agents](../deep.md) says what this number was for other learners of need.
