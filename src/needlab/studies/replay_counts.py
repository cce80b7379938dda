"""Forward and reverse events of every agent that replays, at equal numbers of backups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import get_args

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from needlab.core.tables import Table, long_table
from needlab.report.claims import Claim, verdict_of
from needlab.report.figures import PALETTE, error_bars, new_figure
from needlab.report.statistics import Band, Interval, curve_interval, mean_interval
from needlab.report.watched import World, watched_run, world_named
from needlab.runs.trials import TrialRunner
from needlab.studies.study import Options, Result, Study
from needlab.tabular.replay_events import FORWARD, REVERSE, SHORTEST, Count, replay_events
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray

EPISODES = 50
WORLDS = ("linear-track", "dyna-maze")
BACKUPS = {"evb": "backups", "ps-sr": "planning_updates", "ps": "planning_updates"}
"""By agent, the setting for the most backups in one pause."""
NUMBERS = (5, 20)
"""Of backups: what prioritized sweeping and what EVB do by default."""
COUNTS: tuple[Count, ...] = get_args(Count)
DIRECTIONS = {"forward": FORWARD, "reverse": REVERSE}
WHENS = ("before", "after", "during")
TRIALS = {"quick": 20, "full": 200}


@dataclass(frozen=True)
class Case:
    """An agent in a world."""

    world: str
    agent: str
    backups: int
    seed: int


@cache
def _world(name: str) -> World:
    return world_named(name)


def run_case(case: Case, trial: int) -> dict[str, npt.ArrayLike]:
    """[rule, direction, when] events per episode, and [direction, (short, all)] of the widest rule.

    Short events visit fewer than five different states.
    """
    world = _world(case.world)
    name = f"{case.agent},{BACKUPS[case.agent]}={case.backups}"
    log = watched_run(name, world, episodes=EPISODES, seed=case.seed, trial=trial)
    events = np.zeros((len(COUNTS), len(DIRECTIONS), len(WHENS)))
    short = np.zeros((len(DIRECTIONS), 2))
    for pause in log.pauses:
        own = log.backups[pause["first"] : pause["first"] + pause["count"]]
        for rule, count in enumerate(COUNTS):
            found = replay_events(own["state"], own["action"], log.board.next_state, count=count)
            for event in found[found["significant"]]:
                place = list(DIRECTIONS.values()).index(event["direction"])
                events[rule, place, pause["kind"]] += 1
                if count == "pairs and stays":
                    short[place] += (event["states"] < SHORTEST, 1)
    return {"events": events / EPISODES, "short": short}


def run(options: Options, runner: TrialRunner) -> Result:
    """Run every agent with both numbers of backups, in two worlds or in your own."""
    cases = [
        Case(world, agent, backups, options.seed)
        for world in ((options.world,) if options.world else WORLDS)
        for agent in BACKUPS
        for backups in NUMBERS
    ]
    for case in cases:
        _world(case.world)
    trials = options.trials or TRIALS[options.size]
    found = runner.run(run_case, cases, trials, label="replay-counts", seconds=0.1)
    rates, shares = _rates(found), _shares(found)
    return Result(
        tables={"data": _data(found), "rates": rates, "short": shares},
        figures={"figure": _draw(rates)},
        captions={
            "figure": "Events per episode that visit at least five different states, with 95% "
            "intervals over trials, by agent and the most backups in one pause."
        },
        claims=_claims(found),
        config={"episodes": EPISODES, "trials": trials, "backups": NUMBERS},
        notes=[
            "With five backups in a pause, an event takes all of them; with 20 there is room for "
            "events and more. Compare agents at the same number.",
            "EVB replays at the start and the end of an episode, prioritized sweeping after every "
            "step: before is the pause after an episode's first step, during are all others.",
            "rates.csv has three rules of what makes an event long enough: five different states; "
            "five pairs without moves that stay (Mattar & Daw); five pairs with them. short.csv "
            "has the share of the last that visit fewer than five different states.",
        ],
    )


def _key(case: Case) -> tuple[str, str, int]:
    return (case.world, case.agent, case.backups)


def _data(found: Mapping[Case, Mapping[str, AnyArray]]) -> Table:
    names = ("world", "agent", "backups", "count", "direction", "when")
    return long_table(
        names,
        {
            (*_key(case), count, direction, when): {
                "trial": np.arange(len(columns["events"])),
                "events_per_episode": columns["events"][:, i, j, k],
            }
            for case, columns in found.items()
            for i, count in enumerate(COUNTS)
            for j, direction in enumerate(DIRECTIONS)
            for k, when in enumerate(WHENS)
        },
    )


def _rates(found: Mapping[Case, Mapping[str, AnyArray]]) -> Table:
    """Events per episode, at all times together."""
    parts = {}
    for case, columns in found.items():
        for i, count in enumerate(COUNTS):
            for j, direction in enumerate(DIRECTIONS):
                rng = stream(case.seed, "replay-counts", *_key(case), direction)
                interval = mean_interval(columns["events"][:, i, j].sum(axis=1), rng)
                parts[(*_key(case), count, direction)] = interval.columns("mean")
    return long_table(("world", "agent", "backups", "count", "direction"), parts)


def _shares(found: Mapping[Case, Mapping[str, AnyArray]]) -> Table:
    """Of runs of five pairs, stays included: the share with fewer than five different states."""
    parts = {}
    for case, columns in found.items():
        for j, direction in enumerate(DIRECTIONS):
            counts = columns["short"][:, j]
            interval = _share(counts, case, direction)
            parts[(*_key(case), direction)] = {
                "short": int(counts[:, 0].sum()),
                "events": int(counts[:, 1].sum()),
                **(interval or Interval(*[float("nan")] * 3)).columns("share"),
            }
    return long_table(("world", "agent", "backups", "direction"), parts)


def _share(counts: AnyArray, case: Case, direction: str) -> Interval | None:
    """The share of short events among all, with its interval; None without events."""
    if not counts[:, 1].any():
        return None
    rng = stream(case.seed, "replay-counts", "short", *_key(case), direction)
    return curve_interval(counts, lambda mean: float(mean[0] / max(mean[1], 1e-12)), rng)


def _claims(found: Mapping[Case, Mapping[str, AnyArray]]) -> list[Claim]:
    """At the numbers of backups that the agents have by default."""
    claims = []
    for case, columns in found.items():
        if case.backups != (20 if case.agent == "evb" else 5):
            continue
        interval = _share(columns["short"][:, 1], case, "reverse")
        few = case.agent == "evb"
        amount = "at most 5%" if few else "most"
        claims.append(
            Claim(
                f"Of runs of five reverse pairs, {amount} visit fewer than five states "
                f"({case.agent}, {case.world})",
                "docs/replay_events.md, rules of events",
                "no such events" if interval is None else f"share: {interval.text()}",
                "undecided"
                if interval is None
                else verdict_of(interval, 0.05 if few else 0.5, "below" if few else "above"),
                "default",
            )
        )
    return claims


def _draw(rates: Table) -> Figure:
    worlds = rates.distinct("world")
    figure, grid = new_figure(1, len(worlds), height=3.6, sharey=True)
    for axes, world in zip(grid[0], worlds, strict=True):
        for j, direction in enumerate(DIRECTIONS):
            own = rates.where(world=world, count="states", direction=direction)
            band = Band(own["mean"], own["low"], own["high"])
            axes.bar(
                np.arange(len(own)) + (j - 0.5) * 0.4, band.estimate, 0.4, yerr=error_bars(band),
                color=PALETTE[1 - j], hatch=("", "//")[j], edgecolor="white", label=direction,
            )  # fmt: skip
        pairs = zip(own["agent"], own["backups"], strict=True)
        axes.set_xticks(np.arange(len(own)), [f"{agent}\n{n}" for agent, n in pairs])
        axes.set_title(world)
        axes.set_xlabel("agent, most backups in a pause")
    grid[0, 0].set_ylabel("events per episode")
    grid[0, -1].legend()
    return figure


STUDY = Study(
    name="replay-counts",
    title="Forward and reverse events of every agent",
    question="How many events have EVB, PS-SR and PS at equal numbers of backups, and how many of "
    "them are steps back and forth? --world FILE.txt counts in your own maze.",
    presets=("default",),
    run=run,
    takes=("trials", "world"),
    documentation="docs/replay_events.md",
)
