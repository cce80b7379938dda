"""Tables that ``needreplay watch`` reads: every format, and hostile ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import table_attacks

from needlab.core.tables import write_table
from needlab.report.watched import watched_runs, world_named
from needlab.studies.maze import replay as maze_replay
from needlab.studies.study import Options
from needlab.tabular.evb import EVB, simulate, simulation_table
from needlab.tabular.replay_files import read_replay, write_replay
from needlab.worlds.boards import linear_track
from needreplay._core.errors import NeedReplayError

TRACK = world_named("linear-track")


def csv(folder: Path, text: str) -> str:
    path = folder / "mine.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_labels_of_a_file_are_kept(tmp_path: Path) -> None:
    """Two backups are an event for the file's author."""
    text = "pause,state,action,direction,event\n0,1,3,forward,7\n0,2,3,forward,7\n0,3,3,none,-1\n"
    (log,) = watched_runs(csv(tmp_path, text), TRACK)
    assert log.backups["event"].tolist() == [7, 7, -1]
    assert log.backups["direction"].tolist() == [1, 1, 0]
    computed = "pause,state,action\n" + "".join(f"3,{s},3\n" for s in range(6))
    (log,) = watched_runs(csv(tmp_path, computed), TRACK)
    assert log.backups["direction"].tolist() == [1] * 6


def test_empty_cells_are_unknown(tmp_path: Path) -> None:
    text = (
        "episode,pause,order,when,agent_state,reward,state,action,gain,need,chain_length,"
        "direction,event\n,0,,before,,,1,3,,,,none,\n,0,,before,,,2,3,0.5,,1,none,\n"
    )
    table = read_replay(csv(tmp_path, text))
    assert table["order"].tolist() == [0, 1]
    assert table["agent_state"].tolist() == [-1, -1]
    np.testing.assert_array_equal(table["gain"], [np.nan, 0.5])
    (log,) = watched_runs(csv(tmp_path, text), TRACK)
    assert (log.pauses["kind"].tolist(), log.pauses["state"].tolist()) == ([0], [-1])


def test_decoded_states_are_shown_as_their_file_groups_them(tmp_path: Path) -> None:
    text = "event,time,state\n" + "".join(
        f"{event},{time},{state}\n"
        for event, states in ((4, [1, 1, 2, 3]), (2, [8, -1, 6, 5, 4, 3]))
        for time, state in enumerate(states)
    )
    (log,) = watched_runs(csv(tmp_path, text), TRACK)
    assert log.backups["event"].tolist() == [4] * 4 + [2] * 5
    assert log.backups["state"].tolist() == [1, 1, 2, 3, 8, 6, 5, 4, 3]
    # Right (3) to the next state, left (2) back; no move repeats a state or skips one.
    assert log.backups["action"].tolist() == [-1, 3, 3, -1, -1, 2, 2, 2, -1]
    assert log.pauses["count"].tolist() == [4, 5]
    assert log.backups["direction"].tolist() == [0] * 9, "the track is run both ways"
    with_direction = text.replace("state\n", "state,direction\n").replace("\n", ",reverse\n")
    with_direction = with_direction.replace("direction,reverse", "direction")
    (log,) = watched_runs(csv(tmp_path, with_direction), TRACK)
    assert log.backups["direction"].tolist() == [2] * 9


def test_a_one_way_maze_gives_decoded_states_their_direction(tmp_path: Path) -> None:
    (tmp_path / "maze.txt").write_text("S>>>G\n", encoding="utf-8")
    world = world_named(str(tmp_path / "maze.txt"))
    rows = "".join(f"0,{t},{s}\n1,{t},{4 - s}\n" for t, s in enumerate(range(5)))
    ordered = "\n".join(sorted(rows.split()))
    (log,) = watched_runs(csv(tmp_path, f"event,time,state\n{ordered}\n"), world)
    assert log.backups["direction"].tolist() == [1] * 5 + [2] * 5
    with pytest.raises(NeedReplayError, match="event 0 goes on in row 4"):
        watched_runs(csv(tmp_path, f"event,time,state\n{rows}"), world)


