"""Beyond the paper: Q-updates until the path is optimal, as mazes grow (the book's example 8.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from needlab.core.tables import long_table
from needlab.report.claims import Claim, verdict_of
from needlab.report.figures import colors_of, label_of, new_figure
from needlab.report.statistics import Interval, median_interval, proportion_interval
from needlab.runs.trials import Columns, TrialRunner
from needlab.studies.maze.world import dyna_world
from needlab.studies.study import Options, Result, Study
from needlab.tabular.settings import LearningSettings, agent_settings
from needlab.tabular.trial import model_holds_path, search_until_optimal
from needlab.worlds.tabular import shortest_path_length
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray

RESOLUTIONS = {"quick": (1, 2, 3), "full": (1, 2, 3, 4, 5, 6)}
TRIALS = {"quick": 10, "full": 20}
STEP_SIZES = (0.5, 1.0)
BUDGET = 5_000
"""Steps after which a trial is given up, in shortest paths."""
AGENTS: dict[str, LearningSettings] = {
    agent: agent_settings(agent) for agent in ("dyna-q", "ps", "ps-sr")
}
COMPARED = (
    ("ps", "dyna-q", "Sutton & Barto, example 8.4"),
    ("ps-sr", "ps", "beyond the paper"),
)


class Case(NamedTuple):
    """One agent in one maze."""

    step_size: float
    resolution: int
    agent: str


def search(seeded: tuple[Case, int], trial: int) -> dict[str, float]:
    """Run an agent until its greedy path is a shortest one, or its steps are spent."""
    case, seed = seeded
    world = dyna_world(0.0, case.resolution)
    rng = stream(seed, "mazes", case.resolution, trial)
    shortest = shortest_path_length(world)
    settings = replace(AGENTS[case.agent], step_size=case.step_size)
    ended = search_until_optimal(world, settings, shortest, BUDGET * shortest, rng)
    return {
        "updates": ended.updates,
        "steps": ended.steps,
        "found": ended.found,
        "path_in_model": model_holds_path(ended.agent, world, shortest),
    }


def free_cells(resolution: int) -> int:
    """How many states can be visited: what the book's figure has on its axis."""
    return int(dyna_world().free.sum()) * resolution**2


def run(options: Options, runner: TrialRunner) -> Result:
    """Run all agents in all sizes, and compare how many updates they need."""
    trials = options.trials or TRIALS[options.size]
    resolutions = RESOLUTIONS[options.size]
    cases = [
        Case(step_size, resolution, agent)
        for step_size in STEP_SIZES
        for resolution in resolutions
        for agent in AGENTS
    ]
    seeded = [(case, options.seed) for case in cases]
    seconds = [_seconds(case) for case in cases]
    ran = runner.run(search, seeded, trials, label="mazes", seconds=seconds)
    found = {case: columns for (case, _), columns in ran.items()}
    medians = {
        case: median_interval(ranked(own), stream(options.seed, "mazes", *map(str, case)))
        for case, own in found.items()
    }
    return Result(
        tables={
            "data": long_table(
                ("preset", "step_size", "resolution", "states", "agent"),
                {
                    ("printed", c.step_size, c.resolution, free_cells(c.resolution), c.agent): {
                        "trial": np.arange(trials),
                        **own,
                    }
                    for c, own in found.items()
                },
            )
        },
        figures={"figure": _draw(resolutions, found, medians)},
        captions={
            "figure": "Above: Q-updates until the greedy path is a shortest one, over the number "
            f"of cells that can be visited: medians of {trials} trials, with 95% intervals. A "
            "trial that has not found one counts as more than any number: where half have not, "
            "there is no point, and where an interval is open above, it ends in an arrow. Below: "
            f"the share of trials that found one within {BUDGET:,} times its length in steps."
        },
        claims=[
            claim
            for step_size in STEP_SIZES
            for compared in COMPARED
            for claim in compare(step_size, *compared, found, medians)
        ],
        config={
            "trials": trials,
            "resolutions": resolutions,
            "step_sizes": STEP_SIZES,
            "budget_in_shortest_paths": BUDGET,
            "reward_std": 0.0,
            "settings": {agent: asdict(settings) for agent, settings in AGENTS.items()},
        },
        notes=[
            "Settings are printed's, except the step size and a reward that does not vary "
            "(with 0.1 most of the time would go into averaging over equal rewards). The budget is "
            "in steps, not in updates: with an empty queue there are no updates, and a trial could "
            "run forever.",
            *(_failures(step_size, found) for step_size in STEP_SIZES),
        ],
    )


def _seconds(case: Case) -> float:
    """Of one trial, about: a pop with need reads M, which has (47 resolution²)² entries."""
    return float(0.006 * case.resolution ** (4 if case.agent == "ps-sr" else 2))


def ranked(found: Columns) -> FloatArray:
    """Updates, where a trial that did not find a shortest path counts as more than any."""
    return np.where(found["found"], found["updates"], np.inf)


