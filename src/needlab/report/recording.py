"""Logs of agents: ``record`` of any in ``tabular.agents``, ``evb_log`` of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from needlab.core.equations import uniform_index
from needlab.core.types import Info
from needlab.report.replay_log import (
    BACKUP,
    PAUSE,
    STEP,
    WRITE,
    Board,
    ReplayLog,
    check_not_empty,
    log_of,
)
from needlab.tabular.agents import DynaQ, Environment, PrioritizedSweeping, play
from needlab.tabular.arrays import EVENTS, SEEN
from needlab.tabular.dyna import td_error_of, update_model, update_q
from needlab.tabular.evb import episodes as evb_episodes
from needlab.tabular.evb.backups import BEFORE_FIRST_STEP, Agent, Rule, rule_of, run_backup
from needlab.tabular.evb.need import need_of
from needlab.tabular.evb.settings import EVBSettings
from needlab.tabular.evb.simulation import Simulation, new_agent
from needlab.tabular.settings import DynaSettings, LearningSettings, SweepingSettings
from needlab.tabular.sweeping import EVENT
from needlab.tabular.trial import initial_successor
from needlab.worlds.env import TabularEnv
from needlab.worlds.tabular import Schedule, TabularWorld, check_schedule
from needreplay._core.types import AnyArray, FloatArray

NEED_ENTRIES = 1_000_000
"""Need of all states is kept for every pause if it has no more entries than this."""


def record(
    name: str,
    board: Board,
    agent: DynaQ | PrioritizedSweeping,
    env: Environment,
    episodes: int,
    *,
    seed: int | None = 0,
) -> ReplayLog:
    """Let a fresh agent play and log its replay; the run is the one that ``play`` makes."""
    recorder = _Recorder(agent)
    play(recorder, env, episodes, seed=seed)
    pauses = np.array(recorder.pauses, PAUSE)
    check_not_empty(name, len(pauses))
    writes = np.array(recorder.writes, WRITE)
    last = pauses["first"][-1] + len(pauses) - 1 + pauses["count"][-1]
    need = np.array(recorder.need, np.float32)
    return log_of(
        name,
        board,
        np.array(recorder.steps, STEP),
        pauses,
        np.array(recorder.backups, BACKUP),
        writes[writes["frame"] <= last],
        need if need.size <= NEED_ENTRIES else np.zeros((0, 0), np.float32),
    )


def record_trial(
    name: str,
    board: Board,
    world: TabularWorld | Schedule,
    settings: LearningSettings,
    episodes: int,
    rng: np.random.Generator,
) -> ReplayLog:
    """Log a trial in a world: the same that ``trial.run_trial`` runs with the same ``rng``."""
    schedule = check_schedule(world)
    agent, env = agent_of(settings, schedule[0][1]), _ChangingEnv(schedule)
    agent.rng = env.np_random = rng
    return record(name, board, agent, env, episodes, seed=None)


class _ChangingEnv(TabularEnv):
    """An environment whose world may change before an episode."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule[0][1])
        self._schedule = dict(schedule)
        self._begun = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[int, Info]:
        """Begin an episode in the world that it has."""
        self.world = self._schedule.get(self._begun, self.world)
        self._begun += 1
        return super().reset(seed=seed, options=options)


def agent_of(settings: LearningSettings, world: TabularWorld) -> DynaQ | PrioritizedSweeping:
    """A fresh agent with these settings; M, if it has one, begins as the random policy's."""
    if isinstance(settings, SweepingSettings):
        M = initial_successor(world, settings)
        return PrioritizedSweeping(world.n_states, world.n_actions, settings, M=M)
    assert isinstance(settings, DynaSettings)
    return DynaQ(world.n_states, world.n_actions, settings)


