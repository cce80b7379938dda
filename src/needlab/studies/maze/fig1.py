"""Figure 1: the start state's occupancy as TD(λ) learns it, and its distance to the true one."""

from __future__ import annotations

from dataclasses import asdict
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from needlab.core.presets import preset
from needlab.core.tables import long_table
from needlab.report.claims import Claim, less_claim
from needlab.report.figures import PALETTE, draw_band, new_figure
from needlab.report.statistics import difference_interval, mean_band
from needlab.runs.trials import TrialRunner
from needlab.studies.maze.board import draw_board, draw_heat, mark_ends
from needlab.studies.maze.world import dyna_world, trial_stream
from needlab.studies.study import Options, Result, Study
from needlab.tabular.arrays import AgentArrays
from needlab.tabular.policy import epsilon_greedy_policy
from needlab.tabular.settings import OCCUPANCY, SweepingSettings
from needlab.tabular.successor import transition_matrix
from needlab.tabular.trial import new_agent, run_episodes
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray
from needreplay.equations import closed_form

SNAPSHOTS = (1, 10, 30, 100)
"""After how many episodes M is recorded."""
LAMBDAS = (0.0, 0.25, 0.5, 0.75, 1.0)
SHOWN = (0.0, 1.0)
TRIALS = {"quick": 50, "full": 500}


class Case(NamedTuple):
    """One agent."""

    preset: str
    trace_decay: float
    seed: int

    @property
    def settings(self) -> SweepingSettings:
        """Figure 1's agent under the preset, with this λ."""
        return preset(OCCUPANCY, self.preset, trace_decay=self.trace_decay)


def snapshots(case: Case, trial: int) -> dict[str, FloatArray]:
    """M's start row after each snapshot's episodes, and its distance to the true one."""
    world, settings = dyna_world(), case.settings
    rng = trial_stream(case.seed, trial)
    agent = new_agent(world, settings)
    occupancy, distance, done = [], [], 0
    for episodes in SNAPSHOTS:
        run_episodes(agent, world, settings, episodes - done, rng, first_episode=done)
        done = episodes
        occupancy.append(agent.M[world.start].copy())
        distance.append(distance_to_truth(agent, settings))
    return {"occupancy": np.array(occupancy), "distance": np.array(distance)}


def distance_to_truth(agent: AgentArrays, settings: SweepingSettings) -> float:
    """|M_start − M*_start|₁ / |M*_start|₁, where M* is the closed form of the current policy."""
    world = dyna_world()
    policy = epsilon_greedy_policy(agent.Q, settings.epsilon)
    T = transition_matrix(world.next_state, world.ends, policy)
    truth = closed_form(T, settings.discount)[world.start]
    return float(np.abs(agent.M[world.start] - truth).sum() / np.abs(truth).sum())


Key = tuple[str, float]
"""preset, λ"""


