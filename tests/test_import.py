"""Importing and asking for help stay instant; the exported names are these."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import needlab
import needreplay

HEAVY = ("numba", "gymnasium", "matplotlib", "torch", "ray", "scipy")


def loaded_after(code: str) -> set[str]:
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import needreplay, needlab").isdisjoint(HEAVY)


@pytest.mark.parametrize(
    "words",
    [["--help"], ["reproduce", "--help"], ["sweep", "--help"], ["report", "--help"], ["--version"]],
)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code = (
        "from needlab.cli import main\n"
        f"try: main({words!r})\n"
        "except SystemExit as end: assert end.code == 0\n"
    )
    loaded = loaded_after(code)
    assert "needlab.cli.command" in loaded
    assert loaded.isdisjoint({*HEAVY, "jinja2", "rich"})


def test_exported_names() -> None:
    assert needreplay.__all__ == [
        "Episodes",
        "ExhaustiveNeedSampler",
        "FeatureNeedSampler",
        "Hindsight",
        "LinearBeta",
        "NeedBuffer",
        "NeedForm",
        "NeedModel",
        "NeedReplayError",
        "NeedReplayWarning",
        "PSERSampler",
        "ProportionalSampler",
        "RankSampler",
        "RecencySampler",
        "ReplayBuffer",
        "Sequences",
        "StateNeedSampler",
        "UniformSampler",
        "__version__",
    ]
    assert needlab.__all__ == [
        "EVB",
        "DeepAgent",
        "DeepSettings",
        "DynaQ",
        "DynaSettings",
        "EVBSettings",
        "LearningSettings",
        "MazeEnv",
        "PrioritizedSweeping",
        "QLearning",
        "SweepingSettings",
        "TabularWorld",
        "as_discrete",
        "compare_models",
        "deep_preset",
        "fit_events",
        "mean_interval",
        "play",
        "read_data",
        "record",
        "replay_table",
        "run_trials",
        "simulate",
        "simulate_model",
        "tabular_world",
    ]
    for package in (needreplay, needlab):
        assert dir(package) == sorted(package.__all__)
        for name in package.__all__:
            assert getattr(package, name) is not None
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            getattr(package, "nothing")  # noqa: B009


def test_the_laboratory_uses_public_names_of_the_library() -> None:
    """And ``needreplay._core``. What else it needs is missing from the public names."""
    private, root = [], Path(needlab.__file__).parent
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("needreplay"):
                module = str(node.module)
                if module.startswith("needreplay._core") or module == "needreplay._version":
                    continue
                public = getattr(import_module(module), "__all__", None)
                names = [alias.name for alias in node.names]
                if module == "needreplay" and names == ["equations"]:
                    continue
                if module != "needreplay.equations" and not set(names) <= set(public or ()):
                    private.append(f"{file.name}: from {module} import {', '.join(names)}")
    assert private == []


@pytest.mark.parametrize(
    "imports",
    ["import gymnasium, needlab", "import needlab.worlds, gymnasium", "import gymnasium"],
)
def test_gymnasium_makes_our_worlds(imports: str) -> None:
    prefix = "" if "needlab" in imports else "needlab:"
    loaded = loaded_after(
        f"{imports}\nassert gymnasium.make('{prefix}needreplay/DynaMaze-v1').reset()[0] == 18"
    )
    assert "numba" not in loaded