def test_tables_that_the_tool_writes(tmp_path: Path) -> None:
    task = linear_track()
    table = simulation_table(simulate(task, EVB["published"], episodes=3), task)
    write_replay(tmp_path / "a.csv", table)
    (log,) = watched_runs(str(tmp_path / "a.csv"), TRACK)
    again = log.table()
    for name in set(table.names) - {"gain", "need", "reward"}:
        np.testing.assert_array_equal(again[name], table[name], err_msg=name)
    for name in ("gain", "need", "reward"):
        np.testing.assert_allclose(again[name], table[name], rtol=1e-6)
    write_replay(tmp_path / "b.csv", again)
    assert len(watched_runs(str(tmp_path / "b.csv"), TRACK)) == 1
    options = Options(("printed", "released"), 1, 0, 1, "quick")
    write_table(tmp_path / "c.csv", maze_replay.run(options, None).tables["replay_events"])  # type: ignore[arg-type]
    assert len(watched_runs(str(tmp_path / "c.csv"), world_named("dyna-maze"))) == 4


ROWS = (
    "pause,state,action,episode,direction,event,order\n0,1,3,0,forward,0,0\n0,2,3,0,forward,0,1\n"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "is no replay table: it needs the columns pause, state, action"),
        ("pause,state,action\n", "replayed nothing"),
        (ROWS.replace("0,2,3", "0,99,3"), "must be from 0 to 29"),
        (ROWS.replace("0,2,3", "0,2,4"), "must be from 0 to 3"),
        (ROWS.replace("0,2,3", "0,2.5,3"), "'state' of .* has 2.5 in row 3"),
        (ROWS.replace("0,2,3", "0,,3"), "'state' of .* has '' in row 3"),
        (ROWS.replace("0,2,3", "0,x,3"), "has 'x' in row 3"),
        (ROWS.replace("0,2,3", "0,1e300,3"), "row 3"),
        (ROWS.replace("0,2,3", "99999999999,2,3"), "'pause' of .* has 99999999999 in row 3"),
        (ROWS.replace("2,3,0,forward", "2,3,0,sideways"), "has 'sideways' in row 3"),
        (ROWS.replace("2,3,0,forward", "2,3,0,reverse"), "event 0 has more than one direction"),
        (ROWS.replace("2,3,0,forward,0", "2,3,0,forward,-1"), "direction without an event"),
        (ROWS.replace("0,2,3", "1,2,3"), "event 0 has more than one pause"),
        (ROWS.replace("2,3,0", "2,3,1"), "row 3 is in another episode"),
        (ROWS.replace("0,2,3", "1,2,3").replace("1,3,0", "1,3,1"), "row 3 goes back to an earlier"),
        (ROWS.replace("0,1\n", "0,0\n"), "row 3 has an order that does not rise"),
        ("pause,state,action,event\n0,1,3,0\n", "without the other of 'direction' and 'event'"),
        ("pause,state,action\n0,1,\n", "empty actions"),
        ("pause,state,action\n0,1,3\n1,1,3\n0,1,3\n", "pause 0 goes on in row 4"),
        ("event,time,state\n0,1,2\n0,1,3\n", "row 3 is not later"),
        ("event,time,state\n0,,2\n", "'time' of .* has '' in row 2"),
        ("event,time,state,direction\n0,1,2,forward\n0,2,3,none\n", "row 3 has another direction"),
        ("event,time,state\n0,1,-1\n", "replayed nothing"),
        ("pause,state,action,gain\n0,1,3,inf\n", "'gain' of .* has inf in row 2"),
    ],
)  # fmt: skip
def test_wrong_tables_give_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        watched_runs(csv(tmp_path, text), TRACK)


def test_hostile_tables_never_give_a_traceback(tmp_path: Path) -> None:
    """Each is read, or rejected with a sentence; ``make fuzz`` makes more of them."""
    failures = [table_attacks.attack(np.random.default_rng([0, i]), tmp_path) for i in range(600)]
    assert [failure for failure in failures if failure[1]] == []
    kinds = [what.split(":")[0] for what, _ in failures]
    assert kinds.count("read") > 100
    assert kinds.count("rejected") > 200
