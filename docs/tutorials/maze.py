"""Prioritized sweeping with need in a maze.

In this tutorial an agent learns a maze, once with and once without need. You see how many steps
need saves, what need is, and what the agent replays. It takes a minute and needs
`pip install '.[lab]'` in a clone.
"""

#: ## A world
#:
#: A maze can be text: `S` is the start, `G` the goal, `#` a wall. This is the Dyna maze of Sutton &
#: Barto, which the paper uses. States are cells, counted row by row.

from matplotlib.figure import Figure
from needlab import MazeEnv, PrioritizedSweeping, play
from needlab.tabular.settings import agent_settings

MAZE = """
.......#G
..#....#.
S.#....#.
..#......
.....#...
.........
"""
env = MazeEnv(MAZE.strip())
print(env.observation_space, env.action_space)

#: ## Two agents
#:
#: Prioritized sweeping (PS) keeps a queue of state-action pairs by *gain*: how much an update would
#: change Q. After each step it replays the first few. PS-SR multiplies gain by *need*: how often
#: the agent expects to visit the pair's state from where it is now. It learns that expectation, the
#: successor matrix M, from its own steps.

EPISODES, SEEDS = 30, 20


def steps_of(name):
    """Mean steps of each episode, over seeds."""
    total = 0.0
    for seed in range(SEEDS):
        agent = PrioritizedSweeping(54, 4, agent_settings(name), seed=seed)
        total = total + play(agent, MazeEnv(MAZE.strip()), EPISODES, seed=seed).steps
    return total / SEEDS


ps, ps_sr = steps_of("ps"), steps_of("ps-sr")
print(f"steps in episodes 2 to {EPISODES}: PS {ps[1:].sum():.0f}, PS-SR {ps_sr[1:].sum():.0f}")

figure = Figure(figsize=(6, 3))
axes = figure.subplots()
axes.semilogy(range(1, EPISODES + 1), ps, label="PS")
axes.semilogy(range(1, EPISODES + 1), ps_sr, label="PS-SR")
axes.set(xlabel="episode", ylabel=f"steps, mean of {SEEDS} agents")
axes.legend()

#: The first episode is the same: nothing is known yet. After it PS-SR spends its updates where the
#: agent will be, and needs fewer steps. [The page on the maze](../maze.md) has 1,000 trials with
#: intervals, and what else explains the difference.
#:
#: ## What need is
#:
#: A row of M says how often each state is visited from one state on, later visits discounted. From
#: the start, before and after learning:

young = PrioritizedSweeping(54, 4, seed=0)
old = PrioritizedSweeping(54, 4, seed=0)
play(young, MazeEnv(MAZE.strip()), episodes=1)
play(old, MazeEnv(MAZE.strip()), episodes=30)

figure = Figure(figsize=(8, 2.6))
for axes, agent, title in zip(
    figure.subplots(1, 2), (young, old), ("after 1 episode", "after 30 episodes"), strict=True
):
    shown = axes.imshow(agent.M[18].reshape(6, 9), cmap="viridis")
    axes.set(title=title, xticks=[], yticks=[])
    figure.colorbar(shown, ax=axes)

#: Need has become the path from the start to the goal. So the updates that PS-SR chooses in the
#: start are those of states on that path.
#:
#: ## Next
#:
#: `needreplay reproduce maze-replay` writes every replayed update in order, as a table and a
#: picture. [Forward and reverse replay](../mattar_daw.md) is about the order of replay.
