"""The Dyna maze by hand, and what holds for the table of every maze."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlab.worlds.layout import parse_layout
from needlab.worlds.maze import DOWN, DYNA_MAZE, LEFT, RIGHT, UP, maze_table, shortest_path_length
from needlab.worlds.task import TransitionTable
from needreplay._core.errors import NeedReplayError

DYNA = parse_layout(DYNA_MAZE)
TABLE = maze_table(DYNA)


def test_the_dyna_maze_is_the_book_s() -> None:
    assert (DYNA.rows, DYNA.cols) == (6, 9)
    assert DYNA.walls == {(1, 2), (2, 2), (3, 2), (0, 7), (1, 7), (2, 7), (4, 5)}
    assert DYNA.state(DYNA.start) == TABLE.start == 18
    assert DYNA.goals == ((0, 8),)
    assert (TABLE.n_states, TABLE.n_actions) == (54, 4)


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
    assert TABLE.next_state[state, action] == arrival


def test_only_the_step_onto_the_goal_is_rewarded_and_ends() -> None:
    expected = np.zeros((54, 4), dtype=bool)
    expected[17, UP] = True  # (0, 7), the goal's other neighbor, is a wall
    np.testing.assert_array_equal(TABLE.ends, expected)
    np.testing.assert_array_equal(TABLE.reward_mean, expected.astype(float))
    np.testing.assert_array_equal(TABLE.reward_std, np.where(expected, 0.1, 0.0))


def test_the_arrays_are_what_kernels_take() -> None:
    assert TABLE.next_state.dtype == np.int64
    assert TABLE.reward_mean.dtype == TABLE.reward_std.dtype == np.float64
    assert TABLE.ends.dtype == np.bool_
    assert all(array.flags.c_contiguous for array in TABLE[:4])
    assert type(TABLE.start) is int


def test_the_spread_of_the_reward() -> None:
    assert maze_table(DYNA, reward_std=0.0).reward_std.max() == 0.0
    assert maze_table(DYNA, reward_std=2).reward_std.max() == 2.0
    for wrong in (-0.1, float("nan"), float("inf")):
        with pytest.raises(NeedReplayError, match=r"reward_std.*must be 0 or more"):
            maze_table(DYNA, reward_std=wrong)


def test_shortest_paths_by_hand() -> None:
    assert shortest_path_length(TABLE) == 14
    assert shortest_path_length(maze_table(parse_layout("SG"))) == 1
    assert shortest_path_length(maze_table(parse_layout("S.#G\n#...\nG###"))) == 5
    # From the block's centre (k // 2, k // 2), 6 columns right and 3 rows down around the block.
    assert [shortest_path_length(maze_table(DYNA.magnified(k))) for k in (2, 3, 10)] == [
        25,
        38,
        121,
    ]


def test_no_path_is_refused() -> None:
    stuck = TABLE._replace(start=20)
    with pytest.raises(NeedReplayError, match="can be reached"):
        shortest_path_length(stuck)


def test_an_end_without_reward_is_no_path_and_nothing_follows_it() -> None:
    """0 falls onto 1, one step from the reward; the way that does not end is 0, 2, 3, 4."""
    ends = np.zeros((5, 2), dtype=bool)
    ends[0, 0] = ends[1, 0] = ends[3, 0] = True
    reward_mean = np.zeros((5, 2))
    reward_mean[1, 0] = reward_mean[3, 0] = 1.0
    table = TransitionTable(
        next_state=np.array([[1, 2], [4, 1], [2, 3], [4, 3], [4, 4]]),
        reward_mean=reward_mean,
        reward_std=np.zeros((5, 2)),
        ends=ends,
        start=0,
    )
    assert shortest_path_length(table) == 3


@st.composite
def boards(draw: st.DrawFn) -> list[str]:
    """A random board with an open top row from the start to a goal."""
    cols = draw(st.integers(2, 8))
    row = st.text("#..G", min_size=cols, max_size=cols)
    return ["S" + "." * (cols - 2) + "G", *draw(st.lists(row, max_size=6))]


@settings(deadline=None)
@given(boards())
def test_every_table_against_a_walk_cell_by_cell(board: list[str]) -> None:
    layout = parse_layout("\n".join(board))
    table = maze_table(layout)
    moves = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}
    for state in range(table.n_states):
        row, col = layout.cell(state)
        here = board[row][col]
        for action, (down, right) in moves.items():
            to = (row + down, col + right)
            inside = 0 <= to[0] < layout.rows and 0 <= to[1] < layout.cols
            open_ahead = inside and board[to[0]][to[1]] != "#"
            moved = open_ahead and here not in "#G"
            expected = layout.state(to) if moved else state
            wins = moved and board[to[0]][to[1]] == "G"
            assert table.next_state[state, action] == expected
            assert table.ends[state, action] == wins
            assert table.reward_mean[state, action] == float(wins)


@settings(deadline=None)
@given(boards())
def test_the_shortest_path_against_a_plain_search(board: list[str]) -> None:
    layout = parse_layout("\n".join(board))
    waiting, steps = deque([layout.start]), {layout.start: 0}
    while (cell := waiting.popleft()) not in layout.goals:
        for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            to = (cell[0] + down, cell[1] + right)
            inside = 0 <= to[0] < layout.rows and 0 <= to[1] < layout.cols
            if inside and to not in layout.walls and to not in steps:
                steps[to] = steps[cell] + 1
                waiting.append(to)
    assert shortest_path_length(maze_table(layout)) == steps[cell]
