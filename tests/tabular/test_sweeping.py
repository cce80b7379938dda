"""Prioritized sweeping against Algorithm 1 written plainly, update for update."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest

from needlab.tabular.arrays import EVENTS, UPDATES, new_arrays
from needlab.tabular.settings import PS_SR, NeedFrom, NeedKind, SweepingSettings, without_need
from needlab.tabular.sweeping import EVENT
from needlab.tabular.trial import (
    logged_trial,
    new_agent,
    random_policy_successor,
    run_episodes,
    run_trial,
)
from needlab.worlds import cliffwalk_world
from needlab.worlds.tabular import TabularWorld, world_of_arrays
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray

Pair = tuple[int, int]
Event = tuple[int, int, int, int, int, float, float, float, float]
Tables = Callable[[int], TabularWorld]
close = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-15)


@dataclass
class Plain:
    """Algorithm 1 with dictionaries and lists, in the order of its lines."""

    table: TabularWorld
    settings: SweepingSettings
    M: FloatArray
    rng: np.random.Generator
    Q: dict[Pair, float] = field(default_factory=dict)
    model: dict[Pair, tuple[float, int, float]] = field(default_factory=dict)
    leading_to: dict[int, list[Pair]] = field(default_factory=dict)
    queue: dict[Pair, tuple[float, int]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        n_states, self.n_actions = self.table.next_state.shape
        self.Q = {(s, a): 0.0 for s in range(n_states) for a in range(self.n_actions)}
        self.M = self.M.copy()
        self.e = np.zeros(n_states)
        self.queued_so_far = itertools.count()

    def value(self, s: int) -> float:
        return max(self.Q[s, a] for a in range(self.n_actions))

    def act(self, s: int) -> int:
        u, epsilon = self.rng.random(), self.settings.epsilon
        if u < epsilon:
            return int(u / epsilon * self.n_actions)
        best = [a for a in range(self.n_actions) if self.Q[s, a] == self.value(s)]
        return best[int((u - epsilon) / (1.0 - epsilon) * len(best))]

    def learn_successor(self, s: int, s2: int, ends: bool) -> None:
        gamma, alpha = self.settings.discount, self.settings.successor_step_size
        self.e *= gamma * self.settings.trace_decay
        self.e[self.e < 1e-17] = 0.0
        self.e[s] += 1.0
        error = -self.M[s] if ends else gamma * self.M[s2] - self.M[s]
        if ends and not any((s2, a) in self.model for a in range(self.n_actions)):
            error[s2] += gamma
        error[s] += 1.0
        self.M += np.outer(alpha * self.e, error)

    def remember(self, pair: Pair, r: float, s2: int, ends: bool) -> None:
        if pair not in self.model or self.model[pair][1] != s2:
            for pairs in self.leading_to.values():
                if pair in pairs:
                    pairs.remove(pair)
            self.leading_to.setdefault(s2, []).append(pair)
        self.model[pair] = (r, s2, 0.0 if ends else self.settings.discount)

    def error_of(self, pair: Pair) -> float:
        r, s2, discount = self.model[pair]
        return r + discount * self.value(s2) - self.Q[pair]

    def insert_if_large(self, pair: Pair) -> None:
        P = abs(self.error_of(pair))
        if self.settings.threshold >= P:
            return
        if pair not in self.queue:
            self.queue[pair] = (P, next(self.queued_so_far))
        elif self.queue[pair][0] < P:
            self.queue[pair] = (P, self.queue[pair][1])

    def need(self, current: int, s: int) -> float:
        if self.settings.need == "none":
            return 1.0
        return float(self.M[current, s] if self.settings.need == "forward" else self.M[s, current])

    def plan(self, current: int, here: int) -> None:
        for _ in range(self.settings.planning_updates):
            if not self.queue:
                return
            ranked = [
                (-P * self.need(current, pair[0]), number, pair)
                for pair, (P, number) in self.queue.items()
            ]
            negative_product, _, pair = min(ranked)
            skipped = negative_product == 0.0 or negative_product >= 1.0
            if skipped and not self.settings.pop_without_need:
                continue
            P, _ = self.queue.pop(pair)
            before = self.Q[pair]
            self.Q[pair] += self.settings.step_size * self.error_of(pair)
            s, a = pair
            self.events.append(
                (len(self.lengths), self.step, here, s, a, P, self.need(current, s),
                 before, self.Q[pair])
            )  # fmt: skip
            for earlier in self.leading_to.get(s, []):
                self.insert_if_large(earlier)
            if self.settings.need_from == "popped":
                current = s

    def episode(self) -> None:
        s, ends, self.step = self.table.start, False, 0
        if self.settings.reset_trace:
            self.e[:] = 0.0
        while not ends:
            a = self.act(s)
            r = float(self.table.reward_mean[s, a])
            if self.table.reward_std[s, a] > 0.0:
                r += float(self.table.reward_std[s, a]) * self.rng.standard_normal()
            s2, ends = int(self.table.next_state[s, a]), bool(self.table.ends[s, a])
            self.remember((s, a), r, s2, ends)
            if self.settings.learn_successor:
                self.learn_successor(s, s2, ends)
            self.insert_if_large((s, a))
            stands_next = self.table.start if ends else s2
            self.plan(stands_next if self.settings.need_from == "next" else s, here=s2)
            s = s2
            self.step += 1
        self.lengths.append(self.step)


def assert_same(
    table: TabularWorld, settings: SweepingSettings, M: FloatArray, episodes: int, seed: int
) -> list[Event]:
    """Run the kernel and the plain algorithm on the same random numbers; both must do the same."""
    plain = Plain(table, settings, M, stream(seed, "same"))
    for _ in range(episodes):
        plain.episode()
    agent = new_arrays(table.n_states, table.n_actions, M)
    log = np.zeros(len(plain.events) + 100, EVENT)
    lengths = run_episodes(agent, table, settings, episodes, stream(seed, "same"), log=log)
    assert lengths.tolist() == plain.lengths
    events = log[: agent.counts[EVENTS]].tolist()
    assert [event[:5] for event in events] == [event[:5] for event in plain.events]
    close([event[5:] for event in events], [event[5:] for event in plain.events])
    assert agent.counts[UPDATES] == len(plain.events)
    close(agent.Q.ravel(), list(plain.Q.values()))
    close(agent.M, plain.M)
    return plain.events


VARIANTS = [
    (need, need_from, pop)
    for need in ("forward", "backward")
    for need_from in ("current", "next", "popped")
    for pop in (True, False)
]


@pytest.mark.parametrize("preset", ["printed", "released"])
@pytest.mark.parametrize(("need", "need_from", "pop"), VARIANTS)
def test_agrees_with_the_plain_algorithm_on_the_dyna_maze(
    maze: TabularWorld, uncompiled: bool, preset: str, need: NeedKind, need_from: NeedFrom,
    pop: bool,
) -> None:  # fmt: skip
    settings = replace(
        PS_SR[preset], need=need, need_from=need_from, pop_without_need=pop, threshold=1e-10
    )
    M = random_policy_successor(maze, settings.discount)
    events = assert_same(maze, settings, M, 2 if uncompiled else 8, seed=0)
    assert events


@pytest.mark.parametrize("preset", ["printed", "released"])
@pytest.mark.parametrize("learn_successor", [True, False])
def test_agrees_with_the_plain_algorithm_without_need(
    maze: TabularWorld, uncompiled: bool, preset: str, learn_successor: bool
) -> None:
    settings = replace(without_need(PS_SR[preset]), learn_successor=learn_successor)
    M = random_policy_successor(maze, settings.discount)
    assert_same(maze, settings, M, 2 if uncompiled else 12, seed=1)


@pytest.mark.parametrize(("need", "need_from", "pop"), [*VARIANTS, ("none", "current", True)])
def test_agrees_with_the_plain_algorithm_on_random_tables(
    random_table: Tables, uncompiled: bool, need: NeedKind, need_from: NeedFrom, pop: bool
) -> None:
    # M begins with entries of both signs, zeros and repeats: products tie, vanish, are negative.
    signs: set[float] = set()
    for seed in range(12 if uncompiled else 25):
        table = random_table(seed)
        rng = np.random.default_rng(seed)
        M = rng.choice(np.array([-1.0, -0.5, 0.0, 0.5, 1.0]), (table.n_states,) * 2)
        settings = SweepingSettings(
            discount=0.9, step_size=0.5, epsilon=0.4, planning_updates=int(rng.integers(0, 7)),
            threshold=0.0, need=need, need_from=need_from, pop_without_need=pop,
            learn_successor=bool(rng.integers(0, 2)), successor_step_size=0.3,
            trace_decay=0.7, reset_trace=bool(rng.integers(0, 2)),
        )  # fmt: skip
        events = assert_same(table, settings, M, 12, seed)
        signs |= {float(np.sign(event[6])) for event in events}
    if need != "none":
        # As released, a product between -1 and 0 is popped, one of exactly 0 is not.
        assert signs == ({-1.0, 0.0, 1.0} if pop else {-1.0, 1.0})


@pytest.mark.parametrize("preset", ["printed", "released"])
def test_need_of_one_everywhere_is_prioritized_sweeping(
    maze: TabularWorld, uncompiled: bool, preset: str
) -> None:
    episodes = 3 if uncompiled else 50
    with_need = replace(PS_SR[preset], successor_step_size=0.0)
    ones = new_arrays(maze.n_states, maze.n_actions, np.ones((54, 54)))
    baseline = new_agent(maze, without_need(with_need))
    logs = [np.zeros(50_000, EVENT), np.zeros(50_000, EVENT)]
    lengths = [
        run_episodes(agent, maze, settings, episodes, stream(0, "reduction"), log=log)
        for agent, settings, log in zip(
            (ones, baseline), (with_need, without_need(with_need)), logs, strict=True
        )
    ]
    assert 0 < ones.counts[EVENTS] < 50_000
    assert lengths[0].tolist() == lengths[1].tolist()
    np.testing.assert_array_equal(logs[0], logs[1])
    np.testing.assert_array_equal(ones.pairs, baseline.pairs)


def one_way() -> TabularWorld:
    """0 -> 1 -> 2 with one action; arriving in 2 gives 1 and ends."""
    return world_of_arrays(
        next_state=np.array([[1], [2], [2]]),
        reward_mean=np.array([[0.0], [1.0], [0.0]]),
        reward_std=np.zeros((3, 1)),
        ends=np.array([[False], [True], [False]]),
        starts=[0],
    )


@pytest.mark.parametrize(
    ("need_from", "needs"),
    [
        # M[i, j] = 10 i + j + 1. The first step changes nothing, so nothing is queued. At the
        # second, 1 -> 2, pair 1 is popped and then its predecessor 0.
        ("current", [12.0, 11.0]),  # row 1, in which the action was taken: M[1, 1], M[1, 0]
        ("next", [2.0, 1.0]),  # row 0, the start of the next episode: M[0, 1], M[0, 0]
        ("popped", [12.0, 11.0]),  # row 1, then the row of 1, which was popped
    ],
)
def test_whose_row_need_is_read_from_on_reaching_the_goal(
    need_from: NeedFrom, needs: list[float]
) -> None:
    M = np.array([[1.0, 2.0, 3.0], [11.0, 12.0, 13.0], [21.0, 22.0, 23.0]])
    settings = SweepingSettings(need_from=need_from, learn_successor=False, epsilon=0.0)
    log = np.zeros(10, EVENT)
    agent = new_arrays(3, 1, M)
    run_episodes(agent, one_way(), settings, 1, stream(0), log=log)
    events = log[: agent.counts[EVENTS]]
    assert events["state"].tolist() == [1, 0]
    assert events["need"].tolist() == needs
    assert events["step"].tolist() == [1, 1]
    assert events["agent_state"].tolist() == [2, 2]
    # alpha 0.1: Q(1) = 0.1; the gain of pair 0 is then 0.95 * 0.1.
    assert events["gain"].tolist() == pytest.approx([1.0, 0.095])
    assert events["q_after"].tolist() == pytest.approx([0.1, 0.0095])


@pytest.mark.parametrize(("threshold", "updates"), [(1.0, 0), (np.nextafter(1.0, 0.0), 1)])
def test_a_gain_must_be_larger_than_the_threshold(threshold: float, updates: int) -> None:
    settings = without_need(SweepingSettings(threshold=threshold))
    assert run_trial(one_way(), settings, 1, stream(0)).agent.updates == updates


def test_popped_need_moves_with_the_sweep() -> None:
    # Pairs 0 and 2 both lead to 1; after 1 is popped its row decides between them,
    # not that of the next episode's start.
    table = world_of_arrays(
        next_state=np.array([[1], [3], [1], [3]]),
        reward_mean=np.array([[0.0], [1.0], [0.0], [0.0]]),
        reward_std=np.zeros((4, 1)),
        ends=np.array([[False], [True], [False], [False]]),
        starts=[0],
    )
    M = np.ones((4, 4))
    M[1] = [5.0, 1.0, 2.0, 1.0]
    chosen = {}
    for need_from in ("next", "popped"):
        settings = SweepingSettings(
            need_from=need_from, learn_successor=False, epsilon=0.0, planning_updates=2
        )
        agent = new_arrays(4, 1, M)
        # From 2 first, so that pair 2 is the first queued of two equal gains.
        rng, log = stream(0), np.zeros(10, EVENT)
        for start in (2, 0):
            only_seen = replace(settings, threshold=1e300)
            run_episodes(agent, table._replace(starts=np.array([start])), only_seen, 1, rng)
        run_episodes(agent, table, settings, 1, rng, log=log)
        chosen[need_from] = log["state"][: agent.counts[EVENTS]].tolist()
    assert chosen == {"next": [1, 2], "popped": [1, 0]}


def consistent(log: AnyArray, table: TabularWorld, settings: SweepingSettings) -> FloatArray:
    """Replay the log's updates; the Q they lead to."""
    Q = np.zeros((table.n_states, table.n_actions))
    for event in log:
        place = int(event["state"]), int(event["action"])
        assert event["q_before"] == Q[place]
        Q[place] = event["q_after"]
        assert event["gain"] > settings.threshold
    return Q


