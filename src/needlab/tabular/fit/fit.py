"""Maximum likelihood: estimates, intervals, comparison of models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, TypeAlias, get_args

import numpy as np

from needlab.core.tables import Table
from needlab.tabular.evb.settings import EVB, EVBSettings
from needlab.tabular.fit.data import ReplayData
from needlab.tabular.fit.likelihood import IMPOSSIBLE, likelihood
from needlab.tabular.rivals.parameters import (
    MODELS,
    PARAMETERS,
    default_values,
    parse_model,
)
from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError, counted, unknown
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray

Intervals: TypeAlias = Literal["profile", "bootstrap", "none"]
CHI_SQUARE = 3.841458820694124
"""The 95% point of chi square with one degree of freedom: twice the drop of the log-likelihood
at the ends of a profile interval."""
_STARTS_UP_TO = 3.0
"""Starts of a search on a linear scale lie below this."""
CHOICE_PARAMETERS = ("inverse_temperature", "step_size", "discount")


@dataclass(frozen=True)
class Estimate:
    """A fitted parameter.

    Args:
        name: of the parameter.
        value: the estimate.
        low: the lower end of its 95% interval; NaN without intervals.
        high: the upper end.
        at_limit: the estimate, or an end, is at a limit of what the parameter may be.
    """

    name: str
    value: float
    low: float = math.nan
    high: float = math.nan
    at_limit: bool = False


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model."""

    model: str
    """as it was named"""
    estimates: tuple[Estimate, ...]
    values: Mapping[str, float]
    """of all parameters, fitted or not"""
    log_likelihood: float
    uniform: float
    """the log-likelihood if everything that could happen is as likely"""
    observations: int
    starts: FloatArray
    """the log-likelihood that each start of the search ended with, best first"""
    data: ReplayData = field(repr=False)
    by_observation: FloatArray = field(repr=False)
    """log-likelihoods"""
    notes: tuple[str, ...] = ()

    @property
    def bic(self) -> float:
        """k log(n) - 2 log L: smaller is better."""
        return len(self.estimates) * math.log(self.observations) - 2.0 * self.log_likelihood

    @property
    def aic(self) -> float:
        """2 k - 2 log L: smaller is better."""
        return 2.0 * (len(self.estimates) - self.log_likelihood)

    def table(self) -> Table:
        """One row for each fitted parameter."""
        return Table({
            name: [getattr(one, name) for one in self.estimates]
            for name in ("name", "value", "low", "high", "at_limit")
        })  # fmt: skip

    def __str__(self) -> str:
        lines = [
            f"{self.model}: log-likelihood {self.log_likelihood:,.1f} of "
            f"{counted(self.observations, 'observation')} (uniform {self.uniform:,.1f}), BIC "
            f"{self.bic:,.1f}"
        ]
        for one in self.estimates:
            known = math.isfinite(one.low)
            ends = f"  95% interval {one.low:.3g} to {one.high:.3g}" if known else ""
            limit = "  (at a limit)" if one.at_limit else ""
            lines.append(f"  {one.name:<20}{one.value:>9.4g}{ends}{limit}")
        return "\n".join([*lines, *(f"  Note: {note}" for note in self.notes)])


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models of the same data."""

    fits: tuple[Fit, ...]
    """one for each model, on all data"""
    held_out: FloatArray
    """[model, fold]: log-likelihood of episodes that were left out of the search"""
    folds: tuple[int, ...]
    """observations of each fold"""

    @property
    def best(self) -> str:
        """The model with the largest cross-validated log-likelihood."""
        return self.fits[int(np.argmax(self.held_out.sum(axis=1)))].model

    def table(self) -> Table:
        """One row for each model: a larger cross-validated likelihood and a smaller BIC win."""
        total = self.held_out.sum(axis=1)
        return Table({
            "model": [one.model for one in self.fits],
            "parameters": [len(one.estimates) for one in self.fits],
            "log_likelihood": [one.log_likelihood for one in self.fits],
            "bic": [one.bic for one in self.fits],
            "cross_validated": total,
            "per_observation": total / sum(self.folds),
        })  # fmt: skip

    def __str__(self) -> str:
        rows = self.table()
        lines = [f"{'model':<36}{'k':>3}{'log L':>12}{'BIC':>12}{'held out':>12}"]
        lines += [
            f"{rows['model'][i]:<36}{rows['parameters'][i]:>3}"
            f"{rows['log_likelihood'][i]:>12,.1f}{rows['bic'][i]:>12,.1f}"
            f"{rows['cross_validated'][i]:>12,.1f}"
            for i in np.argsort(-rows["cross_validated"])
        ]
        return "\n".join(lines)


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
    return _fit(_Problem.of_events(data, model, free, settings), intervals, starts, seed)


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
    return _fit(_Problem.of_choices(data, replay, free, settings), intervals, starts, seed)


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
        problem = _Problem.of_events(data, model, None, settings)
        fits.append(_fit(problem, "none", starts, seed))
        for fold in range(folds):
            left_out = fold_of == fold
            point, _ = problem.search(~left_out * 1.0, starts, stream(seed, "fit", fold))
            held_out[i, fold] = problem.by_observation(point)[0][left_out].sum()
    sizes = tuple(np.bincount(fold_of, minlength=folds).tolist())
    return Comparison(tuple(fits), held_out, sizes)


@dataclass(frozen=True, eq=False)
class _Problem:
    """What is to be maximized: a sum over observations as a function of the free parameters."""

    model: str
    free: tuple[str, ...]
    fixed: Mapping[str, float]
    evaluate: Callable[[Mapping[str, float]], tuple[FloatArray, FloatArray]]
    """log-likelihoods of all observations, under the model and if all is as likely"""
    data: ReplayData
    episodes: AnyArray
    """of every observation"""

    @staticmethod
    def of_events(
        data: ReplayData, text: str, free: Sequence[str] | None, settings: EVBSettings
    ) -> _Problem:
        model, given = parse_model(text)
        usual = [name for name in MODELS[model].free if name not in given]
        chosen = usual if free is None else free
        _check_free(chosen, MODELS[model].parameters, given, text)

        def evaluate(values: Mapping[str, float]) -> tuple[FloatArray, FloatArray]:
            found = likelihood(data, model, values, settings=settings)
            return found.pairs, found.uniform

        fixed = {**default_values(model, settings), **given}
        return _Problem(text, tuple(chosen), fixed, evaluate, data, data.episodes)

    @staticmethod
    def of_choices(
        data: ReplayData, replay: bool, free: Sequence[str], settings: EVBSettings
    ) -> _Problem:
        _check_free(free, (*CHOICE_PARAMETERS, "lapse"), {}, "choices")
        uniform = np.full(len(data.steps), -math.log(data.world.n_actions))

        def evaluate(values: Mapping[str, float]) -> tuple[FloatArray, FloatArray]:
            learned = {name: value for name, value in values.items() if name != "transition_rate"}
            found = likelihood(data, "evb", learned, settings=settings, taught=replay)
            return found.choices, uniform

        text = "choices, with replay" if replay else "choices, without replay"
        fixed = {name: default_values("evb", settings)[name] for name in CHOICE_PARAMETERS}
        fixed["lapse"] = 0.0
        return _Problem(text, tuple(free), fixed, evaluate, data, data.steps["episode"])

    def by_observation(self, point: Mapping[str, float]) -> tuple[FloatArray, FloatArray]:
        """Log-likelihoods at a point."""
        return self.evaluate({**self.fixed, **point})

    def total(self, point: Mapping[str, float], weights: FloatArray) -> float:
        """The weighted sum."""
        return float(self.by_observation(point)[0] @ weights)

    def search(
        self,
        weights: FloatArray,
        starts: int,
        rng: np.random.Generator,
        begin: Mapping[str, float] | None = None,
    ) -> tuple[dict[str, float], FloatArray]:
        """The best point from several starts, and what each start ended with, best first.

        Args:
            weights: of every observation.
            starts: how many; the first is ``begin``, or the defaults.
            rng: draws the others.
            begin: where to begin.
        """
        smooth = [name for name in self.free if not PARAMETERS[name].whole]
        whole = [name for name in self.free if PARAMETERS[name].whole]
        ends: list[tuple[float, dict[str, float]]] = []
        for tried in product(*(PARAMETERS[name].tried for name in whole)):
            own = dict(zip(whole, tried, strict=True))
            for number in range(starts if smooth else 1):
                first = begin or self.fixed
                if number:
                    first = {name: _drawn(name, rng) for name in smooth}
                ends.append(self.climb(first, own, weights))
        ends.sort(key=lambda end: -end[0])
        best = ends[0][1]
        kept = {name: value for name, value in best.items() if name not in smooth}
        ends[0] = self.climb(best, kept, weights, by_gradient=False)
        return ends[0][1], np.array([end[0] for end in ends])

    def climb(
        self,
        first: Mapping[str, float],
        held: Mapping[str, float],
        weights: FloatArray,
        *,
        by_gradient: bool = True,
    ) -> tuple[float, dict[str, float]]:
        """Climb from ``first`` in all free parameters that are not held; value and point.

        Without a gradient it also ends well at kinks, as gains have.
        """
        from scipy.optimize import minimize

        names = [name for name in self.free if name not in held]
        bounds = [(_scaled(name, PARAMETERS[name].low), _scaled(name, PARAMETERS[name].high))
                  for name in names]  # fmt: skip

        def point(x: FloatArray) -> dict[str, float]:
            inside = np.clip(x, *np.array(bounds).T) if names else x
            return {**held, **{n: _unscaled(n, v) for n, v in zip(names, inside, strict=True)}}

        def loss(x: FloatArray) -> float:
            return -self.total(point(x), weights)

        x = np.array([_scaled(name, first[name]) for name in names])
        if names and by_gradient:
            x = minimize(loss, x, method="L-BFGS-B", bounds=bounds, options={"eps": 1e-5}).x
        elif names:
            size, high = np.maximum(0.02 * np.abs(x), 0.01), np.array(bounds)[:, 1]
            steps = np.diag(np.where(x + size > high, -size, size))
            options = {"initial_simplex": [x, *(x + steps)], "xatol": 1e-4, "fatol": 1e-3}
            x = minimize(loss, x, method="Nelder-Mead", bounds=bounds, options=options).x
        found = point(x)
        return self.total(found, weights), found


def _check_free(
    free: Sequence[str], known: Sequence[str], given: Mapping[str, float], text: str
) -> None:
    if isinstance(free, str):
        raise NeedReplayError(f"free is {free!r}; it must be a list of names: [{free!r}].")
    for name in free:
        if name not in known:
            raise unknown(f"parameter of {text}", name, known)
        if name in given:
            raise NeedReplayError(f"{name} is both fixed, in {text!r}, and free; choose one.")
    if len(set(free)) < len(free):
        raise NeedReplayError(f"free names a parameter twice: {', '.join(free)}.")


def _scaled(name: str, value: float) -> float:
    """A parameter on the scale of the search."""
    return math.log10(value) if PARAMETERS[name].log else value


def _unscaled(name: str, value: float) -> float:
    found = 10.0**value if PARAMETERS[name].log else float(value)
    return min(max(found, PARAMETERS[name].low), PARAMETERS[name].high)


def _drawn(name: str, rng: np.random.Generator) -> float:
    """A start."""
    own = PARAMETERS[name]
    high = own.high if own.high <= 1.0 else max(_STARTS_UP_TO, own.default)
    return _unscaled(name, rng.uniform(_scaled(name, own.low), _scaled(name, high)))


def _fit(problem: _Problem, intervals: Intervals, starts: int, seed: int) -> Fit:
    if intervals not in get_args(Intervals):
        raise unknown("kind of intervals", intervals, get_args(Intervals))
    check_number("starts", starts, int, (1, float("inf")))
    rng, ones = stream(seed, "fit"), np.ones(len(problem.episodes))
    point, ends = problem.search(ones, starts, rng)
    each, uniform = problem.by_observation(point)
    if intervals == "profile":
        found = {name: _profile(problem, point, name, float(each.sum())) for name in problem.free}
    elif intervals == "bootstrap":
        found = _bootstrap(problem, point, rng)
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


def _profile(
    problem: _Problem, point: Mapping[str, float], name: str, best: float
) -> tuple[float, float]:
    """Where twice the profile log-likelihood has dropped by ``CHI_SQUARE``; else the limits."""
    own = PARAMETERS[name]
    if own.whole:
        tried = {value: _drop(problem, point, name, value, best) for value in own.tried}
        likely = [value for value, lost in tried.items() if lost <= 0.0]
        return min(likely), max(likely)
    ends = []
    for limit in (own.low, own.high):
        inner, outer = _scaled(name, point[name]), _scaled(name, limit)
        if inner == outer:
            ends.append(limit)
            continue
        # Widen from a small step, then halve.
        size = max(0.02, 0.05 * abs(inner)) * (1.0 if outer > inner else -1.0)
        tried_at = inner + size
        while abs(tried_at - inner) < abs(outer - inner):
            if _drop(problem, point, name, _unscaled(name, tried_at), best) > 0.0:
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
            if _drop(problem, point, name, _unscaled(name, middle), best) > 0.0:
                outside = middle
            else:
                inside = middle
        ends.append(_unscaled(name, 0.5 * (inside + outside)))
    return ends[0], ends[1]


def _drop(
    problem: _Problem, point: Mapping[str, float], name: str, value: float, best: float
) -> float:
    """By how much twice the profile log-likelihood at a value falls short of the threshold."""
    found = problem.climb(point, {name: value}, np.ones(len(problem.episodes)))[0]
    return 2.0 * (best - found) - CHI_SQUARE


BOOTSTRAP = 200


def _bootstrap(
    problem: _Problem, point: Mapping[str, float], rng: np.random.Generator
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
