"""Beyond the paper: Dyna-Q with n = 0, 5, 50 beside PS and PS-SR (Sutton & Barto, figure 8.2)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from needreplay.core.progress import Progress
from needreplay.core.rng import stream
from needreplay.core.tables import Table, joined
from needreplay.core.types import FloatArray, IntArray
from needreplay.report.claims import Claim, verdict_of
from needreplay.report.figures import draw_band, house_style, new_figure
from needreplay.report.statistics import (
    Band,
    curve_interval,
    difference_interval,
    mean_band,
    mean_interval,
)
from needreplay.studies.base import Outcome, Request, Study
from needreplay.studies.maze_steps import EPISODES, agent_settings, maze_steps
from needreplay.studies.maze_world import best_mean_steps, dyna_table
from needreplay.tabular.settings import PS_SR

TRIALS = {"quick": 100, "full": 1000}
NEAR = 1.25
"""Near-optimal: within a quarter of the best possible mean."""

REWARD_STD = 0.0
"""The reward is 1, without noise, as in the book."""

AGENTS: dict[str, dict[str, Any]] = {
    "q-learning": {"agent": "q-learning"},
    "dyna-q-5": {"agent": "dyna-q"},
    "dyna-q-50": {"agent": "dyna-q", "overrides": {"planning_updates": 50}},
    "ps": {"agent": "ps", "preset": "printed"},
    "ps-sr": {"agent": "ps-sr", "preset": "printed"},
}
LABELS = {
    "q-learning": "Q-learning (n = 0)",
    "dyna-q-5": "Dyna-Q, n = 5",
    "dyna-q-50": "Dyna-Q, n = 50",
    "ps": "PS, n = 5",
    "ps-sr": "PS-SR, n = 5",
}
COLOURS = {
    "q-learning": "#555555",
    "dyna-q-5": "#56B4E9",
    "dyna-q-50": "#009E73",
    "ps": "#0072B2",
    "ps-sr": "#D55E00",
}
BOOK = {"q-learning": 25, "dyna-q-5": 5, "dyna-q-50": 3}
"""Episodes to near-optimal, as the book's text has them."""


def near_optimal_at(curve: FloatArray) -> float:
    """The first episode (from 1) from which on a curve stays near-optimal; EPISODES + 1: never."""
    best = best_mean_steps(dyna_table(REWARD_STD), PS_SR["printed"].epsilon)
    too_long = np.flatnonzero(curve > NEAR * best)
    return 1.0 if too_long.size == 0 else float(too_long[-1] + 2)


def run(request: Request, progress: Progress) -> Outcome:
    """Run all five agents, and hold the book's words against three of them."""
    trials = request.trials or TRIALS[request.size]
    agents = [{**agent, "reward_std": REWARD_STD} for agent in AGENTS.values()]
    steps = dict(zip(AGENTS, maze_steps(agents, trials, request, progress, "dyna"), strict=True))
    bands = {
        agent: mean_band(found, stream(request.seed, "dyna", agent))
        for agent, found in steps.items()
    }
    return Outcome(
        tables={"data": _data(steps), "summary": _summary(bands, steps, request.seed)},
        figures={"figure": _draw(bands)},
        captions={
            "figure": f"Mean steps per episode over {trials} trials, with 95% bands; the dotted "
            "line is the best possible with a tenth of random actions."
        },
        claims=_claims(steps, request.seed),
        config={
            "trials": trials,
            "episodes": EPISODES,
            "reward_std": REWARD_STD,
            "settings": {name: asdict(agent_settings(agent)) for name, agent in AGENTS.items()},
        },
        notes=[
            "Q-updates for each step in the world: 1 for Q-learning, 6 and 51 for Dyna-Q, at most "
            "5 for PS and PS-SR. Steps in the world are what is compared here; the study mazes "
            "compares updates."
        ],
    )


def _data(steps: dict[str, IntArray]) -> Table:
    return joined(
        [
            {
                "preset": np.full(found.size, "printed"),
                "agent": np.full(found.size, agent),
                "trial": np.repeat(np.arange(len(found)), EPISODES),
                "episode": np.tile(np.arange(EPISODES), len(found)),
                "steps": found.ravel(),
            }
            for agent, found in steps.items()
        ]
    )


def _summary(bands: dict[str, Band], steps: dict[str, IntArray], seed: int) -> Table:
    """Each agent's steps in episodes 2 to 50, and in the last."""
    later = [
        mean_interval(found[:, 1:].sum(axis=1), stream(seed, "dyna", "later", agent))
        for agent, found in steps.items()
    ]
    return Table(
        {
            "preset": ["printed"] * len(steps),
            "agent": list(steps),
            "trials": [len(found) for found in steps.values()],
            "steps_2_to_50": [interval.estimate for interval in later],
            "low": [interval.low for interval in later],
            "high": [interval.high for interval in later],
            "last_episode": [float(band.estimate[-1]) for band in bands.values()],
        }
    )


def _draw(bands: dict[str, Band]) -> Figure:
    figure, grid = new_figure(1, 2, height=3.4)
    best = best_mean_steps(dyna_table(REWARD_STD), PS_SR["printed"].epsilon)
    with house_style():
        for axes, scale in zip(grid[0], ("linear", "log"), strict=True):
            for agent, band in bands.items():
                episodes = np.arange(1, EPISODES + 1)
                draw_band(axes, episodes, band, colour=COLOURS[agent], label=LABELS[agent])
            axes.axhline(best, color="#999999", linewidth=1, linestyle=":")
            axes.set_yscale(scale)
            axes.set_xlabel("episode")
        grid[0, 0].set_ylim(0, 400)
        grid[0, 0].set_ylabel("steps per episode")
        grid[0, 1].legend()
    return figure


def _claims(steps: dict[str, IntArray], seed: int) -> list[Claim]:
    claims = []
    for agent, episodes in BOOK.items():
        rng = stream(seed, "dyna", "claims", agent)
        found = curve_interval(steps[agent], near_optimal_at, rng)
        inside = 0.5 * episodes <= found.low and found.high <= 2.0 * episodes
        outside = found.high < 0.5 * episodes or found.low > 2.0 * episodes
        claims.append(
            Claim(
                statement=f"{LABELS[agent]} takes about {episodes} episodes to be near-optimal",
                source="Sutton & Barto, section 8.2",
                measured=f"episode {found.text(digits=2)}",
                verdict="holds" if inside else "does not hold" if outside else "undecided",
                preset="printed",
                detail="Near-optimal: the mean stays within a quarter of the best possible. Read "
                "as: within a factor of two of the book's number, which it reads off a curve.",
            )
        )
    rng = stream(seed, "dyna", "claims", "ps-sr")
    later = {agent: found[:, 1:].sum(axis=1) for agent, found in steps.items()}
    for rival in ("ps", "dyna-q-5"):
        difference = difference_interval(later["ps-sr"], later[rival], rng, paired=True)
        claims.append(
            Claim(
                statement=f"PS-SR needs fewer steps than {LABELS[rival]}",
                source="beyond the paper",
                measured=f"steps in episodes 2 to 50, PS-SR minus the other: {difference.text()}",
                verdict=verdict_of(difference, 0.0, "below"),
                preset="printed",
            )
        )
    return claims


STUDY = Study(
    name="dyna",
    title="Dyna-Q beside prioritized sweeping (the book's figure 8.2)",
    question="The paper compares PS-SR with PS alone. Where do both stand beside plain Dyna-Q?",
    presets=("printed",),
    run=run,
    documentation="docs/maze.md",
)
