"""The same simulation of Mattar & Daw's agent here and in CoBeL-RL, in seconds and as a ratio.

CoBeL-RL is not among the locked requirements. Make an environment that has both, for example
  python -m venv cobel && cobel/bin/pip install . 'cobel==3.0.1'
  cobel/bin/python benchmarks/bench_cobel.py

Both agents walk the same board with the same settings: softmax policy (inverse temperature 5),
discount 0.9, learning rate 1, need by the successor matrix of the learned transitions, smallest
gain 1e-10 of each pair, chains, 20 backups before and after each run. Their random numbers differ,
so backups are printed, too, and the ratio of the time for each backup.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from needlab.tabular.evb import EVB, simulate
from needlab.worlds import TabularWorld, world_of_text
from needlab.worlds.boards import OPEN_FIELD
from needreplay._core.types import FloatArray
from timing import alternate, arguments, print_table, print_versions, ratio, write_json

WORLDS = {"track of 10 states": "S........G\n\nG: 1", "open field, 54 cells": f"{OPEN_FIELD}G: 1"}
EPISODES, BACKUPS, OURS = 10, 20, 20
"""A simulation has ``EPISODES`` runs; ours is so short that a round takes ``OURS`` of them."""
SETTINGS = replace(EVB["published"], start_replay="before-first-step", backups=BACKUPS)


def ours(task: TabularWorld, done: list[int]) -> None:
    """Our simulations of a round; ``done`` gets their backups and steps."""
    for _ in range(OURS):
        found = simulate(task, SETTINGS, episodes=EPISODES, simulation=len(done))
        done.append(len(found.backups))


def theirs(task: TabularWorld, done: list[int]) -> None:
    """One simulation of CoBeL-RL's agent ``PMA`` in its ``Gridworld``."""
    from cobel.agent import PMA
    from cobel.interface import Gridworld
    from cobel.memory import PMAMemory
    from cobel.misc.gridworld_tools import make_gridworld
    from cobel.policy import Softmax

    walls = np.flatnonzero(~task.free).tolist()
    goals = task.goals.tolist()
    world = make_gridworld(
        task.n_states // task.columns,
        task.columns,
        terminals=goals,
        rewards=np.array([[goal, 1.0] for goal in goals]),
        goals=goals,
        starting_states=task.starts.tolist(),
        invalid_states=walls,
    )
    rng = np.random.default_rng(len(done))
    env = Gridworld(world, rng=rng)
    policy = Softmax(SETTINGS.inverse_temperature, rng=rng)
    memory = PMAMemory(
        world["sas"], policy, 1.0, SETTINGS.step_size, SETTINGS.discount, SETTINGS.discount, rng
    )
    # What our agent knows before it begins: where every action leads.
    memory.states = world["sas"].argmax(axis=2)
    memory.terminals = 1 - world["terminals"][memory.states]
    memory.min_gain = SETTINGS.floor_size
    memory.compute_update_mask()
    made: list[int] = []
    agent = PMA(
        env.observation_space,
        env.action_space,
        policy,
        memory,
        learning_rate=SETTINGS.step_size,
        gamma=SETTINGS.discount,
        custom_callbacks={"on_replay_end": [lambda logs: made.append(len(logs["replay"]))]},
    )
    agent.train(env, EPISODES, 100_000, BACKUPS)
    done.append(sum(made))


def compare(task: TabularWorld, rounds: int) -> tuple[list[str], dict[str, float]]:
    """A row of the table, and its numbers."""
    done: dict[str, list[int]] = {"ours": [], "theirs": []}
    peers: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(task, done["ours"]),
        "theirs": lambda: theirs(task, done["theirs"]),
    }
    seconds = alternate(peers, rounds)
    seconds["ours"] = seconds["ours"] / OURS
    # The first simulations are those of the round that is not measured.
    backups: dict[str, FloatArray] = {
        name: np.array(done[name], np.float64).reshape(rounds + 1, -1)[1:].mean(axis=1)
        for name in peers
    }
    whole = ratio(seconds["theirs"], seconds["ours"])
    each = ratio(seconds["theirs"] / backups["theirs"], seconds["ours"] / backups["ours"])
    row = [
        f"{np.median(seconds['ours']) * 1e3:.3g} ms",
        f"{np.median(seconds['theirs']) * 1e3:,.0f} ms",
        str(whole),
        f"{backups['ours'].mean():.0f}, {backups['theirs'].mean():.0f}",
        str(each),
    ]
    return row, {"ratio": whole.median, "low": whole.low, "high": whole.high, "each": each.median}


def main() -> None:
    """Measure both worlds and print the table."""
    options = arguments(__doc__ or "", rounds=7)
    # CoBeL-RL can draw its worlds in a window, and needs a place for it.
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    print_versions()
    rows, numbers = [], {}
    for name, text in WORLDS.items():
        row, numbers[name] = compare(world_of_text(text), options.rounds)
        rows.append([name, *row])
    heads = ["world", "needreplay", "CoBeL-RL", "ratio", "backups", "ratio for each backup"]
    print_table(heads, rows)
    write_json(options.json, numbers)


if __name__ == "__main__":
    main()
