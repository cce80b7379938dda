"""The planned tests of part 3 of docs/preregistration.md, from the runs of ``minatar-need``.

    .venv/bin/python tools/minatar_need.py results/minatar-need

writes beside the runs: ``data.csv`` (each run), ``areas.csv`` (each arm in each game),
``tests.csv`` (the four planned comparisons), ``ratios.csv`` (more comparisons, by training and by
evaluation return), ``need.csv`` (how uneven need is in the batches that it scales),
``claims.json``, ``meta.json`` and the figure. Only complete rounds count: seeds that every arm has
finished in every game. The area of a run is its mean return over iterations, which are equally
long: that of training, which was planned, or that of evaluation.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from needreplay.core.rng import stream
from needreplay.core.tables import Table, long_table, read_table, write_json, write_table
from needreplay.core.types import FloatArray
from needreplay.report.aggregate import geometric_ratio, holm
from needreplay.report.claims import DOUBTS, Claim, Verdict
from needreplay.report.figures import house_style, new_figure, save_figure
from needreplay.report.series import last_number
from needreplay.report.statistics import permutation_test, student_interval
from needreplay.studies.folder import origin
from needreplay.sweeps import load_sweep

SCALED = "PER scaled by need M/p of mean 1"
"""Not the paper's need: that is M with γ = .99, raw. This one is M/p with γ = .9, over its mean."""
ARMS: dict[str, dict[str, object]] = {
    "uniform replay": {"agent": "uniform"},
    "PER": {"agent": "per"},
    SCALED: {"agent": "per-sr"},
    "gain x need": {"agent": "per-sr-sampling", "uniform_mix": 0.0},
    "gain x need, .25 uniform": {"agent": "per-sr-sampling", "uniform_mix": 0.25},
    "gain x shuffled need, .25 uniform": {
        "agent": "per-sr-sampling",
        "uniform_mix": 0.25,
        "shuffle_need": True,
    },
}
NEED_ARMS = [arm for arm in ARMS if "need" in arm]
TESTS = (
    ("gain x need, .25 uniform", "gain x shuffled need, .25 uniform"),
    ("gain x need, .25 uniform", "PER"),
    ("gain x need, .25 uniform", "uniform replay"),
    (SCALED, "PER"),
)
"""The planned comparisons, of training return."""
COMPARISONS = (
    *TESTS,
    ("PER", "uniform replay"),
    ("gain x shuffled need, .25 uniform", "uniform replay"),
    ("gain x shuffled need, .25 uniform", "PER"),
    ("gain x need", "PER"),
    ("gain x need, .25 uniform", "gain x need"),
)
METRICS = {"training": "area", "evaluation": "eval_area"}
"""The returns that are compared, and the columns of a run's mean over iterations."""
PRESET = "corrected"
BATCH = 32
"""Transitions in an update."""
CONFOUNDS = {
    ("gain x need, .25 uniform", "PER"): "PER had no uniform share. ",
    ("gain x need, .25 uniform", "uniform replay"): "Gain alone may explain it. ",
    (SCALED, "PER"): "This is not the paper's need, which is M with γ = .99, raw. ",
}
"""What a comparison cannot separate."""
LOOKS = 3
"""How often the tests are made (docs/preregistration.md): p is multiplied by this."""


def arm_of(config: dict[str, object]) -> str:
    """Which arm a run belongs to."""
    overrides = config["overrides"]
    assert isinstance(overrides, dict)
    chosen = {"agent": config["agent"]} | {
        name: overrides[name] for name in ("uniform_mix", "shuffle_need") if name in overrides
    }
    return next(arm for arm, settings in ARMS.items() if settings == chosen)


