"""Figure 2 (and 8): steps per episode of PS and PS-SR on the Dyna maze."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from matplotlib.figure import Figure

from needreplay.core.progress import Progress
from needreplay.core.rng import stream
from needreplay.core.tables import Table, joined
from needreplay.core.types import FloatArray, IntArray
from needreplay.report.claims import Claim, Verdict, less_claim, verdict_of
from needreplay.report.figures import colours_of, draw_band, house_style, label_of, new_figure
from needreplay.report.statistics import (
    Band,
    Interval,
    curve_interval,
    difference_interval,
    mean_band,
    ratio_interval,
)
from needreplay.studies.base import Outcome, Request, Study
from needreplay.studies.maze_steps import EPISODES, maze_steps
from needreplay.studies.maze_world import best_mean_steps, dyna_table
from needreplay.tabular.settings import PS_SR, SweepingSettings, preset, without_need

AGENTS = ("ps", "ps-sr")
EPSILON = PS_SR["printed"].epsilon
TRIALS = {"quick": 200, "full": 1000}


Steps = dict[tuple[str, str], IntArray]
"""By preset and agent: one row per trial, one column per episode."""


def settings_of(preset_name: str, agent: str) -> SweepingSettings:
    """The settings of PS or of PS-SR under a preset."""
    settings = preset(PS_SR, preset_name)
    return settings if agent == "ps-sr" else without_need(settings)


def run(request: Request, progress: Progress) -> Outcome:
    """Run every preset and agent, and hold the paper's words against them."""
    trials = request.trials or TRIALS[request.size]
    cases = [(name, agent) for name in request.presets for agent in AGENTS]
    agents = [{"preset": name, "agent": agent} for name, agent in cases]
    steps: Steps = dict(
        zip(cases, maze_steps(agents, trials, request, progress, "fig2"), strict=True)
    )
    bands = {
        case: mean_band(found, stream(request.seed, "fig2", *case)) for case, found in steps.items()
    }
    return Outcome(
        tables={"data": _data(steps), "summary": _summary(bands, trials)},
        figures={"figure": _draw(request.presets, bands)},
        captions={
            "figure": f"Mean steps per episode over {trials} trials, with 95% bands: linear (left, "
            "the first episode cut off) and logarithmic (right). Both agents share their random "
            "numbers, so their first episode is the same."
        },
        claims=[claim for name in request.presets for claim in _claims(name, steps, request.seed)],
        config={
            "trials": trials,
            "episodes": EPISODES,
            "settings": {
                name: {agent: asdict(settings_of(name, agent)) for agent in AGENTS}
                for name in request.presets
            },
        },
        notes=[
            "An episode counts its random actions too (a tenth of all), so following a shortest "
            f"path of 14 steps takes {best_mean_steps(dyna_table(), EPSILON):.1f} on average: the "
            "dotted line."
        ],
    )


def _data(steps: Steps) -> Table:
    parts = [
        {
            "preset": np.full(found.size, name),
            "agent": np.full(found.size, agent),
            "trial": np.repeat(np.arange(len(found)), EPISODES),
            "episode": np.tile(np.arange(EPISODES), len(found)),
            "steps": found.ravel(),
        }
        for (name, agent), found in steps.items()
    ]
    return joined(parts)


def _summary(bands: dict[tuple[str, str], Band], trials: int) -> Table:
    parts = [
        {
            "preset": np.full(EPISODES, name),
            "agent": np.full(EPISODES, agent),
            "episode": np.arange(EPISODES),
            "trials": np.full(EPISODES, trials),
            "mean": band.estimate,
            "low": band.low,
            "high": band.high,
        }
        for (name, agent), band in bands.items()
    ]
    return joined(parts)


