"""The paper's own published runs, read again: the best iteration, the last ten, and in between."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needlab.report.data import shipped_table
from needreplay._core.types import FloatArray

LAST = 10
"""Iterations whose mean is the level at the end."""
EARLY = 20
"""The first tenth of a run: 5 of 50 million steps."""
COLLAPSED = 0.5
"""A run has collapsed if its level at the end is below this share of its best iteration."""


class Game(NamedTuple):
    """One game: PER and PER-SR, a run each, and Dopamine's DQN with uniform replay."""

    name: str
    per: FloatArray
    """mean training return of each iteration"""
    per_sr: FloatArray
    uniform_best: float
    uniform_end: float
    """the mean of the last five iterations, five runs"""


def published_games() -> list[Game]:
    """Every game of the paper's figure 5."""
    curves, baselines = (
        shipped_table("atari_published_curves"),
        shipped_table("atari_dopamine_baselines"),
    )
    games = []
    for name in curves.distinct("game"):
        per, per_sr = (
            curves.where(game=name, agent=agent)["train_return"] for agent in ("PER", "PER-SR")
        )
        uniform = baselines.where(game=name.lower(), agent="DQN")
        best, end = (uniform[c][0] for c in ("max_over_iters_of_seedmean", "mean_last5"))
        games.append(Game(name, per, per_sr, float(best), float(end)))
    return games


def end_level(curve: FloatArray, last: int = LAST) -> float:
    """The mean of the last ten (``last``) iterations there are."""
    return float(curve[-last:].mean())


def relative_change(new: float, old: float) -> float:
    """(new − old) / |old| in percent; a game's return can be negative."""
    return 100.0 * (new - old) / abs(old)


def changes(game: Game) -> tuple[float, float]:
    """PER-SR against PER in percent: by the best iteration, as the paper has it, and at the end."""
    best = relative_change(float(game.per_sr.max()), float(game.per.max()))
    return best, relative_change(end_level(game.per_sr), end_level(game.per))


def collapsed(curve: FloatArray, last: int = LAST) -> bool:
    """Whether a run lost more than half of what it had gained over its own first iteration."""
    start = float(curve[0])
    return end_level(curve, last) - start < COLLAPSED * (float(curve.max()) - start)


def slower_early(game: Game) -> bool:
    """Whether PER-SR's mean return over the first tenth of the run is below PER's."""
    return bool(np.mean(game.per_sr[:EARLY]) < np.mean(game.per[:EARLY]))
