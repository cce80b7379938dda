"""Five moments of replay worth seeing, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from needlab.report.recording import evb_log
from needlab.report.replay_log import Board, ReplayLog
from needlab.report.viewer import Moment, write_viewer
from needlab.report.watched import watched_run, world_named
from needlab.tabular.evb import EVB, new_agent, replay_once
from needlab.tabular.evb.episodes import PAUSE, START, STEP
from needlab.tabular.evb.simulation import Simulation
from needlab.tabular.replay_events import FORWARD, REVERSE
from needlab.worlds import tabular_world
from needreplay._core.rng import stream

RIGHT = 3

TEXTS = (
    (
        "Reverse replay after the first reward",
        "The agent has just found the first reward. Only the step into the goal has a new value, "
        "so the backup with the largest gain x need is the step before it, then the one before "
        "that: value runs back along the track. No rule asks for this order.",
    ),
    (
        "Forward replay before a run",
        "At the start of a later lap the values ahead are right already: every backup of this "
        "event has the smallest gain there is, 1e-10 for each pair of its chain. Need decides. It "
        "is largest at the agent and falls along the track, and a chain that follows the greedy "
        "policy is worth more with every step. Without that smallest gain of each pair there is "
        "no forward replay (docs/mattar_daw.md).",
    ),
    (
        "What need changes in the maze",
        "Prioritized sweeping with need, and without it, at the same step of the same trial. Both "
        "know a little around the goal. Without need the largest error is next, wherever it is. "
        "With need, the places that the agent expects to visit come first, so value grows along "
        "a path towards it.",
    ),
    (
        "The shock",
        "There are no rewards, so the first 20 backups change nothing. Then the agent gets the "
        "memory of a shock of -1 at the end of the track, far from where it is. The very next "
        "backup is the step into the shock, though need is smallest there: learning to avoid it "
        "is worth much. Once learned, it is not replayed again.",
    ),
    (
        "The cliffwalk",
        "One action of two is right, the other leads back to the start. At the first reward the "
        "EVB agent, with up to 20 backups, brings value back to the start in one reverse event. "
        "Prioritized sweeping, with up to five backups for each step, has come back four states.",
    ),
)


def write_gallery(path: Path) -> Path:
    """Write the gallery, one page with a log of each kind, to ``path``."""
    track, maze, cliff = (world_named(name) for name in ("linear-track", "dyna-maze", "cliffwalk"))
    logs = [
        watched_run("evb", track),
        watched_run("ps-sr", maze),
        watched_run("ps", maze),
        shock_log(),
        watched_run("evb", cliff, episodes=20),
        watched_run("ps-sr", cliff, episodes=20),
    ]
    evb, ps_sr, _, shock, walker, _ = logs
    return write_viewer(
        path,
        logs,
        title="Five moments of replay",
        moments=[
            Moment(title, text, start)
            for (title, text), start in zip(
                TEXTS,
                (
                    _start([0], event_frame(evb, REVERSE), "value"),
                    _start([0], event_frame(evb, FORWARD), "need"),
                    _start([1, 2], event_frame(ps_sr, REVERSE), "need"),
                    _start([3], int(shock.pauses["first"][1]) + 2, "gain"),
                    _start([4, 5], event_frame(walker, REVERSE), "value"),
                ),
                strict=True,
            )
        ],
    )


def event_frame(log: ReplayLog, direction: int) -> int:
    """The frame at the end of the first event in a direction, or before it comes back to a state.

    A state that is replayed twice would show the later backup only.
    """
    first = int(np.flatnonzero(log.backups["direction"] == direction)[0])
    states = log.backups["state"][log.backups["event"] == log.backups["event"][first]].tolist()
    seen = next((i for i, state in enumerate(states) if state in states[:i]), len(states))
    return first + seen + int(log.backups["pause"][first])


def _start(runs: Sequence[int], frame: int, cells: str) -> str:
    """The address of a moment; runs beside each other have one scale."""
    return (
        f"runs={','.join(map(str, runs))}&lead=0&frame={frame}&cells={cells}&policy=1&backups=1"
        f"&scale={int(len(runs) > 1)}"
    )


def shock_log() -> ReplayLog:
    """Two replays at the start of the track, without a reward and with the memory of a shock."""
    world, settings, rng = (
        tabular_world("shock-track"),
        EVB["published"],
        stream(0, "gallery", "shock"),
    )
    agent, zone = new_agent(world, settings), world.n_states - 2
    before = replay_once(agent, world, settings, int(world.starts[0]), rng)
    agent.reward[zone, RIGHT] = -1.0
    after = replay_once(agent, world, settings, int(world.starts[0]), rng)
    after["pause"] = 1
    pauses = np.zeros(2, PAUSE)
    pauses["kind"], pauses["step"] = START, -1
    pauses["first"], pauses["count"] = [0, len(before)], [len(before), len(after)]
    found = Simulation(
        np.zeros(1, np.int64), np.concatenate([before, after]), pauses, np.zeros(0, STEP), agent
    )
    board = Board.of_world(world, "shock-track")
    implanted = {1: (zone, RIGHT, -1.0)}
    return evb_log("evb, a shock", board, found, world, settings, implanted=implanted)
