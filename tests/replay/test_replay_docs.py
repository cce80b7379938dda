"""The examples of the documentation run, and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "count"),
    [
        ("replay.md", 8),
        ("need_sampling.md", 2),
        ("sequences_and_hindsight.md", 2),
        ("actors_and_offline_data.md", 6),
        ("disk_and_prefetch.md", 2),
    ],
)
def test_the_examples_run(page: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)
    assert len(blocks) == count
    scope: dict[str, object] = {}
    for block in blocks:
        capsys.readouterr()
        exec(block, scope)
        printed = capsys.readouterr().out.splitlines()
        promised = [line.split("#")[-1].strip() for line in block.splitlines() if "print(" in line]
        assert len(printed) == len(promised)
        for said, shown in zip(promised, printed, strict=True):
            assert said.startswith(shown)
