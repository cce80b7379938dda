"""What matters: each difference between the presets changed alone, and what it does to PS-SR."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from matplotlib.figure import Figure

from needlab.core.tables import long_table
from needlab.core.types import Values
from needlab.report.claims import Claim, less_claim
from needlab.report.figures import colors_of, error_bars, label_of, new_figure
from needlab.report.statistics import Band, Interval, difference_interval, mean_interval
from needlab.runs.trials import TrialRunner
from needlab.studies.maze.world import AGENTS, EPISODES, later_steps, run_steps
from needlab.studies.study import Options, Result, Study
from needlab.tabular.settings import PS_SR, agent_settings
from needreplay._core.rng import stream
from needreplay._core.types import IntArray

TRIALS = {"quick": 100, "full": 1000}

DIFFERENCES = {
    "discount": "γ",
    "threshold": "θ",
    "successor_step_size": "M's step size",
    "reset_trace": "trace reset",
    "need_from": "row of need",
    "pop_without_need": "pop at need ≤ 0",
}
"""Every field in which the presets differ, as the figure names it."""

FIXED = "M fixed at the random policy's"
BEYOND: dict[str, Values] = {
    "need from the state popped last": {"need_from": "popped"},
    "backward need": {"need": "backward"},
    FIXED: {"learn_successor": False},
}
"""Changes that neither preset makes."""


AS_IT_IS = "as it is"
Key = tuple[str, str, str]
"""preset, agent, what is changed"""


def changes(preset_name: str) -> dict[Key, Values]:
    """The preset as it is, with each single setting of the other preset, and the others above."""
    other = PS_SR["released" if preset_name == "printed" else "printed"]
    found: dict[Key, Values] = {}
    for agent in AGENTS:
        found[preset_name, agent, AS_IT_IS] = {}
        for field, name in DIFFERENCES.items():
            value = getattr(other, field)
            if agent == "ps-sr" or field in ("discount", "threshold"):
                found[preset_name, agent, f"{name} = {value}"] = {field: value}
    return found | {(preset_name, "ps-sr", label): values for label, values in BEYOND.items()}


def run(options: Options, runner: TrialRunner) -> Result:
    """Run every change, and take the difference to its preset as it is."""
    trials = options.trials or TRIALS[options.size]
    settings = {
        key: agent_settings(key[1], key[0], **changed)
        for name in options.presets
        for key, changed in changes(name).items()
    }
    found = run_steps(settings, trials, options, runner, "maze-settings")
    steps = {key: later_steps(own) for key, own in found.items()}
    effects = {key: _effect(key, steps, options.seed) for key in steps}
    return Result(
        tables={
            "data": long_table(
                ("preset", "agent", "changed"),
                {
                    key: {"trial": np.arange(trials), "steps_2_to_50": own}
                    for key, own in steps.items()
                },
            ),
            "effects": long_table(
                ("preset", "agent", "changed"),
                {
                    key: {
                        **total.columns("steps_2_to_50"),
                        "difference": difference.estimate,
                        "difference_low": difference.low,
                        "difference_high": difference.high,
                    }
                    for key, (total, difference) in effects.items()
                },
            ),
        },
        figures={"figure": _draw(options.presets, effects)},
        captions={
            "figure": "Steps in episodes 2 to 50, relative to the preset as it is, when one "
            f"setting is changed to the other preset's value: means of {trials} paired trials, "
            "95% intervals. Left of 0 is faster."
        },
        claims=[claim for name in options.presets for claim in _claims(name, steps, options.seed)],
        config={
            "trials": trials,
            "episodes": EPISODES,
            "settings": {", ".join(key): asdict(own) for key, own in settings.items()},
        },
    )


def _effect(key: Key, steps: dict[Key, IntArray], seed: int) -> tuple[Interval, Interval]:
    """The mean of the summed steps, and its difference to the preset as it is."""
    rng = stream(seed, "maze-settings", *key)
    total = mean_interval(steps[key], rng)
    base = steps[*key[:2], AS_IT_IS]
    return total, difference_interval(steps[key], base, rng, paired=True)


def _claims(name: str, steps: dict[Key, IntArray], seed: int) -> list[Claim]:
    rng = stream(seed, "maze-settings", "claims", name)
    learned = steps[name, "ps-sr", AS_IT_IS]
    leads = {
        label: difference_interval(total, _rival(steps, name, label), rng, paired=True)
        for (preset_name, agent, label), total in steps.items()
        if preset_name == name and agent == "ps-sr"
    }
    smallest = max(leads, key=lambda label: leads[label].estimate)
    fixed = difference_interval(learned, steps[name, "ps-sr", FIXED], rng, paired=True)
    return [
        less_claim(
            leads[smallest],
            f"smallest lead in steps, at {smallest}",
            statement="PS-SR's lead over PS does not rest on one setting",
            source="beyond the paper",
            preset=name,
            detail="Steps in episodes 2 to 50, PS-SR minus PS with the same setting changed.",
        ),
        less_claim(
            fixed,
            "steps in episodes 2 to 50, learned minus fixed",
            statement="Learning M by TD(λ) helps more than the random policy's M, never learned",
            source="paper, section 4.1 (implied)",
            preset=name,
            detail="Where it does not hold, what helps is need as nearness, which the random "
            "policy's M has from the first step.",
        ),
    ]


def _rival(steps: dict[Key, IntArray], name: str, label: str) -> IntArray:
    """PS with the same setting changed, where the setting concerns it; else as it is."""
    return steps.get((name, "ps", label), steps[name, "ps", AS_IT_IS])


def _draw(presets: tuple[str, ...], effects: dict[Key, tuple[Interval, Interval]]) -> Figure:
    rows = max(sum(key[0] == name for key in effects) for name in presets)
    figure, grid = new_figure(len(presets), 1, height=(0.27 * rows + 0.6) * len(presets))
    colors = colors_of(AGENTS)
    for axes, name in zip(grid[:, 0], presets, strict=True):
        keys = [key for key in effects if key[0] == name and key[2] != AS_IT_IS]
        for place, key in enumerate(keys):
            found = Band.of([effects[key][1]])
            axes.errorbar(
                found.estimate, [place], xerr=error_bars(found), marker="o", markersize=4,
                color=colors[key[1]], capsize=2,
            )  # fmt: skip
        axes.axvline(0, color="#666666", linewidth=1)
        labels = [f"{label_of(key[1])}: {key[2]}" for key in keys]
        axes.set_yticks(range(len(keys)), labels)
        axes.invert_yaxis()
        bases = ", ".join(
            f"{label_of(agent)} {effects[name, agent, AS_IT_IS][0].estimate:,.0f}"
            for agent in AGENTS
        )
        axes.set_title(f"{name} (as it is: {bases} steps)")
    grid[-1, 0].set_xlabel("difference in steps, episodes 2 to 50")
    return figure


STUDY = Study(
    name="maze-settings",
    title="What matters: each setting changed alone",
    question="The paper's text and its code differ in six settings. Which of them matter to "
    "figure 2, and does PS-SR's lead rest on any of them?",
    presets=tuple(PS_SR),
    run=run,
    documentation="docs/maze.md",
)
