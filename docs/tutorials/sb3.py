"""Stable-Baselines3 with prioritized replay in five minutes.

In this tutorial DQN of Stable-Baselines3 learns CartPole with uniform replay, with prioritized
replay and with gain x need. Only the argument `replay` changes. It needs
`pip install '.[lab,sb3]'` in a clone.
"""

#: ## Train
#:
#: `needreplay.integrations.sb3` has the algorithms of Stable-Baselines3 under their own names. What
#: they take, save and log is the same.

import torch
from needreplay.integrations.sb3 import DQN, NeedReplay, PrioritizedReplay, UniformReplay

REPLAYS = {"uniform": UniformReplay(), "prioritized": PrioritizedReplay(), "need": NeedReplay()}
STEPS = 4_000
torch.set_num_threads(1)  # networks this small are faster on one thread

models = {}
for name, replay in REPLAYS.items():
    models[name] = DQN(
        "MlpPolicy",
        "CartPole-v1",
        replay=replay,
        learning_rate=1e-3,
        learning_starts=200,
        target_update_interval=250,
        train_freq=1,
        exploration_fraction=0.3,
        policy_kwargs={"net_arch": [64, 64]},
        seed=0,
    ).learn(STEPS)
    print(name, type(models[name].replay_buffer).__name__, models[name].num_timesteps, "steps")

#: This shows that all three run. It does not show which is better: one seed of a task this short
#: decides nothing, whichever is ahead. [What to expect](../sb3_results.md) has
#: comparisons over seeds, and [should I use need?](../should_i_use_need.md) the answer so far.
#:
#: ## Look at what was learned
#:
#: `replay_buffer.buffer` is a buffer of needreplay: its priorities are the absolute TD errors.

print(models["prioritized"].replay_buffer.buffer)

#: Need is learned, so it can be wrong. `quality` asks whether need ranks the states that really
#: come next above others, on episodes that it did not learn from, and whether it does so better
#: than scores that know nothing of the future. Where it does not, conclude nothing about need.

quality = models["need"].replay_buffer.need.quality()
print(f"auc {quality.auc:.1f}, the best trivial score {quality.best_baseline():.1f}")

#: `NeedReplay(shuffle=True)` is the control: the same values on
#: wrong transitions. What is lost by it is what need is worth.
#:
#: ## Save and load
#:
#: As in Stable-Baselines3; the buffer with its priorities has a file of its own.

models["need"].save("model")
models["need"].save_replay_buffer("buffer")
again = DQN.load("model", env=models["need"].get_env())
again.load_replay_buffer("buffer")
print(again.num_timesteps, "steps,", again.replay_buffer.size(), "transitions")
