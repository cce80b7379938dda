"""The paper's conjecture about environments: need helps where states look alike and recur.

Section 6 says it of games by eye. Here both are numbers, of states that a random player meets, and
the conjecture is held against the paper's own published runs, one run for each game and agent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from needlab.core.tables import Table, long_table
from needlab.report.aggregate import holm
from needlab.report.claims import Claim
from needlab.report.figures import new_figure
from needlab.runs.trials import TrialRunner
from needlab.studies.deep.published import Game, changes, published_games
from needlab.studies.study import Options, Result, Study
from needlab.worlds.minatar import GAMES
from needlab.worlds.named import WorldSettings, make_world
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray

STEPS = {"quick": 500, "full": 4_000}
APART = 200
"""Steps between two times that are different, not the same moment."""
PAIRS = 2_000
CELLS, LEVELS = 12, 8
"""An Atari frame as a state: the mean brightness of 12 x 12 cells, in eight levels."""
MEASURES = {
    "similarity": "states at different times look alike",
    "recurrence": "states recur",
}
OUTCOMES = {"change_best": "the best iteration", "change_last": "the last ten iterations"}


class Case(NamedTuple):
    """A game, and how long a random player plays it."""

    world: str
    steps: int


def measure(case: Case, trial: int) -> dict[str, float]:
    """How alike the states of different times are, and how often one returns."""
    env = make_world(case.world, WorldSettings())
    rng = stream(trial, "similar states", case.world)
    actions = rng.integers(int(env.action_space.n), size=case.steps)  # type: ignore[attr-defined]
    frames, seed = [], int(rng.integers(2**31))
    obs, _ = env.reset(seed=seed)
    for action in actions.tolist():
        frames.append(newest_frame(case.world, obs))
        obs, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            obs, _ = env.reset()
    env.close()
    states = np.array(frames)
    return {
        "similarity": similarity(states, rng),
        "recurrence": recurrence([key_of(case.world, frame) for frame in states]),
    }


def newest_frame(world: str, obs: AnyArray) -> AnyArray:
    """What an agent sees at one time: all channels, or the newest image of a stack."""
    return np.asarray(obs[-1] if world.startswith("atari/") else obs)


def key_of(world: str, frame: AnyArray) -> bytes:
    """A state, to compare: MinAtar's exactly, Atari's in coarse cells."""
    if world.startswith("atari/"):
        rows, columns = (size // CELLS for size in frame.shape)
        cells = frame[: rows * CELLS, : columns * CELLS].reshape(CELLS, rows, CELLS, columns)
        frame = (cells.mean(axis=(1, 3)) * LEVELS / 256.0).astype(np.uint8)
    return bytes(np.ascontiguousarray(frame).tobytes())


def similarity(frames: AnyArray, rng: np.random.Generator, apart: int = APART) -> float:
    """The mean correlation over pixels of two frames, at times at least ``apart`` steps apart."""
    flat = frames.reshape(len(frames), -1).astype(np.float64)
    flat -= flat.mean(axis=1, keepdims=True)
    length = np.sqrt((flat * flat).sum(axis=1))
    first = rng.integers(len(flat) - apart, size=PAIRS)
    second = first + rng.integers(apart, len(flat) - first)
    products = np.einsum("ij,ij->i", flat[first], flat[second])
    scale = length[first] * length[second]
    return float(np.divide(products, scale, out=np.zeros(PAIRS), where=scale > 0.0).mean())


def recurrence(keys: list[bytes], apart: int = APART) -> float:
    """The share of steps, from ``apart`` on, whose state was there at least so many steps ago."""
    first: dict[bytes, int] = {}
    for step, key in enumerate(keys):
        first.setdefault(key, step)
    later = range(apart, len(keys))
    return float(np.mean([first[keys[step]] <= step - apart for step in later]))


def run(options: Options, runner: TrialRunner) -> Result:
    """Measure every game; compare with the published runs where there are any."""
    published = {f"atari/{game.name}": game for game in published_games()}
    worlds = {"minatar": [f"minatar/{game}" for game in GAMES], "atari": list(published)}
    cases = [Case(w, STEPS[options.size]) for name in options.presets for w in worlds[name]]
    found = runner.run(
        measure, cases, options.trials or 1, label=f"similar states, {options.size}", seconds=4.0
    )
    rows = {}
    for case, columns in found.items():
        best, last = _changes(published.get(case.world))
        measured = {name: float(columns[name].mean()) for name in MEASURES}
        rows[case.world] = {**measured, "change_best": best, "change_last": last}
    data = long_table(("world",), rows)
    return Result(
        tables={"data": data},
        figures={"figure": draw(data)},
        captions={
            "figure": "How alike and how recurrent the states of a random player are, and the "
            "change of PER-SR against PER by the best iteration of the published runs (Atari)."
        },
        claims=claims_of(data, options.seed) if "atari" in options.presets else [],
        config={"steps": STEPS[options.size], "apart": APART, "cells": CELLS, "levels": LEVELS},
        notes=[
            "The player is random: a trained agent meets other states. One published run for each "
            "game and agent."
        ],
    )


def _changes(game: Game | None) -> tuple[float, float]:
    return (np.nan, np.nan) if game is None else changes(game)


def rank_test(a: FloatArray, b: FloatArray, rng: np.random.Generator) -> tuple[float, float]:
    """Spearman's correlation, and its two-sided p by 10,000 permutations."""
    from scipy.stats import rankdata

    x, y = (rankdata(values) - (len(values) + 1) / 2 for values in (a, b))
    scale = float(np.sqrt((x @ x) * (y @ y)))
    observed = float(x @ y) / scale
    drawn = rng.permuted(np.tile(y, (10_000, 1)), axis=1) @ x / scale
    extreme = np.count_nonzero(np.abs(drawn) >= abs(observed) * (1.0 - 1e-12))
    return observed, (extreme + 1) / 10_001


