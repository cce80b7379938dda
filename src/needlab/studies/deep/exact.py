"""Deep Q-learning with exact need: the preregistered test that separates need from its learner.

``docs/preregistration.md`` fixed tasks, arms, metric and tests before the runs. ``exact_tasks.py``
has the worlds, ``exact_arms.py`` what is compared and how need is computed, ``exact_training.py``
one run, ``exact_analysis.py`` what the runs say.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from needlab.core.tables import long_table, read_json, read_table, write_json, write_table
from needlab.runs.trials import TrialRunner
from needlab.studies.deep.exact_analysis import claims_of, comparisons, differences, draw
from needlab.studies.deep.exact_arms import BLOCKS, QUICK_BLOCKS, Block
from needlab.studies.deep.exact_training import Case, train
from needlab.studies.study import Options, Result, Study
from needreplay._core.types import FloatArray

SEEDS = {"quick": 2, "full": 10}


def _train(case: Case, _: int) -> dict[str, FloatArray]:
    return {"value": train(case)}


def task_name(case: Case) -> str:
    """A task as it is shown."""
    name = case.task if case.period == 4 else f"{case.task}, every {case.period}"
    return f"{name}, {case.steps:,} steps" if case.steps > 12_000 else name


def run(options: Options, runner: TrialRunner) -> Result:
    """Run round after round (one seed of every task and arm), then compare the arms."""
    known, preset = QUICK_BLOCKS if options.size == "quick" else BLOCKS, ", ".join(options.presets)
    blocks = list(dict.fromkeys(known[name] for name in options.presets))
    rows: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    seeds = range(options.seed, options.seed + (options.trials or SEEDS[options.size]))
    for seed in seeds:
        cases = [
            Case(task, period, arm, seed, block.steps)
            for block in blocks
            for task, period in block.tasks
            for arm in block.arms
        ]
        label = f"exact need, {preset}, {options.size}, seed {seed}"
        # Blocks may share a run.
        found = runner.run(_train, list(dict.fromkeys(cases)), 1, label=label, seconds=10.0)
        for case, columns in found.items():
            curve = columns["value"][0]
            key = (task_name(case), case.arm, seed)
            rows.append((key, {"area": curve.mean(), "last": curve[-1]}))
    data = long_table(("task", "arm", "seed"), rows)
    compared = comparisons(data, _tests(blocks))
    lengths = dict.fromkeys(f"{block.steps:,}" for block in blocks)
    return Result(
        tables={"data": data, "differences": differences(compared)},
        figures={"figure": draw(data)},
        captions={
            "figure": "Area under the policy's exact value (ε = 0.1) in "
            f"{' or '.join(lengths)} steps (0: the random policy, "
            f"1: the best), {len(seeds)} seeds: means with Student's 95% intervals, and seeds as "
            "small dots."
        },
        claims=claims_of(compared, preset, options.seed),
        config={"seeds": list(seeds), "blocks": [block._asdict() for block in blocks]},
        notes=["The design was fixed in docs/preregistration.md before the runs."],
    )


def _tests(blocks: list[Block]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(pair for block in blocks for pair in block.tests))


def analyze_again(folder: str | Path) -> None:
    """Make claims and differences again from a full run's ``data.csv``; nothing is trained.

    ``meta.json`` stays that of the runs and gets the date of the analysis.
    """
    folder = Path(folder)
    data, meta = read_table(folder / "data.csv"), read_json(folder / "meta.json")
    compared = comparisons(data, _tests([BLOCKS[name] for name in meta["presets"]]))
    write_table(folder / "differences.csv", differences(compared))
    write_json(
        folder / "claims.json", claims_of(compared, ", ".join(meta["presets"]), meta["seed"])
    )
    meta["analyzed_again"] = datetime.now(UTC).isoformat(timespec="seconds")
    meta["files"] = sorted({*meta["files"], "differences.csv"})
    write_json(folder / "meta.json", meta)


STUDY = Study(
    name="exact-need",
    title="Deep Q-learning with exact need",
    question="With need computed, not learned: does replay by gain x need learn faster, and does "
    "it matter that the values are on the right transitions?",
    presets=tuple(BLOCKS),
    quick_presets=("small",),
    run=run,
    documentation="docs/exact_need.md",
    keeps_cache=True,
)
