"""Beyond the paper: Q-updates until the path is optimal, as mazes grow (the book's example 8.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from needreplay.core.progress import Progress
from needreplay.core.rng import stream
from needreplay.core.tables import Table
from needreplay.core.types import FloatArray
from needreplay.report.claims import Claim, verdict_of
from needreplay.report.figures import colours_of, house_style, label_of, new_figure
from needreplay.report.statistics import Interval, median_interval, proportion_interval
from needreplay.studies.base import Outcome, Request, Study
from needreplay.studies.maze_search import AGENTS, BUDGET, Found
from needreplay.studies.maze_world import dyna_layout
from needreplay.studies.runs import Experiment, run_experiments

RESOLUTIONS = {"quick": (1, 2, 3), "full": (1, 2, 3, 4, 5, 6)}
TRIALS = {"quick": 10, "full": 20}
STEP_SIZES = (0.5, 1.0)
COMPARED = (
    ("ps", "dyna-q", "Sutton & Barto, example 8.4"),
    ("ps-sr", "ps", "beyond the paper"),
)


class Job(NamedTuple):
    """One trial of one agent in one maze."""

    step_size: float
    resolution: int
    agent: str
    trial: int


Case = tuple[float, int, str]
"""Step size, resolution, agent."""


def free_cells(resolution: int) -> int:
    """How many states can be visited: what the book's figure has on its axis."""
    layout = dyna_layout()
    return (layout.rows * layout.cols - len(layout.walls)) * resolution**2


def run(request: Request, progress: Progress) -> Outcome:
    """Run all agents in all sizes, and compare how many updates they need."""
    trials = request.trials or TRIALS[request.size]
    resolutions = RESOLUTIONS[request.size]
    cases: list[Case] = [
        (step_size, resolution, agent)
        for step_size in STEP_SIZES
        for resolution in resolutions
        for agent in AGENTS
    ]
    experiments = [
        Experiment(
            "needreplay.studies.maze_search:KIND",
            {
                "step_size": step_size,
                "resolution": resolution,
                "agent": agent,
                "seed": request.seed,
            },
            trials,
            _seconds(resolution, agent),
        )
        for step_size, resolution, agent in cases
    ]
    tables = run_experiments(experiments, request, progress, "mazes")
    by_case = {case: _found(table) for case, table in zip(cases, tables, strict=True)}
    jobs = [Job(*case, trial) for case in cases for trial in range(trials)]
    done = [found for case in cases for found in by_case[case]]
    medians = {
        case: median_interval(_ranked(found), stream(request.seed, "mazes", *map(str, case)))
        for case, found in by_case.items()
    }
    return Outcome(
        tables={"data": _data(jobs, done)},
        figures={"figure": _draw(resolutions, by_case, medians)},
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
            for claim in _claims(step_size, *compared, resolutions, by_case, medians)
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
            "Settings are printed's, but for the step size and a reward that does not vary "
            "(with 0.1 most of the time would go into averaging over rewards that are the same). "
            "The budget is in steps, not in updates: where the queue is empty there are none, and "
            "a trial could go on for ever.",
            *(_why(step_size, by_case) for step_size in STEP_SIZES),
        ],
    )


def _seconds(resolution: int, agent: str) -> float:
    """Of one trial, about: a sweep with need reads M, which has (47 resolution²)² entries."""
    return float(0.006 * resolution**4 if agent == "ps-sr" else 0.006 * resolution**2)


def _found(table: Table) -> list[Found]:
    columns = (table[name].tolist() for name in Found._fields)
    return [Found(*values) for values in zip(*columns, strict=True)]


def _ranked(found: Sequence[Found]) -> FloatArray:
    """Updates, where a trial that did not find a shortest path counts as more than any."""
    return np.array([one.updates if one.found else np.inf for one in found])


def _data(jobs: Sequence[Job], done: Sequence[Found]) -> Table:
    return Table(
        {
            "preset": ["printed"] * len(jobs),
            "step_size": [job.step_size for job in jobs],
            "resolution": [job.resolution for job in jobs],
            "states": [free_cells(job.resolution) for job in jobs],
            "agent": [job.agent for job in jobs],
            "trial": [job.trial for job in jobs],
            "updates": [found.updates for found in done],
            "steps": [found.steps for found in done],
            "found": [found.found for found in done],
            "path_in_model": [found.known for found in done],
        }
    )


