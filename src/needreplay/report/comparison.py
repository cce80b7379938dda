"""A sweep's complete runs side by side: who was measured on what, and every number on the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from needreplay.core.errors import counted
from needreplay.core.types import FloatArray
from needreplay.report.human import has_human_score, human_normalised
from needreplay.report.series import Measure, Series, Trial
from needreplay.report.sweep_read import ReadRun

SCORES = ("final", "best", "area")
_NOT_AGENT = {
    "kind", "world", "seed", "first_trial", "trials", "sizes", "agent", "overrides", "of", "parts",
}  # fmt: skip


_Key: TypeAlias = tuple[str, str, str, Measure]
"""task, agent, preset, measure"""


@dataclass(frozen=True, eq=False)
class Cell:
    """One agent on one task: a row for each trial, on x values that all share."""

    task: str
    agent: str
    preset: str
    measure: Measure
    trials: tuple[Trial, ...]
    """no two are equal"""
    x: FloatArray
    y: FloatArray
    scores: dict[str, FloatArray]
    """final, best, area: one number for each trial, in the task's own units"""


def agent_labels(runs: Sequence[ReadRun]) -> dict[str, str]:
    """A label for each run: its agent, and whatever of its config differs within the sweep.

    A chunk has those of its parts, and each part its own.

    >>> a = ReadRun("1", {"agent": "per", "preset": "printed"}, "done")
    >>> b = ReadRun("2", {"agent": "per", "preset": "printed", "overrides": {"x": 1}}, "done")
    >>> agent_labels([a, b])
    {'1': 'per', '2': 'per x=1'}
    """
    pieces = [piece for run in runs for piece in run.pieces]
    flat = {piece.name: _flat(piece.config) for piece in pieces}
    names = dict.fromkeys(name for config in flat.values() for name in config)
    varied = [n for n in names if len({repr(config.get(n)) for config in flat.values()}) > 1]
    labels = {
        piece.name: " ".join(
            [str(piece.config.get("agent", piece.config.get("kind", "run")))]
            + [_said(name, flat[piece.name][name]) for name in varied if name in flat[piece.name]]
        )
        for piece in pieces
    }
    of_runs = {r.name: ", ".join(dict.fromkeys(labels[p.name] for p in r.pieces)) for r in runs}
    return labels | of_runs


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in config.items() if name not in _NOT_AGENT}
    overrides = config.get("overrides")
    return own | (overrides if isinstance(overrides, dict) else {})


def _said(name: str, value: Any) -> str:
    return str(value) if name == "preset" else f"{name}={value}"


def cells_of(runs: Sequence[ReadRun], labels: dict[str, str]) -> tuple[list[Cell], list[str]]:
    """Series of the same agent and task put together, in the order in which they come.

    A trial that came before is left out: runs of a sweep that was changed in its folder (more
    trials, other chunks) may overlap. What is left out is said in a sentence for each run.
    """
    parts: dict[_Key, list[Series]] = {}
    holders: dict[_Key, dict[Trial, str]] = {}
    repeats: list[str] = []
    for piece in (piece for run in runs for piece in run.pieces):
        for series in piece.series:
            preset = str(piece.config.get("preset", ""))
            key = (series.task, labels[piece.name], preset, series.measure)
            held = holders.setdefault(key, {})
            new = [row for row, trial in enumerate(series.trials) if trial not in held]
            if len(new) < len(series.trials):
                others = dict.fromkeys(held[t] for t in series.trials if t in held)
                repeats.append(
                    f"{piece.name}: {len(series.trials) - len(new)} of its "
                    f"{counted(len(series.trials), 'trial')} of {labels[piece.name]} on "
                    f"{series.task} are in {' and '.join(others)} too, and count once."
                )
            held.update((series.trials[row], piece.name) for row in new)
            if new:
                parts.setdefault(key, []).append(series.only(new))
    return [_cell(*key, found) for key, found in parts.items()], repeats


def _cell(task: str, agent: str, preset: str, measure: Measure, parts: list[Series]) -> Cell:
    trials = [trial for part in parts for trial in part.trials]
    order = sorted(range(len(trials)), key=trials.__getitem__)
    x = _shared_x(parts)
    curves = [np.interp(x, part.x, row) for part in parts for row in part.y]
    each = [part.scores() for part in parts]
    scores = {name: np.concatenate([one[name] for one in each])[order] for name in SCORES}
    ordered = tuple(trials[i] for i in order)
    return Cell(task, agent, preset, measure, ordered, x, np.stack(curves)[order], scores)


def _shared_x(parts: list[Series]) -> FloatArray:
    """The x of all, where they agree; else as many points over what all have walked.

    Iterations end with an episode, so that two runs do not measure at the very same steps.
    """
    first = parts[0].x
    if all(np.array_equal(part.x, first) for part in parts):
        return first
    begin, end = max(p.x[0] for p in parts), min(p.x[-1] for p in parts)
    if end <= begin:
        return np.array([begin])
    return np.linspace(begin, end, min(len(part.x) for part in parts))


@dataclass(frozen=True)
class Normalised:
    """Scores of all agents on the tasks that all of them have, larger is better."""

    how: str
    tasks: tuple[str, ...]
    agents: tuple[str, ...]
    left_out: tuple[str, ...]
    """tasks that not every agent has a complete run of, or that have no human score"""
    scores: dict[str, dict[str, list[FloatArray]]]
    """[best, final or area][agent]: an array for each task"""


def normalised(cells: Sequence[Cell]) -> Normalised:
    """By human and random scores where a task is an Atari game; else by the range in this sweep.

    In the range of this sweep 1 is the best single run on a task and 0 the worst, so such numbers
    compare agents within one sweep, and mean nothing outside it.
    """
    tasks = tuple(dict.fromkeys(cell.task for cell in cells))
    by_human = any(map(has_human_score, tasks))
    found = {(cell.task, cell.agent): cell for cell in cells}
    agents = tuple(dict.fromkeys(cell.agent for cell in cells))
    kept = tuple(
        task
        for task in tasks
        if (has_human_score(task) or not by_human) and all((task, a) in found for a in agents)
    )
    scores = {
        name: {
            agent: [_scaled(cells, found[task, agent], name) for task in kept] for agent in agents
        }
        for name in SCORES
    }
    left_out = tuple(task for task in tasks if task not in kept)
    how = "human-normalised" if by_human else "normalised by the range in this sweep"
    return Normalised(how, kept, agents, left_out, scores)


def _scaled(cells: Sequence[Cell], cell: Cell, name: str) -> FloatArray:
    own = _larger_is_better(cell, name)
    if has_human_score(cell.task):
        return human_normalised(cell.task, own)
    all_runs = [_larger_is_better(one, name) for one in cells if one.task == cell.task]
    low, high = np.concatenate(all_runs).min(), np.concatenate(all_runs).max()
    return np.ones_like(own) if high == low else (own - low) / (high - low)


def _larger_is_better(cell: Cell, name: str) -> FloatArray:
    values = cell.scores[name]
    if cell.measure.logarithmic:
        values = np.log10(np.maximum(values, 1.0))
    return values if cell.measure.larger_is_better else -values


def trial_pairs(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Cell, list[int], list[int]]]:
    """Agents of one preset on one task that shared their luck, with the places of shared trials."""
    for one, other in combinations(cells, 2):
        if (one.task, one.preset, one.measure) != (other.task, other.preset, other.measure):
            continue
        places = {trial: place for place, trial in enumerate(other.trials)}
        mine = [place for place, trial in enumerate(one.trials) if trial in places]
        if mine and one.measure.paired:
            yield one, other, mine, [places[one.trials[place]] for place in mine]