@pytest.mark.parametrize("preset", ["printed", "released"])
def test_the_log_is_every_update_and_changes_nothing(
    maze: TabularWorld, uncompiled: bool, preset: str
) -> None:
    episodes, settings = (2 if uncompiled else 20), PS_SR[preset]
    silent = run_trial(maze, settings, episodes, stream(3, "log"))
    trial, log = logged_trial(maze, settings, episodes, stream(3, "log"))
    assert silent.lengths.tolist() == trial.lengths.tolist()
    np.testing.assert_array_equal(silent.agent.Q, trial.agent.Q)
    np.testing.assert_array_equal(silent.agent.M, trial.agent.M)
    assert silent.agent.updates == trial.agent.updates == len(log)
    assert silent.agent.counts[EVENTS] == 0
    np.testing.assert_array_equal(consistent(log, maze, settings), trial.agent.Q)
    last = log["episode"] == episodes - 1
    assert set(log["episode"]) <= set(range(episodes))
    assert log["step"][last].max() == trial.lengths[-1] - 1


def test_m_learns_its_closed_form_where_a_fall_ends_the_episode(uncompiled: bool) -> None:
    # The fall arrives at the start, which is not final: nothing is counted there.
    table = cliffwalk_world(3, fall="ends", right_actions="alternate")
    settings = replace(
        PS_SR["printed"], epsilon=1.0, discount=0.8, successor_step_size=0.02, planning_updates=0
    )
    episodes = 300 if uncompiled else 3000
    trial = run_trial(table, settings, episodes, stream(8, "fall"))
    truth = random_policy_successor(table, settings.discount)
    assert np.abs(trial.agent.M - truth).max() < (0.2 if uncompiled else 0.12)
    assert truth[1, 0] == 0.0
    assert abs(trial.agent.M[1, 0]) < 1e-12
