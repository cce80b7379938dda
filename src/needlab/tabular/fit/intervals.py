"""How certain the estimates are: profile likelihood, or a bootstrap over episodes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from needlab.tabular.fit.problem import Problem, scaled, unscaled
from needlab.tabular.rivals.parameters import PARAMETERS

CHI_SQUARE = 3.841458820694124
"""The 95% point of chi square with one degree of freedom: twice the drop of the log-likelihood
at the ends of a profile interval."""
BOOTSTRAP = 200
"""Draws of episodes."""


def profile_interval(
    problem: Problem, point: Mapping[str, float], name: str, best: float
) -> tuple[float, float]:
    """Where twice the profile log-likelihood has dropped by ``CHI_SQUARE``; else the limits."""
    own = PARAMETERS[name]
    if own.whole:
        tried = {value: _drop(problem, point, name, value, best) for value in own.tried}
        likely = [value for value, lost in tried.items() if lost <= 0.0]
        return min(likely), max(likely)
    ends = []
    for limit in (own.low, own.high):
        inner, outer = scaled(name, point[name]), scaled(name, limit)
        if inner == outer:
            ends.append(limit)
            continue
        # Widen from a small step, then halve.
        size = max(0.02, 0.05 * abs(inner)) * (1.0 if outer > inner else -1.0)
        tried_at = inner + size
        while abs(tried_at - inner) < abs(outer - inner):
            if _drop(problem, point, name, unscaled(name, tried_at), best) > 0.0:
                break
            size *= 2.0
            tried_at += size
        else:
            tried_at = outer
            if _drop(problem, point, name, limit, best) <= 0.0:
                ends.append(limit)
                continue
        inside, outside = inner, tried_at
        for _ in range(8):
            middle = 0.5 * (inside + outside)
            if _drop(problem, point, name, unscaled(name, middle), best) > 0.0:
                outside = middle
            else:
                inside = middle
        ends.append(unscaled(name, 0.5 * (inside + outside)))
    return ends[0], ends[1]


def _drop(
    problem: Problem, point: Mapping[str, float], name: str, value: float, best: float
) -> float:
    """By how much twice the profile log-likelihood at a value falls short of the threshold."""
    found = problem.climb(point, {name: value}, np.ones(len(problem.episodes)))[0]
    return 2.0 * (best - found) - CHI_SQUARE


def bootstrap_intervals(
    problem: Problem, point: Mapping[str, float], rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    """Percentiles of estimates for episodes that are drawn with replacement."""
    listed, place = np.unique(problem.episodes, return_inverse=True)
    drawn: dict[str, list[float]] = {name: [] for name in problem.free}
    for _ in range(BOOTSTRAP):
        times = np.bincount(rng.integers(len(listed), size=len(listed)), minlength=len(listed))
        found, _ = problem.search(times[place].astype(np.float64), 1, rng, point)
        for name in problem.free:
            drawn[name].append(found[name])
    return {
        name: (float(np.quantile(own, 0.025)), float(np.quantile(own, 0.975)))
        for name, own in drawn.items()
    }
