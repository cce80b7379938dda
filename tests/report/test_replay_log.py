"""Logs of replay: the same runs as without a log, and what the agent knew at every moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.core.tables import Table
from needlab.report.recording import agent_of, evb_log, record, record_trial
from needlab.report.replay_log import Board, ReplayLog
from needlab.report.table_log import table_log
from needlab.tabular.evb import EVB, EVBSettings, simulate, simulation_table
from needlab.tabular.evb.backups import rule_of
from needlab.tabular.evb.need import need_of
from needlab.tabular.replay_files import read_replay, write_replay
from needlab.tabular.settings import agent_settings
from needlab.tabular.trial import logged_trial, run_trial
from needlab.worlds import DYNA_MAZE, TabularEnv, tabular_world, world_of_text
from needlab.worlds.boards import linear_track
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream

MAZE = tabular_world("dyna-maze")
MAZE_BOARD = Board("dyna-maze", 9, DYNA_MAZE.replace("\n", ""), MAZE.next_state)


def values_at_the_end(log: ReplayLog) -> np.ndarray:
    Q = np.zeros(log.board.next_state.size)
    for write in log.writes:
        Q[write["pair"]] = write["value"]
    return Q.reshape(log.board.next_state.shape)


@pytest.mark.parametrize(
    ("agent", "changes"),
    [("ps", {}), ("ps-sr", {}), ("ps-sr", {"successor_discount": 0.5}), ("dyna-q", {})],
)
def test_a_recorded_trial_is_the_trial_that_runs_without_a_log(
    agent: str, changes: dict[str, Any]
) -> None:
    settings = agent_settings(agent, **changes)
    log = record_trial(agent, MAZE_BOARD, MAZE, settings, 8, stream(0, "maze", 3))
    plain = run_trial(MAZE, settings, 8, stream(0, "maze", 3))
    assert np.bincount(log.steps["episode"]).tolist() == plain.lengths.tolist()
    np.testing.assert_array_equal(values_at_the_end(log), plain.agent.Q.astype(np.float32))
    assert np.all(np.diff(log.writes["frame"]) >= 0)
    assert log.need.shape == ((len(log.pauses), 54) if agent == "ps-sr" else (0,))


def test_the_backups_are_those_of_the_compiled_log() -> None:
    settings = agent_settings("ps-sr")
    log = record_trial("ps-sr", MAZE_BOARD, MAZE, settings, 8, stream(0, "maze", 0))
    _, events = logged_trial(MAZE, settings, 8, stream(0, "maze", 0))  # type: ignore[arg-type]
    for field in ("state", "action"):
        np.testing.assert_array_equal(log.backups[field], events[field])
    for field in ("gain", "need"):
        np.testing.assert_array_equal(log.backups[field], events[field].astype(np.float32))
    pause = log.pauses[log.backups["pause"]]
    np.testing.assert_array_equal(pause["episode"], events["episode"])
    np.testing.assert_array_equal(pause["state"], events["agent_state"])
    # Need of the backup is the map's entry at its state.
    rows = log.need[log.backups["pause"], log.backups["state"]]
    np.testing.assert_array_equal(rows, log.backups["need"])


@pytest.mark.parametrize("preset", ["published", "text"])
def test_what_the_evb_agent_knew_is_found_again(preset: str) -> None:
    task, settings = linear_track(), EVB[preset]
    found = simulate(task, settings, episodes=6, seed=1)
    log = evb_log("evb", Board.of_world(task, "track"), found, task, settings)
    # The last pause ends the last episode, so nothing is learned after it.
    np.testing.assert_array_equal(values_at_the_end(log), found.agent.Q.astype(np.float32))
    rows = log.need[log.backups["pause"], log.backups["state"]]
    np.testing.assert_array_equal(rows, found.backups["need"].astype(np.float32))
    events = simulation_table(found, task)["event"]
    assert log.backups["event"].max() == pytest.approx(events.max(), abs=1)
    last = found.pauses[-1]
    state = int(last["state"])
    assert log.pauses["steps"][-1] == len(found.steps)
    if preset == "published":
        # The goal's row of T moves after the last replay; no other row does.
        needed = need_of(found.agent, rule_of(settings), state)
        assert needed[state] == pytest.approx(log.need[-1, state], rel=0.2)


def test_a_log_of_any_environment() -> None:
    task = world_of_text("S..A\n..#.\nS..B\n\nslip: 0.1\nstarts: at random")
    agent = agent_of(agent_settings("ps-sr"), task)
    board = Board.of_world(task, "slippery")
    log = record("ps-sr", board, agent, TabularEnv(task), 5, seed=2)
    assert (board.marks, board.starts) == ("S..A..#.S..B", "starts at random")
    assert log.pauses["kind"].tolist().count(1) == 5
    assert log.pauses["count"].sum() == len(log.backups)
    assert log.pauses["first"].tolist() == np.r_[0, np.cumsum(log.pauses["count"])[:-1]].tolist()


def test_a_table_of_events_is_a_log_without_values(tmp_path: Path) -> None:
    task = linear_track()
    table = simulation_table(simulate(task, EVB["published"], episodes=4), task)
    write_replay(tmp_path / "replay.csv", table)
    board = Board.of_world(task, "track")
    log = table_log("mine", board, read_replay(tmp_path / "replay.csv"))
    np.testing.assert_array_equal(log.backups["event"], table["event"])
    assert (len(log.writes), len(log.steps), log.need.size) == (0, 0, 0)
    columns = {name: table[name] for name in table.names}
    columns["state"] = columns["state"] + 25
    with pytest.raises(NeedReplayError, match="'state' of mine must be from 0 to 29"):
        table_log("mine", board, Table(columns))


def test_an_agent_that_replays_nothing_has_no_log() -> None:
    settings = agent_settings("q-learning")
    with pytest.raises(NeedReplayError, match="replayed nothing"):
        record_trial("q", MAZE_BOARD, MAZE, settings, 2, stream(0, "x"))
    task, still = linear_track(), replace(EVBSettings(), need="zero")
    found = simulate(task, still, episodes=3)
    with pytest.raises(NeedReplayError, match="replayed nothing"):
        evb_log("evb", Board.of_world(task, "track"), found, task, still)


def test_a_notebook_shows_the_viewer_and_the_board() -> None:
    task = linear_track()
    settings = EVB["published"]
    found = simulate(task, settings, episodes=2)
    log = evb_log("evb", Board.of_world(task, "<track>"), found, task, settings)
    shown = log._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert shown.endswith("</iframe>")
    assert shown.count("<") == 2, "the page is escaped inside the attribute"
    assert task._repr_html_() == "<pre>S........G\n##########\nG........S</pre>"
    # Letters, doors and random starts stay.
    drawn = tabular_world("S.>A\n..bS\n\nb: 1\nstarts: at random")
    assert str(drawn) == "S.>A\n..bS"
    assert repr(drawn) == "<TabularWorld: 8 states, 4 actions, 2 starts, 1 goal>"
    assert drawn._repr_html_() == "<pre>S.&gt;A\n..bS</pre>"
