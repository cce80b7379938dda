"""Worlds as text with several starts, goals, rewards, doors and slip; the published worlds."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlab.worlds.boards import linear_track
from needlab.worlds.make import tabular_world
from needlab.worlds.tabular import distances_to, shortest_path_length
from needlab.worlds.text import DOWN, LEFT, RIGHT, UP, world_of_text
from needreplay._core.errors import NeedReplayError


def moves_of(world: Any) -> int:
    """Moves that change the state, where the agent can act."""
    own = np.arange(world.n_states)[:, np.newaxis]
    return int((world.next_state != own)[world.acts].sum())


def test_the_linear_track_is_two_corridors() -> None:
    track = linear_track("1-or-4")
    assert (track.starts.tolist(), track.goals.tolist()) == ([0, 29], [9, 20])
    assert (int(track.free.sum()), moves_of(track)) == (20, 34)
    assert track.magnitudes[8, RIGHT].tolist() == [1.0, 4.0]
    assert track.spreads[21, LEFT].tolist() == [0.1, 0.1]
    assert track.reward_mean[8, RIGHT] == 2.5
    assert track.reward_std[8, RIGHT] == pytest.approx(np.sqrt(0.1**2 + 1.5**2))
    assert not track.random_start
    zero = linear_track("1-or-0")
    assert zero.magnitudes[8, RIGHT].tolist() == [1.0, 0.0]
    assert zero.spreads[8, RIGHT].tolist() == [0.1, 0.0]
    with pytest.raises(NeedReplayError, match="choose from: baseline"):
        linear_track("2-or-3")  # type: ignore[arg-type]


def test_the_open_field() -> None:
    field = tabular_world("open-field")
    assert (int(field.free.sum()), moves_of(field)) == (47, 139)
    assert (field.goals.tolist(), field.starts.size, field.random_start) == ([8], 46, True)
    assert np.flatnonzero((field.next_state == 8).any(axis=1) & field.acts).tolist() == [17]
    walls = {(1, 2), (2, 2), (3, 2), (0, 7), (1, 7), (2, 7), (4, 5)}
    assert {divmod(int(s), 9) for s in np.flatnonzero(~field.free)} == walls


def test_the_t_maze_and_the_shock_track() -> None:
    maze = tabular_world("t-maze")
    assert (maze.starts.tolist(), maze.goals.tolist(), moves_of(maze)) == ([7], [0, 4], 8)
    assert (maze.choices[1, LEFT], maze.reward_mean[1, LEFT]) == (1, 0.0)
    assert (maze.reward_mean[3, RIGHT], maze.reward_std[3, RIGHT]) == (1.0, 0.1)
    shock = tabular_world("shock-track")
    assert (shock.starts.tolist(), shock.goals.tolist(), moves_of(shock)) == ([0], [9], 17)
    assert not shock.magnitudes.any()


def test_letters_are_goals_and_rewards() -> None:
    world = world_of_text(
        """
        S.A
        .a.
        S.G

        A: 0
        a: -0.5 sd .1
        starts: at random
        """
    )
    assert world.goals.tolist() == [2, 8]
    assert world.random_start
    into = {1: {DOWN, RIGHT}, 3: {RIGHT}, 5: {LEFT, UP, DOWN}, 7: {UP, RIGHT}}
    found = {s: set(np.flatnonzero(world.choices[s]).tolist()) for s in range(9)}
    assert found == {s: into.get(s, set()) for s in range(9)}
    assert (world.reward_mean[1, DOWN], world.reward_std[1, DOWN]) == (-0.5, 0.1)
    assert (world.reward_mean[7, RIGHT], world.reward_std[7, RIGHT]) == (1.0, 0.1), (
        "a goal's default"
    )
    assert world.reward_mean[1, RIGHT] == 0.0
    assert world.acts.tolist() == [True, True, False, True, True, True, True, True, False]


def test_one_way_doors_cannot_be_passed_against_their_arrow() -> None:
    world = world_of_text("S>.\n.#v\n..G")
    assert world.next_state[0, RIGHT] == 1
    assert world.next_state[1, RIGHT] == 2
    assert world.next_state[1, LEFT] == 1, "it cannot be left against its arrow"
    assert world.next_state[2, LEFT] == 2, "nor entered"
    assert world.next_state[2, DOWN] == 5
    assert world.next_state[5, UP] == 5
    assert world.next_state[5, DOWN] == 8
    assert distances_to(world, [8]).tolist() == [4, 3, 2, 3, -1, 1, 2, 1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("S..\n..", "ragged: row 2"),
        ("S G", "unknown character, ' ', in row 1, column 2"),
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
def test_what_raises(text: str, message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        world_of_text(text)


def test_a_world_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "world.txt"
    path.write_bytes(b"\xef\xbb\xbfS..G\r\n\r\nG: 2\r\n")
    world = tabular_world(path)
    assert (world.n_states, world.reward_mean[2, RIGHT], world.reward_std[2, RIGHT]) == (
        4,
        2.0,
        0.0,
    )
    path.write_bytes(b"S\xff")
    for name in (path, tmp_path / "none.txt", tmp_path):
        with pytest.raises(NeedReplayError, match="cannot be read"):
            tabular_world(name)


def test_the_dyna_maze_is_the_book_s() -> None:
    maze = tabular_world("dyna-maze")
    assert (maze.n_states, maze.n_actions, maze.columns) == (54, 4, 9)
    walls = {(1, 2), (2, 2), (3, 2), (0, 7), (1, 7), (2, 7), (4, 5)}
    assert {maze.cell(state) for state in np.flatnonzero(~maze.free).tolist()} == walls
    assert (maze.start, maze.goals.tolist()) == (18, [8])
    expected = np.zeros((54, 4), dtype=bool)
    expected[17, UP] = True  # (0, 7), the goal's other neighbor, is a wall
    np.testing.assert_array_equal(maze.ends, expected)
    np.testing.assert_array_equal(maze.reward_mean, expected.astype(float))
    np.testing.assert_array_equal(maze.reward_std, np.where(expected, 0.1, 0.0))


@pytest.mark.parametrize(
    ("state", "action", "arrival"),
    [
        (18, UP, 9),
        (18, DOWN, 27),
        (18, LEFT, 18),  # off the board
        (18, RIGHT, 19),
        (19, RIGHT, 19),  # the wall (2, 2)
        (2, DOWN, 2),  # the wall (1, 2) from above
        (6, RIGHT, 6),  # the wall (0, 7)
        (8, UP, 8),  # the goal is never left
        (17, UP, 8),  # onto the goal
        (53, DOWN, 53),
        (53, RIGHT, 53),
        (9, LEFT, 9),  # and not to the end of the row above
        (20, UP, 20),  # a wall loops onto itself, though (1, 2) is a wall too
        (20, LEFT, 20),
    ],
)
def test_moves_on_the_dyna_maze(state: int, action: int, arrival: int) -> None:
    assert tabular_world("dyna-maze").next_state[state, action] == arrival


def test_a_resolution_by_hand() -> None:
    assert world_of_text("S#\n.G", resolution=3).marks() == ("...###.S.###...###...GGG...GGG...GGG")
    assert world_of_text("SG", resolution=2).marks() == "..GG.SGG"
    # From the block's center (k // 2, k // 2), 6 columns right and 3 rows down around the block.
    lengths = [shortest_path_length(tabular_world("dyna-maze", resolution=k)) for k in (2, 3, 10)]
    assert lengths == [25, 38, 121]
    for resolution in (0, -1):
        with pytest.raises(NeedReplayError, match=f"resolution is {resolution}; .* 1 or more"):
            world_of_text("SG", resolution=resolution)
    for wrong in (1.5, "2", None):
        with pytest.raises(NeedReplayError, match=r"resolution is .* whole number"):
            world_of_text("SG", resolution=wrong)  # type: ignore[arg-type]


def test_one_spread_for_all_rewards() -> None:
    track = world_of_text("SaG\n\na: -1 sd 3", reward_std=0.5)
    assert track.reward_std[0, RIGHT] == track.reward_std[1, RIGHT] == 0.5
    for wrong in (-0.1, float("nan"), float("inf")):
        with pytest.raises(NeedReplayError, match=r"reward_std.*must be 0 or more"):
            world_of_text("SG", reward_std=wrong)


@st.composite
def boards(draw: st.DrawFn) -> list[str]:
    """A random board with an open top row from the start to a goal."""
    cols = draw(st.integers(2, 8))
    row = st.text("#..G", min_size=cols, max_size=cols)
    return ["S" + "." * (cols - 2) + "G", *draw(st.lists(row, max_size=6))]


@settings(deadline=None)
@given(boards())
def test_every_board_against_a_walk_cell_by_cell(board: list[str]) -> None:
    world = world_of_text("\n".join(board))
    moves = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}
    for state in range(world.n_states):
        row, col = world.cell(state)
        here = board[row][col]
        for action, (down, right) in moves.items():
            to = (row + down, col + right)
            inside = 0 <= to[0] < len(board) and 0 <= to[1] < world.columns
            open_ahead = inside and board[to[0]][to[1]] != "#"
            moved = open_ahead and here not in "#G"
            wins = moved and board[to[0]][to[1]] == "G"
            expected = to[0] * world.columns + to[1] if moved else state
            assert world.next_state[state, action] == expected
            assert world.ends[state, action] == wins
            assert world.reward_mean[state, action] == float(wins)


@settings(deadline=None)
@given(boards())
def test_the_shortest_path_against_a_plain_search(board: list[str]) -> None:
    world = world_of_text("\n".join(board))
    waiting, steps = deque([(0, 0)]), {(0, 0): 0}
    while board[(cell := waiting.popleft())[0]][cell[1]] != "G":
        for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            to = (cell[0] + down, cell[1] + right)
            inside = 0 <= to[0] < len(board) and 0 <= to[1] < len(board[0])
            if inside and board[to[0]][to[1]] != "#" and to not in steps:
                steps[to] = steps[cell] + 1
                waiting.append(to)
    assert shortest_path_length(world) == steps[cell]
    assert distances_to(world, world.goals.tolist())[0] == steps[cell]