def _why(step_size: float, by_case: dict[Case, list[Found]]) -> str:
    """How many trials found nothing, and what they lacked."""
    said = []
    for agent in AGENTS:
        ours = [one for case, found in by_case.items() if case[::2] == (step_size, agent)
                for one in found]  # fmt: skip
        late = [one for one in ours if not one.found]
        known = sum(one.known for one in late)
        said.append(
            f"{label_of(agent)} {len(late)} of {len(ours)}"
            + (
                f" ({known} of them had seen one, but their Q did not lead along it)"
                if known
                else ""
            )
        )
    return (
        f"Trials that did not end on a shortest path, step size {step_size:g}: {', '.join(said)}. "
        "All others of them had never tried a move that a shortest path needs."
    )


def _draw(
    resolutions: tuple[int, ...],
    by_case: dict[Case, list[Found]],
    medians: dict[Case, Interval],
) -> Figure:
    figure, grid = new_figure(
        2, len(STEP_SIZES), height=5.0, sharex=True, sharey="row", height_ratios=[2.2, 1]
    )
    cells = [free_cells(resolution) for resolution in resolutions]
    colours = colours_of(list(AGENTS))
    with house_style():
        for (upper, lower), step_size in zip(grid.T, STEP_SIZES, strict=True):
            for place, agent in enumerate(AGENTS):
                cases = [(step_size, resolution, agent) for resolution in resolutions]
                # Side by side, so that intervals do not hide each other.
                x = np.array(cells) * 1.05 ** (place - 1)
                _draw_medians(upper, x, [medians[case] for case in cases], agent, colours[agent])
                shares = [np.mean([one.found for one in by_case[case]]) for case in cases]
                lower.plot(x, shares, color=colours[agent], marker="o", markersize=4)
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
    axes: Axes, x: FloatArray, medians: Sequence[Interval], agent: str, colour: str
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
        x, middle, yerr=(down, up), color=colour, label=label_of(agent), marker="o", markersize=4,
        capsize=2,
    )  # fmt: skip
    axes.errorbar(
        x[open_above], middle[open_above], yerr=middle[open_above], lolims=True, color=colour,
        linestyle="none",
    )  # fmt: skip


def _claims(
    step_size: float,
    less: str,
    more: str,
    source: str,
    resolutions: tuple[int, ...],
    by_case: dict[Case, list[Found]],
    medians: dict[Case, Interval],
) -> list[Claim]:
    """In how many trials one agent needs fewer updates than the other, on the same random numbers.

    A trial that found no path lost to one that did; where neither did, nothing is decided.
    """
    said, won, lost, trials = [], [], [], []
    for resolution in resolutions:
        pair = [(step_size, resolution, agent) for agent in (less, more)]
        ours, theirs = (_ranked(by_case[case]) for case in pair)
        won.append(int((ours < theirs).sum()))
        lost.append(int((ours > theirs).sum()))
        trials.append(len(ours))
        middle = " and ".join(_median_text(medians[case]) for case in pair)
        said.append(
            f"{free_cells(resolution)} cells: {won[-1]} of {won[-1] + lost[-1]}, medians {middle}"
        )
    largest = f"{free_cells(resolutions[-1]):,} cells"
    statement = (
        f"{label_of(less)} needs fewer updates than {label_of(more)} until the path is optimal, "
        f"with a step size of {step_size:g}"
    )
    return [
        Claim(
            statement=f"{statement}: {where}.",
            source=source,
            measured=_share_text(sum(won[sizes]), sum(lost[sizes]), sum(trials[sizes])),
            verdict=verdict_of(_share(sum(won[sizes]), sum(lost[sizes])), 0.5, "above"),
            preset="printed",
            detail=detail,
        )
        for where, sizes, detail in (
            (
                "all sizes together",
                slice(None),
                f"{'; '.join(said)} ({label_of(less)} and {label_of(more)}).",
            ),
            (f"at {largest}", slice(-1, None), ""),
        )
    ]


def _share(won: int, lost: int) -> Interval:
    return proportion_interval(won, won + lost) if won + lost else Interval(0.5, 0.0, 1.0)


def _share_text(won: int, lost: int, trials: int) -> str:
    open_ended = trials - won - lost
    return f"fewer in {won} of {won + lost} trials: {_share(won, lost).text(2)}" + (
        f"; in {open_ended} more neither" if open_ended else ""
    )


def _median_text(median: Interval) -> str:
    return f"{median.estimate:,.0f}" if np.isfinite(median.estimate) else "none"


STUDY = Study(
    name="mazes",
    title="Larger mazes (the book's example 8.4)",
    question="How many updates until the path is optimal, as the maze's resolution grows? The book "
    "finds prioritized sweeping faster than Dyna-Q by a factor of 5 to 10; is need faster still?",
    presets=("printed",),
    run=run,
    documentation="docs/maze.md",
)