def _draw(presets: tuple[str, ...], bands: dict[tuple[str, str], Band]) -> Figure:
    figure, grid = new_figure(len(presets), 2, height=3.2 * len(presets), sharex=True)
    colours = colours_of(AGENTS)
    episodes = np.arange(1, EPISODES + 1)
    best = best_mean_steps(dyna_table(), EPSILON)
    with house_style():
        for row, name in zip(grid, presets, strict=True):
            for axes, scale in zip(row, ("linear", "log"), strict=True):
                for agent in AGENTS:
                    band = bands[name, agent]
                    draw_band(axes, episodes, band, colour=colours[agent], label=label_of(agent))
                axes.axhline(best, color="#999999", linewidth=1, linestyle=":")
                axes.set_yscale(scale)
            row[0].set_ylim(0, 200)
            row[0].set_title(f"{name}: linear")
            row[1].set_title(f"{name}: logarithmic")
            row[0].set_ylabel("steps per episode")
            row[1].legend()
        for axes in grid[-1]:
            axes.set_xlabel("episode")
    return figure


def converged_at(curve: FloatArray) -> float:
    """The first episode (from 1) from which on a curve stays within a tenth of the best possible.

    One more than there are episodes where it never does.
    """
    too_long = np.flatnonzero(curve > 1.1 * best_mean_steps(dyna_table(), EPSILON))
    return 1.0 if too_long.size == 0 else float(too_long[-1] + 2)


def _almost_fifty(settled: Interval) -> Verdict:
    """Whether convergence falls between episodes 40 and 50."""
    if settled.low > EPISODES or settled.high <= 40:
        return "does not hold"
    return "holds" if settled.low > 40 and settled.high <= EPISODES else "undecided"


def _claims(name: str, steps: Steps, seed: int) -> list[Claim]:
    ps, ps_sr = steps[name, "ps"], steps[name, "ps-sr"]
    rng = stream(seed, "fig2", "claims", name)
    later, later_sr = ps[:, 1:].sum(axis=1), ps_sr[:, 1:].sum(axis=1)
    difference = difference_interval(later_sr, later, rng, paired=True)
    ratio = ratio_interval(later_sr, later, rng, paired=True)
    settled = curve_interval(ps, converged_at, rng)
    settled_sr = curve_interval(ps_sr, converged_at, rng)
    sooner = curve_interval(
        np.hstack([ps_sr, ps]),
        lambda both: converged_at(both[:EPISODES]) - converged_at(both[EPISODES:]),
        rng,
    )
    level = difference_interval(
        ps_sr[:, -5:].mean(axis=1), ps[:, -5:].mean(axis=1), rng, paired=True
    )
    reading = (
        "Converged: from this episode on the mean stays within a tenth of what shortest paths take "
        f"with their random actions; {EPISODES + 1} means not within {EPISODES}."
    )
    return [
        Claim(
            statement="PS-SR finds the goal in fewer steps than PS",
            source="paper, fig. 2",
            measured=f"steps in episodes 2 to 50, PS-SR minus PS: {difference.text()}; "
            f"as a ratio {ratio.text()}",
            verdict=verdict_of(difference, 0.0, "below"),
            preset=name,
            detail="Mean over trials, paired by their random numbers.",
        ),
        Claim(
            statement="PS takes almost 50 episodes to converge to the shortest path",
            source="paper, section 4.1",
            measured=f"episode {settled.text(digits=2)}",
            verdict=_almost_fifty(settled),
            preset=name,
            detail=f"{reading} Read as: more than 40, and at most 50.",
        ),
        less_claim(
            sooner,
            f"episode {settled_sr.text(digits=2)}; PS-SR minus PS",
            statement="PS-SR converges to the shortest path in fewer episodes than PS",
            source="paper, section 4.1",
            preset=name,
            detail=reading,
            digits=2,
        ),
        less_claim(
            level,
            "steps per episode over the last five, PS-SR minus PS",
            statement="PS-SR converges to a shorter path than PS",
            source="paper, caption of fig. 2",
            preset=name,
            detail="Where PS has not converged by episode 50 this says that it is slower, not that "
            "it ends elsewhere.",
        ),
    ]


STUDY = Study(
    name="fig2",
    title="Prioritized sweeping with need (figure 2)",
    question="Does choosing by gain x need make prioritized sweeping find the shortest path of the "
    "Dyna maze in fewer episodes?",
    presets=tuple(PS_SR),
    run=run,
    documentation="docs/maze.md",
)
