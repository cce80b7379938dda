"""What the MinAtar runs say: ratios of areas with intervals, claims, costs.

All of it follows from the table of runs. The area of a run is its mean over equally long
iterations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from needlab.core.tables import Table, long_table
from needlab.report.aggregate import geometric_ratio, holm
from needlab.report.claims import DOUBTS, Claim, Verdict, need_verdict, tested_verdict
from needlab.report.statistics import permutation_test
from needlab.studies.deep.arms_figure import draw_arms
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray

METRICS = ("train_return", "train_return_by_step", "eval_return")
PRIMARY = "train_return"
"""The metric of the planned tests; the others are reported beside it."""
TESTS = (
    ("need .25", "PER .25"),
    ("need .25", "shuffled need .25"),
    ("need .25", "recency .25"),
    ("recent need .25", "PER .25"),
    ("recent need .25", "shuffled recent need .25"),
    ("recent need .25", "wide recency .25"),
)
"""The planned comparisons."""
OTHERS = (
    ("PER", "uniform"),
    ("PER .25", "PER"),
    ("PER .25", "uniform"),
    ("shuffled need .25", "PER .25"),
    ("shuffled recent need .25", "PER .25"),
    ("recency .25", "PER .25"),
    ("wide recency .25", "PER .25"),
    ("recent need .25", "recency .25"),
    ("need .25", "uniform"),
    ("recent need .25", "uniform"),
    ("recent need .25", "need .25"),
)
"""Reported with intervals, not tested."""
PER_CPU = "per CPU-second"
LEARNED_TIMES, LEARNED_MARGIN = 3.0, 0.5
"""A game is learned if the last fifth's evaluation return is this many times the random player's,
and above it by this much."""


def areas_of(data: Table) -> Table:
    """One row for each run: its areas, what its training cost, and how accurate need was."""
    rows = {}
    for game, arm, seed in data.distinct("game", "arm", "seed"):
        run = data.where(game=game, arm=arm, seed=seed)
        # An episode may be longer than an iteration, whose row is then missing.
        share = np.diff(run["steps"], prepend=0.0) / run["steps"][-1]
        seconds = float(run["train_cpu_seconds"].sum())
        rows[game, arm, seed] = {
            **{name: float(share @ run[name]) for name in METRICS},
            "last_fifth": float(run["eval_return"][-(len(run["steps"]) // 5) :].mean()),
            "cpu_seconds": seconds,
            PER_CPU: float(share @ run[PRIMARY]) / seconds,
            **{name: _mean(run[name]) for name in run.names if name.startswith("need_")},
        }
    return long_table(("game", "arm", "seed"), rows)


def _mean(values: FloatArray) -> float:
    """Without NaN; NaN if there is nothing else."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def of_arm(areas: Table, arm: str, column: str) -> list[FloatArray]:
    """For each game, one number for each seed."""
    return [areas.where(game=game, arm=arm)[column] for game in areas.distinct("game")]


def compared(areas: Table, arm: str, rival: str, column: str, seed: int) -> dict[str, float]:
    """The geometric mean over games of the ratio of means, its interval, and p.

    p is that of a permutation test of ``log_ratio``, the mean over games of the difference of mean
    logarithms; labels change places within a game. NaN where an area is not positive.
    """
    own, rivals = of_arm(areas, arm, column), of_arm(areas, rival, column)
    if min(runs.min() for runs in (*own, *rivals)) <= 0.0:
        names = ("ahead", "ratio", "low", "high", "log_ratio", "p")
        return {"seeds": len(own[0]), "games": len(own), **dict.fromkeys(names, np.nan)}
    interval = geometric_ratio(own, rivals, stream(seed, "minatar", arm, rival, column))
    logs, rival_logs = ([np.log(runs) for runs in each] for each in (own, rivals))
    rng = stream(seed, "minatar", "p", arm, rival, column)
    return {
        "seeds": len(own[0]),
        "games": len(own),
        "ahead": sum(bool(a.mean() > b.mean()) for a, b in zip(own, rivals, strict=True)),
        "ratio": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "log_ratio": float(
            np.mean([a.mean() - b.mean() for a, b in zip(logs, rival_logs, strict=True)])
        ),
        "p": permutation_test(logs, rival_logs, rng, paired=False, scaled=False),
    }


def pilot_of(areas: Table, random: Mapping[str, FloatArray]) -> Table:
    """What the plan asks of the pilot, game by game; it compares no arms.

    Whether uniform replay learns the game, how much runs of one arm differ by each metric (the
    coefficient of variation, pooled over arms), and how many transitions need selects.
    """
    rows = {}
    for game in areas.distinct("game"):
        learned = _mean(areas.where(game=game, arm="uniform")["last_fifth"])
        chance = float(random[game].mean())
        rows[game] = {
            "random": chance,
            "uniform_last_fifth": learned,
            "is_learned": learned >= max(LEARNED_TIMES * chance, chance + LEARNED_MARGIN),
            **{f"variation_{name}": _variation(areas, game, name) for name in METRICS},
            **{
                name: _mean(areas.where(game=game, arm="need .25")[name])
                for name in ("need_effective", "need_effective_recent")
            },
            "cpu_seconds_of_need": float(
                areas.where(game=game, arm="need .25")["cpu_seconds"].mean()
            ),
        }
    return long_table(("game",), {(game,): row for game, row in rows.items()})


