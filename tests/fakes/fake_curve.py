"""A small study for tests: exponentials for learning curves, two presets, two pictures."""

from __future__ import annotations

import numpy as np
from fake_trials import EPISODES, Case, trial

from needlab.core.tables import Table
from needlab.report.claims import Claim, verdict_of
from needlab.report.figures import colors_of, draw_band, house_style, label_of, new_figure
from needlab.report.statistics import difference_interval, mean_band
from needlab.runs.trials import TrialRunner
from needlab.studies.study import Options, Result, Study
from needreplay._core.rng import stream


def run(options: Options, runner: TrialRunner) -> Result:
    trials = options.trials or 8
    agents = ("ps", "ps-sr")
    # A trial claims to take two seconds, so that there are several chunks.
    cases = [Case(options.seed, preset, agent) for preset in options.presets for agent in agents]
    found = runner.run(trial, cases, trials, label="curve", seconds=2.0)
    results = [columns["steps"] for columns in found.values()]
    steps = np.array(results).reshape(len(options.presets), len(agents), trials, EPISODES)
    figure, axes = new_figure(1, len(options.presets), sharey=True)
    claims = []
    colors = colors_of(agents)
    for i, preset in enumerate(options.presets):
        rng = stream(options.seed, "bootstrap", preset)
        with house_style():
            for j, agent in enumerate(agents):
                band = mean_band(steps[i, j], rng)
                draw_band(
                    axes[0, i],
                    np.arange(EPISODES),
                    band,
                    color=colors[agent],
                    label=label_of(agent),
                )
            axes[0, i].set(title=preset, xlabel="episode", ylabel="steps")
            axes[0, i].legend()
        less = difference_interval(
            steps[i, 1].sum(axis=-1), steps[i, 0].sum(axis=-1), rng, paired=False
        )
        claims.append(
            Claim(
                statement="PS-SR needs fewer steps than PS in 20 episodes.",
                source="paper, fig. 2",
                measured=less.text(),
                verdict=verdict_of(less, 0.0, "below"),
                preset=preset,
                detail="Difference of means, percentile bootstrap over trials.",
            )
        )
    second, panels = new_figure(height=2.4)
    with house_style():
        panels[0, 0].hist(steps[0, 0].ravel())
    index = np.indices(steps.shape).reshape(4, -1)
    return Result(
        tables={
            "data": Table(
                {
                    "preset": np.array(options.presets)[index[0]],
                    "agent": np.array(agents)[index[1]],
                    "trial": index[2],
                    "episode": index[3],
                    "steps": steps.ravel(),
                }
            ),
            "summary": Table({"preset": options.presets, "trials": [trials] * len(steps)}),
        },
        figures={"figure": figure, "histogram": second},
        captions={
            "figure": "Mean steps per episode; bands are 95% bootstrap intervals over trials.",
            "histogram": "All steps of PS.",
        },
        claims=claims,
        config={"trials": trials, "agents": agents, "episodes": EPISODES},
        notes=["This is a fake study: its curves are exponentials & <b>nothing</b> was learned."],
    )


STUDY = Study(
    name="curve",
    title="PS & PS-SR",
    question="The paper says that need <speeds up> prioritized sweeping. Does it?",
    presets=("printed", "released"),
    run=run,
    documentation="docs/curve.md",
)