def read(folder: Path) -> Table:
    """The areas, and need at the end, of every run of the complete rounds."""
    found = {}
    for path in sorted((folder / "runs").iterdir()):
        if (path / "done.json").exists():
            config = json.loads((path / "config.json").read_text(encoding="utf-8"))
            metrics = read_table(path / "metrics.csv")
            key = config["world"], arm_of(config), int(config["seed"])
            found[key] = {
                "area": mean_of(metrics, "train_return"),
                "eval_area": mean_of(metrics, "eval_return"),
                "need_auc": last_number(metrics, "need_auc"),
                "need_variation": last_number(metrics, "need_variation"),
            }
    games = dict.fromkeys(run.config["world"] for run in load_sweep("minatar-need").runs)
    seeds = [
        seed
        for seed in sorted({seed for _, _, seed in found})
        if all((game, arm, seed) in found for game in games for arm in ARMS)
    ]
    if not seeds:
        raise SystemExit(f"{folder} has no complete round yet.")
    keys = [(game, arm, seed) for game in games for arm in ARMS for seed in seeds]
    return long_table(("game", "arm", "seed"), {key: found[key] for key in keys})


def mean_of(metrics: Table, column: str) -> float:
    """The mean over iterations."""
    return float(np.mean(metrics[column].astype(np.float64)))


def runs(data: Table, game: str, arm: str, column: str = "area") -> FloatArray:
    """One number for each seed."""
    return data.where(game=game, arm=arm)[column]


def areas_of(data: Table) -> Table:
    """Each arm in each game: the areas with intervals, and how accurate need was."""
    rows = {}
    for game in games_of(data):
        for arm in ARMS:
            own, auc = runs(data, game, arm), runs(data, game, arm, "need_auc")
            evaluated = student_interval(runs(data, game, arm, "eval_area"))
            rows[game, arm] = {
                "seeds": len(own),
                **student_interval(own).columns("area"),
                "eval_area": evaluated.estimate,
                "eval_low": evaluated.low,
                "eval_high": evaluated.high,
                "need_auc": auc.mean(),
                "need_auc_lowest": auc.min(),
            }
    return long_table(("game", "arm"), rows)


def tests_of(data: Table) -> Table:
    """The planned comparisons, and whether need was accurate in every run that has one."""
    games = games_of(data)
    found = [compared(data, *pair, "area") for pair in TESTS]
    rows = {}
    for pair, one, adjusted in zip(TESTS, found, holm([one["p"] for one in found]), strict=True):
        need = [
            runs(data, game, arm, "need_auc") for arm in pair if arm in NEED_ARMS for game in games
        ]
        lowest = float(np.min(need))
        rows[pair] = {
            **one,
            "p_holm": adjusted,
            "need_auc_lowest": lowest,
        }
    return long_table(("arm", "rival"), rows)


def compared(data: Table, arm: str, rival: str, column: str) -> dict[str, Any]:
    """The geometric mean over games of the ratio of mean areas, its interval, and p."""
    a, b = ([runs(data, game, one, column) for game in games_of(data)] for one in (arm, rival))
    return {
        "seeds": len(a[0]),
        "games": len(a),
        "ahead": sum(bool(x.mean() > y.mean()) for x, y in zip(a, b, strict=True)),
        **geometric_ratio(a, b, stream(0, "minatar need", "ratio")).columns("ratio"),
        "p": permutation_test(a, b, stream(0, "minatar need"), paired=False),
    }


def ratios_of(data: Table) -> Table:
    """The comparisons of both returns; only four of training return were planned."""
    rows = {
        (metric, *pair): {
            "planned": metric == "training" and pair in TESTS,
            **compared(data, *pair, column),
        }
        for metric, column in METRICS.items()
        for pair in COMPARISONS
    }
    return long_table(("metric", "arm", "rival"), rows)


def need_of(data: Table) -> Table:
    """How uneven the need of scaled updates is, in batches of the last iteration.

    ``variation`` is its standard deviation over its mean, ``effective`` how many of 32 transitions
    count: 32 / (1 + variation²).
    """
    rows = {}
    for game in games_of(data):
        variation = runs(data, game, SCALED, "need_variation")
        rows[(game,)] = {
            "seeds": len(variation),
            "variation": variation.mean(),
            "variation_lowest": variation.min(),
            "variation_highest": variation.max(),
            "effective": (BATCH / (1.0 + variation**2)).mean(),
        }
    return long_table(("game",), rows)


def games_of(data: Table) -> list[str]:
    """In the order of the sweep."""
    return list(dict.fromkeys(data["game"].tolist()))


