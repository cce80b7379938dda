"""How the cost of a step grows with the number of states, from 54 to 5,400.

A random walk through the Dyna maze, magnified; every reward is noise, so that each step queues a
pair and all five planning updates are made. M begins as the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from needlab.tabular.arrays import QUEUED, AgentArrays, new_arrays
from needlab.tabular.queue import insert, largest_product, largest_product_of_any_sign, remove
from needlab.tabular.settings import PS_SR, Parameters, parameters_of, without_need
from needlab.tabular.sweeping import EVENT, SMALLEST_TRACE, sweeping_step, td_lambda
from needlab.worlds import tabular_world
from needlab.worlds.tabular import TabularWorld
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray
from timing import alternate, arguments, print_table, print_versions, ratio, write_json

RESOLUTIONS = (1, 2, 3, 5, 10)
STEPS = 1000
POPS = 1000
DENSE_ENTRIES = 60_000_000
"""The dense update is run for as many steps as touch about so many entries of M."""

kernel: Callable[[Any], Any] = numba.njit(error_model="numpy")


@kernel
def walk(
    agent: AgentArrays,
    parameters: Parameters,
    table: TabularWorld,
    steps: int,
    rng: np.random.Generator,
    log: AnyArray,
) -> None:
    """Random steps with noise for reward, and all that an agent learns from them."""
    state = table.starts[0]
    for step in range(steps):
        action = int(rng.random() * table.next_state.shape[1])
        next_state, ends = table.next_state[state, action], table.ends[state, action]
        arrival = table.starts[0] if ends else next_state
        sweeping_step(
            agent, parameters, state, action, rng.standard_normal(), next_state, ends, arrival, 0,
            step, log,
        )  # fmt: skip
        state = arrival


@kernel
def learn_active_rows(
    agent: AgentArrays,
    parameters: Parameters,
    table: TabularWorld,
    steps: int,
    rng: np.random.Generator,
) -> None:
    """M alone, on the rows that have a trace."""
    state = table.starts[0]
    for _ in range(steps):
        action = int(rng.random() * table.next_state.shape[1])
        next_state, ends = table.next_state[state, action], table.ends[state, action]
        td_lambda(
            agent.M, agent.trace, agent.active, agent.error, state, next_state, ends, True,
            parameters.discount, parameters.trace_decay, parameters.successor_step_size,
            SMALLEST_TRACE,
        )  # fmt: skip
        state = table.start if ends else next_state


@kernel
def learn_all_rows(
    M: FloatArray,
    trace: FloatArray,
    parameters: Parameters,
    table: TabularWorld,
    steps: int,
    rng: np.random.Generator,
) -> None:
    """M alone, on every row, compiled too."""
    error = np.zeros(M.shape[0])
    state = table.starts[0]
    for _ in range(steps):
        action = int(rng.random() * table.next_state.shape[1])
        next_state, ends = table.next_state[state, action], table.ends[state, action]
        trace *= parameters.discount * parameters.trace_decay
        trace[state] += 1.0
        for column in range(M.shape[0]):
            following = 0.0 if ends else M[next_state, column]
            error[column] = parameters.discount * following - M[state, column]
        error[state] += 1.0
        if ends:
            error[next_state] += parameters.discount
        for row in range(M.shape[0]):
            size = parameters.successor_step_size * trace[row]
            for column in range(M.shape[0]):
                M[row, column] += size * error[column]
        state = table.start if ends else next_state


@kernel
def pop_by_blocks(agent: AgentArrays, pops: int) -> None:
    """Pop the largest product and queue it again."""
    for _ in range(pops):
        pair = largest_product(agent)
        gain = agent.pairs[pair]["gain"]
        remove(agent, pair)
        insert(agent, pair, gain)


@kernel
def pop_by_scan(agent: AgentArrays, pops: int) -> None:
    """The same, looking at every pair."""
    for _ in range(pops):
        pair = largest_product_of_any_sign(agent)
        gain = agent.pairs[pair]["gain"]
        remove(agent, pair)
        insert(agent, pair, gain)


def measured(resolution: int, rounds: int) -> dict[str, Any]:
    """All that is printed about one size."""
    table = tabular_world("dyna-maze", resolution=resolution)
    n_states, n_actions = table.next_state.shape
    parameters = parameters_of(PS_SR["printed"])
    bare = parameters_of(without_need(PS_SR["printed"]))
    with_need = new_arrays(n_states, n_actions, np.eye(n_states))
    without = new_arrays(n_states, n_actions)
    M, trace = np.eye(n_states), np.zeros(n_states)
    dense_steps = max(1, min(STEPS, DENSE_ENTRIES // n_states**2))
    rng, log = stream(0, "growth", resolution), np.zeros(0, EVENT)
    # Long enough for the walk to have been everywhere near, so that the queue is filled.
    walk(without, bare, table, 20 * n_states, rng, log)
    seconds = alternate(
        {
            "ps": lambda: walk(without, bare, table, STEPS, rng, log),
            "ps-sr": lambda: walk(with_need, parameters, table, STEPS, rng, log),
            "active": lambda: learn_active_rows(with_need, parameters, table, STEPS, rng),
            "dense": lambda: learn_all_rows(M, trace, parameters, table, dense_steps, rng),
            "blocks": lambda: pop_by_blocks(without, POPS),
            "scan": lambda: pop_by_scan(without, POPS),
        },
        rounds,
    )
    seconds["dense"] *= STEPS / dense_steps
    return {
        "states": n_states,
        "active": int(with_need.active[-1]),
        "queued": int(without.counts[QUEUED]),
        "microseconds": {
            name: float(np.median(each)) / STEPS * 1e6 for name, each in seconds.items()
        },
        "dense_to_active": ratio(seconds["dense"], seconds["active"]),
        "scan_to_blocks": ratio(seconds["scan"], seconds["blocks"]),
    }


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__.splitlines()[0])
    print_versions()
    print("Microseconds of a step (PS, PS-SR), of M's update, and of a pop; medians.\n")
    sizes = [measured(resolution, options.rounds) for resolution in RESOLUTIONS]
    print_table(
        ["states", "PS", "PS-SR", "active rows", "M: active", "M: dense", "dense / active [95%]",
         "queued", "pop", "pop: scan", "scan / pop [95%]"],
        [
            [
                size["states"],
                *(f"{size['microseconds'][name]:.2f}" for name in ("ps", "ps-sr")),
                size["active"],
                *(f"{size['microseconds'][name]:.2f}" for name in ("active", "dense")),
                size["dense_to_active"],
                size["queued"],
                *(f"{size['microseconds'][name]:.3f}" for name in ("blocks", "scan")),
                size["scan_to_blocks"],
            ]
            for size in sizes
        ],
    )  # fmt: skip
    logs = np.log([size["states"] for size in sizes])
    print()
    labels = {"ps": "PS step", "ps-sr": "PS-SR step", "active": "M on active rows",
              "dense": "M dense", "blocks": "pop", "scan": "pop by scan"}  # fmt: skip
    for name, label in labels.items():
        cost = np.log([size["microseconds"][name] for size in sizes])
        print(f"{label}: grows like states^{np.polyfit(logs, cost, 1)[0]:.2f}")
    for size in sizes:
        size["dense_to_active"] = vars(size["dense_to_active"])
        size["scan_to_blocks"] = vars(size["scan_to_blocks"])
    write_json(options.json, {"sizes": sizes})


if __name__ == "__main__":
    main()
