"""The ids, in a process of their own: what has to be imported, and what that loads."""

from __future__ import annotations

import subprocess
import sys

import needlab.worlds
from needlab.worlds.registration import ENTRY_POINTS, register_worlds


def run(code: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_gymnasium_makes_our_worlds_without_an_import_of_ours() -> None:
    code = (
        "import gymnasium\n"
        "env = gymnasium.make('needlab.worlds:needreplay/DynaMaze-v1', resolution=2)\n"
        "walk = gymnasium.make('needreplay/BlindCliffwalk-v1', n=4)\n"
        "print(env.reset(seed=0)[0], walk.observation_space.n)"
    )
    assert run(code) == "91 5"  # (5, 1) of 12 x 18; four states and the goal


def test_importing_the_worlds_registers_them_in_either_order() -> None:
    make = "print(gymnasium.make('needreplay/DynaMaze-v1').reset()[0])"
    assert run(f"import gymnasium\nimport needlab.worlds\n{make}") == "18"
    assert run(f"import needlab.worlds\nimport gymnasium\n{make}") == "18"


def test_importing_the_worlds_is_light() -> None:
    heavy = "{'numba', 'scipy', 'matplotlib', 'torch', 'pygame', 'rich', 'tyro'}"
    assert run(f"import sys\nimport needlab.worlds\nprint({heavy} & set(sys.modules))") == "set()"


def test_registering_twice_changes_nothing() -> None:
    from gymnasium.envs.registration import registry

    before = {name: registry[name] for name in ENTRY_POINTS}
    register_worlds()
    assert {name: registry[name] for name in ENTRY_POINTS} == before


def test_the_exported_names() -> None:
    assert all(hasattr(needlab.worlds, name) for name in needlab.worlds.__all__)
    assert set(needlab.worlds.__all__) == {
        "BOARDS",
        "DYNA_MAZE",
        "BlindCliffwalkEnv",
        "ContinuousMazeEnv",
        "MazeEnv",
        "TabularEnv",
        "TabularWorld",
        "ZeroBased",
        "as_discrete",
        "cliffwalk_world",
        "distances_to",
        "register_worlds",
        "require_discrete",
        "shortest_path_length",
        "tabular_schedule",
        "tabular_world",
        "world_of_arrays",
        "world_of_env",
        "world_of_text",
    }
