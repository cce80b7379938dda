"""Figure 2 (and 8): steps per episode of PS and PS-SR on the Dyna maze."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from matplotlib.figure import Figure

from needlab.core.tables import long_table
from needlab.report.claims import Claim, Verdict, less_claim, published_claim, verdict_of
from needlab.report.data import shipped_table
from needlab.report.figures import colors_of, label_of, new_figure
from needlab.report.statistics import (
    Band,
    Interval,
    curve_interval,
    difference_interval,
    mean_band,
    ratio_interval,
)
from needlab.runs.trials import TrialRunner
from needlab.studies.maze.world import (
    AGENTS,
    EPISODES,
    best_steps,
    converged_at,
    draw_steps,
    episode_columns,
    later_steps,
    run_steps,
)
from needlab.studies.study import Options, Result, Study
from needlab.tabular.settings import PS_SR, agent_settings
from needreplay._core.rng import stream
from needreplay._core.types import IntArray

TRIALS = {"quick": 200, "full": 1000}

Key = tuple[str, str]
"""preset, agent"""


def run(options: Options, runner: TrialRunner) -> Result:
    """Run every preset and agent, and check the paper's claims."""
    trials = options.trials or TRIALS[options.size]
    settings = {
        (name, agent): agent_settings(agent, name) for name in options.presets for agent in AGENTS
    }
    steps = run_steps(settings, trials, options, runner, "fig2")
    bands = {key: mean_band(own, stream(options.seed, "fig2", *key)) for key, own in steps.items()}
    names = ("preset", "agent")
    return Result(
        tables={
            "data": long_table(names, {key: episode_columns(own) for key, own in steps.items()}),
            "summary": long_table(
                names,
                {
                    key: {"episode": range(EPISODES), "trials": trials, **band.columns("mean")}
                    for key, band in bands.items()
                },
            ),
        },
        figures={"figure": _draw(options.presets, bands)},
        captions={
            "figure": f"Mean steps per episode over {trials} trials, with 95% bands: linear (left, "
            "the first episode cut off) and logarithmic (right). Both agents share their random "
            "numbers, so their first episode is the same. Crosses: read off the published figure."
        },
        claims=[claim for name in options.presets for claim in _claims(name, steps, options.seed)],
        config={
            "trials": trials,
            "episodes": EPISODES,
            "settings": {
                name: {agent: asdict(settings[name, agent]) for agent in AGENTS}
                for name in options.presets
            },
        },
        notes=[
            "An episode counts its random actions too (a tenth of all), so following a shortest "
            f"path of 14 steps takes {best_steps():.1f} on average: the dotted line."
        ],
    )


def _draw(presets: tuple[str, ...], bands: dict[Key, Band]) -> Figure:
    figure, grid = new_figure(len(presets), 2, height=3.2 * len(presets), sharex=True)
    colors, labels = colors_of(AGENTS), {agent: label_of(agent) for agent in AGENTS}
    published = shipped_table("fig2_published")
    for row, name in zip(grid, presets, strict=True):
        draw_steps(row, {agent: bands[name, agent] for agent in AGENTS}, colors, labels, 200)
        for axes, scale in zip(row, ("linear", "logarithmic"), strict=True):
            axes.set_title(f"{name}: {scale}")
            for agent in AGENTS:
                axes.plot(
                    published["episode"], published[agent.replace("-", "_")], "x",
                    color=colors[agent], markersize=3,
                )  # fmt: skip
    for axes in grid[-1]:
        axes.set_xlabel("episode")
    return figure


def _almost_fifty(settled: Interval) -> Verdict:
    """Whether convergence falls between episodes 40 and 50."""
    if settled.low > EPISODES or settled.high <= 40:
        return "does not hold"
    return "holds" if settled.low > 40 and settled.high <= EPISODES else "undecided"


def _claims(name: str, steps: dict[Key, IntArray], seed: int) -> list[Claim]:
    ps, ps_sr = steps[name, "ps"], steps[name, "ps-sr"]
    published = shipped_table("fig2_published")
    rng = stream(seed, "fig2", "claims", name)
    later, later_sr = later_steps(ps), later_steps(ps_sr)
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
        published_claim(
            np.concatenate(
                [
                    own.mean(axis=0)[published["episode"] - 1] / published[column]
                    for column, own in (("ps", ps), ("ps_sr", ps_sr))
                ]
            ),
            "ours / published, episodes 2 to 50",
            "are means of 50 trials, read off the figure (error about 1 step)",
            source="paper, fig. 2",
            preset=name,
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
