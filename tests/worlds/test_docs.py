"""The examples of docs/worlds.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from needlab.worlds import world_of_text

PAGE = Path(__file__).parents[2].joinpath("docs/worlds.md").read_text(encoding="utf-8")


def test_the_code_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "docs/worlds.md", "exec"), {})


def test_the_maze_and_the_message_are_true() -> None:
    maze = re.search(r"```\n(#####.*?)```", PAGE, flags=re.DOTALL)
    assert maze is not None
    assert world_of_text(maze[1]).goals.tolist() == [3 * 9 + 7]
    shown = PAGE.split("```\nmaze.txt")[1].split("\n```")[0]
    with pytest.raises(ValueError, match="unknown character") as caught:
        world_of_text("S..\n..G\n.?.", source="maze.txt")
    assert str(caught.value) == f"maze.txt{shown}"
