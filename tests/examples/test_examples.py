"""The examples run with every kind of replay, from the command line too, and are short."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from needreplay import ReplayBuffer

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
FOLDER = Path(__file__).parents[2] / "examples"
FILES = sorted(FOLDER.glob("*.py"))


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_is_one_file_under_150_lines(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) < 150


@pytest.mark.parametrize(("name", "steps"), [("cartpole_dqn", 600), ("pendulum_sac", 600)])
def test_every_sampler_runs_and_differs_from_the_others(
    name: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share everything until the first update, and then replay other transitions."""
    module, sample = example(name), ReplayBuffer.sample
    replayed: list[list[int]] = []

    def recorded(buffer: ReplayBuffer, *args: Any, **options: Any) -> Any:
        batch = sample(buffer, *args, **options)
        replayed[-1] += batch.ids.tolist()
        return batch

    monkeypatch.setattr(ReplayBuffer, "sample", recorded)
    returns = []
    for sampler in module.SAMPLERS:
        replayed.append([])
        returns.append(module.train(sampler, steps, 2))
    assert returns[0][0] == returns[1][0] == returns[2][0]
    assert replayed[0] != replayed[1]
    assert replayed[1] != replayed[2]
    assert len(replayed[0]) == len(replayed[1]) == len(replayed[2]) > 0


def test_a_seed_decides_everything() -> None:
    module = example("cartpole_dqn")
    assert module.train("need", 560, 2) == module.train("need", 560, 2)


def test_stable_baselines3_runs_with_every_replay() -> None:
    module = example("sb3_need")
    models = [module.train(replay, steps=560) for replay in module.REPLAYS]
    assert [model._n_updates for model in models] == [60] * 3
    names = [type(model.replay_buffer).__name__ for model in models]
    assert names == ["ReplayBuffer", "PrioritizedReplayBuffer", "PrioritizedReplayBuffer"]
    assert models[2].replay_buffer.need.model.updates == 15


@pytest.mark.parametrize(("name", "option"), [("pendulum_sac", "sampler"), ("sb3_need", "replay")])
def test_the_command_line(name: str, option: str) -> None:
    line = [sys.executable, str(FOLDER / f"{name}.py"), f"--{option}", "uniform", "--steps", "250"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("uniform: mean return")


@pytest.mark.parametrize(
    ("memory", "steps", "low", "high"), [(True, 5_000, 0.7, 1.0), (False, 1_500, -0.4, 0.4)]
)
def test_only_memory_finds_the_way_in_a_t_maze(
    memory: bool, steps: int, low: float, high: float
) -> None:
    """Without memory no turn is right for both cues: a mean of 100 coins, four deviations wide."""
    score = example("tmaze_lstm").train(memory, steps=steps, length=4, seed=0)
    assert low <= score <= high
