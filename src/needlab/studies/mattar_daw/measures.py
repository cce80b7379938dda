"""What is measured in one simulation: events, laps, distances, behavior around events.

Everything is counted in arrays of fixed shape, so that simulations can be stacked.
"""

from __future__ import annotations

import numpy as np

from needlab.tabular.evb.simulation import Simulation
from needlab.tabular.replay_events import FORWARD, SHORTEST, Count, replay_events
from needlab.worlds.tabular import TabularWorld, distances_to
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray

FAR = 10
"""Columns on either side of the agent, in the histogram of a track."""
REACH = 10
"""Steps before and after an event whose states are looked for in it."""
FIRST_STATES = 5
"""Of an event, among which they are looked for."""
COUNTS: tuple[Count, ...] = ("pairs", "states")
"""The published rule of what makes an event long enough, and ours."""
MOST_VISITS = 20
LONGEST = 25
"""Shortest paths are counted from 0 to this."""


def measure(
    task: TabularWorld,
    found: Simulation,
    magnitudes: tuple[float, ...],
    between: IntArray,
    floor: float,
    count: Count,
    rng: np.random.Generator,
) -> dict[str, AnyArray]:
    """All measures of one simulation.

    Args:
        task: the world.
        found: the simulation.
        magnitudes: of the goals' reward; an event belongs to the one nearest to the last reward.
        between: ``path_lengths(task)``.
        floor: the smallest gain of one pair.
        count: the rule of all measures but ``counted``, which has both.
        rng: of the permutation test.
    """
    episodes = len(found.lengths)
    acting = int(task.acts.sum())
    events = np.zeros((len(magnitudes), 2, 2))
    laps, counted = np.zeros((episodes, 2)), np.zeros((len(COUNTS), 2, 2))
    columns = np.zeros((2, 2, 2 * FAR + 1))
    near, paths = np.zeros((2, 2, REACH, 3)), path_counts(task, found, between)
    cells, in_event = cell_counts(task, found), np.zeros((episodes, task.n_states), np.bool_)
    after, goal = leads_to_goal(task), task.goals[0]
    steps, table = found.steps["state"].tolist(), task.next_state
    for pause in found.pauses:
        agent, lap = int(pause["state"]), pause["episode"]
        part = found.backups[pause["first"] : pause["first"] + pause["count"]]
        listed = replay_events(part["state"], part["action"], table, count="pairs", rng=rng)
        group = int(np.argmin(np.abs(np.array(magnitudes) - pause["last_reward"])))
        for event in listed[listed["significant"]]:
            direction = 0 if event["direction"] == FORWARD else 1
            own = part[event["first"] : event["last"] + 1]
            states = own["state"]
            # Events by states are those by pairs that visit enough of them.
            rules = [True, bool(event["states"] >= SHORTEST)]
            counted[rules, direction, 0] += 1
            counted[rules, direction, 1] += np.all(own["gain"] <= 1.001 * floor * own["length"])
            if not rules[COUNTS.index(count)]:
                continue
            events[group, direction, int(after[agent])] += 1
            laps[lap, direction] += 1
            cells[direction, np.unique(states)] += 1
            in_event[lap, states] = True
            count_near(near[direction], steps, int(pause["step"]), states, acting)
            for end, state in enumerate((states[0], states[-1])):
                cells[2 + end, state] += 1
                ahead = columns_ahead(task, agent, int(state))
                columns[direction, end, max(-FAR, min(ahead, FAR)) + FAR] += 1
                for side, length in enumerate((between[agent, state], between[state, goal])):
                    if length >= 0:
                        paths[side, 1 + end, min(length, LONGEST)] += 1
    return {
        "events": events / (episodes / len(magnitudes)),
        "laps": laps,
        "counted": counted,
        "columns": columns,
        "near": near,
        "paths": paths,
        "cells": cells,
        "steps": found.lengths,
        "visits": visit_counts(task, found, in_event),
        **lap_means(found, acting),
    }


