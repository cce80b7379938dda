"""Beyond the paper: Dyna-Q with n = 0, 5, 50 beside PS and PS-SR (Sutton & Barto, figure 8.2)."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from needlab.core.tables import long_table
from needlab.report.claims import Claim, less_claim
from needlab.report.figures import new_figure
from needlab.report.statistics import curve_interval, difference_interval, mean_band, mean_interval
from needlab.runs.trials import TrialRunner
from needlab.studies.maze.world import (
    EPISODES,
    converged_at,
    draw_steps,
    episode_columns,
    later_steps,
    run_steps,
)
from needlab.studies.study import Options, Result, Study
from needlab.tabular.settings import LearningSettings, agent_settings
from needreplay._core.rng import stream
from needreplay._core.types import IntArray

TRIALS = {"quick": 100, "full": 1000}
PRESET = "printed"
near_optimal_at = partial(converged_at, factor=1.25)
"""Near-optimal: within a quarter of the best possible mean."""

REWARD_STD = 0.0
"""The reward is 1, without noise, as in the book."""

AGENTS: dict[str, LearningSettings] = {
    "q-learning": agent_settings("q-learning"),
    "dyna-q-5": agent_settings("dyna-q"),
    "dyna-q-50": agent_settings("dyna-q", planning_updates=50),
    "ps": agent_settings("ps", PRESET),
    "ps-sr": agent_settings("ps-sr", PRESET),
}
LABELS = {
    "q-learning": "Q-learning (n = 0)",
    "dyna-q-5": "Dyna-Q, n = 5",
    "dyna-q-50": "Dyna-Q, n = 50",
    "ps": "PS, n = 5",
    "ps-sr": "PS-SR, n = 5",
}
COLORS = {
    "q-learning": "#555555",
    "dyna-q-5": "#56B4E9",
    "dyna-q-50": "#009E73",
    "ps": "#0072B2",
    "ps-sr": "#D55E00",
}
BOOK = {"q-learning": 25, "dyna-q-5": 5, "dyna-q-50": 3}
"""Episodes to near-optimal, as the book's text has them."""


def run(options: Options, runner: TrialRunner) -> Result:
    """Run all five agents, and check the book's numbers for three of them."""
    trials, seed = options.trials or TRIALS[options.size], options.seed
    steps = run_steps(AGENTS, trials, options, runner, "dyna", REWARD_STD)
    bands = {agent: mean_band(own, stream(seed, "dyna", agent)) for agent, own in steps.items()}
    later = {
        agent: mean_interval(later_steps(own), stream(seed, "dyna", "later", agent))
        for agent, own in steps.items()
    }
    figure, grid = new_figure(1, 2, height=3.4)
    draw_steps(grid[0], bands, COLORS, LABELS, 400)
    for axes in grid[0]:
        axes.set_xlabel("episode")
    names = ("preset", "agent")
    return Result(
        tables={
            "data": long_table(
                names,
                {(PRESET, agent): episode_columns(own) for agent, own in steps.items()},
            ),
            "summary": long_table(
                names,
                {
                    (PRESET, agent): {
                        "trials": trials,
                        **interval.columns("steps_2_to_50"),
                        "last_episode": bands[agent].estimate[-1],
                    }
                    for agent, interval in later.items()
                },
            ),
        },
        figures={"figure": figure},
        captions={
            "figure": f"Mean steps per episode over {trials} trials, with 95% bands; the dotted "
            "line is the best possible with a tenth of random actions."
        },
        claims=_claims(steps, seed),
        config={
            "trials": trials,
            "episodes": EPISODES,
            "reward_std": REWARD_STD,
            "settings": {name: asdict(settings) for name, settings in AGENTS.items()},
        },
        notes=[
            "Q-updates for each step in the world: 1 for Q-learning, 6 and 51 for Dyna-Q, at most "
            "5 for PS and PS-SR. This study compares steps in the world; the study mazes compares "
            "updates."
        ],
    )


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
                preset=PRESET,
                detail="Near-optimal: the mean stays within a quarter of the best possible. Holds: "
                "within a factor of two of the book's number, which it reads off a curve.",
            )
        )
    rng = stream(seed, "dyna", "claims", "ps-sr")
    for rival in ("ps", "dyna-q-5"):
        later = later_steps(steps["ps-sr"]), later_steps(steps[rival])
        claims.append(
            less_claim(
                difference_interval(*later, rng, paired=True),
                "steps in episodes 2 to 50, PS-SR minus the other",
                statement=f"PS-SR needs fewer steps than {LABELS[rival]}",
                source="beyond the paper",
                preset=PRESET,
            )
        )
    return claims


STUDY = Study(
    name="dyna",
    title="Dyna-Q beside prioritized sweeping (the book's figure 8.2)",
    question="The paper compares PS-SR with PS alone. How do both compare with plain Dyna-Q?",
    presets=(PRESET,),
    run=run,
    documentation="docs/maze.md",
)
