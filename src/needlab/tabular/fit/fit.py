"""Fit models of replay, and Q-learning, by maximum likelihood; compare them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np

from needlab.tabular.evb.settings import EVB, EVBSettings
from needlab.tabular.fit.data import ReplayData
from needlab.tabular.fit.intervals import bootstrap_intervals, profile_interval
from needlab.tabular.fit.likelihood import IMPOSSIBLE
from needlab.tabular.fit.problem import CHOICE_PARAMETERS, Problem
from needlab.tabular.fit.results import Comparison, Estimate, Fit
from needlab.tabular.rivals.parameters import PARAMETERS
from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError, counted, unknown
from needreplay._core.rng import stream

Intervals: TypeAlias = Literal["profile", "bootstrap", "none"]


def fit_events(
    data: ReplayData,
    model: str = "evb",
    *,
    free: Sequence[str] | None = None,
    settings: EVBSettings = EVB["published"],
    intervals: Intervals = "profile",
    starts: int = 6,
    seed: int = 0,
) -> Fit:
    """Fit a model of replay to events by maximum likelihood.

    P(backup) ~ gain^a need^b is a softmax over a log(gain) + b log(need). A temperature would
    only divide a and b, so there is none. The number of backups in a replay is taken as given.

    Args:
        data: behavior and replay: ``read_data`` or ``data_of``.
        model: a name of ``MODELS``, also with fixed values: "evb,need_exponent=0".
        free: the parameters to estimate; by default those of the model that are not fixed.
        settings: of the agent: the kinds of gain and need, and values that are not fitted.
        intervals: "profile" (likelihood), "bootstrap" (over episodes), or "none".
        starts: of the search, the best of which counts.
        seed: of the starts and the bootstrap.
    """
    return _fit(Problem.of_events(data, model, free, settings), intervals, starts, seed)


def fit_choices(
    data: ReplayData,
    *,
    replay: bool = True,
    free: Sequence[str] = CHOICE_PARAMETERS,
    settings: EVBSettings = EVB["published"],
    intervals: Intervals = "profile",
    starts: int = 6,
    seed: int = 0,
) -> Fit:
    """Fit Q-learning to the actions that were chosen, with or without the recorded replay.

    Args:
        data: behavior and replay.
        replay: whether replayed pairs update Q; compare both to see if replay explains choices.
        free: of inverse_temperature, step_size, discount, and lapse.
        settings: of the agent, for values that are not fitted.
        intervals: "profile" (likelihood), "bootstrap" (over episodes), or "none".
        starts: of the search, the best of which counts.
        seed: of the starts and the bootstrap.
    """
    return _fit(Problem.of_choices(data, replay, free, settings), intervals, starts, seed)


def compare_models(
    data: ReplayData,
    models: Sequence[str] = ("evb", "goals", "sfma", "recency", "uniform"),
    *,
    folds: int = 5,
    settings: EVBSettings = EVB["published"],
    starts: int = 6,
    seed: int = 0,
) -> Comparison:
    """Fit models to the same events, and score each on episodes that its search did not see.

    Episode i belongs to fold i mod ``folds``. Held-out episodes still teach the agent: they are
    part of what happened before the others.

    Args:
        data: behavior and replay.
        models: as in ``fit_events``.
        folds: of the cross-validation; at most one for each episode with events.
        settings: of the agent.
        starts: of each search.
        seed: of the starts.
    """
    listed = np.unique(data.episodes)
    check_number("folds", folds, int, (2, float("inf")))
    if len(listed) < folds:
        raise NeedReplayError(
            f"folds is {folds}, but only {counted(len(listed), 'episode')} have events; take fewer "
            "folds, or more data."
        )
    if len(set(models)) < max(len(models), 1):
        raise NeedReplayError(f"models is {list(models)}; name each once, and at least one.")
    fold_of = np.searchsorted(listed, data.episodes) % folds
    fits, held_out = [], np.zeros((len(models), folds))
    for i, model in enumerate(models):
        problem = Problem.of_events(data, model, None, settings)
        fits.append(_fit(problem, "none", starts, seed))
        for fold in range(folds):
            left_out = fold_of == fold
            point, _ = problem.search(~left_out * 1.0, starts, stream(seed, "fit", fold))
            held_out[i, fold] = problem.by_observation(point)[0][left_out].sum()
    sizes = tuple(np.bincount(fold_of, minlength=folds).tolist())
    return Comparison(tuple(fits), held_out, sizes)


def _fit(problem: Problem, intervals: Intervals, starts: int, seed: int) -> Fit:
    if intervals not in get_args(Intervals):
        raise unknown("kind of intervals", intervals, get_args(Intervals))
    check_number("starts", starts, int, (1, float("inf")))
    rng, ones = stream(seed, "fit"), np.ones(len(problem.episodes))
    point, ends = problem.search(ones, starts, rng)
    each, uniform = problem.by_observation(point)
    if intervals == "profile":
        found = {
            name: profile_interval(problem, point, name, float(each.sum())) for name in problem.free
        }
    elif intervals == "bootstrap":
        found = bootstrap_intervals(problem, point, rng)
    else:
        found = dict.fromkeys(problem.free, (math.nan, math.nan))
    estimates = []
    for name in problem.free:
        limits = (PARAMETERS[name].low, PARAMETERS[name].high)
        low, high = found[name]
        at_limit = any(value in limits for value in (point[name], low, high))
        estimates.append(Estimate(name, point[name], low, high, at_limit))
    notes = list(problem.data.notes)
    never = int((each <= math.log(IMPOSSIBLE) + 1.0).sum())
    if never:
        notes.append(
            f"{counted(never, 'observation')} cannot happen under this model; free lapse, or give "
            "it a value."
        )
    return Fit(
        model=problem.model,
        estimates=tuple(estimates),
        values={**problem.fixed, **point},
        log_likelihood=float(each.sum()),
        uniform=float(uniform.sum()),
        observations=len(each),
        starts=ends,
        data=problem.data,
        by_observation=each,
        notes=tuple(notes),
    )
