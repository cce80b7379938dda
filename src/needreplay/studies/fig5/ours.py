"""Our own runs on MinAtar: which agents, how long, and what they returned."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from needreplay.core.progress import Bar
from needreplay.core.rng import stream
from needreplay.core.tables import Table
from needreplay.core.types import FloatArray
from needreplay.studies.runs import run_specs
from needreplay.sweeps import RunSpec
from needreplay.sweeps.folder import SweepFolder
from needreplay.training.config import RunConfig
from needreplay.training.folder import CHECKPOINT
from needreplay.training.loop import reset_seed
from needreplay.worlds.named import make_world

PRESET = "corrected"

AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "uniform": ("uniform", {}),
    "per": ("per", {}),
    "per, step cut": ("per", {"step_cut": 0.25}),
    "pser": ("pser", {}),
    "per-sr raw": ("per-sr", {"scale": "raw"}),
    "per-sr mean": ("per-sr", {"scale": "mean"}),
    "per-sr sampling": ("per-sr-sampling", {}),
}
"""Our agents by label: the agent's name and the settings that are changed."""


class Plan(NamedTuple):
    """What a size runs."""

    worlds: tuple[str, ...]
    agents: tuple[str, ...]
    seeds: int
    steps: int
    overrides: dict[str, Any]


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

PLANS = {
    "quick": Plan(("minatar/breakout",), ("per", "per-sr mean"), 3, 20_000, QUICK_SETTINGS),
    "full": Plan(("minatar/breakout", "minatar/space_invaders"), tuple(AGENTS), 3, 200_000, {}),
}


class Run(NamedTuple):
    """One run of the sweep, and the label of its agent."""

    label: str
    config: RunConfig

    @property
    def spec(self) -> RunSpec:
        """The run as a sweep has it: equal configs have equal names."""
        return RunSpec("deep", {**asdict(self.config), "overrides": dict(self.config.overrides)})


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


def metrics_of(
    runs: list[Run], folder: Path, workers: int, bar: Bar
) -> list[dict[str, list[float]]]:
    """Run the sweep, or what is left of it; metrics are kept in ``folder``, checkpoints are not."""
    specs = [run.spec for run in runs]
    tables = run_specs(specs, folder, workers, bar, name="fig5")
    for spec in specs:
        for path in SweepFolder(folder).of(spec.name).glob(f"{CHECKPOINT}*"):
            shutil.rmtree(path)
    return [{name: table[name].tolist() for name in table.names} for table in tables]


def data_of(runs: list[Run], found: list[dict[str, list[float]]]) -> Table:
    """One row an iteration of every run."""
    rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for run, metrics in zip(runs, found, strict=True):
        for i in range(len(metrics["iteration"])):
            fixed = (run.config.world, run.label, PRESET, run.config.seed)
            taken = [metrics[name][i] for name in COLUMNS[len(fixed) :]]
            for name, value in zip(COLUMNS, (*fixed, *taken), strict=True):
                # A cell is empty where there is nothing to say: no need, or no update yet.
                rows[name].append(np.nan if value == "" else value)
    for name in COLUMNS[6:]:
        rows[name] = [float(value) for value in rows[name]]
    return Table(rows)


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
)


def curves(data: Table, world: str, agent: str, column: str) -> FloatArray:
    """[seed, iteration] of one column; runs are cut to the shortest."""
    own = (data["world"] == world) & (data["agent"] == agent)
    seeds = sorted(set(data["seed"][own].tolist()))
    runs = [data[column][own & (data["seed"] == seed)] for seed in seeds]
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
