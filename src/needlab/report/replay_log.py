"""A log of replay that can be shown: what an agent did, replayed and knew at every moment.

``record`` logs any agent of ``tabular.agents`` in any environment with numbered states,
``evb_log`` a simulation of the EVB agent, ``table_log`` a table of backups or of decoded states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from needlab.core.equations import uniform_index
from needlab.core.tables import Table
from needlab.core.types import Info
from needlab.tabular.agents import DynaQ, Environment, PrioritizedSweeping, play
from needlab.tabular.arrays import EVENTS, SEEN
from needlab.tabular.decoded import detect_events
from needlab.tabular.dyna import td_error_of, update_model, update_q
from needlab.tabular.evb import episodes as evb_episodes
from needlab.tabular.evb.backups import BEFORE_FIRST_STEP, rule_of, run_backup
from needlab.tabular.evb.need import need_of
from needlab.tabular.evb.settings import EVBSettings
from needlab.tabular.evb.simulation import Simulation, new_agent
from needlab.tabular.replay_events import DIRECTIONS, WHENS, pause_borders, replay_table
from needlab.tabular.replay_files import is_decoded
from needlab.tabular.settings import DynaSettings, LearningSettings, SweepingSettings
from needlab.tabular.sweeping import EVENT
from needlab.tabular.trial import initial_successor
from needlab.worlds.env import TabularEnv
from needlab.worlds.tabular import Schedule, TabularWorld, check_schedule
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, FloatArray, IntArray

PAUSE = np.dtype(
    [
        ("episode", np.int32),
        ("steps", np.int32),  # that were made before it
        ("state", np.int32),  # where the agent is
        ("kind", np.int32),  # index in KINDS
        ("first", np.int32),  # backup
        ("count", np.int32),  # of backups
        ("reward", np.float32),  # the last one at a goal
    ]
)
"""A time at which the agent replays."""
KINDS = (
    "at the start of an episode",
    "at the end of an episode",
    "during an episode",
    "at a time that is not known",
)
"""As ``replay_events.WHENS``."""
BACKUP = np.dtype(
    [
        ("pause", np.int32),
        ("state", np.int32),
        ("action", np.int32),  # -1: not known
        ("gain", np.float32),
        ("need", np.float32),
        ("length", np.int32),  # pairs of its chain
        ("floor", np.int32),  # 1: its gain is only the floor of its agent
        ("event", np.int32),  # -1: in none
        ("direction", np.int32),  # index in replay_events.DIRECTIONS
    ]
)
WRITE = np.dtype([("frame", np.int32), ("pair", np.int32), ("value", np.float32)])
"""Q(pair) becomes ``value`` at ``frame``. Frame ``first + pause + i`` shows a pause after i of its
backups, so a log has as many frames as pauses and backups."""
STEP = np.dtype([("episode", np.int32), ("state", np.int32), ("next_state", np.int32)])

LONGEST_ROW = 40
"""A world without a board is drawn in one row if it has no more states than this."""
NEED_ENTRIES = 1_000_000
"""Need of all states is kept for every pause if it has no more entries than this."""


@dataclass(frozen=True, eq=False)
class Board:
    """How a tabular world is drawn."""

    name: str
    columns: int
    """width of the board; states are row-major"""
    marks: str
    """one character per state: # wall, S start, a capital letter a goal, a small letter a reward,
    ^ v < > a one-way door, . other"""
    next_state: IntArray
    """[state, action]"""
    starts: str = ""
    """how starts are chosen, in words, if they are drawn"""

    @staticmethod
    def of_world(world: TabularWorld, name: str) -> Board:
        """The board of a world as it was drawn, else with S and G.

        Without columns it is a row, or a square if that is long.
        """
        row = world.n_states
        if row > LONGEST_ROW:
            row = math.isqrt(row - 1) + 1
        anywhere = len(world.starts) == world.acts.sum()
        starts = "starts anywhere" if anywhere else "starts at random"
        return Board(
            name,
            world.columns or row,
            world.picture(),
            world.next_state,
            starts * world.random_start,
        )


@dataclass(frozen=True, eq=False)
class ReplayLog:
    """All that a picture of replay needs."""

    name: str
    board: Board
    steps: AnyArray
    """``STEP``"""
    pauses: AnyArray
    """``PAUSE``, each with at least one backup"""
    backups: AnyArray
    """``BACKUP``"""
    writes: AnyArray
    """``WRITE``, in order of frames; empty if Q is not known"""
    need: AnyArray
    """[pause, state] float32; empty if it is not known or too large"""

    def table(self) -> Table:
        """The log as a replay table, as ``replay_files.write_replay`` writes it."""
        pauses, backups = self.pauses, self.backups
        own = pauses[backups["pause"]]
        return Table(
            {
                "episode": own["episode"].astype(np.int64),
                "pause": backups["pause"].astype(np.int64),
                "order": np.arange(len(backups)) - own["first"],
                "when": np.array(WHENS)[own["kind"]],
                "agent_state": own["state"].astype(np.int64),
                "reward": own["reward"].astype(np.float64),
                "state": backups["state"].astype(np.int64),
                "action": backups["action"].astype(np.int64),
                "gain": backups["gain"].astype(np.float64),
                "need": backups["need"].astype(np.float64),
                "chain_length": backups["length"].astype(np.int64),
                "direction": np.array(DIRECTIONS)[backups["direction"]],
                "event": backups["event"].astype(np.int64),
            }
        )

    def _repr_html_(self) -> str:
        """The viewer, in a notebook."""
        from needlab.report.viewer import viewer_frame

        return viewer_frame([self])


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
    _check_not_empty(name, len(pauses))
    writes = np.array(recorder.writes, WRITE)
    last = pauses["first"][-1] + len(pauses) - 1 + pauses["count"][-1]
    need = np.array(recorder.need, np.float32)
    return _log(
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
        self.backups: list[tuple[Any, ...]] = []
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
    _check_not_empty(name, len(found.backups))
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
    return _log(name, board, steps, pauses, backups, np.array(writes, WRITE), need)


def _learn(
    agent: Any, rule: Any, world: TabularWorld, step: Any, steps: AnyArray, number: int
) -> None:
    """What one step teaches; at a goal, also where the next episode begins."""
    after = int(step["next_state"])
    evb_episodes.learn(
        agent, rule, int(step["state"]), int(step["action"]), float(step["reward"]), after
    )
    if world.goal[after] >= 0 and number + 1 < len(steps):
        start = int(steps["state"][number + 1])
        evb_episodes.move_row(agent.T, after, start, rule.transition_rate)


def table_log(name: str, board: Board, table: Table) -> ReplayLog:
    """The log of a table from ``replay_files.read_replay``; Q is not known.

    The table's own events and directions are shown; if it has none, they are computed.
    """
    _check_not_empty(name, len(table))
    lowest = -1 if is_decoded(table) else 0
    for column, count in zip(("state", "action"), board.next_state.shape, strict=True):
        found = table[column] if column in table.names else np.zeros(1, np.int64)
        if found.max() >= count or found.min() < (lowest if column == "state" else -1):
            raise NeedReplayError(
                f"The cells of column {column!r} of {name} must be from 0 to {count - 1}, as the "
                f"world {board.name} has them; they are from {found.min()} to {found.max()}."
            )
    return (_decoded_log if is_decoded(table) else _backups_log)(name, board, table)


def _backups_log(name: str, board: Board, table: Table) -> ReplayLog:
    starts = np.array(pause_borders(table["pause"])[:-1])
    pauses = np.zeros(len(starts), PAUSE)
    pauses["first"], pauses["count"] = starts, np.diff(np.r_[starts, len(table)])
    pauses["episode"], pauses["state"] = table["episode"][starts], table["agent_state"][starts]
    pauses["kind"] = [WHENS.index(when) for when in table["when"][starts].tolist()]
    pauses["reward"] = table["reward"][starts]
    backups = np.zeros(len(table), BACKUP)
    backups["pause"] = np.repeat(np.arange(len(starts)), pauses["count"])
    backups["length"] = table["chain_length"]
    for field in ("state", "action", "gain", "need"):
        backups[field] = table[field]
    if "event" in table.names:
        return _bare(name, board, pauses, _labeled(backups, table))
    if np.any(table["action"] < 0):
        raise NeedReplayError(
            f"{name} has empty actions, without which events cannot be computed; give the columns "
            "'direction' and 'event', too."
        )
    nothing = np.zeros((0, 0), np.float32)
    return _log(name, board, np.zeros(0, STEP), pauses, backups, np.zeros(0, WRITE), nothing)


def _decoded_log(name: str, board: Board, table: Table) -> ReplayLog:
    """Each event is a pause; bins without a state are left out.

    A bin's action is the move that leads to the next state, if there is one. An event without a
    direction in the table has that of all its steps, if they have one.
    """
    known = table["state"] >= 0
    _check_not_empty(name, int(known.sum()))
    table = Table({column: table[column][known] for column in table.names})
    starts = np.array(pause_borders(table["event"])[:-1])
    counts = np.diff(np.r_[starts, len(table)])
    pauses = np.zeros(len(starts), PAUSE)
    pauses["first"], pauses["count"], pauses["state"] = starts, counts, -1
    pauses["kind"], pauses["reward"] = WHENS.index("unknown"), np.nan
    backups = np.zeros(len(table), BACKUP)
    backups["pause"], backups["length"] = np.repeat(np.arange(len(starts)), counts), 1
    backups["state"], backups["gain"], backups["need"] = table["state"], np.nan, np.nan
    backups["action"] = -1
    direction = np.full(len(table), DIRECTIONS[0], dtype="U10")
    for begin, count in zip(starts.tolist(), counts.tolist(), strict=True):
        states = table["state"][begin : begin + count]
        for i, (state, after) in enumerate(pairwise(states.tolist())):
            ways = np.flatnonzero(board.next_state[state] == after)
            if ways.size and state != after:
                backups["action"][begin + i] = ways[0]
        if "direction" in table.names:
            direction[begin : begin + count] = table["direction"][begin]
        elif np.unique(states).size > 1:
            found = detect_events(states, adjacency=board.next_state, skip=count, shortest=2)
            whole = found["first"].tolist() == [0] and states[found["last"][0]] == states[-1]
            direction[begin : begin + count] = found["direction"][0] if whole else DIRECTIONS[0]
    labels = Table({"event": table["event"], "direction": direction})
    return _bare(name, board, pauses, _labeled(backups, labels))


def _labeled(backups: AnyArray, table: Table) -> AnyArray:
    backups["event"] = table["event"]
    backups["direction"] = [DIRECTIONS.index(one) for one in table["direction"].tolist()]
    return backups


def _bare(name: str, board: Board, pauses: AnyArray, backups: AnyArray) -> ReplayLog:
    """A log of backups alone."""
    nothing = np.zeros((0, 0), np.float32)
    return ReplayLog(name, board, np.zeros(0, STEP), pauses, backups, np.zeros(0, WRITE), nothing)


def _check_not_empty(name: str, backups: int) -> None:
    if not backups:
        raise NeedReplayError(f"{name} replayed nothing, so there is nothing to show.")


def _log(
    name: str, board: Board, steps: AnyArray, pauses: AnyArray, backups: AnyArray, *rest: AnyArray
) -> ReplayLog:
    """Name the event of every backup."""
    found = replay_table(
        pauses["episode"][backups["pause"]].astype(np.int64),
        backups["pause"].astype(np.int64),
        backups["state"].astype(np.int64),
        backups["action"].astype(np.int64),
        board.next_state,
    )
    return ReplayLog(name, board, steps, pauses, _labeled(backups, found), *rest)
