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


@pytest.mark.parametrize(
    "words",
    [["--help"], ["reproduce", "--help"], ["sweep", "--help"], ["report", "--help"], ["--version"]],
)
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
    assert needreplay.__all__ == [
        "DeepAgent",
        "DeepSettings",
        "DynaQ",
        "DynaSettings",
        "Episodes",
        "ExhaustiveNeedSampler",
        "FeatureNeedSampler",
        "LearningSettings",
        "LinearBeta",
        "MazeEnv",
        "NeedForm",
        "NeedModel",
        "NeedReplayError",
        "PSERSampler",
        "PrioritizedSweeping",
        "ProportionalSampler",
        "QLearning",
        "RankSampler",
        "RecencySampler",
        "ReplayBuffer",
        "StateNeedSampler",
        "SweepingSettings",
        "UniformSampler",
        "__version__",
        "as_discrete",
        "deep_preset",
        "play",
    ]
    assert dir(needreplay) == needreplay.__all__
    for name in needreplay.__all__:
        assert getattr(needreplay, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(needreplay, "nothing")  # noqa: B009


@pytest.mark.parametrize(
    "imports",
    ["import gymnasium, needreplay", "import needreplay.worlds, gymnasium", "import gymnasium"],
)
def test_gymnasium_makes_our_worlds(imports: str) -> None:
    prefix = "" if "needreplay" in imports else "needreplay:"
    loaded = loaded_after(
        f"{imports}\nassert gymnasium.make('{prefix}needreplay/DynaMaze-v1').reset()[0] == 18"
    )
    assert "numba" not in loaded
