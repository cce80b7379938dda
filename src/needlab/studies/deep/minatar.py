"""MinAtar, decided: does sampling by gain x need learn faster than its controls?

Arms differ from their controls in one thing. ``docs/preregistration.md``, part 4, fixed games,
arms, seeds, metric and tests before the runs; ``minatar_analysis.py`` has what the runs say. A
finished run is one file of the cache, so a stopped study loses at most the run under way.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from needlab.core.tables import (
    Table,
    as_numbers,
    long_table,
    prepare_folder,
    read_table,
    write_bytes,
    write_table,
)
from needlab.core.types import JsonObject, Values
from needlab.runs.config import RunConfig
from needlab.runs.run import run_training
from needlab.runs.runner import OnUnits
from needlab.runs.trials import TrialRunner
from needlab.studies.deep.minatar_analysis import (
    METRICS,
    PRIMARY,
    accuracy_of,
    areas_of,
    claims_of,
    costs_of,
    draw,
    pilot_of,
    ratios_of,
)
from needlab.studies.deep.ours import SECONDS_PER_STEP, random_return
from needlab.studies.study import Options, Result, Study
from needreplay._core.errors import NeedReplayError, counted

PRESET = "default"
STEPS = 50_000
FINISHED = Path("results/minatar/runs")
"""Finished runs of the full size that a clone brings: they are used, not made again."""
ITERATIONS = 20
MIX = 0.25
"""The share of the probability that is uniform, in every arm that has one."""

_NEED: Values = {"need_learner": "cosine", "uniform_mix": MIX}
ARMS: dict[str, tuple[str, Values]] = {
    "uniform": ("uniform", {}),
    "PER": ("per", {}),
    "PER .25": ("per", {"uniform_mix": MIX}),
    "need .25": ("per-sr-sampling", _NEED),
    "shuffled need .25": ("per-sr-sampling", {**_NEED, "shuffle": True}),
    "recent need .25": ("per-sr-sampling", {**_NEED, "need_query": "recent"}),
    "shuffled recent need .25": (
        "per-sr-sampling",
        {**_NEED, "need_query": "recent", "shuffle": True},
    ),
    "recency .25": ("per-recency", {"uniform_mix": MIX}),
    "wide recency .25": ("per-recency", {"uniform_mix": MIX}),
}
"""By name: the agent and the settings that are changed. Need is M / p in all of them."""

SETTINGS: Values = {
    "stratified": False,  # need samplers never are
    "min_history": 2_000,
    "epsilon_steps": 20_000,
    "iteration_steps": STEPS // ITERATIONS,
    "eval_steps": 2_000,
}
"""Of every arm; all else is the preset's."""

UPDATE_PERIODS = {"asterix": 1, "freeway": 1, "seaquest": 1}
"""Of games that are not learned, or too differently from seed to seed, with one in four steps."""
MEAN_AGES: dict[str, tuple[float, float]] = {
    "breakout": (1_500.0, 5_463.0),
    "space_invaders": (2_407.0, 6_241.0),
}
"""Of recency and wide recency, by game: with the effective numbers of need and of recent need."""
SIZES = range(10_000, STEPS + 1, 10_000)
"""Of the buffer when need is measured; effective numbers are averaged over these."""


class Plan(NamedTuple):
    """What is run."""

    games: tuple[str, ...]
    arms: tuple[str, ...]
    seeds: int
    first_seed: int
    steps: int = STEPS
    every_step: bool = True
    """whether ``UPDATE_PERIODS`` hold"""


PLANS = {
    "pilot": Plan(
        ("asterix", "breakout", "freeway", "seaquest", "space_invaders"),
        ("uniform", "PER .25", "need .25"),
        3,
        1_000,
        every_step=False,
    ),
    "pilot-every-step": Plan(
        ("asterix", "freeway", "seaquest"), ("uniform", "need .25"), 3, 1_000, every_step=True
    ),
    "pilot-need": Plan(("breakout", "space_invaders"), ("need .25",), 3, 1_000),
    "main": Plan(("breakout", "space_invaders"), tuple(ARMS), 76, 100),
}
"""Presets. Seeds of the pilot are not those of the main runs."""
QUICK = Plan(("breakout",), ("PER .25", "need .25", "shuffled need .25"), 2, 0, 4_000)

COLUMNS = (
    "steps",
    *METRICS,
    "need_auc",
    "need_auc_baseline",
    "need_auc_past",
    "need_auc_time",
    "need_effective",
    "need_effective_recent",
)