def claims_of(data: Table, seed: int) -> list[Claim]:
    """One claim for each measure and outcome, Holm over the four."""
    published = ~np.isnan(data["change_best"])
    games = {name: data[name][published] for name in (*MEASURES, *OUTCOMES)}
    pairs = [(measure, outcome) for measure in MEASURES for outcome in OUTCOMES]
    tests = [
        rank_test(games[one], games[other], stream(seed, "similar states", one, other))
        for one, other in pairs
    ]
    adjusted = holm([p for _, p in tests])
    return [
        Claim(
            f"PER-SR gains most where {MEASURES[measure]}, by {OUTCOMES[outcome]}",
            "paper, section 6",
            f"rank correlation over {published.sum()} games {rho:.2f}, p = {p:.2g} after Holm",
            "undecided" if p >= 0.05 else "holds" if rho > 0 else "does not hold",
            "released, published runs",
            "One run for each game and agent; states of a random player. With 15 games a true "
            "correlation of about .7 is seen with 90% power.",
        )
        for (measure, outcome), (rho, _), p in zip(pairs, tests, adjusted, strict=True)
    ]


def draw(data: Table) -> Figure:
    """The two measures of all games, and each against the published change."""
    figure, (axes,) = new_figure(1, 3)
    atari = np.char.startswith(data["world"].astype(str), "atari/")
    for name, chosen in (("Atari", atari), ("MinAtar", ~atari)):
        axes[0].plot(data["similarity"][chosen], data["recurrence"][chosen], "o", label=name)
    axes[0].legend(fontsize=7)
    axes[0].set_xlabel("similarity")
    axes[0].set_ylabel("recurrence")
    for one, name in zip(axes[1:], MEASURES, strict=True):
        one.plot(data[name][atari], data["change_best"][atari], "o")
        one.axhline(0.0, linewidth=0.5, color="gray")
        one.set_yscale("symlog", linthresh=10)
        one.set_xlabel(name)
    axes[1].set_ylabel("PER-SR against PER, %")
    return figure


STUDY = Study(
    name="similar-states",
    title="Where states look alike and recur",
    question="The paper conjectures that need helps most in games whose states look alike and "
    "recur through many episodes.",
    presets=("minatar", "atari"),
    quick_presets=("minatar",),
    run=run,
    documentation="docs/deep_studies.md",
)
