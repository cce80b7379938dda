"""The planned tests of part 3 of docs/preregistration.md, from the runs of ``minatar-need``.

    .venv/bin/python tools/minatar_need.py results/minatar-need

writes ``areas.csv`` (each arm in each game) and ``tests.csv`` (the four comparisons) beside the
runs. Only complete rounds count: seeds that every arm has finished in every game. The area of a run
is its mean training return over iterations, which are equally long.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from needreplay.core.rng import stream
from needreplay.core.tables import long_table, read_table, write_table
from needreplay.core.types import FloatArray
from needreplay.report.aggregate import holm
from needreplay.report.series import last_number
from needreplay.report.statistics import permutation_test, student_interval
from needreplay.sweeps import load_sweep

ARMS = {
    "uniform replay": {"agent": "uniform"},
    "PER": {"agent": "per"},
    "PER scaled by need": {"agent": "per-sr"},
    "gain x need": {"agent": "per-sr-sampling", "uniform_mix": 0.0},
    "gain x need, .25 uniform": {"agent": "per-sr-sampling", "uniform_mix": 0.25},
    "gain x shuffled need, .25 uniform": {
        "agent": "per-sr-sampling",
        "uniform_mix": 0.25,
        "shuffle_need": True,
    },
}
TESTS = (
    ("gain x need, .25 uniform", "gain x shuffled need, .25 uniform"),
    ("gain x need, .25 uniform", "PER"),
    ("gain x need, .25 uniform", "uniform replay"),
    ("PER scaled by need", "PER"),
)


def arm_of(config: dict[str, object]) -> str:
    """Which arm a run belongs to."""
    overrides = config["overrides"]
    assert isinstance(overrides, dict)
    chosen = {"agent": config["agent"]} | {
        name: overrides[name] for name in ("uniform_mix", "shuffle_need") if name in overrides
    }
    return next(arm for arm, settings in ARMS.items() if settings == chosen)


def read(folder: Path) -> dict[tuple[str, str, int], tuple[float, float]]:
    """(area, AUC of need at the end) by game, arm and seed, of the runs that are done."""
    found = {}
    for path in sorted((folder / "runs").iterdir()):
        if (path / "done.json").exists():
            config = json.loads((path / "config.json").read_text(encoding="utf-8"))
            metrics = read_table(path / "metrics.csv")
            area = float(np.mean(metrics["train_return"].astype(np.float64)))
            key = config["world"], arm_of(config), int(config["seed"])
            found[key] = area, last_number(metrics, "need_auc")
    return found


def main(folder: Path) -> None:
    """Write both tables."""
    found = read(folder)
    games = tuple(dict.fromkeys(run.config["world"] for run in load_sweep("minatar-need").runs))
    seeds = [
        seed
        for seed in sorted({seed for _, _, seed in found})
        if all((game, arm, seed) in found for game in games for arm in ARMS)
    ]
    if not seeds:
        raise SystemExit(f"{folder} has no complete round yet.")

    def runs(game: str, arm: str, what: int) -> FloatArray:
        return np.array([found[game, arm, seed][what] for seed in seeds])

    areas, tests = {}, {}
    for game in games:
        for arm in ARMS:
            area, auc = student_interval(runs(game, arm, 0)), runs(game, arm, 1)
            quality = {"need_auc": auc.mean(), "need_auc_lowest": auc.min()}
            areas[game, arm] = {"seeds": len(seeds), **area.columns("area"), **quality}
    pairs = [[[runs(game, arm, 0) for game in games] for arm in pair] for pair in TESTS]
    p = [permutation_test(a, b, stream(0, "minatar need"), paired=False) for a, b in pairs]
    for pair, (a, b), own, adjusted in zip(TESTS, pairs, p, holm(p), strict=True):
        ratios = np.array([x.mean() / y.mean() for x, y in zip(a, b, strict=True)])
        tests[pair] = {
            "seeds": len(seeds),
            "games": len(games),
            "ahead": int((ratios > 1.0).sum()),
            "ratio": float(np.exp(np.log(ratios).mean())),
            "p": own,
            "p_holm": adjusted,
        }
    write_table(folder / "areas.csv", long_table(("game", "arm"), areas))
    write_table(folder / "tests.csv", long_table(("arm", "rival"), tests))
    print(f"{len(seeds)} complete rounds (seeds {', '.join(map(str, seeds))}): {folder}/tests.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
