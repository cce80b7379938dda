"""Human and random scores of Atari games, and scores normalised by them.

The numbers are package data, from google-deepmind/dqn_zoo (atari_data.py): scores after up to 30
idle steps. ``data/atari_human_random.csv`` names the source in every row.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from needreplay.core.types import FloatArray


@cache
def human_scores() -> dict[str, tuple[float, float]]:
    """(random, human) by game, spelled without case and underscores: "battlezone"."""
    path = files("needreplay.report") / "data" / "atari_human_random.csv"
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    return {
        _spelled(row["game"]): (float(row["random_noop"]), float(row["human_noop"])) for row in rows
    }


def has_human_score(world: str) -> bool:
    """Whether ``world`` is an Atari game whose human score is known."""
    family, _, game = world.partition("/")
    return family == "atari" and _spelled(game) in human_scores()


def human_normalised(world: str, scores: FloatArray) -> FloatArray:
    """(score − random) / (human − random) of ``atari/<Game>``."""
    low, high = human_scores()[_spelled(world.partition("/")[2])]
    normalised: FloatArray = (scores - low) / (high - low)
    return normalised


def _spelled(game: str) -> str:
    return game.replace("_", "").replace("-", "").lower()