def claims_of(tests: Table) -> list[Claim]:
    """A claim for each comparison; docs/preregistration.md has the rule.

    The runs measured need on episodes that it had learned from, against states of any age. Recency
    alone passes that, so whether need was accurate is not known.
    """
    claims = []
    for row in zip(*(tests[name].tolist() for name in tests.names), strict=True):
        test = dict(zip(tests.names, row, strict=True))
        verdict: Verdict = "undecided"
        if LOOKS * test["p_holm"] < 0.05:
            verdict = "holds" if test["ratio"] > 1.0 else "does not hold"
        claims.append(
            Claim(
                statement=f"{test['arm']} learns faster than {test['rival']}",
                source="preregistration",
                measured=f"ratio of areas {test['ratio']:.2f} (95% interval {test['low']:.2f} to "
                f"{test['high']:.2f}; geometric mean over games), ahead in {test['ahead']} of "
                f"{test['games']} games, p = {test['p_holm']:.2g} after Holm",
                verdict=verdict,
                preset=PRESET,
                detail=f"Training return. Permutation test stratified by game, {test['seeds']} "
                f"seeds. Decided if {LOOKS} times p is below 0.05, for {LOOKS} looks at the data. "
                f"{CONFOUNDS.get((test['arm'], test['rival']), '')}".rstrip(),
                doubt=DOUBTS["undecided"],
            )
        )
    return claims


@house_style()
def draw(data: Table) -> Figure:
    """The areas of all arms, one panel for each game."""
    figure, grid = new_figure(2, 2, height=4.6, sharey=True)
    for axes, game in zip(grid.ravel(), games_of(data), strict=True):
        for place, arm in enumerate(ARMS):
            own = runs(data, game, arm)
            interval = student_interval(own)
            color = "#D55E00" if arm in NEED_ARMS and "shuffled" not in arm else "#0072B2"
            below = np.full(len(own), place + 0.25)
            axes.plot(own, below, ".", color=color, alpha=0.5, markersize=4)
            axes.plot(interval.estimate, place, "o", color=color, markersize=4)
            if np.isfinite(interval.low):
                axes.plot([interval.low, interval.high], [place, place], color=color)
        axes.set_title(game.removeprefix("minatar/").replace("_", " "), fontsize=10)
        axes.tick_params(labelsize=8)
    grid[0, 0].set_yticks(range(len(ARMS)), list(ARMS))
    grid[0, 0].invert_yaxis()
    figure.supxlabel("area: mean training return", fontsize=9)
    return figure


def main(folder: Path) -> None:
    """Write everything."""
    data = read(folder)
    tests = tests_of(data)
    seeds = sorted(set(data["seed"].tolist()))
    tables = {
        "data": data,
        "areas": areas_of(data),
        "tests": tests,
        "ratios": ratios_of(data),
        "need": need_of(data),
    }
    for name, table in tables.items():
        write_table(folder / f"{name}.csv", table)
    write_json(folder / "claims.json", claims_of(tests))
    save_figure(draw(data), folder)
    meta = {
        "study": "minatar-need",
        "title": "MinAtar with learned need",
        "question": "With a learned need of measured quality: does replay by gain x need learn "
        "faster, and does it matter that the values are on the right transitions?",
        "documentation": "docs/should_i_use_need.md",
        "presets": [PRESET],
        "config": {"seeds": seeds, "games": games_of(data), "arms": ARMS},
        "captions": {
            "figure": f"Areas of {len(seeds)} seeds: means with Student's 95% intervals, and seeds "
            "as small dots below. Orange: need on its own transitions."
        },
        "notes": [
            "The design was fixed in docs/preregistration.md before the runs. That page has their "
            "days; the date here is that of the figure.",
            "Only the four comparisons of training return in tests.csv were planned. Those of "
            "evaluation return, and the others in ratios.csv, were added after the runs.",
            "The runs recorded no time: results/bench/deep.txt has what each sampler costs.",
            "All runs were made at commit 873ff60, with mixtures. Since then need models take half "
            "of their queries from the newest transitions and normalize their layers, and cosine "
            "is the default, so newer runs differ.",
        ],
        **origin(),
        "command": f"needreplay sweep minatar-need --out {folder}; "
        f"python tools/minatar_need.py {folder}",
    }
    write_json(folder / "meta.json", meta)
    print(f"{len(seeds)} complete rounds (seeds {', '.join(map(str, seeds))}): {folder}/tests.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
