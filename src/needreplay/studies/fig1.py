"""Figure 1: the start state's occupancy as TD(λ) learns it, and how far it is from the truth."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from matplotlib.figure import Figure

from needreplay.core.errors import NeedReplayError
from needreplay.core.progress import Progress
from needreplay.core.rng import stream
from needreplay.core.tables import Table, joined
from needreplay.core.types import FloatArray
from needreplay.report.claims import Claim, less_claim
from needreplay.report.figures import PALETTE, draw_band, house_style, new_figure
from needreplay.report.statistics import difference_interval, mean_band
from needreplay.studies.base import Outcome, Request, Study
from needreplay.studies.maze_board import draw_board, draw_heat, mark_ends
from needreplay.studies.maze_world import dyna_layout
from needreplay.studies.occupancy import SNAPSHOTS, settings_of, snapshots
from needreplay.studies.runs import Experiment, run_experiments
from needreplay.tabular.settings import OCCUPANCY, preset

LAMBDAS = (0.0, 0.25, 0.5, 0.75, 1.0)
SHOWN = (0.0, 1.0)
TRIALS = {"quick": 50, "full": 500}
_SECONDS = 0.005
"""Of one trial, about."""


def run(request: Request, progress: Progress) -> Outcome:
    """Run every preset and λ, draw the occupancies of one trial and the distances of all."""
    trials = request.trials or TRIALS[request.size]
    if request.trial >= trials:
        raise NeedReplayError(
            f"--trial {request.trial} is not one of the {trials} trials, 0 to {trials - 1}; choose "
            "one of them, or more --trials."
        )
    cases = [(name, trace_decay) for name in request.presets for trace_decay in LAMBDAS]
    experiments = [
        Experiment(
            "needreplay.studies.occupancy:KIND",
            {"preset": name, "trace_decay": trace_decay, "seed": request.seed},
            trials,
            _SECONDS,
        )
        for name, trace_decay in cases
    ]
    tables = run_experiments(experiments, request, progress, "fig1")
    distances: dict[tuple[str, float], FloatArray] = {
        case: table["distance"].reshape(trials, len(SNAPSHOTS))
        for case, table in zip(cases, tables, strict=True)
    }
    # The trial that is shown is run again, here: a few milliseconds instead of every trial's M.
    shown = {
        case: snapshots(settings_of(*case), request.seed, request.trial).occupancy
        for case in cases
        if case[1] in SHOWN
    }
    return Outcome(
        tables={"data": _data(shown), "distance": _distance_table(distances)},
        figures={
            "figure": _draw_heatmaps(shown),
            "board": _draw_board(),
            "distance": _draw_distances(request, distances),
        },
        captions={
            "figure": f"M's start row over the maze after {SNAPSHOTS[0]}, {SNAPSHOTS[1]}, "
            f"{SNAPSHOTS[2]} and {SNAPSHOTS[3]} episodes, in trial {request.trial}. Each panel has "
            "its own scale, from 0 to its largest value apart from the start's own, which may lie "
            "beyond it. S is the start, G the goal.",
            "board": "The Dyna maze (the paper's figures 1a and 7): 6 x 9 cells, four moves, and a "
            "shortest path of 14.",
            "distance": "How far M's start row is from the closed form of the policy of that "
            f"moment, as a share of its length (L1): means over {trials} trials, 95% bands.",
        },
        claims=[
            claim for name in request.presets for claim in _claims(name, distances, request.seed)
        ],
        config={
            "trials": trials,
            "shown_trial": request.trial,
            "episodes": SNAPSHOTS,
            "lambdas": LAMBDAS,
            "settings": {name: asdict(preset(OCCUPANCY, name)) for name in request.presets},
        },
        notes=[
            "M begins as the closed form of the random policy, and after one episode the policy is "
            "still nearly random: there is nothing to learn yet, and a larger λ only adds noise. "
            "The comparison becomes meaningful once the path has been found."
        ],
    )


def _data(shown: dict[tuple[str, float], FloatArray]) -> Table:
    layout = dyna_layout()
    rows, columns = np.divmod(np.arange(layout.rows * layout.cols), layout.cols)
    return joined(
        [
            {
                "preset": np.full(len(rows), name),
                "lambda": np.full(len(rows), trace_decay),
                "episodes": np.full(len(rows), episodes),
                "row": rows,
                "column": columns,
                "occupancy": occupancy[column],
            }
            for (name, trace_decay), occupancy in shown.items()
            for column, episodes in enumerate(SNAPSHOTS)
        ]
    )


def _distance_table(distances: dict[tuple[str, float], FloatArray]) -> Table:
    return joined(
        [
            {
                "preset": np.full(found.size, name),
                "lambda": np.full(found.size, trace_decay),
                "trial": np.repeat(np.arange(len(found)), len(SNAPSHOTS)),
                "episodes": np.tile(SNAPSHOTS, len(found)),
                "distance": found.ravel(),
            }
            for (name, trace_decay), found in distances.items()
        ]
    )


def _draw_heatmaps(shown: dict[tuple[str, float], FloatArray]) -> Figure:
    layout = dyna_layout()
    figure, grid = new_figure(len(shown), len(SNAPSHOTS), height=1.3 * len(shown) + 0.3)
    start = layout.state(layout.start)
    with house_style():
        for axes_row, ((name, trace_decay), occupancy) in zip(grid, shown.items(), strict=True):
            for axes, values, episodes in zip(axes_row, occupancy, SNAPSHOTS, strict=True):
                highest = float(np.delete(values, start).max())
                image = draw_heat(axes, layout, values / highest, highest=1.0)
                mark_ends(axes, layout, "white")
                if axes_row[0] is grid[0, 0]:
                    noun = "episode" if episodes == 1 else "episodes"
                    axes.set_title(f"{episodes} {noun}", fontsize=10)
            axes_row[0].set_ylabel(f"{name}\nλ = {trace_decay:g}", fontsize=10)
        bar = figure.colorbar(image, ax=list(grid[:, -1]), shrink=0.5, extend="max")
        bar.set_ticks([0, 1], labels=["0", "panel's\nlargest"])
        bar.set_label("occupancy")
    return figure


def _draw_board() -> Figure:
    figure, grid = new_figure(1, 1, height=3.0, width=4.5)
    with house_style():
        draw_board(grid[0, 0], dyna_layout())
    return figure


def _draw_distances(request: Request, distances: dict[tuple[str, float], FloatArray]) -> Figure:
    figure, grid = new_figure(1, len(request.presets), height=3.2, sharey=True)
    with house_style():
        for axes, name in zip(grid[0], request.presets, strict=True):
            for colour, trace_decay in zip(PALETTE, LAMBDAS, strict=False):
                rng = stream(request.seed, "fig1", name, str(trace_decay))
                band = mean_band(distances[name, trace_decay], rng)
                draw_band(axes, SNAPSHOTS, band, colour=colour, label=f"λ = {trace_decay:g}")
            axes.set_xscale("log")
            axes.set_xticks(SNAPSHOTS, [str(episodes) for episodes in SNAPSHOTS])
            axes.minorticks_off()
            axes.set_ylim(bottom=0)
            axes.set_title(name)
            axes.set_xlabel("episodes")
        grid[0, 0].set_ylabel("distance to the closed form")
        grid[0, -1].legend()
    return figure


def _claims(name: str, distances: dict[tuple[str, float], FloatArray], seed: int) -> list[Claim]:
    claims = []
    for column, episodes in enumerate(SNAPSHOTS):
        with_trace, without = (distances[name, decay][:, column] for decay in (1.0, 0.0))
        rng = stream(seed, "fig1", "claims", name, episodes)
        difference = difference_interval(with_trace, without, rng, paired=True)
        means = {decay: distances[name, decay][:, column].mean() for decay in LAMBDAS}
        said = ", ".join(f"{means[decay]:.2f} at λ = {decay:g}" for decay in LAMBDAS)
        claims.append(
            less_claim(
                difference,
                "distance of the start row, λ = 1 minus λ = 0",
                statement=f"A larger λ learns M faster: after {episodes} "
                f"episode{'s' if episodes > 1 else ''} λ = 1 is nearer to the truth than λ = 0",
                source="paper, section 4.1 and fig. 1b",
                preset=name,
                detail=f"Mean distance: {said}.",
            )
        )
    return claims


STUDY = Study(
    name="fig1",
    title="Learning the successor representation (figure 1)",
    question="Does an eligibility trace (λ = 1 instead of 0) make M's start row show the path "
    "sooner?",
    presets=tuple(OCCUPANCY),
    run=run,
    takes=("trials", "trial"),
    documentation="docs/maze.md",
)
