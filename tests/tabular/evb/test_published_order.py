"""Every backup of real replays is one of the best, by a slow evaluation of all candidates.

Written from the description of the published agent alone: dense loops, numpy, no shared code.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from needlab.tabular.evb import EVB, simulate
from needlab.worlds.make import tabular_world

GAMMA, BETA, FLOOR = 0.9, 5.0, 1e-10


class Slow:
    """The agent's memory, Q and T, and the worth of a chain."""

    def __init__(self, task: Any) -> None:
        self.task, (states, actions) = task, task.next_state.shape
        self.Q, self.T = np.zeros((states, actions)), np.zeros((states, states))
        self.memory: dict[tuple[int, int], tuple[float, int]] = {}
        for s in np.flatnonzero(task.acts).tolist():
            for a in range(actions):
                self.memory[s, a] = (0.0, int(task.next_state[s, a]))
                self.T[s, task.next_state[s, a]] += 1 / actions
        for number, goal in enumerate(task.goals):
            if task.random_start:
                self.T[goal, task.starts] = 1 / len(task.starts)
            else:
                self.T[goal, task.starts[(number + 1) % len(task.starts)]] = 1.0

    def step(self, s: int, a: int, reward: float, after: int) -> None:
        self.T[s] += 0.9 * (np.eye(len(self.T))[after] - self.T[s])
        self.memory[s, a] = (reward, after)
        self.Q[s, a] = reward + GAMMA * self.Q[after].max()

    def targets(self, chain: list[tuple[int, int]]) -> list[float]:
        last = float(self.Q[self.memory[chain[-1]][1]].max())
        return [
            sum(GAMMA**k * self.memory[pair][0] for k, pair in enumerate(chain[j:]))
            + GAMMA ** len(chain[j:]) * last
            for j in range(len(chain))
        ]

    def gain(self, pair: tuple[int, int], target: float) -> float:
        old, new = self.Q[pair[0]], self.Q[pair[0]].copy()
        new[pair[1]] = target
        before, after = (np.exp(BETA * q) / np.exp(BETA * q).sum() for q in (old, new))
        return float(after @ new - before @ new)

    def worth(self, chain: list[tuple[int, int]], need: Any) -> float:
        gains = [self.gain(*own) for own in zip(chain, self.targets(chain), strict=True)]
        return float(need[chain[-1][0]] * sum(max(gain, FLOOR) for gain in gains))

    def is_decided(self, chain: list[tuple[int, int]]) -> bool:
        values = self.Q[self.memory[chain[-1]][1]]
        return int((values == values.max()).sum()) == 1

    def extensions(self, chain: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        end = self.memory[chain[-1]][1]
        if self.task.goal[end] >= 0:
            return []
        passed = {s for s, _ in chain} | {end}
        best = np.flatnonzero(self.Q[end] == self.Q[end].max()).tolist()
        return [[*chain, (end, a)] for a in best if self.memory[end, a][1] not in passed]


@pytest.mark.parametrize(("world", "episodes"), [("linear-track", 4), ("open-field", 10)])
def test_every_backup_is_one_of_the_best(world: str, episodes: int) -> None:
    task = tabular_world(world)
    found = simulate(task, EVB["published"], episodes=episodes, seed=3)
    slow, made, checked, longer = Slow(task), 0, 0, 0
    # Episode 1 ends with a replay; later ones have one after their first step and one at the end.
    firsts = np.flatnonzero(np.diff(found.steps["episode"], prepend=-1))
    ends = np.r_[firsts[1:], len(found.steps)] - 1
    assert found.pauses["step"].tolist() == sorted({*firsts[1:].tolist(), *ends.tolist()})
    for pause in found.pauses:
        while made <= pause["step"]:
            s, a, after, reward = found.steps[["state", "action", "next_state", "reward"]][made]
            if made and task.goal[found.steps["next_state"][made - 1]] >= 0:
                goal = found.steps["next_state"][made - 1]
                slow.T[goal] += 0.9 * (np.eye(len(slow.T))[s] - slow.T[goal])
            slow.step(s, a, reward, after)
            made += 1
        assert pause["state"] == found.steps["state"][pause["step"]], "need is from the state left"
        need = np.linalg.inv(np.eye(len(slow.T)) - GAMMA * slow.T)[pause["state"]]
        singles = [[pair] for pair, (_, after) in slow.memory.items() if after != pair[0]]
        chain: list[tuple[int, int]] = []
        for backup in found.backups[pause["first"] : pause["first"] + pause["count"]]:
            pair = (int(backup["state"]), int(backup["action"]))
            worths = [slow.worth(own, need) for own in singles]
            options = slow.extensions(chain) if chain else []
            assert backup["need"] == pytest.approx(need[pair[0]], rel=1e-9)
            if backup["length"] > 1:
                assert [*chain, pair] in options
                chain = [*chain, pair]
                assert slow.worth(chain, need) > max(worths) * (1 - 1e-9)
                longer += 1
            else:
                own = slow.worth([pair], need)
                assert own == pytest.approx(max(worths), rel=1e-9)
                # Of several greedy extensions only one is drawn, and the log does not say which.
                if len(options) == 1 and slow.is_decided(chain):
                    assert slow.worth(options[0], need) <= own * (1 + 1e-9)
                chain = [pair]
            assert len(chain) == backup["length"]
            assert len({s for s, _ in chain}) == len(chain), "no loops"
            for (s, a), (after, _) in pairwise(chain):
                assert slow.memory[s, a][1] == after
            for pair, target in zip(chain, slow.targets(chain), strict=True):
                slow.Q[pair] += target - slow.Q[pair]
            checked += 1
    assert checked == 20 * len(found.pauses)
    assert longer > 5
    np.testing.assert_allclose(slow.Q, found.agent.Q, rtol=1e-9, atol=1e-12)
