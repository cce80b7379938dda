"""Retired words stay retired: the table in CONTRIBUTING.md has the ones to use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("src", "tests", "examples", "benchmarks", "tools")
FOLDERS = dict.fromkeys(SOURCES, "*.py") | {"docs": "*.md"}
FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile"]
FILES += [file for folder, kind in FOLDERS.items() for file in sorted((ROOT / folder).rglob(kind))]
FILES.remove(Path(__file__))

RETIRED = {
    r"told|telling": "set, passed, named",
    r"answers? with|answered with": "returns",
    r"short way|long way": "fast path, general path",
    r"gone on with|goes on with|went on with": "resumes",
    r"is said|are said": "is documented, is reported",
    r"in prose": "in an error message",
    r"rooms?": "package, layer",
    r"draws by|the draw's|a draw": "samples by, the sampler's, a sample",
    r"anew": "again",
    r"whole or not at all": "atomically",
    r"gain_exponent|need_exponent|weights_by|new_gain": "alpha, need_alpha, ...",
    r"replay memory": "replay buffer",
    r"normalis\w+|prioritis\w+|recognis\w+|optimis\w+|behaviou\w+|colou\w+": "American spelling",
}


@pytest.mark.parametrize("words", RETIRED)
def test_retired_words_stay_retired(words: str) -> None:
    pattern = re.compile(rf"\b({words})\b", re.IGNORECASE)
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in FILES
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"use {RETIRED[words]}:\n" + "\n".join(found)
