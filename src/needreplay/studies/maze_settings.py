"""What matters: each difference between the presets changed alone, and what it does to PS-SR."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from needreplay.core.progress import Progress
from needreplay.core.rng import stream
from needreplay.core.tables import Table, joined
from needreplay.core.types import IntArray
from needreplay.report.claims import Claim, less_claim
from needreplay.report.figures import colours_of, house_style, label_of, new_figure
from needreplay.report.statistics import Interval, difference_interval, mean_interval
from needreplay.studies.base import Outcome, Request, Study
from needreplay.studies.fig2 import AGENTS
from needreplay.studies.maze_steps import EPISODES, agent_settings, maze_steps
from needreplay.tabular.settings import PS_SR, LearningSettings

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
BEYOND: dict[str, dict[str, Any]] = {
    "need from the state popped last": {"need_from": "popped"},
    "backward need": {"need": "backward"},
    FIXED: {"learn_successor": False},
}
"""Changes that neither preset makes."""


class Change(NamedTuple):
    """One setting of one preset, changed alone."""

    preset: str
    agent: str
    label: str
    overrides: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """The agent as a run has it."""
        return {"agent": self.agent, "preset": self.preset, "overrides": self.overrides}

    @property
    def settings(self) -> LearningSettings:
        """All of the agent's settings."""
        return agent_settings(self.config)


def changes(preset_name: str) -> list[Change]:
    """The preset as it is, each of its differences to the other taken over alone, and beyond."""
    other = PS_SR["released" if preset_name == "printed" else "printed"]
    found = []
    for agent in AGENTS:
        found.append(Change(preset_name, agent, "as it is", {}))
        for field, name in DIFFERENCES.items():
            value = getattr(other, field)
            if agent == "ps-sr" or field in ("discount", "threshold"):
                found.append(Change(preset_name, agent, f"{name} = {value}", {field: value}))
    for label, values in BEYOND.items():
        found.append(Change(preset_name, "ps-sr", label, values))
    return found


def run(request: Request, progress: Progress) -> Outcome:
    """Run every change, and take the difference to its preset as it is."""
    trials = request.trials or TRIALS[request.size]
    cases = [change for name in request.presets for change in changes(name)]
    agents = [case.config for case in cases]
    done = maze_steps(agents, trials, request, progress, "maze-settings")
    steps: dict[tuple[str, str, str], IntArray] = {
        (case.preset, case.agent, case.label): lengths[:, 1:].sum(axis=1)
        for case, lengths in zip(cases, done, strict=True)
    }
    effects = {key: _effect(key, steps, request.seed) for key in steps}
    return Outcome(
        tables={"data": _data(steps), "effects": _effects_table(effects)},
        figures={"figure": _draw(request.presets, effects)},
        captions={
            "figure": "Steps in episodes 2 to 50, relative to the preset as it is, when one "
            f"setting is changed to the other preset's value: means of {trials} paired trials, "
            "95% intervals. Left of 0 is faster."
        },
        claims=[claim for name in request.presets for claim in _claims(name, steps, request.seed)],
        config={
            "trials": trials,
            "episodes": EPISODES,
            "settings": {
                f"{case.preset}, {case.agent}, {case.label}": asdict(case.settings)
                for case in cases
            },
        },
    )


def _effect(
    key: tuple[str, str, str], steps: dict[tuple[str, str, str], IntArray], seed: int
) -> tuple[Interval, Interval]:
    """The mean of the summed steps, and its difference to the preset as it is."""
    rng = stream(seed, "maze-settings", *key)
    total = mean_interval(steps[key], rng)
    base = steps[(*key[:2], "as it is")]
    return total, difference_interval(steps[key], base, rng, paired=True)


def _data(steps: dict[tuple[str, str, str], IntArray]) -> Table:
    return joined(
        [
            {
                "preset": np.full(len(total), name),
                "agent": np.full(len(total), agent),
                "changed": np.full(len(total), label),
                "trial": np.arange(len(total)),
                "steps_2_to_50": total,
            }
            for (name, agent, label), total in steps.items()
        ]
    )


def _effects_table(effects: dict[tuple[str, str, str], tuple[Interval, Interval]]) -> Table:
    names = ("preset", "agent", "changed", "steps_2_to_50", "low", "high", "difference",
             "difference_low", "difference_high")  # fmt: skip
    rows = [
        (*key, total.estimate, total.low, total.high,
         difference.estimate, difference.low, difference.high)
        for key, (total, difference) in effects.items()
    ]  # fmt: skip
    return Table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def _claims(name: str, steps: dict[tuple[str, str, str], IntArray], seed: int) -> list[Claim]:
    rng = stream(seed, "maze-settings", "claims", name)
    learned = steps[name, "ps-sr", "as it is"]
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


def _rival(steps: dict[tuple[str, str, str], IntArray], name: str, label: str) -> IntArray:
    """PS with the same setting changed, where the setting concerns it; else as it is."""
    return steps.get((name, "ps", label), steps[name, "ps", "as it is"])


def _draw(
    presets: tuple[str, ...], effects: dict[tuple[str, str, str], tuple[Interval, Interval]]
) -> Figure:
    rows = max(sum(key[0] == name for key in effects) for name in presets)
    figure, grid = new_figure(len(presets), 1, height=(0.27 * rows + 0.6) * len(presets))
    colours = colours_of(AGENTS)
    with house_style():
        for axes, name in zip(grid[:, 0], presets, strict=True):
            keys = [key for key in effects if key[0] == name and key[2] != "as it is"]
            for place, key in enumerate(keys):
                difference = effects[key][1]
                ends = [[difference.estimate - difference.low],
                        [difference.high - difference.estimate]]  # fmt: skip
                known = ends if np.isfinite(ends).all() else None
                axes.errorbar(
                    difference.estimate, place, xerr=known, marker="o", markersize=4,
                    color=colours[key[1]], capsize=2,
                )  # fmt: skip
            axes.axvline(0, color="#666666", linewidth=1)
            labels = [f"{label_of(key[1])}: {key[2]}" for key in keys]
            axes.set_yticks(range(len(keys)), labels)
            axes.invert_yaxis()
            bases = ", ".join(
                f"{label_of(agent)} {effects[name, agent, 'as it is'][0].estimate:,.0f}"
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
