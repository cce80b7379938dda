"""docs/deep.md explains every agent that ``needreplay train`` has."""

from __future__ import annotations

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "deep.md"


def test_every_agent_is_explained() -> None:
    pytest.importorskip("torch")
    from needlab.deep import AGENTS

    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in AGENTS if f"`{name}`" not in text] == []