def _failures(step_size: float, found: dict[Case, Columns]) -> str:
    """How many trials found no shortest path, and what they lacked."""
    said = []
    for agent in AGENTS:
        own = [f for case, f in found.items() if (case.step_size, case.agent) == (step_size, agent)]
        ended, known = (
            np.concatenate([f[name] for f in own]) for name in ("found", "path_in_model")
        )
        seen = int((~ended & known).sum())
        said.append(
            f"{label_of(agent)} {(~ended).sum()} of {len(ended)}"
            + (f" ({seen} of them had seen one, but their Q did not lead along it)" if seen else "")
        )
    return (
        f"Trials that did not end on a shortest path, step size {step_size:g}: {', '.join(said)}. "
        "All others of them had never tried a move that a shortest path needs."
    )


def _draw(
    resolutions: tuple[int, ...],
    found: dict[Case, Columns],
    medians: dict[Case, Interval],
) -> Figure:
    figure, grid = new_figure(
        2, len(STEP_SIZES), height=5.0, sharex=True, sharey="row", height_ratios=[2.2, 1]
    )
    cells = [free_cells(resolution) for resolution in resolutions]
    colors = colors_of(list(AGENTS))
    for (upper, lower), step_size in zip(grid.T, STEP_SIZES, strict=True):
        for place, agent in enumerate(AGENTS):
            cases = [Case(step_size, resolution, agent) for resolution in resolutions]
            # Side by side, so that intervals do not hide each other.
            x = np.array(cells) * 1.05 ** (place - 1)
            _draw_medians(upper, x, [medians[case] for case in cases], agent, colors[agent])
            shares = [found[case]["found"].mean() for case in cases]
            lower.plot(x, shares, color=colors[agent], marker="o", markersize=4)
        upper.set_yscale("log")
        upper.set_title(f"step size {step_size:g}")
        lower.set_xscale("log")
        lower.set_xticks(cells, [str(count) for count in cells], fontsize=8)
        lower.minorticks_off()
        lower.set_ylim(-0.05, 1.05)
        lower.set_xlabel("cells that can be visited")
    grid[0, 0].set_ylabel("updates until optimal")
    grid[1, 0].set_ylabel("found")
    grid[0, -1].legend()
    return figure


def _draw_medians(
    axes: Axes, x: FloatArray, medians: Sequence[Interval], agent: str, color: str
) -> None:
    middle = np.array([median.estimate for median in medians])
    there = np.isfinite(middle)
    low, high = np.array([(m.low, m.high) for m in medians])[there].T
    x, middle = x[there], middle[there]
    known = np.isfinite(low)
    open_above = known & np.isinf(high)
    down = np.where(known, middle - low, 0.0)
    up = np.where(known & ~open_above, high - middle, 0.0)
    axes.errorbar(
        x, middle, yerr=(down, up), color=color, label=label_of(agent), marker="o", markersize=4,
        capsize=2,
    )  # fmt: skip
    axes.errorbar(
        x[open_above], middle[open_above], yerr=middle[open_above], lolims=True, color=color,
        linestyle="none",
    )  # fmt: skip


def compare(
    step_size: float,
    less: str,
    more: str,
    source: str,
    found: dict[Case, Columns],
    medians: dict[Case, Interval],
) -> list[Claim]:
    """In how many trials one agent needs fewer updates than the other, on the same random numbers.

    A trial that found no path loses to one that did; if neither did, the trial decides nothing.
    """
    sizes = list(dict.fromkeys(case.resolution for case in found))
    counts, details = [], []
    for size in sizes:
        pair = [Case(step_size, size, agent) for agent in (less, more)]
        ours, theirs = (ranked(found[case]) for case in pair)
        won, lost = int((ours < theirs).sum()), int((ours > theirs).sum())
        counts.append((won, lost, len(ours)))
        middles = [medians[case].estimate for case in pair]
        said = " and ".join(f"{m:,.0f}" if np.isfinite(m) else "none" for m in middles)
        details.append(f"{free_cells(size)} cells: {won} of {won + lost}, medians {said}")
    claims = []
    for where, part, detail in (
        (
            "all sizes together",
            counts,
            f"{'; '.join(details)} ({label_of(less)} and {label_of(more)}).",
        ),
        (f"at {free_cells(sizes[-1]):,} cells", counts[-1:], ""),
    ):
        won, lost, trials = (sum(column) for column in zip(*part, strict=True))
        decided = won + lost
        share = proportion_interval(won, decided) if decided else Interval(0.5, 0.0, 1.0)
        rest = f"; in {trials - decided} more neither" if trials > decided else ""
        claims.append(
            Claim(
                statement=f"{label_of(less)} needs fewer updates than {label_of(more)} until the "
                f"path is optimal, with a step size of {step_size:g}: {where}.",
                source=source,
                measured=f"fewer in {won} of {decided} trials: {share.text(2)}{rest}",
                verdict=verdict_of(share, 0.5, "above"),
                preset="printed",
                detail=detail,
            )
        )
    return claims


STUDY = Study(
    name="mazes",
    title="Larger mazes (the book's example 8.4)",
    question="How many updates until the path is optimal, as the maze's resolution grows? The book "
    "finds prioritized sweeping faster than Dyna-Q by a factor of 5 to 10; is need faster still?",
    presets=("printed",),
    run=run,
    documentation="docs/maze.md",
)
