"""A sweep's complete runs side by side: each agent on each task, and scores that compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import TypeAlias

import numpy as np

from needlab.core.types import JsonObject
from needlab.report.data import shipped_table
from needlab.report.series import Measure, Series, Trial
from needlab.report.sweep_folder import ReadRun
from needreplay._core.errors import counted
from needreplay._core.types import FloatArray

SCORES = ("final", "best", "area")
_NOT_AGENT = {"kind", "world", "seed", "first_trial", "trials", "sizes", "agent", "overrides"}


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
    """A label for each run: its agent, and what of its config differs within the sweep.

    >>> a = ReadRun("1", {"agent": "per", "preset": "printed"}, "done")
    >>> b = ReadRun("2", {"agent": "per", "preset": "printed", "overrides": {"x": 1}}, "done")
    >>> agent_labels([a, b])
    {'1': 'per', '2': 'per x=1'}
    """
    flat = {run.name: _flat(run.config) for run in runs}
    names = dict.fromkeys(name for config in flat.values() for name in config)
    varied = [n for n in names if len({repr(config.get(n)) for config in flat.values()}) > 1]
    labels = {}
    for run in runs:
        own = flat[run.name]
        agent = str(run.config.get("agent", run.config.get("kind", "run")))
        changed = [
            str(own[name]) if name == "preset" else f"{name}={own[name]}"
            for name in varied
            if name in own
        ]
        labels[run.name] = " ".join([agent, *changed])
    return labels


def _flat(config: JsonObject) -> JsonObject:
    own = {name: value for name, value in config.items() if name not in _NOT_AGENT}
    overrides = config.get("overrides")
    return own | (overrides if isinstance(overrides, dict) else {})


def cells_of(runs: Sequence[ReadRun], labels: dict[str, str]) -> tuple[list[Cell], list[str]]:
    """Series of the same agent and task put together, in the order in which they come.

    A trial counts once: runs of a sweep that was changed in its folder (more trials, other
    chunks) may overlap. Also returns a sentence for each run with trials that are left out.
    """
    parts: dict[_Key, list[Series]] = {}
    holders: dict[_Key, dict[Trial, str]] = {}
    repeats: list[str] = []
    for run in runs:
        for series in run.series:
            preset = str(run.config.get("preset", ""))
            key = (series.task, labels[run.name], preset, series.measure)
            held = holders.setdefault(key, {})
            new = [row for row, trial in enumerate(series.trials) if trial not in held]
            if len(new) < len(series.trials):
                others = dict.fromkeys(held[t] for t in series.trials if t in held)
                repeats.append(
                    f"{run.name}: {len(series.trials) - len(new)} of its "
                    f"{counted(len(series.trials), 'trial')} of {labels[run.name]} on "
                    f"{series.task} are in {' and '.join(others)} too, and count once."
                )
            held.update((series.trials[row], run.name) for row in new)
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
    """The x of all if they agree; else evenly spaced points over the range that all have.

    Iterations end with an episode, so two runs do not measure at exactly the same steps.
    """
    first = parts[0].x
    if all(np.array_equal(part.x, first) for part in parts):
        return first
    begin, end = max(p.x[0] for p in parts), min(p.x[-1] for p in parts)
    if end <= begin:
        return np.array([begin])
    return np.linspace(begin, end, min(len(part.x) for part in parts))


@dataclass(frozen=True)
class Normalized:
    """Scores of all agents on the tasks that all of them have, larger is better."""

    how: str
    tasks: tuple[str, ...]
    agents: tuple[str, ...]
    left_out: tuple[str, ...]
    """tasks that not every agent has a complete run of, or that have no human score"""
    scores: dict[str, dict[str, list[FloatArray]]]
    """[best, final or area][agent]: an array for each task"""


def normalized(cells: Sequence[Cell]) -> Normalized:
    """By human and random scores where a task is an Atari game; else by the range in this sweep.

    In the range of this sweep 1 is the best single run on a task and 0 the worst, so such numbers
    compare agents within one sweep, and mean nothing outside it.
    """
    tasks = tuple(dict.fromkeys(cell.task for cell in cells))
    by_human = any(map(has_human_score, tasks))
    found = {(cell.task, cell.agent): cell for cell in cells}
    agents = tuple(dict.fromkeys(cell.agent for cell in cells))
    shared = tuple(
        task
        for task in tasks
        if (has_human_score(task) or not by_human) and all((task, a) in found for a in agents)
    )
    scores = {
        name: {
            agent: [_scaled(cells, found[task, agent], name) for task in shared] for agent in agents
        }
        for name in SCORES
    }
    left_out = tuple(task for task in tasks if task not in shared)
    how = "human-normalized" if by_human else "normalized by the range in this sweep"
    return Normalized(how, shared, agents, left_out, scores)


@cache
def human_scores() -> dict[str, tuple[float, float]]:
    """(random, human) scores by game, without case and underscores: "battlezone".

    After up to 30 idle steps, from google-deepmind/dqn_zoo (atari_data.py).
    """
    table = shipped_table("atari_human_random")
    columns = (table[name].tolist() for name in ("game", "random_noop", "human_noop"))
    return {_spelled(game): (low, high) for game, low, high in zip(*columns, strict=True)}


def has_human_score(world: str) -> bool:
    """Whether ``world`` is an Atari game whose human score is known."""
    family, _, game = world.partition("/")
    return family == "atari" and _spelled(game) in human_scores()


def human_normalized(world: str, scores: FloatArray) -> FloatArray:
    """(score − random) / (human − random) of ``atari/<Game>``."""
    low, high = human_scores()[_spelled(world.partition("/")[2])]
    return (scores - low) / (high - low)


def _spelled(game: str) -> str:
    return game.replace("_", "").replace("-", "").lower()


def _scaled(cells: Sequence[Cell], cell: Cell, name: str) -> FloatArray:
    own = _larger_is_better(cell, name)
    if has_human_score(cell.task):
        return human_normalized(cell.task, own)
    all_runs = [_larger_is_better(one, name) for one in cells if one.task == cell.task]
    low, high = np.concatenate(all_runs).min(), np.concatenate(all_runs).max()
    return np.ones_like(own) if high == low else (own - low) / (high - low)


def _larger_is_better(cell: Cell, name: str) -> FloatArray:
    values = cell.scores[name]
    if cell.measure.logarithmic:
        values = np.log10(np.maximum(values, 1.0))
    return values if cell.measure.larger_is_better else -values


def trial_pairs(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Cell, list[int], list[int]]]:
    """Pairs of agents on one task that shared random numbers, and where the shared trials are."""
    for one, other in combinations(cells, 2):
        if (one.task, one.preset, one.measure) != (other.task, other.preset, other.measure):
            continue
        places = {trial: place for place, trial in enumerate(other.trials)}
        mine = [place for place, trial in enumerate(one.trials) if trial in places]
        if mine and one.measure.paired:
            yield one, other, mine, [places[one.trials[place]] for place in mine]
