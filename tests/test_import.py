"""Importing and asking for help stay instant; the exported names are these."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import needreplay

HEAVY = ("numba", "gymnasium", "matplotlib", "torch", "ray", "scipy")


def loaded_after(code: str) -> set[str]:
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import needreplay").isdisjoint(HEAVY)


@pytest.mark.parametrize("words", [["--help"], ["reproduce", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code = (
        "from needreplay.cli import main\n"
        f"try: main({words!r})\n"
        "except SystemExit as end: assert end.code == 0\n"
    )
    loaded = loaded_after(code)
    assert "needreplay.studies" in loaded
    assert loaded.isdisjoint({*HEAVY, "jinja2", "rich"})


def test_exported_names() -> None:
    assert needreplay.__all__ == ["__version__"]
    for name in needreplay.__all__:
        assert getattr(needreplay, name) is not None
