"""Worlds as text with several starts, goals, rewards, doors and slip; the published worlds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from needlab.worlds.task import distances_to, make_task
from needlab.worlds.tasks import TaskEnv, parse_task, read_task
from needlab.worlds.tracks import linear_track, open_field, shock_track, t_maze
from needreplay._core.errors import NeedReplayError

UP, DOWN, LEFT, RIGHT = range(4)


def moves_of(task: Any) -> int:
    """Moves that change the state, where the agent can act."""
    own = np.arange(task.n_states)[:, np.newaxis]
    return int((task.next_state != own)[task.acts].sum())


def test_the_linear_track_is_two_corridors() -> None:
    track = linear_track("1-or-4")
    assert (track.starts.tolist(), track.goals.tolist()) == ([0, 29], [9, 20])
    assert (int(track.free.sum()), moves_of(track)) == (20, 34)
    assert track.magnitudes[9].tolist() == [1.0, 4.0]
    assert track.spreads[20].tolist() == [0.1, 0.1]
    assert not track.random_start
    zero = linear_track("1-or-0")
    assert (zero.magnitudes[9].tolist(), zero.spreads[9].tolist()) == ([1.0, 0.0], [0.1, 0.0])
    with pytest.raises(NeedReplayError, match="choose from: baseline"):
        linear_track("2-or-3")  # type: ignore[arg-type]


def test_the_open_field() -> None:
    field = open_field()
    assert (int(field.free.sum()), moves_of(field)) == (47, 139)
    assert (field.goals.tolist(), field.starts.size, field.random_start) == ([8], 46, True)
    assert np.flatnonzero((field.next_state == 8).any(axis=1) & field.acts).tolist() == [17]
    walls = {(1, 2), (2, 2), (3, 2), (0, 7), (1, 7), (2, 7), (4, 5)}
    assert {divmod(int(s), 9) for s in np.flatnonzero(~field.free)} == walls


def test_the_t_maze_and_the_shock_track() -> None:
    maze = t_maze()
    assert (maze.starts.tolist(), maze.goals.tolist(), moves_of(maze)) == ([7], [0, 4], 8)
    assert (maze.magnitudes[0, 0], maze.magnitudes[4, 0], maze.spreads[4, 0]) == (0.0, 1.0, 0.1)
    shock = shock_track()
    assert (shock.starts.tolist(), shock.goals.tolist(), moves_of(shock)) == ([0], [9], 17)
    assert not shock.magnitudes.any()


def test_letters_are_goals_and_rewards() -> None:
    task = parse_task(
        """
        S.A
        .a.
        S.G

        A: 0
        a: -0.5 sd .1
        starts: at random
        """
    )
    assert task.goals.tolist() == [2, 8]
    assert task.random_start
    assert task.choices.tolist() == [0, 0, 1, 0, 1, 0, 0, 0, 1]
    assert (task.magnitudes[4, 0], task.spreads[4, 0]) == (-0.5, 0.1)
    assert (task.magnitudes[8, 0], task.spreads[8, 0]) == (1.0, 0.1), "a goal's default"
    assert task.acts.tolist() == [True, True, False, True, True, True, True, True, False]


def test_one_way_doors_cannot_be_passed_against_their_arrow() -> None:
    task = parse_task("S>.\n.#v\n..G")
    assert task.next_state[0, RIGHT] == 1
    assert task.next_state[1, RIGHT] == 2
    assert task.next_state[1, LEFT] == 1, "it cannot be left against its arrow"
    assert task.next_state[2, LEFT] == 2, "nor entered"
    assert task.next_state[2, DOWN] == 5
    assert task.next_state[5, UP] == 5
    assert task.next_state[5, DOWN] == 8
    assert distances_to(task, [8]).tolist() == [4, 3, 2, 3, -1, 1, 2, 1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("S..\n..", "ragged: row 2"),
        ("S.?G", "unknown character, '\\?', in row 1, column 3"),
        ("S..", "no goal"),
        ("..G", "no start"),
        ("S.#G", "No goal can be reached from state 0 \\(row 1, column 1\\)"),
        ("S>.\n##v\nG#.", "No goal can be reached from state"),
        ("SaG", "'a' without its reward"),
        ("S.G\n\nG: much", "write a reward as"),
        ("S.G\n\nB: 1", "'B' is not"),
        ("S.G\n\nslip: often", "must be a number"),
        ("S.G\n\nslip: 2", "slip is 2"),
        ("S.G\n\nstarts: here", "choose from: in turn"),
        ("S.G\n\nstarts: anywhere", "must not have an 'S'"),
        ("S.G\n\nG: 1\nG: 2", "two lines for 'G'"),
        ("S.G\n\nG 1", "write it as 'name: value'"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        parse_task(text)


def test_a_world_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "world.txt"
    path.write_bytes(b"S..G\r\n\r\nG: 2\r\n")
    task = read_task(path)
    assert (task.n_states, task.magnitudes[3, 0]) == (4, 2.0)
    with pytest.raises(NeedReplayError, match="cannot be read"):
        read_task(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"next_state": [0, 1]}, "must be a matrix"),
        ({"next_state": [[0.0, 1.0]]}, "must be a matrix"),
        ({"next_state": [[0, 3], [0, 1], [2, 2]]}, "0 to 2; it holds 0 to 3"),
        ({"starts": []}, "starts is empty"),
        ({"starts": [5]}, "A state of starts is 5"),
        ({"goals": [2, 2]}, "lists a state twice"),
        ({"starts": [2]}, "A start cannot be a goal"),
        ({"rewards": {2: [(float("nan"), 0.0)]}}, "finite mean"),
        ({"rewards": {2: [(1.0, -1.0)]}}, "finite mean"),
        ({"start_rule": "x"}, "There is no start_rule"),
        ({"free": [True, False, True]}, "is a wall"),
    ],
)
def test_tables_refuse_what_cannot_be_walked(changes: dict[str, Any], message: str) -> None:
    parts: dict[str, Any] = {
        "next_state": [[0, 1], [0, 2], [2, 2]],
        "starts": [0],
        "goals": [2],
        "rewards": {2: [(1.0, 0.0)]},
    }
    with pytest.raises(NeedReplayError, match=message):
        make_task(**{**parts, **changes})


def test_any_agent_can_walk_a_task_with_slip() -> None:
    env = TaskEnv(parse_task("S....\n.....\n....G\n\nslip: 0.5"))
    check_env(env, skip_render_check=True)
    sideways = 0
    for seed in range(400):
        env.reset(seed=seed)
        state, reward, terminated, truncated, _ = env.step(DOWN)
        assert state in (0, 1, 5)
        assert (reward, terminated, truncated) == (0.0, False, False)
        sideways += state != 5
    assert 140 < sideways < 260
    with pytest.raises(NeedReplayError, match="action must be"):
        env.step(7)


def test_the_environment_takes_starts_in_turn() -> None:
    env = TaskEnv(linear_track())
    state, _ = env.reset(seed=0)
    seen = [state]
    for _ in range(3):
        action = RIGHT if state < 10 else LEFT
        terminated = False
        while not terminated:
            state, reward, terminated, _, _ = env.step(action)
        assert 0.4 < reward < 1.6
        with pytest.raises(NeedReplayError, match="call reset"):
            env.step(0)
        state, _ = env.reset()
        seen.append(state)
    assert seen == [0, 29, 0, 29]