class _Recorder:
    """An agent for ``play`` that passes everything on and keeps what happened."""

    def __init__(self, agent: DynaQ | PrioritizedSweeping) -> None:
        self.agent = agent
        self.steps: list[tuple[int, int, int]] = []
        self.pauses: list[tuple[float, ...]] = []
        self.backups: list[tuple[int, int, int, float, float, int, int, int, int]] = []
        self.writes: list[tuple[int, int, float]] = []
        self.need: list[FloatArray] = []
        self._episode, self._reward, self._first_step = -1, float("nan"), False
        self._n_states, self._n_actions = agent.Q.shape
        if isinstance(agent, PrioritizedSweeping):
            agent.log = np.zeros(max(1, getattr(agent.settings, "planning_updates", 0)), EVENT)

    def begin(self, state: int) -> None:
        self._episode, self._first_step = self._episode + 1, True
        self.agent.begin(state)

    def act(self, state: int) -> int:
        return self.agent.act(state)

    def learn(
        self, state: int, action: int, reward: float, next_state: int, terminated: bool
    ) -> None:
        self.steps.append((self._episode, state, next_state))
        self._reward = reward if terminated else self._reward
        kind = 1 if terminated else 0 if self._first_step else 2
        self._first_step = False
        first = len(self.backups)
        made: list[tuple[int, int, float, float, float]]
        if isinstance(self.agent, PrioritizedSweeping):
            made = self._sweep(state, action, reward, next_state, terminated)
        else:
            made = self._dyna(state, action, reward, next_state, terminated)
        if not made:
            return
        pause = len(self.pauses)
        self.pauses.append(
            (self._episode, len(self.steps), next_state, kind, first, len(made), self._reward)
        )
        for i, (s, a, gain, need, q) in enumerate(made):
            self.backups.append((pause, s, a, gain, need, 1, 0, -1, 0))
            self.writes.append((first + pause + i + 1, s * self._n_actions + a, q))

    def _sweep(self, *transition: Any) -> list[tuple[int, int, float, float, float]]:
        agent = self.agent
        assert isinstance(agent, PrioritizedSweeping)
        agent.arrays.counts[EVENTS] = 0
        agent.learn(*transition)
        made = agent.log[: agent.arrays.counts[EVENTS]]
        if len(made) and getattr(agent.settings, "need", "none") != "none":
            self.need.append(agent.arrays.need[: self._n_states].astype(np.float32))
        names = ["state", "action", "gain", "need", "q_after"]
        return [tuple(entry) for entry in made[names].tolist()]

    def _dyna(
        self, state: int, action: int, reward: float, next_state: int, terminated: bool
    ) -> list[tuple[int, int, float, float, float]]:
        """As ``dyna_step``, pair by pair."""
        arrays, settings, rng = self.agent.arrays, self.agent.settings, self.agent.rng
        pair = state * self._n_actions + action
        update_model(arrays, pair, reward, next_state, 0.0 if terminated else settings.discount)
        update_q(arrays, settings.step_size, pair)
        frame = len(self.backups) + len(self.pauses)
        self.writes.append((frame, pair, float(arrays.pairs[pair]["q"])))
        made = []
        for _ in range(getattr(settings, "planning_updates", 0)):
            pair = int(arrays.pairs[uniform_index(rng.random(), arrays.counts[SEEN])]["seen"])
            gain = abs(td_error_of(arrays, pair))
            update_q(arrays, settings.step_size, pair)
            s, a = divmod(pair, self._n_actions)
            made.append((s, a, float(gain), float("nan"), float(arrays.pairs[pair]["q"])))
        return made


def evb_log(
    name: str,
    board: Board,
    found: Simulation,
    world: TabularWorld,
    settings: EVBSettings,
    *,
    implanted: Mapping[int, tuple[int, int, float]] | None = None,
) -> ReplayLog:
    """The log of a simulation; what the agent knew is computed again, step by step.

    Args:
        name: of the run.
        board: of the world.
        found: the simulation; not of a world that changes its moves, nor with need "given".
        world: where it lived.
        settings: of its agent.
        implanted: by pause, a (state, action, reward) that was written into the agent's memory
            before it.
    """
    rule, agent = rule_of(settings), new_agent(world, settings)
    pauses = np.zeros(len(found.pauses), PAUSE)
    for field in ("episode", "state", "kind", "first", "count"):
        pauses[field] = found.pauses[field]
    pauses["reward"] = found.pauses["last_reward"]
    check_not_empty(name, len(found.backups))
    before = (found.pauses["kind"] == evb_episodes.START) & (rule.start_replay == BEFORE_FIRST_STEP)
    pauses["steps"] = found.pauses["step"] + ~before
    writes: list[tuple[int, int, float]] = []
    need = np.zeros((len(pauses), world.n_states), np.float32)
    made = 0

    def write(frame: int, pairs: AnyArray) -> None:
        for s, a in pairs.tolist():
            writes.append((frame, s * world.n_actions + a, agent.Q[s, a]))

    for number, pause in enumerate(pauses):
        frame = pause["first"] + number
        for step in found.steps[made : pause["steps"]]:
            _learn(agent, rule, world, step, found.steps, made)
            write(frame, np.array([[step["state"], step["action"]]]))
            made += 1
        if implanted and number in implanted:
            agent.reward[implanted[number][:2]] = implanted[number][2]
        need[number] = need_of(agent, rule, int(pause["state"]))
        listed = found.backups[pause["first"] : pause["first"] + pause["count"]]
        listed = np.stack([listed["state"], listed["action"], listed["length"]], axis=1)
        for i, (_, _, length) in enumerate(listed.tolist()):
            chain = np.ascontiguousarray(listed[i + 1 - length : i + 1, :2])
            run_backup(agent, rule, chain, length)
            write(frame + i + 1, chain)
    backups = np.zeros(len(found.backups), BACKUP)
    for field in ("pause", "state", "action", "gain", "need", "length"):
        backups[field] = found.backups[field]
    floors = np.where(settings.floor == "element", backups["length"], 1) * settings.floor_size
    backups["floor"] = (settings.floor != "none") & (backups["gain"] <= 1.001 * floors)
    steps = np.zeros(len(found.steps), STEP)
    for field in STEP.names or ():
        steps[field] = found.steps[field]
    return log_of(name, board, steps, pauses, backups, np.array(writes, WRITE), need)


def _learn(
    agent: Agent, rule: Rule, world: TabularWorld, step: Any, steps: AnyArray, number: int
) -> None:
    """What one step teaches; at a goal, also where the next episode begins."""
    after = int(step["next_state"])
    evb_episodes.learn(
        agent, rule, int(step["state"]), int(step["action"]), float(step["reward"]), after
    )
    if world.goal[after] >= 0 and number + 1 < len(steps):
        start = int(steps["state"][number + 1])
        evb_episodes.move_row(agent.T, after, start, rule.transition_rate)