def _variation(areas: Table, game: str, column: str) -> float:
    """Root of the mean over arms of the squared coefficient of variation between seeds."""
    runs = [areas.where(game=game, arm=arm)[column] for arm in areas.distinct("arm")]
    squares = [each.var(ddof=1) / each.mean() ** 2 for each in runs if len(each) > 1]
    return float(np.sqrt(np.mean(squares))) if squares else float("nan")


def seeds_for(
    variations: Sequence[float], *, ratio: float = 1.05, tests: int = len(TESTS), power: float = 0.9
) -> int:
    """Seeds with which a true ratio is seen, by a two-sided test at 5% / ``tests``.

    The logarithm of the geometric mean over G games of a ratio of means has about the variance
    2 Σ cv² / (n G²).

    >>> seeds_for([0.1, 0.1, 0.1], tests=1)
    30
    """
    from scipy.stats import norm

    z = float(norm.ppf(1.0 - 0.025 / tests) + norm.ppf(power))
    each = 2.0 * float(np.square(variations).sum()) / len(variations) ** 2
    return math.ceil(each * (z / math.log(ratio)) ** 2)


def ratios_of(areas: Table, seed: int) -> Table:
    """Every comparison by every metric, also per CPU-second; p after Holm for the planned ones."""
    arms = areas.distinct("arm")
    rows = {}
    for column in (PRIMARY, *(m for m in METRICS if m != PRIMARY), PER_CPU):
        pairs = [pair for pair in (*TESTS, *OTHERS) if set(pair) <= set(arms)]
        found = {pair: compared(areas, *pair, column, seed) for pair in pairs}
        planned = [pair for pair in pairs if pair in TESTS and column == PRIMARY]
        adjusted = dict(zip(planned, holm([found[pair]["p"] for pair in planned]), strict=True))
        for pair in pairs:
            p_holm = adjusted.get(pair, np.nan)
            rows[column, *pair] = {"planned": pair in adjusted, **found[pair], "p_holm": p_holm}
    return long_table(("metric", "arm", "rival"), rows)


def accuracy_of(areas: Table) -> Table:
    """Of each arm with need in each game: its AUC, the best trivial score's, what it selects."""
    rows = {}
    for game, arm in product(areas.distinct("game"), areas.distinct("arm")):
        runs = areas.where(game=game, arm=arm)
        if not np.isnan(runs["need_auc"]).all():
            names = [name for name in runs.names if name.startswith("need_")]
            rows[game, arm] = {name: _mean(runs[name]) for name in names}
            rows[game, arm]["need_auc_lowest"] = float(np.nanmin(runs["need_auc"]))
    if not rows:
        return Table({"game": np.zeros(0, "U1"), "arm": np.zeros(0, "U1")})
    return long_table(("game", "arm"), rows)


def costs_of(areas: Table) -> Table:
    """CPU-seconds of training, without evaluation, by game and arm, and relative to PER .25.

    Medians: the first run of a process loads what is compiled.
    """
    rows = {}
    for game in areas.distinct("game"):
        seconds = {
            arm: float(np.median(areas.where(game=game, arm=arm)["cpu_seconds"]))
            for arm in areas.distinct("arm")
        }
        for arm, each in seconds.items():
            relative = each / seconds["PER .25"]
            rows[game, arm] = {"cpu_seconds": each, "relative": relative}
    return long_table(("game", "arm"), rows)


def claims_of(areas: Table, ratios: Table, preset: str) -> list[Claim]:
    """A claim for each planned comparison of which both arms were run."""
    return [
        Claim(
            statement=f"{test['arm']} learns faster than {test['rival']}",
            source="preregistration",
            measured=f"ratio of areas {test['ratio']:.3f} [{test['low']:.3f}, "
            f"{test['high']:.3f}] (geometric mean over {test['games']} games), ahead in "
            f"{test['ahead']}, p = {test['p_holm']:.2g} after Holm",
            verdict=tested_verdict(test["p_holm"], test["log_ratio"] > 0.0),
            preset=preset,
            detail=f"{test['seeds']} seeds. Area of {PRIMARY}. Permutation test of mean "
            "logarithms within games; bootstrap interval for this comparison alone.",
            doubt=DOUBTS[_accuracy(areas, test["arm"])],
        )
        for test in ratios.where(metric=PRIMARY, planned=True).rows()
    ]


def _accuracy(areas: Table, arm: str) -> Verdict:
    """Whether the need of an arm was accurate in every game."""
    verdicts = []
    for game in areas.distinct("game"):
        runs = areas.where(game=game, arm=arm)
        auc, baseline = (_mean(runs[name]) for name in ("need_auc", "need_auc_baseline"))
        verdicts.append(need_verdict(auc, baseline))
    order: list[Verdict] = ["does not hold", "undecided", "holds"]
    return next(verdict for verdict in order if verdict in verdicts)


def draw(areas: Table) -> Figure:
    """Each arm in each game."""

    def runs(game: str, arm: str) -> FloatArray:
        return areas.where(game=game, arm=arm)[PRIMARY]

    def is_need(arm: str) -> bool:
        return "need" in arm and "shuffled" not in arm

    return draw_arms(areas.distinct("game"), areas.distinct("arm"), runs, is_need)
