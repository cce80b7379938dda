"""One offline page of what a trained agent's need ranks first, last, and in between."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from needreplay.core.errors import NeedReplayError
from needreplay.core.rng import stream
from needreplay.core.types import AnyArray, IntArray
from needreplay.report.page import Picture, inlined, write_page

if TYPE_CHECKING:
    from needreplay.training.evaluation import Player

SHOWN = 6
"""Frames in each row."""


def write_need_page(
    player: Player, path: Path, *, seed: int = 0, moments: int = 5, most_steps: int = 1_000
) -> Path:
    """Play some episodes and write the page ``path``.

    Args:
        player: an agent with need, such as ``training.evaluation.load_player`` returns.
        path: of the page.
        seed: of the episodes and of the frames at random.
        moments: of the episodes at which need is shown.
        most_steps: that are played.
    """
    if not player.agent.settings.uses_need:
        raise NeedReplayError(
            f"This run's agent is {player.config.agent}, which has no need; train per-sr or "
            "per-sr-sampling."
        )
    store = player.empty_store(most_steps)
    _, film = player.film(seed, most_steps=most_steps, store=store)
    count = len(store)
    columns = store.read(np.arange(count))
    known = np.flatnonzero(store.future(np.arange(count), 1) >= 0)
    if not len(known):
        raise NeedReplayError("Every episode of this agent ends at its first step.")
    rng = stream(seed, "need page")
    pictures = []
    for now in known[np.linspace(0, len(known) - 1, moments).astype(int)]:
        need = player.agent.need_of(columns["obs"][now], columns["obs"], columns["action"])
        order = np.argsort(-need, kind="stable")
        later = store.future(np.full(SHOWN, now), np.arange(1, SHOWN + 1))
        rows = {
            "next": later[later >= 0],
            "first": order[:SHOWN],
            "last": order[::-1][:SHOWN],
            "random": rng.choice(count, SHOWN),
        }
        pictures.append(
            Picture(
                f"Step {now + 1} of {count}",
                inlined(_draw(film.frames, need, int(now), rows)),
                "Below each frame: its need / the mean need of all steps played.",
            )
        )
    quality = player.need_quality(store, seed)
    assert quality is not None
    return write_page(
        path,
        "need.html",
        agent=player.config.agent,
        learner=player.agent.settings.need_learner,
        world=player.config.world,
        steps=player.steps,
        played=count,
        quality=quality.text(),
        pictures=pictures,
    )


def _draw(frames: list[AnyArray], need: AnyArray, now: int, rows: dict[str, IntArray]) -> Figure:
    figure = Figure(figsize=(1.3 * (SHOWN + 1), 1.5 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), SHOWN + 1)
    mean = float(np.mean(need)) or 1.0
    for row, (name, ids) in enumerate(rows.items()):
        for column, axes in enumerate(grid[row]):
            if column > len(ids):
                axes.axis("off")
                continue
            i = int(ids[column - 1]) if column else now
            axes.imshow(frames[i], interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_xlabel(f"{need[i] / mean:.2g}" if column else "now")
        grid[row, 0].set_ylabel(name)
    return figure
