"""A replay experiment for neuroscientists: from "I have a maze" to forward and reverse counts.

For people who study replay in the brain. You need no reinforcement learning code of your own: draw
a world, run an agent that replays, look at it, count events. It takes a minute and needs
`pip install '.[lab]'` in a clone.
"""

#: ## 1. Draw the maze
#:
#: One character is one cell: `#` wall, `.` free, `S` starts, capital letters goals, small letters
#: rewards on the way, `<` `>` `^` `v` one-way doors. Lines below an empty line say what goals give
#: and where episodes start.

from pathlib import Path

Path("maze.txt").write_text("""\
S...#..A
..#.>..#
S.#.#..B

A: 1 sd 0.1
B: 1 sd 0.1 or 4 sd 0.1
starts: at random
""")

#: `B from episode 25: 0` changes a reward; then read the maze with `tabular_schedule`. `slip: 0.1`
#: makes moves go astray; then use PS-SR or Dyna, since EVB remembers one outcome per action.
#: [Worlds](../worlds.md#a-world-as-text) has the whole format, which every command reads.
#:
#: ## 2. Look at it
#:
#: `evb` is Mattar & Daw's agent ([what it does](../mattar_daw.md)); beside it the same without
#: need. The page opens without a network. `F` and `R` jump to the end of the next forward or
#: reverse event.

# $ needreplay watch evb evb,need=one --world maze.txt

#: `needreplay watch ps-sr ps dyna-q --world maze.txt` shows other agents, `needreplay gallery` five
#: moments worth seeing.
#:
#: ## 3. Count, with intervals
#:
#: One simulation is one animal; intervals are over simulations.

from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure
from needreplay._core.rng import stream
from needlab.report.statistics import difference_interval, mean_interval
from needlab.tabular.evb import EVB, simulate, simulation_table
from needlab.tabular.replay_events import replay_table
from needlab.tabular.replay_files import write_replay
from needlab.worlds import tabular_world

maze, episodes, simulations = tabular_world("maze.txt"), 50, 30
agents = {"need": EVB["published"], "no need": replace(EVB["published"], need="one")}
counts = {}
for name, settings in agents.items():
    for number in range(simulations):
        found = simulate(maze, settings, episodes=episodes, seed=0, simulation=number)
        table = simulation_table(found, maze)
        for direction in ("forward", "reverse"):
            events = np.unique(table["event"][table["direction"] == direction])
            counts.setdefault((direction, name), []).append(len(events) / episodes)

print("events per episode")
intervals = {}
for (direction, name), own in counts.items():
    intervals[direction, name] = mean_interval(own, stream(0, direction, name))
    print(f"{direction}, {name}:", intervals[direction, name].text())
for direction in ("forward", "reverse"):
    with_need, without = counts[direction, "need"], counts[direction, "no need"]
    difference = difference_interval(with_need, without, stream(0, direction), paired=True)
    print(f"{direction}, need minus no need:", difference.text())

#: An event is a run of replayed pairs, each of which leads to the next (forward) or is led to by it
#: (reverse). It visits at least five different states, and a permutation test calls it significant;
#: `shortest`, `permutations` and `count` of `simulation_table` change that.

figure = Figure(figsize=(5, 2.5))
axes = figure.subplots()
for place, each in enumerate(intervals.values()):
    axes.plot([each.low, each.high], [place, place], color="gray")
    axes.plot(each.estimate, place, "o", color="black")
axes.set_yticks(range(len(intervals)), [", ".join(key) for key in intervals])
axes.set(xlabel="events per episode, with 95% intervals", xlim=(0, None))

#: `needreplay reproduce replay-counts --world maze.txt` does this for EVB, PS-SR and PS, each with
#: 5 and with 20 backups in a pause: counts at different numbers are not comparable.
#:
#: `replay.csv` has one row per backup: where the agent was, before, after or during a run, and its
#: last reward; the pair (states are cells row by row from 0; actions are up, down, left, right);
#: the event (-1: none). `table.to_pandas()` makes a DataFrame.

write_replay("replay.csv", table)
print(*Path("replay.csv").read_text().splitlines()[:4], sep="\n")

#: ## 4. Your own events
#:
#: A list of states and actions per pause is enough, from any model or decoder:

mine = replay_table(
    episode=np.array([0, 0, 0, 0, 0, 0]),
    pause=np.array([0, 0, 0, 0, 0, 0]),
    states=np.array([16, 8, 0, 1, 2, 21]),
    actions=np.array([0, 0, 3, 3, 3, 2]),  # up, up, right, right, right, left
    next_state=maze.next_state,
)
print(*mine["direction"])
write_replay("mine.csv", mine)

# $ needreplay watch mine.csv --world maze.txt

#: A decoder gives states and times, no actions; it repeats bins and skips some. Where moves go both
#: ways, `order` says what is forward: here, nearer to a goal.

from needlab.tabular.decoded import detect_events
from needlab.worlds import distances_to

times = [0.00, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06]
decoded = [16, 16, 8, 0, 1, 3, 3]
to_goal = distances_to(maze, maze.goals)
events = detect_events(decoded, times, adjacency=maze, skip=2, order=-to_goal)
print(*(f"{name}: {events[name][0]}" for name in ("direction", "start", "stop", "states")))
lines = [f"0,{time},{state}" for time, state in zip(times, decoded, strict=True)]
Path("decoded.csv").write_text("event,time,state\n" + "\n".join(lines) + "\n")

# $ needreplay watch decoded.csv --world maze.txt

#: Everything reads and writes plain CSV. `needlab.tabular.pynapple` takes and makes pynapple's
#: `Tsd` and `IntervalSet`, and so reads NWB files: [the notebook](notebook.ipynb) shows it.
