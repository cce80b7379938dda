"""Beyond the paper: Q-updates until the path is optimal, as mazes grow (the book's example 8.4)."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from needreplay.records import Table
from needreplay.report.claims import Claim, verdict_of
from needreplay.report.figures import colours_of, house_style, label_of, new_figure
from needreplay.report.statistics import Interval, mean_interval
from needreplay.rng import stream
from needreplay.runs.many import run_many
from needreplay.runs.progress import Progress
from needreplay.studies.base import Outcome, Request, Study
from needreplay.studies.maze_world import dyna_layout
from needreplay.tabular.settings import PS_SR, DynaSettings, LearningSettings, without_need
from needreplay.tabular.trial import updates_until_optimal
from needreplay.types import BoolArray, FloatArray, IntArray, TransitionTable
from needreplay.worlds import maze_table, shortest_path_length

RESOLUTIONS = {"quick": (1, 2, 3), "full": (1, 2, 3, 4, 5)}
TRIALS = {"quick": 10, "full": 20}
BUDGET = 20_000_000
STEP_SIZE = 0.5

_SWEEPING = replace(PS_SR["printed"], step_size=STEP_SIZE)
AGENTS: dict[str, LearningSettings] = {
    "dyna-q": DynaSettings(planning_updates=5, step_size=STEP_SIZE),
    "ps": without_need(_SWEEPING),
    "ps-sr": _SWEEPING,
}


class Job(NamedTuple):
    """One trial of one agent in one maze."""

    agent: str
    resolution: int
    trial: int
    seed: int


@cache
def magnified_table(resolution: int) -> TransitionTable:
    """The Dyna maze with each cell cut into ``resolution`` squared, and a reward of 1."""
    return maze_table(dyna_layout().magnified(resolution), reward_std=0.0)


def run_job(job: Job) -> tuple[int, bool]:
    """Q-updates until the greedy path is a shortest one, and whether it was within the budget."""
    table = magnified_table(job.resolution)
    rng = stream(job.seed, "mazes", job.resolution, job.trial)
    shortest = shortest_path_length(table)
    return updates_until_optimal(table, AGENTS[job.agent], shortest, BUDGET, rng)


def free_cells(resolution: int) -> int:
    """How many states can be visited: what the book's figure has on its axis."""
    layout = dyna_layout()
    return (layout.rows * layout.cols - len(layout.walls)) * resolution**2


def typical(numbers: FloatArray, rng: np.random.Generator) -> Interval:
    """The geometric mean: a few trials that wander for very long do not decide it alone."""
    logs = mean_interval(np.log(numbers), rng)
    return Interval(*(float(np.exp(end)) for end in (logs.estimate, logs.low, logs.high)))


def run(request: Request, progress: Progress) -> Outcome:
    """Run all agents in all sizes, and compare how many updates they need."""
    trials = request.trials or TRIALS[request.size]
    resolutions = RESOLUTIONS[request.size]
    jobs = [
        Job(agent, resolution, trial, request.seed)
        for resolution in resolutions
        for agent in AGENTS
        for trial in range(trials)
    ]
    with progress.task("mazes", total=len(jobs)) as bar:
        done = run_many(run_job, jobs, workers=request.workers, progress=bar)
    updates = np.array([count for count, _ in done]).reshape(len(resolutions), len(AGENTS), trials)
    found = np.array([ok for _, ok in done]).reshape(updates.shape)
    names = list(AGENTS)
    means = {
        (agent, resolution): typical(
            updates[row, names.index(agent)], stream(request.seed, "mazes", agent, resolution)
        )
        for agent in AGENTS
        for row, resolution in enumerate(resolutions)
    }
    late = int((~found).sum())
    return Outcome(
        tables={
            "data": Table(
                {
                    "preset": np.full(len(jobs), "printed"),
                    "agent": [job.agent for job in jobs],
                    "resolution": [job.resolution for job in jobs],
                    "states": [free_cells(job.resolution) for job in jobs],
                    "trial": [job.trial for job in jobs],
                    "updates": [count for count, _ in done],
                    "found": [ok for _, ok in done],
                }
            )
        },
        figures={"figure": _draw(resolutions, means)},
        captions={
            "figure": "Q-updates until the greedy path is a shortest one, over the number of cells "
            f"that can be visited: geometric means of {trials} trials, with 95% intervals."
        },
        claims=_claims(resolutions, updates, found, request.seed),
        config={
            "trials": trials,
            "resolutions": resolutions,
            "budget": BUDGET,
            "reward_std": 0.0,
            "settings": {agent: asdict(settings) for agent, settings in AGENTS.items()},
        },
        notes=[
            f"Settings are printed's, but for a step size of {STEP_SIZE} (with 0.1 most of the "
            "time goes into averaging over rewards that do not vary). "
            f"{late} of {len(jobs)} trials had not found a shortest path within {BUDGET:,} "
            "updates; they count as that many."
        ],
    )


def _draw(resolutions: tuple[int, ...], means: dict[tuple[str, int], Interval]) -> Figure:
    figure, grid = new_figure(1, 1, height=3.6, width=5.5)
    axes = grid[0, 0]
    cells = [free_cells(resolution) for resolution in resolutions]
    colours = colours_of(list(AGENTS))
    with house_style():
        for agent in AGENTS:
            found = [means[agent, resolution] for resolution in resolutions]
            middle = np.array([interval.estimate for interval in found])
            ends = np.array([[interval.low, interval.high] for interval in found]).T
            known = np.where(np.isfinite(ends), np.abs(ends - middle), 0.0)
            axes.errorbar(
                cells, middle, yerr=known, color=colours[agent], label=label_of(agent), marker="o",
                markersize=4, capsize=2,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(cells, [str(count) for count in cells])
        axes.minorticks_off()
        axes.set_xlabel("cells that can be visited")
        axes.set_ylabel("updates until optimal")
        axes.legend()
    return figure


def _claims(
    resolutions: tuple[int, ...], updates: IntArray, found: BoolArray, seed: int
) -> list[Claim]:
    names = list(AGENTS)
    claims = []
    for less, more, source in (
        ("ps", "dyna-q", "Sutton & Barto, example 8.4"),
        ("ps-sr", "ps", "beyond the paper"),
    ):
        ratios = []
        for row, resolution in enumerate(resolutions):
            rng = stream(seed, "mazes", "claims", less, resolution)
            of_less, of_more = (updates[row, names.index(name)] for name in (less, more))
            ratios.append(typical(of_less / of_more, rng))
        last = ratios[-1]
        late = {name: int((~found[:, names.index(name)]).sum()) for name in (less, more)}
        verdict = verdict_of(last, 1.0, "below")
        if verdict == "holds" and not found[-1, names.index(less)].all():
            verdict = "undecided"
        said = "; ".join(
            f"{free_cells(resolution)} cells: {ratio.text()}"
            for resolution, ratio in zip(resolutions, ratios, strict=True)
        )
        claims.append(
            Claim(
                statement=f"{label_of(less)} needs fewer updates than {label_of(more)} until the "
                "path is optimal",
                source=source,
                measured=f"typical ratio in the largest maze: {last.text()}",
                verdict=verdict,
                preset="printed",
                detail=f"{said}. Geometric mean of each trial's ratio. Trials that ended at the "
                f"budget count as it: {late[less]} of {label_of(less)}, {late[more]} of "
                f"{label_of(more)}; where {label_of(less)} has one in the largest maze, nothing "
                "is said to hold.",
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
