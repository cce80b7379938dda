"""Prioritized sweeping as it is usually written: a dict model and a heap with lazy deletion.

The rule is that of ``needlab.tabular.sweeping`` without need. Twice: with Q in plain lists, and
with Q in a numpy array, as most public implementations have it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count

import numpy as np

from needlab.tabular.settings import SweepingSettings
from needlab.worlds.tabular import TabularWorld
from needreplay._core.types import FloatArray

Pair = tuple[int, int]
Entry = tuple[float, int, Pair]


class World:
    """A table as plain Python would hold it: a dict from pairs to what follows."""

    def __init__(self, table: TabularWorld) -> None:
        self.n_states, self.n_actions = table.n_states, table.n_actions
        self.start = table.start
        self.outcome = {
            (s, a): (
                int(table.next_state[s, a]),
                float(table.reward_mean[s, a]),
                float(table.reward_std[s, a]),
                bool(table.ends[s, a]),
            )
            for s in range(table.n_states)
            for a in range(table.n_actions)
        }


class Queue:
    """A heap; an entry that was replaced stays in it and is passed over when it comes up."""

    def __init__(self) -> None:
        self.heap: list[Entry] = []
        self.valid: dict[Pair, Entry] = {}
        self.numbers = count()

    def push(self, pair: Pair, gain: float) -> None:
        """Queue a pair; one that is queued already keeps the larger gain and its place."""
        known = self.valid.get(pair)
        if known is None:
            entry = (-gain, next(self.numbers), pair)
        elif -gain < known[0]:
            entry = (-gain, known[1], pair)
        else:
            return
        self.valid[pair] = entry
        heapq.heappush(self.heap, entry)

    def pop(self) -> Pair | None:
        """The pair of the largest gain, or None."""
        while self.heap:
            entry = heapq.heappop(self.heap)
            if self.valid.get(entry[2]) is entry:
                del self.valid[entry[2]]
                return entry[2]
        return None


def choose_by_one_number(
    row: Sequence[float] | FloatArray, epsilon: float, rng: np.random.Generator
) -> int:
    """An epsilon-greedy action from one uniform number, as the compiled kernels draw it."""
    u = rng.random()
    if u < epsilon:
        return int(u / epsilon * len(row))
    best = max(row)
    ties = [a for a, value in enumerate(row) if value == best]
    return ties[int((u - epsilon) / (1.0 - epsilon) * len(ties))]


def choose_usually(row: FloatArray, epsilon: float, rng: np.random.Generator) -> int:
    """An epsilon-greedy action as it is usually drawn from a numpy array."""
    if rng.random() < epsilon:
        return int(rng.integers(len(row)))
    return int(rng.choice(np.flatnonzero(row == row.max())))


def plain_trial(
    world: World, settings: SweepingSettings, episodes: int, rng: np.random.Generator
) -> tuple[int, int]:
    """One trial with Q in lists; its steps and its updates."""
    alpha, gamma, epsilon = settings.step_size, settings.discount, settings.epsilon
    theta, n = settings.threshold, settings.planning_updates
    Q = [[0.0] * world.n_actions for _ in range(world.n_states)]
    model: dict[Pair, tuple[float, int, float]] = {}
    leading_to: defaultdict[int, list[Pair]] = defaultdict(list)
    queue = Queue()
    steps = updates = 0
    for _ in range(episodes):
        s, ends = world.start, False
        while not ends:
            a = choose_by_one_number(Q[s], epsilon, rng)
            s2, r, spread, ends = world.outcome[s, a]
            if spread > 0.0:
                r = rng.normal(r, spread)
            if (s, a) not in model:
                leading_to[s2].append((s, a))
            model[s, a] = r, s2, 0.0 if ends else gamma
            gain = abs(r + model[s, a][2] * max(Q[s2]) - Q[s][a])
            if gain > theta:
                queue.push((s, a), gain)
            for _ in range(n):
                pair = queue.pop()
                if pair is None:
                    break
                (state, action), (r, after, discount) = pair, model[pair]
                Q[state][action] += alpha * (r + discount * max(Q[after]) - Q[state][action])
                updates += 1
                value = max(Q[state])
                for earlier in leading_to[state]:
                    r, _, discount = model[earlier]
                    gain = abs(r + discount * value - Q[earlier[0]][earlier[1]])
                    if gain > theta:
                        queue.push(earlier, gain)
            s, steps = s2, steps + 1
    return steps, updates


def numpy_trial(
    world: World,
    settings: SweepingSettings,
    episodes: int,
    rng: np.random.Generator,
    choose: Callable[[FloatArray, float, np.random.Generator], int] = choose_usually,
) -> tuple[int, int]:
    """The same trial with Q in a numpy array; its steps and its updates."""
    alpha, gamma, epsilon = settings.step_size, settings.discount, settings.epsilon
    theta, n = settings.threshold, settings.planning_updates
    Q = np.zeros((world.n_states, world.n_actions))
    model: dict[Pair, tuple[float, int, float]] = {}
    leading_to: defaultdict[int, list[Pair]] = defaultdict(list)
    queue = Queue()
    steps = updates = 0
    for _ in range(episodes):
        s, ends = world.start, False
        while not ends:
            a = choose(Q[s], epsilon, rng)
            s2, r, spread, ends = world.outcome[s, a]
            if spread > 0.0:
                r = rng.normal(r, spread)
            if (s, a) not in model:
                leading_to[s2].append((s, a))
            model[s, a] = r, s2, 0.0 if ends else gamma
            gain = abs(r + model[s, a][2] * np.max(Q[s2]) - Q[s, a])
            if gain > theta:
                queue.push((s, a), gain)
            for _ in range(n):
                pair = queue.pop()
                if pair is None:
                    break
                r, after, discount = model[pair]
                Q[pair] += alpha * (r + discount * np.max(Q[after]) - Q[pair])
                updates += 1
                value = np.max(Q[pair[0]])
                for earlier in leading_to[pair[0]]:
                    r, _, discount = model[earlier]
                    gain = abs(r + discount * value - Q[earlier])
                    if gain > theta:
                        queue.push(earlier, gain)
            s, steps = s2, steps + 1
    return steps, updates
