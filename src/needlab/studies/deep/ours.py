"""Our own runs on MinAtar: which agents, how long, and what they returned."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from needlab.core.tables import Table, as_numbers, long_table, read_table, write_bytes
from needlab.core.types import Values
from needlab.runs.config import RunConfig
from needlab.runs.run import run_training
from needlab.runs.runner import OnUnits
from needlab.runs.train_loop import reset_seed
from needlab.runs.trials import TrialRunner
from needlab.worlds.named import make_world
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray

PRESET = "corrected"
SECONDS_PER_STEP = 0.001
"""About what training takes, for the time to finish."""

_COSINE: Values = {"need_learner": "cosine", "learn_every": 4}

AGENTS: dict[str, tuple[str, Values]] = {
    "uniform": ("uniform", {}),
    "per": ("per", {}),
    "per, step cut": ("per", {"step_cut": 0.25}),
    "per-sr raw": ("per-sr", {"scale": "raw"}),
    "per-sr mean": ("per-sr", {"scale": "mean"}),
    "per-sr M/p": ("per-sr", {"scale": "mean", **_COSINE}),
    "per-sr sampling": ("per-sr-sampling", _COSINE),
    "shuffled sampling": ("per-sr-sampling", {**_COSINE, "shuffle": True}),
}
"""Our agents by label: the agent's name and the settings that are changed. The need of ``raw`` and
``mean`` is the paper's, that of the others is of a learner that is true on MinAtar; the last one, a
control, has it on wrong transitions."""


class Plan(NamedTuple):
    """What a size runs."""

    worlds: tuple[str, ...]
    agents: tuple[str, ...]
    seeds: int
    steps: int
    overrides: Values


QUICK_SETTINGS = {
    "min_history": 1_000,
    "epsilon_steps": 10_000,
    "learning_rate": 1e-3,
    "target_period": 500,
    "successor_target_period": 500,
    "iteration_steps": 5_000,
    "eval_steps": 2_000,
}
"""A short run has to stop exploring sooner and to take larger steps; nothing else is changed."""

FULL_SETTINGS = {"stratified": False, "min_history": 2_000, "epsilon_steps": 20_000}
"""Need samplers do not stratify, so PER must not either."""

PLANS = {
    "quick": Plan(("minatar/breakout",), ("per", "per-sr mean"), 3, 20_000, QUICK_SETTINGS),
    "full": Plan(
        ("minatar/breakout", "minatar/space_invaders"), tuple(AGENTS), 3, 50_000, FULL_SETTINGS
    ),
}


class Run(NamedTuple):
    """One training run, and the label of its agent."""

    label: str
    config: RunConfig

    @property
    def file_stem(self) -> str:
        """The name of its file, which is the same for equal configs."""
        plain = {**asdict(self.config), "overrides": dict(self.config.overrides)}
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def runs_of(plan: Plan, seed: int) -> list[Run]:
    """Every run of a plan; seeds count up from ``seed``."""
    runs = []
    for number in range(seed, seed + plan.seeds):
        for world in plan.worlds:
            for label in plan.agents:
                agent, changed = AGENTS[label]
                overrides = {**plan.overrides, **changed}
                runs.append(
                    Run(label, RunConfig(world, agent, PRESET, plan.steps, number, overrides))
                )
    return runs


def train_all(runs: list[Run], runner: TrialRunner) -> list[Table]:
    """The metrics of every run; finished runs are read, stopped ones resume."""
    configs = {f"{run.file_stem}.csv": run.config for run in runs}
    seconds = SECONDS_PER_STEP * max(run.config.steps for run in runs)
    return [read_table(p) for p in runner.files(train, configs, label="fig5", seconds=seconds)]


def train(config: RunConfig, path: Path, on_units: OnUnits) -> None:
    """Train in a folder beside ``path``, where a stopped run resumes; write the metrics."""
    folder = path.with_suffix("")
    metrics = run_training(
        config, folder, on_steps=lambda steps, _row: on_units(steps / config.steps)
    )
    write_bytes(path, metrics.read_bytes())
    shutil.rmtree(folder)


def data_of(runs: list[Run], found: list[Table]) -> Table:
    """One row for each iteration of every run."""
    return long_table(
        COLUMNS[:4],
        {
            (run.config.world, run.label, PRESET, run.config.seed): {
                name: metrics[name] if name in INTEGERS else as_numbers(metrics[name])
                for name in COLUMNS[4:]
            }
            for run, metrics in zip(runs, found, strict=True)
        },
    )


INTEGERS = ("iteration", "steps")
COLUMNS = (
    "world",
    "agent",
    "preset",
    "seed",
    "iteration",
    "steps",
    "train_return",
    "eval_return",
    "need_mean",
    "need_variation",
    "need_negative",
    "feature_similarity",
    "need_auc",
    "need_auc_baseline",
)


def curves(data: Table, world: str, agent: str, column: str) -> FloatArray:
    """[seed, iteration] of one column; runs are cut to the shortest."""
    own = data.where(world=world, agent=agent)
    runs = [own.where(seed=seed)[column] for seed in sorted(set(own["seed"].tolist()))]
    shortest = min(len(run) for run in runs)
    return np.array([run[:shortest] for run in runs], dtype=np.float64)


def random_return(world: str, seed: int, episodes: int = 200) -> FloatArray:
    """Returns of a player that chooses every action by chance."""
    config = RunConfig(world, "uniform", PRESET, 1, seed)
    env = make_world(world, config.resolved().world)
    choices = stream(seed, "fig5", "random", world)
    returns = np.zeros(episodes)
    for episode in range(episodes):
        env.reset(seed=reset_seed(seed, "random", episode))
        ended = False
        while not ended:
            action = int(choices.integers(env.action_space.n))  # type: ignore[attr-defined]
            _, reward, terminated, truncated, _ = env.step(action)
            returns[episode] += float(reward)
            ended = bool(terminated or truncated)
    return returns