class Case(NamedTuple):
    """One run."""

    game: str
    arm: str
    seed: int
    steps: int
    update_period: int = 4

    @property
    def config(self) -> RunConfig:
        """What ``needreplay train`` would be given."""
        agent, changed = ARMS[self.arm]
        overrides = {**SETTINGS, **changed, "iteration_steps": self.steps // ITERATIONS}
        overrides["update_period"] = self.update_period
        if agent == "per-recency":
            overrides["mean_age"] = MEAN_AGES[self.game][self.arm.startswith("wide")]
        if self.steps < STEPS:
            overrides |= {"min_history": 500, "epsilon_steps": self.steps // 2, "eval_steps": 200}
        return RunConfig(f"minatar/{self.game}", agent, PRESET, self.steps, self.seed, overrides)

    @property
    def file_name(self) -> str:
        """The name of the file that holds its record."""
        words = self.arm.replace(".", "").replace(" ", "-")
        every = "" if self.update_period == 4 else f"-every-{self.update_period}"
        return f"{self.game}-{words}-{self.seed}-{self.steps}{every}.csv"


def train(case: Case, path: Path, on_units: OnUnits) -> None:
    """Write the record of a run, one row for each iteration.

    A run that was stopped starts again, because its CPU time is part of the record.
    """
    # Hidden: nothing in it is used again.
    folder = path.with_name(f".{path.stem}")
    shutil.rmtree(folder, ignore_errors=True)
    rows: list[float] = []
    began = stepped = 0.0

    def on_steps(steps: int, row: JsonObject | None) -> None:
        nonlocal began, stepped
        now = time.process_time()
        if row is not None:  # after the evaluation, which is not part of the cost
            rows.append(stepped - began)
        if row is not None or steps == 0:
            began = now
        on_units(steps / case.steps)
        stepped = now

    metrics = read_table(run_training(case.config, folder, on_steps=on_steps))
    record = {name: as_numbers(metrics[name]) for name in COLUMNS}
    record["train_cpu_seconds"] = np.array(rows)
    write_table(path, Table(record))
    shutil.rmtree(folder)


def put_in_place(cases: Mapping[str, Case], cache: Path, folder: Path = FINISHED) -> int:
    """Copy runs that were finished elsewhere into the cache; return how many were copied.

    Args:
        cases: by the name of their file.
        cache: where runs are looked for.
        folder: has files of those names.
    """
    copied = 0
    for name, case in cases.items():
        if not (folder / name).is_file() or (cache / name).exists():
            continue
        record = read_table(folder / name)
        missing = {*COLUMNS, "train_cpu_seconds"} - {*record.names}
        if missing or not len(record) or record["steps"][-1] < case.steps:
            raise NeedReplayError(
                f"{str(folder / name)!r} is not the record of a finished run: "
                + (f"it has no column {min(missing)!r}." if missing else "it is too short.")
            )
        write_bytes(prepare_folder(cache) / name, (folder / name).read_bytes())
        copied += 1
    return copied


def run(options: Options, runner: TrialRunner) -> Result:
    """Run round after round (one seed of every game and arm), then compare the arms once."""
    (preset,) = options.presets
    plan = QUICK if options.size == "quick" else PLANS[preset]
    seeds = range(plan.first_seed, plan.first_seed + (options.trials or plan.seeds))
    periods = UPDATE_PERIODS if plan.every_step else {}
    cases = [
        Case(game, arm, options.seed + seed, plan.steps, periods.get(game, 4))
        for seed in seeds
        for game in plan.games
        for arm in plan.arms
    ]
    named = {case.file_name: case for case in cases}
    copied = put_in_place(named, runner.cache)
    if copied:
        print(f"minatar: {counted(copied, 'finished run')} of {FINISHED} used", file=sys.stderr)
    seconds = SECONDS_PER_STEP * plan.steps
    # Equal work keeps the order: complete rounds first.
    paths = runner.files(train, named, label=f"minatar, {preset}", seconds=seconds)
    found = [read_table(path) for path in paths]
    keys = ("game", "arm", "seed")
    data = long_table(
        keys,
        {
            (case.game, case.arm, case.seed): {n: as_numbers(table[n]) for n in table.names}
            for case, table in zip(cases, found, strict=True)
        },
    )
    areas = areas_of(data)
    tables, claims = {"data": data, "areas": areas}, []
    if preset.startswith("pilot"):
        random = {game: random_return(f"minatar/{game}", options.seed) for game in plan.games}
        tables["pilot"] = pilot_of(areas, random)
    else:
        tables["ratios"] = ratios_of(areas, options.seed)
        claims = claims_of(areas, tables["ratios"], preset)
        tables["costs"], tables["accuracy"] = costs_of(areas), accuracy_of(areas)
    return Result(
        tables=tables,
        figures={"figure": draw(areas)},
        captions={
            "figure": f"{PRIMARY} of each arm in {plan.steps:,} steps, {len(seeds)} seeds: means "
            "with Student's 95% intervals, and seeds as small dots."
        },
        claims=claims,
        config={
            "plan": plan._asdict(),
            "settings": SETTINGS,
            "mean_ages": MEAN_AGES,
            "update_periods": periods,
            "arms": {arm: ARMS[arm] for arm in plan.arms},
        },
        notes=["The design was fixed in docs/preregistration.md, part 4, before the runs."],
    )


STUDY = Study(
    name="minatar",
    title="Sampling by need in MinAtar, against controls that differ in one thing",
    question="Does replay by gain x need learn faster than by gain with the same uniform share, "
    "than the same need on wrong transitions, and than recency?",
    presets=tuple(PLANS),
    quick_presets=("main",),
    run=run,
    documentation="docs/minatar_need.md",
    keeps_cache=True,
)
