"""The examples of docs/worlds.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from needlab.worlds import parse_layout

PAGE = Path(__file__).parents[2].joinpath("docs/worlds.md").read_text(encoding="utf-8")


def test_the_code_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "docs/worlds.md", "exec"), {})


def test_the_maze_and_the_message_are_true() -> None:
    maze = re.search(r"```\n(#####.*?)```", PAGE, flags=re.DOTALL)
    assert maze is not None
    assert parse_layout(maze[1]).goals == ((3, 7),)
    shown = PAGE.split("```\nmaze.txt")[1].split("\n```")[0]
    with pytest.raises(ValueError, match="unknown character") as caught:
        parse_layout("S..\n..G\n.x.", source="maze.txt")
    assert str(caught.value) == f"maze.txt{shown}"
