"""docs/deep.md says what the source says; run as a script, this writes its table again."""

from __future__ import annotations

from pathlib import Path

import pytest

from needlab.runs.config import RunConfig, explained
from needlab.runs.metrics import COLUMNS

PAGE = Path(__file__).parents[2] / "docs" / "deep.md"
BEGIN, END = "<!-- settings -->\n", "<!-- /settings -->"
RUNS = {
    "Atari printed": RunConfig("atari/Pong", "per-sr", "printed"),
    "released": RunConfig("atari/Pong", "per-sr", "released"),
    "corrected": RunConfig("atari/Pong", "per-sr", "corrected"),
    "default": RunConfig("atari/Pong", "per-sr"),
    "MinAtar": RunConfig("minatar/breakout", "per-sr-sampling"),
    "rows": RunConfig("CartPole-v1", "per-sr-sampling"),
}


def settings_table() -> str:
    """Every setting in Markdown: its values and its meaning."""
    found = [config.resolved() for config in RUNS.values()]
    lines = [f"| setting | {' | '.join(RUNS)} | meaning |", "|---" * (len(RUNS) + 2) + "|"]
    for heading in ("agent", "world", "protocol"):
        lines.append(f"| **{heading}** |" + " |" * (len(RUNS) + 1))
        for same in zip(*(explained(getattr(each, heading)) for each in found), strict=True):
            values = " | ".join(str(each.value) for each in same)
            meaning = same[0].meaning.replace("|", "\\|")
            choices = f" ({', '.join(same[0].choices)})" if same[0].choices else ""
            lines.append(f"| `{same[0].name}` | {values} | {meaning}{choices} |")
    return "\n".join(lines) + "\n"


def test_the_table_of_settings_is_that_of_the_source() -> None:
    pytest.importorskip("torch")
    assert PAGE.read_text().split(BEGIN)[1].split(END)[0] == settings_table(), (
        "run python tests/training/test_docs.py"
    )


def test_every_column_is_explained() -> None:
    got = {line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if "|" in line}
    assert set(COLUMNS) <= got


def test_every_agent_is_explained() -> None:
    pytest.importorskip("torch")
    from needlab.deep import AGENTS

    text = PAGE.read_text()
    assert all(f"`{name}`" in text for name in AGENTS)


if __name__ == "__main__":
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + settings_table() + END + rest.split(END)[1])
