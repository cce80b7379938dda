"""The tutorials run, and their pages show their code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))

from tutorials import FOLDER, NAMES, parts_of, run  # noqa: E402

NEEDS = {"dqn": "torch", "sb3": "stable_baselines3", "sweep": "ray"}
SHORTER = {
    "sb3": ("STEPS = 4_000", "STEPS = 400"),
    "dqn": ("range(3_000)", "range(700)"),
    "replay": ("50, 30", "50, 6"),
}
"""What a test runs less of."""


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.md")))
def test_the_page_shows_the_program_and_what_it_printed(name: str) -> None:
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    parts = parts_of((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    place = 0
    for part in parts:
        source = part.source
        if part.kind == "command":
            source = "\n".join(f"    {line}" for line in source.splitlines())
        assert source in page[place:], f"make tutorials; {name}.md lacks:\n{source}"
        place = page.index(source, place) + len(source)
    assert "```text" in page
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", page):
        assert (FOLDER / picture).stat().st_size > 1_000


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.ray if name == "sweep" else ()) for name in NAMES],
)
def test_a_tutorial_runs(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    program = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    if name in SHORTER:
        assert SHORTER[name][0] in program
        program = program.replace(*SHORTER[name])
    parts = parts_of(program)
    run(parts, name, tmp_path)
    assert any(part.printed for part in parts)
    if name == "replay":
        assert "forward forward forward forward forward none\n" in [p.printed for p in parts]
