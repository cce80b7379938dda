"""What is replayed, in order: at the goal's first visit, and when a later episode starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from needlab.core.tables import long_table
from needlab.report.figures import label_of, new_figure
from needlab.runs.trials import TrialRunner
from needlab.studies.maze.board import draw_board, draw_heat
from needlab.studies.maze.world import AGENTS, EPISODES, dyna_world, trial_stream
from needlab.studies.study import Options, Result, Study
from needlab.tabular.replay_events import replay_table
from needlab.tabular.settings import PS_SR, agent_settings
from needlab.tabular.sweeping import EVENT
from needlab.tabular.trial import logged_trial
from needreplay._core.types import AnyArray, FloatArray, IntArray

LATER_EPISODE = 5
MOMENT_STEPS = 4
"""A moment is so many steps long: with n = 5, up to 20 replays."""

DIRECTIONS = ((0.0, -1.0), (0.0, 1.0), (-1.0, 0.0), (1.0, 0.0))
"""(x, y) of up, down, left, right, with y growing downwards."""


def run(options: Options, runner: TrialRunner) -> Result:  # noqa: ARG001
    """Log one trial of PS and of PS-SR under each preset, and draw two moments of it.

    Four trials of milliseconds: they run in this process.
    """
    settings: dict[tuple[str, str], Any] = {
        (name, agent): agent_settings(agent, name) for name in options.presets for agent in AGENTS
    }
    events = {}
    for key, own in settings.items():
        rng = trial_stream(options.seed, options.trial)
        _, events[key] = logged_trial(dyna_world(), own, EPISODES, rng)
    first = options.presets[0]
    names = ("preset", "agent", "trial")
    return Result(
        tables={
            "data": long_table(
                names, {(*key, options.trial): _counts(own) for key, own in events.items()}.items()
            ),
            "replay_events": long_table(
                names, {(*key, options.trial): _backups(own) for key, own in events.items()}
            ),
        },
        figures={"figure": _draw({agent: events[first, agent] for agent in AGENTS})},
        captions={
            "figure": f"{first}, trial {options.trial}: arrows are the pairs (state, action) that "
            "were replayed, from dark (first) to light (last); the circle is where the agent "
            "stands at the first of them. Left: the goal's first visit and the first "
            f"{MOMENT_STEPS - 1} steps of the next episode. Right: the first {MOMENT_STEPS} steps "
            f"of episode {LATER_EPISODE + 1}. For PS-SR, cells replayed at the moment's first step "
            "are shaded by their need."
        },
        config={
            "episodes": EPISODES,
            "trial": options.trial,
            "settings": {", ".join(key): asdict(own) for key, own in settings.items()},
        },
        notes=[
            "replay_events.csv has every replay of the trial: when, where the agent stood, which "
            "pair, its gain and need, Q before and after, and the forward or reverse event that it "
            "belongs to; needreplay watch replay_events.csv --world dyna-maze shows it. --trial K "
            "logs another trial, the same that fig2 runs as trial K with the same seed."
        ],
    )


def _backups(events: AnyArray) -> Mapping[str, AnyArray]:
    """The replay table of a log (``needreplay watch`` reads it), and what else the log has."""
    when = np.stack([events["episode"], events["step"]])
    begins = np.any(np.diff(when, axis=1, prepend=-1) != 0, axis=0)
    table = replay_table(
        events["episode"],
        np.cumsum(begins) - 1,
        events["state"],
        events["action"],
        dyna_world().next_state,
        gain=events["gain"],
        need=events["need"],
    )
    return {**table, **{name: events[name] for name in EVENT.names or ()}}


def _counts(events: AnyArray) -> dict[str, FloatArray | IntArray]:
    """How many replays each episode had, and their mean distance from the agent."""
    here, there = (
        np.divmod(events[name], dyna_world().columns) for name in ("agent_state", "state")
    )
    # Cells between two states, as the crow would walk: |Δrow| + |Δcolumn|.
    apart = np.abs(here[0] - there[0]) + np.abs(here[1] - there[1])
    count = np.bincount(events["episode"], minlength=EPISODES)
    total = np.bincount(events["episode"], weights=apart, minlength=EPISODES)
    return {
        "episode": np.arange(EPISODES),
        "replays": count,
        "mean_distance": total / np.maximum(count, 1),
    }


def _draw(events: dict[str, AnyArray]) -> Figure:
    figure, grid = new_figure(len(events), 2, height=3.0 * len(events))
    for row, (agent, found) in zip(grid, events.items(), strict=True):
        arrived = found[found["episode"] == found["episode"][0]]
        after = found[
            (found["episode"] == arrived["episode"][0] + 1) & (found["step"] < MOMENT_STEPS - 1)
        ]
        later = found[(found["episode"] == LATER_EPISODE) & (found["step"] < MOMENT_STEPS)]
        moments = (np.concatenate([arrived, after]), later)
        titles = ("goal's first visit", f"start of episode {LATER_EPISODE + 1}")
        for axes, moment, title in zip(row, moments, titles, strict=True):
            _draw_moment(axes, moment, agent)
            axes.set_title(f"{label_of(agent)}: {title}", fontsize=11)
    scale = ScalarMappable(Normalize(0, 1), "plasma")
    bar = figure.colorbar(scale, ax=list(grid[:, 1]), shrink=0.6)
    bar.set_ticks([0, 1], labels=["first", "last"])
    return figure


def _draw_moment(axes: Axes, moment: AnyArray, agent: str) -> None:
    world = dyna_world()
    need = np.zeros(world.n_states)
    if agent == "ps-sr" and len(moment):
        first = moment[
            (moment["episode"] == moment["episode"][0]) & (moment["step"] == moment["step"][0])
        ]
        need[first["state"]] = np.maximum(first["need"], 0.0)
    image = draw_heat(axes, world, need, highest=max(float(need.max()), 1e-9))
    image.set_cmap("Greys")
    image.set_alpha(0.35)
    draw_board(axes, world)
    axes.grid(False)
    if not len(moment):
        axes.text(4, 2.5, "nothing is replayed", ha="center")
        return
    row, column = world.cell(moment["agent_state"][0])
    axes.plot(column, row, "o", markersize=17, markerfacecolor="none", color="#0072B2", mew=2)
    shades = ScalarMappable(Normalize(0, max(len(moment) - 1, 1)), "plasma")
    colors = shades.to_rgba(np.arange(len(moment)))
    for event, color in zip(moment, colors, strict=True):
        row, column = world.cell(event["state"])
        dx, dy = DIRECTIONS[int(event["action"])]
        tail, head = (column - 0.1 * dx, row - 0.1 * dy), (column + 0.42 * dx, row + 0.42 * dy)
        axes.annotate(
            "", xy=head, xytext=tail,
            arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 1.8},
        )  # fmt: skip


STUDY = Study(
    name="maze-replay",
    title="What is replayed",
    question="Which pairs do PS and PS-SR replay, and in which order, when the goal is first found "
    "and when a later episode starts?",
    presets=tuple(PS_SR),
    run=run,
    takes=("trial",),
    documentation="docs/maze.md",
)