def run(options: Options, runner: TrialRunner) -> Result:
    """Run every preset and λ; draw the occupancies of one trial and the distances of all."""
    trials = options.trials or TRIALS[options.size]
    if options.trial >= trials:
        raise NeedReplayError(
            f"--trial {options.trial} is not one of the {trials} trials, 0 to {trials - 1}; choose "
            "one of them, or more --trials."
        )
    cases = [Case(name, decay, options.seed) for name in options.presets for decay in LAMBDAS]
    found = runner.run(snapshots, cases, trials, label="fig1", seconds=0.005)
    distances: dict[Key, FloatArray] = {case[:2]: own["distance"] for case, own in found.items()}
    shown: dict[Key, FloatArray] = {
        case[:2]: own["occupancy"][options.trial]
        for case, own in found.items()
        if case.trace_decay in SHOWN
    }
    world = dyna_world()
    rows, columns = np.divmod(np.arange(world.n_states), world.columns)
    return Result(
        tables={
            "data": long_table(
                ("preset", "lambda", "episodes"),
                {
                    (*key, episodes): {"row": rows, "column": columns, "occupancy": values}
                    for key, occupancy in shown.items()
                    for episodes, values in zip(SNAPSHOTS, occupancy, strict=True)
                },
            ),
            "distance": long_table(
                ("preset", "lambda"),
                {
                    key: {
                        "trial": np.repeat(np.arange(trials), len(SNAPSHOTS)),
                        "episodes": np.tile(SNAPSHOTS, trials),
                        "distance": values.ravel(),
                    }
                    for key, values in distances.items()
                },
            ),
        },
        figures={
            "figure": _draw_heatmaps(shown),
            "board": _draw_board(),
            "distance": _draw_distances(options, distances),
        },
        captions={
            "figure": f"M's start row over the maze after {SNAPSHOTS[0]}, {SNAPSHOTS[1]}, "
            f"{SNAPSHOTS[2]} and {SNAPSHOTS[3]} episodes, in trial {options.trial}. Each panel has "
            "its own scale, from 0 to its largest value except the start's own, which may lie "
            "above it. S is the start, G the goal.",
            "board": "The Dyna maze (the paper's figures 1a and 7): 6 x 9 cells, four moves, and a "
            "shortest path of 14.",
            "distance": "Distance of M's start row to the closed form of the policy at that time, "
            f"as a share of its length (L1): means over {trials} trials, 95% bands.",
        },
        claims=[
            claim for name in options.presets for claim in _claims(name, distances, options.seed)
        ],
        config={
            "trials": trials,
            "shown_trial": options.trial,
            "episodes": SNAPSHOTS,
            "lambdas": LAMBDAS,
            "settings": {name: asdict(preset(OCCUPANCY, name)) for name in options.presets},
        },
        notes=[
            "M starts as the closed form of the random policy, and after one episode the policy is "
            "still nearly random: there is nothing to learn yet, and a larger λ only adds noise. "
            "The comparison means something once the path has been found."
        ],
    )


def _draw_heatmaps(shown: dict[Key, FloatArray]) -> Figure:
    world = dyna_world()
    figure, grid = new_figure(len(shown), len(SNAPSHOTS), height=1.3 * len(shown) + 0.3)
    for axes_row, ((name, trace_decay), occupancy) in zip(grid, shown.items(), strict=True):
        for axes, values, episodes in zip(axes_row, occupancy, SNAPSHOTS, strict=True):
            highest = float(np.delete(values, world.start).max())
            image = draw_heat(axes, world, values / highest, highest=1.0)
            mark_ends(axes, world, "white")
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
    draw_board(grid[0, 0], dyna_world())
    return figure


def _draw_distances(options: Options, distances: dict[Key, FloatArray]) -> Figure:
    figure, grid = new_figure(1, len(options.presets), height=3.2, sharey=True)
    for axes, name in zip(grid[0], options.presets, strict=True):
        for color, trace_decay in zip(PALETTE, LAMBDAS, strict=False):
            rng = stream(options.seed, "fig1", name, str(trace_decay))
            band = mean_band(distances[name, trace_decay], rng)
            draw_band(axes, SNAPSHOTS, band, color=color, label=f"λ = {trace_decay:g}")
        axes.set_xscale("log")
        axes.set_xticks(SNAPSHOTS, [str(episodes) for episodes in SNAPSHOTS])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_title(name)
        axes.set_xlabel("episodes")
    grid[0, 0].set_ylabel("distance to the closed form")
    grid[0, -1].legend()
    return figure


def _claims(name: str, distances: dict[Key, FloatArray], seed: int) -> list[Claim]:
    claims = []
    for column, episodes in enumerate(SNAPSHOTS):
        at = {decay: distances[name, decay][:, column] for decay in LAMBDAS}
        rng = stream(seed, "fig1", "claims", name, episodes)
        means = ", ".join(f"{at[decay].mean():.2f} at λ = {decay:g}" for decay in LAMBDAS)
        claims.append(
            less_claim(
                difference_interval(at[1.0], at[0.0], rng, paired=True),
                "distance of the start row, λ = 1 minus λ = 0",
                statement=f"A larger λ learns M faster: after {episodes} "
                f"episode{'s' if episodes > 1 else ''} λ = 1 is nearer to the truth than λ = 0",
                source="paper, section 4.1 and fig. 1b",
                preset=name,
                detail=f"Mean distance: {means}.",
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
