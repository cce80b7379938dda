"""Worlds that change: a start and a goal for each episode, and moves that slip.

The agents are those of ``trial``. Their model keeps the last outcome of each pair, so under slip it
is wrong in places; this is the same for all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needlab.core.jit import compiled_in_place
from needlab.tabular.arrays import N_ACTIONS, AgentArrays, new_arrays
from needlab.tabular.dyna import dyna_step, epsilon_greedy
from needlab.tabular.settings import LearningSettings, Parameters, parameters_of
from needlab.tabular.sweeping import EVENT, clear_trace, sweeping_step
from needreplay._core.types import AnyArray, FloatArray, IntArray

_SIDES = np.array([[2, 3], [2, 3], [0, 1], [0, 1]])
"""The two sides of up, down, left, right."""


class ChangingWorld(NamedTuple):
    """A board on which arriving at the episode's goal gives 1 and ends the episode."""

    next_state: IntArray
    """[state, action]: up, down, left, right; no state is final"""
    starts: IntArray
    """[episode]"""
    goals: IntArray
    """[episode]"""
    slip: float
    """chance that a move goes to one of its two sides"""
    episode_steps: int
    """an episode is cut after so many steps"""


def run_changing(
    settings: LearningSettings,
    world: ChangingWorld,
    rng: np.random.Generator,
    M: FloatArray | None = None,
) -> IntArray:
    """The steps of each episode of a fresh agent; ``M`` is its initial successor matrix."""
    n_states, n_actions = world.next_state.shape
    agent = new_arrays(n_states, n_actions, M)
    steps = np.zeros(len(world.starts), np.int64)
    log = np.zeros(0, EVENT)
    _run_kernel(agent, parameters_of(settings), world, _SIDES, steps, rng, log)
    return steps


@compiled_in_place
def _run_kernel(
    agent: AgentArrays,
    parameters: Parameters,
    world: ChangingWorld,
    sides: IntArray,
    steps: IntArray,
    rng: np.random.Generator,
    log: AnyArray,
) -> None:
    """Act and learn for all episodes; changes ``agent`` and writes ``steps``."""
    for episode in range(len(steps)):
        if parameters.reset_trace:
            clear_trace(agent.trace, agent.active)
        state, step, ends = world.starts[episode], 0, False
        following = world.starts[min(episode + 1, len(steps) - 1)]
        while not ends and step < world.episode_steps:
            action = epsilon_greedy(
                agent.pairs, agent.counts[N_ACTIONS], state, agent.states[state]["value"],
                parameters.epsilon, rng.random(),
            )  # fmt: skip
            taken = action
            if world.slip > 0.0 and rng.random() < world.slip:
                taken = sides[action, 0 if rng.random() < 0.5 else 1]
            next_state = world.next_state[state, taken]
            ends = next_state == world.goals[episode]
            reward = 1.0 if ends else 0.0
            if parameters.by_priority:
                sweeping_step(
                    agent, parameters, state, action, reward, next_state, ends,
                    following if ends else next_state, episode, step, log,
                )  # fmt: skip
            else:
                dyna_step(agent, parameters, state, action, reward, next_state, ends, rng)
            state = next_state
            step += 1
        steps[episode] = step
