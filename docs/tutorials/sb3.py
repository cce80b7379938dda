"""Stable-Baselines3 with prioritized replay in five minutes.

In this tutorial DQN of Stable-Baselines3 learns CartPole with uniform replay, with prioritized
replay and with gain x need. Only the argument `replay` changes. It needs
`pip install '.[lab,sb3]'` in a clone.
"""

#: ## Train
#:
#: `needreplay.integrations.sb3` has the algorithms of Stable-Baselines3 under their own names. What
#: they take, save and log is the same.

import gymnasium
import numpy as np
import torch
from matplotlib.figure import Figure
from needreplay.integrations.sb3 import DQN, NeedReplay, PrioritizedReplay, UniformReplay
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

REPLAYS = {"uniform": UniformReplay(), "prioritized": PrioritizedReplay(), "need": NeedReplay()}
STEPS = 2_000
torch.set_num_threads(1)  # networks this small are faster on one thread

returns = {}
for name, replay in REPLAYS.items():
    env = Monitor(gymnasium.make("CartPole-v1"))
    model = DQN(
        "MlpPolicy",
        env,
        replay=replay,
        learning_rate=1e-3,
        learning_starts=200,
        target_update_interval=250,
        train_freq=1,
        exploration_fraction=0.3,
        policy_kwargs={"net_arch": [64, 64]},
        seed=0,
    )
    model.learn(STEPS)
    returns[name] = list(env.get_episode_rewards())  # the evaluation below adds to the original
    mean, deviation = evaluate_policy(model, env, n_eval_episodes=10)
    print(f"{name}: return {mean:.0f} (standard deviation {deviation:.0f}) in 10 episodes")

#: One seed each: this shows that it works, not which replay is better. [Choosing
#: options](../considerations.md) and the [results](../results.md) are about that.

figure = Figure(figsize=(6, 3))
axes = figure.subplots()
for name, values in returns.items():
    smooth = np.convolve(values, np.ones(10) / 10, mode="valid")
    axes.plot(np.cumsum(values)[9:], smooth, label=name)
axes.set(xlabel="steps", ylabel="return, mean of 10 episodes")
axes.legend()

#: ## Save and load
#:
#: As in Stable-Baselines3; the buffer with its priorities has a file of its own.

model.save("model")
model.save_replay_buffer("buffer")
again = DQN.load("model", env=env)
again.load_replay_buffer("buffer")
print(again.num_timesteps, "steps,", again.replay_buffer.size(), "transitions")