def cell_counts(task: TabularWorld, found: Simulation) -> FloatArray:
    """[(forward events, reverse events, first states, last states, episodes), state].

    How many contain a state; here only the episodes with a backup of it. Events are counted later.
    """
    counts = np.zeros((5, task.n_states))
    lap = found.pauses["episode"][found.backups["pause"]]
    pairs = np.unique(np.stack([lap, found.backups["state"]]), axis=1)
    counts[4] = np.bincount(pairs[1], minlength=task.n_states)
    return counts


def path_lengths(task: TabularWorld) -> IntArray:
    """[from, to]: steps of a shortest path; from a goal, of the way to it. -1: there is none."""
    lengths = np.stack([distances_to(task, [state]) for state in range(task.n_states)], axis=1)
    lengths[task.goals] = lengths[:, task.goals].T
    return lengths


def leads_to_goal(task: TabularWorld) -> BoolArray:
    """[state]: whether a replay there is after a run: a move enters a goal, or it is the goal."""
    found: BoolArray = np.any(task.goal[task.next_state] >= 0, axis=1) & task.free
    return found


def columns_ahead(task: TabularWorld, agent: int, state: int) -> int:
    """Columns from the agent to a state, ahead of it positive; all corridors count alike.

    On a track, the agent runs right in the first row and left in the others.
    """
    ahead = state % task.columns - agent % task.columns
    return ahead if agent < task.columns else -ahead


def count_near(
    near: FloatArray, steps: list[int], step: int, states: IntArray, acting: int
) -> None:
    """Count whether the states visited t steps before and after are among an event's first five.

    ``near`` is [before or after, t - 1, (hits, events, chance)]; chance is the event's length over
    the number of states where the agent can act.
    """
    first = set(states[:FIRST_STATES].tolist())
    for side, sign in enumerate((-1, 1)):
        inside = min(REACH, step if sign < 0 else len(steps) - 1 - step)
        near[side, :inside, 0] += [steps[step + sign * t] in first for t in range(1, inside + 1)]
        near[side, :inside, 1:] += (1, len(states) / acting)


def path_counts(task: TabularWorld, found: Simulation, between: IntArray) -> FloatArray:
    """[agent or goal, (backups, events' first, events' last, all states), path length].

    From the agent to the state, or from the state to the first goal. Events are counted later.
    """
    counts = np.zeros((2, 4, LONGEST + 1))
    agents, states = found.pauses["state"], found.backups["state"]
    everywhere, goal = np.flatnonzero(task.acts), task.goals[0]
    for side, place, lengths in (
        (0, 0, between[agents[found.backups["pause"]], states]),
        (0, 3, between[agents][:, everywhere].ravel()),
        (1, 0, between[states, goal]),
        (1, 3, between[everywhere, goal]),
    ):
        known = np.minimum(lengths[lengths >= 0], LONGEST)
        counts[side, place] = np.bincount(known, minlength=LONGEST + 1)
    return counts


def visit_counts(task: TabularWorld, found: Simulation, in_event: BoolArray) -> FloatArray:
    """[visits in a lap, (states in an event of that lap, states)], over all laps and states."""
    visits = np.zeros(in_event.shape, np.int64)
    np.add.at(visits, (found.steps["episode"], found.steps["state"]), 1)
    counts = np.zeros((MOST_VISITS + 1, 2))
    own, hit = visits[:, task.acts], in_event[:, task.acts]
    few = own <= MOST_VISITS
    np.add.at(counts[:, 0], own[few], hit[few])
    np.add.at(counts[:, 1], own[few], 1)
    return counts


def lap_means(found: Simulation, acting: int) -> dict[str, AnyArray]:
    """By lap: mean gain and need of backups, and the share of states that are replayed."""
    episodes = len(found.lengths)
    lap = found.pauses["episode"][found.backups["pause"]]
    backups = np.bincount(lap, minlength=episodes)
    pairs = np.unique(np.stack([lap, found.backups["state"]]), axis=1)
    means = {
        name: np.bincount(lap, found.backups[name], minlength=episodes) / np.maximum(backups, 1)
        for name in ("gain", "need")
    }
    return {
        **{f"lap_{name}": values for name, values in means.items()},
        "lap_backups": backups,
        "lap_activation": np.bincount(pairs[0], minlength=episodes) / acting,
    }
