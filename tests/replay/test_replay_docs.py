"""The examples of the documentation run, and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "replay.md"


def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 5
    scope: dict[str, object] = {}
    for block in blocks:
        capsys.readouterr()
        exec(block, scope)
        printed = capsys.readouterr().out.splitlines()
        promised = [line.split("#")[-1].strip() for line in block.splitlines() if "print(" in line]
        assert len(printed) == len(promised)
        for said, shown in zip(promised, printed, strict=True):
            assert said.startswith(shown)
