"""Mazes from text: what is read, what is refused and how the message shows the line."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from needlab.worlds.layout import Layout, parse_layout, read_layout, to_layout
from needlab.worlds.maze import maze_table, shortest_path_length
from needreplay._core.errors import NeedReplayError


@st.composite
def layouts(draw: st.DrawFn, largest: int = 7) -> Layout:
    """A random layout whose goal can be reached."""
    rows, cols = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    assume(rows * cols >= 2)
    cells = draw(st.lists(st.sampled_from("#.."), min_size=rows * cols, max_size=rows * cols))
    places = draw(st.permutations(range(rows * cols)))
    cells[places[0]] = "S"
    for place in places[1 : 1 + draw(st.integers(1, 3))]:
        cells[place] = "G"
    text = "\n".join("".join(cells[row * cols : (row + 1) * cols]) for row in range(rows))
    try:
        return parse_layout(text)
    except NeedReplayError:
        reject()


def refusal(text: str) -> str:
    with pytest.raises(NeedReplayError) as caught:
        parse_layout(text)
    return str(caught.value)


def test_the_parts_of_a_maze() -> None:
    layout = parse_layout("S.#\n..G\nG#.", source="small")
    assert (layout.rows, layout.cols, layout.source) == (3, 3, "small")
    assert layout.walls == {(0, 2), (2, 1)}
    assert layout.start == (0, 0)
    assert layout.goals == ((1, 2), (2, 0))
    assert layout.state((1, 2)) == 5
    assert layout.cell(5) == (1, 2)
    np.testing.assert_array_equal(
        layout.mask(layout.walls), [[False, False, True], [False] * 3, [False, True, False]]
    )
    assert not layout.mask(()).any()


def test_equal_mazes_are_equal_whatever_their_source() -> None:
    assert parse_layout("S.G", source="a") == parse_layout("S G", source="b")
    assert hash(parse_layout("S.G", source="a")) == hash(parse_layout("S G", source="b"))
    assert parse_layout("S.G") != parse_layout("G.S")


@settings(deadline=None)
@given(layouts())
def test_a_printed_layout_reads_back(layout: Layout) -> None:
    assert parse_layout(str(layout)) == layout
    assert parse_layout(f"\n{layout}\n\n") == layout
    assert parse_layout(str(layout).replace("\n", "\r\n")) == layout


@settings(deadline=None)
@given(layouts(), st.integers(1, 5))
def test_an_indented_block_with_its_closing_line_reads_the_same(layout: Layout, by: int) -> None:
    margin = " " * by
    block = "".join(f"\n{margin}{row}" for row in str(layout).replace(".", " ").split("\n"))
    assert parse_layout(f"{block}\n{margin}") == layout


def test_a_block_in_triple_quotes() -> None:
    block = """
        #####
        #S G#
        #####
        """
    assert str(parse_layout(block)) == "#####\n#S.G#\n#####"


def test_spaces_are_cells() -> None:
    assert str(parse_layout("S  \n#G#\n   ")) == "S..\n#G#\n..."
    assert str(parse_layout("   \nSG ")) == "...\nSG."


def test_indentation_without_a_closing_line_is_refused_not_guessed() -> None:
    assert refusal("  S.\n  .G") == (
        "Every row of layout begins with 2 spaces, which could be free cells or an indentation. "
        "Write free cells as '.', or remove the indentation (textwrap.dedent does):\n"
        "     1 |   S.\n"
        "         ^"
    )
    assert "begins with 1 space," in refusal(" SG")


def test_rows_that_are_indented_less_than_the_closing_line_are_refused() -> None:
    message = refusal("\n    S..\n  .#.G\n    ")
    assert "line 3 is not indented so far" in message
    assert message.endswith("     3 |   .#.G\n         ^")


def test_an_unknown_character_is_shown_with_a_caret() -> None:
    assert refusal("\nS..\n.x.\n..G\n") == (
        "layout has an unknown character, 'x', at line 3, column 2. A maze is made of '#' wall, "
        "'S' start, 'G' goal, and '.' or a space for a free cell:\n"
        "     3 | .x.\n"
        "          ^"
    )


def test_an_unknown_character_in_an_indented_block_is_counted_from_the_line_s_start() -> None:
    message = refusal("\n    S..\n    .x.\n    ..G\n    ")
    assert "line 3, column 6" in message
    assert message.endswith("     3 | .x.\n          ^")


def test_a_tab_is_named_and_shown() -> None:
    message = refusal("S.\t\n..G")
    assert "a tab, at line 1, column 3" in message
    assert message.endswith("     1 | S.→\n           ^")


def test_a_ragged_row_is_the_one_that_differs_from_most() -> None:
    assert refusal("S.\n...\n..G\n###") == (
        "layout is ragged: line 1 has 2 cells where the maze is 3 wide. Rows must be equally long, "
        "trailing spaces included (an editor may remove them: '.' is safer):\n"
        "     1 | S.\n"
        "           ^"
    )
    assert refusal("S..\n....\n..G").endswith("     2 | ....\n            ^")


def test_an_empty_line_inside_is_ragged() -> None:
    assert "line 2 has 0 cells" in refusal("S..\n\n..G")


def test_two_starts() -> None:
    assert refusal("S..\n..G\n.S.") == (
        "layout has 2 starts, and a maze has one. The first is at line 1, column 1, the second at "
        "line 3, column 2:\n"
        "     3 | .S.\n"
        "          ^"
    )


def test_no_start_and_no_goal() -> None:
    assert refusal("..G\n#..") == "layout has no start: mark one cell with 'S'."
    assert refusal("\nS..") == "layout has no goal: mark at least one cell with 'G'."


def test_an_unreachable_goal() -> None:
    assert refusal("S#.\n.#G") == (
        "In layout, the goal cannot be reached from the start at line 1, column 1: walls are in "
        "the way. A goal is at line 2, column 3:\n"
        "     2 | .#G\n"
        "           ^"
    )
    assert "no goal can be reached" in refusal("S#G\n.#G")


def test_one_reachable_goal_of_two_is_enough() -> None:
    assert parse_layout("SG#G").goals == ((0, 1), (0, 3))


@pytest.mark.parametrize("text", ["", "\n\n", "   \n  "])
def test_nothing_is_not_a_maze(text: str) -> None:
    assert refusal(text).startswith("layout is empty")


def test_a_long_line_is_cut_around_the_caret() -> None:
    message = refusal("S" + "." * 300 + "x" + "." * 300 + "G")
    shown, caret = message.splitlines()[-2:]
    assert len(shown) < 90
    assert shown[caret.index("^")] == "x"


def test_magnified_by_hand() -> None:
    layout = parse_layout("S#\n.G").magnified(3)
    assert str(layout) == "...###\n.S.###\n...###\n...GGG\n...GGG\n...GGG"
    assert str(parse_layout("SG").magnified(2)) == "..GG\n.SGG"
    assert layout.source == "layout x 3"


@settings(deadline=None)
@given(layouts(5), st.integers(1, 4))
def test_magnified_keeps_the_structure(layout: Layout, k: int) -> None:
    large = layout.magnified(k)
    np.testing.assert_array_equal(
        large.mask(large.walls), np.kron(layout.mask(layout.walls), np.ones((k, k))) > 0
    )
    np.testing.assert_array_equal(
        large.mask(large.goals), np.kron(layout.mask(layout.goals), np.ones((k, k))) > 0
    )
    assert (large.start[0] // k, large.start[1] // k) == layout.start
    assert parse_layout(str(large)) == large
    assert (large == layout) == (k == 1)


@settings(deadline=None)
@given(layouts(5), st.integers(1, 4))
def test_magnified_paths_grow_with_the_resolution(layout: Layout, k: int) -> None:
    """The block path, walked from centre to centre, is a path; and k steps span 2 x 2 blocks."""
    short = shortest_path_length(maze_table(layout))
    long = shortest_path_length(maze_table(layout.magnified(k)))
    assert long <= (short - 1) * k + k // 2 + 1
    assert short <= 2 * math.ceil(long / k)


@pytest.mark.parametrize("resolution", [0, -2])
def test_a_resolution_below_one_is_refused(resolution: int) -> None:
    with pytest.raises(NeedReplayError, match=f"resolution is {resolution}; .* 1 or more"):
        parse_layout("SG").magnified(resolution)


@pytest.mark.parametrize("resolution", [1.5, 2.0, "2", None, True])
def test_a_resolution_that_is_no_integer_is_refused(resolution: object) -> None:
    with pytest.raises(NeedReplayError, match=r"resolution is .* whole number"):
        parse_layout("SG").magnified(resolution)  # type: ignore[arg-type]


def test_a_numpy_integer_is_an_integer() -> None:
    assert parse_layout("SG").magnified(np.int64(2)) == parse_layout("..GG\n.SGG")  # type: ignore[arg-type]


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "maze.txt"
    path.write_bytes(b"\xef\xbb\xbfS.\r\n#G\r\n")
    assert read_layout(path) == parse_layout("S.\n#G")
    assert read_layout(str(path)).source == str(path)
    path.write_text("S.\n#x\n")
    with pytest.raises(
        NeedReplayError, match=r"maze\.txt has an unknown character, 'x', at line 2"
    ):
        read_layout(path)
    path.write_bytes(b"S\xff")
    with pytest.raises(NeedReplayError, match="not a text file"):
        read_layout(path)
    with pytest.raises(NeedReplayError, match=r"nowhere\.txt cannot be read: No such file"):
        read_layout(tmp_path / "nowhere.txt")
    with pytest.raises(NeedReplayError, match="cannot be read: Is a directory"):
        read_layout(tmp_path)


def test_whatever_names_a_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = parse_layout("S.G")
    monkeypatch.chdir(tmp_path)
    Path("maze.txt").write_text("S.G\n")
    Path("S.G").write_text("SG")
    for named in (layout, "S.G", "S G", "S.G\n", "maze.txt", Path("maze.txt")):
        assert to_layout(named) == layout
    assert to_layout(Path("S.G")) == parse_layout("SG")
    with pytest.raises(NeedReplayError, match="unknown character"):
        to_layout("S.G\nx..")
    with pytest.raises(NeedReplayError, match="it was of type int"):
        to_layout(3)  # type: ignore[arg-type]
