"""The search for the parameters that make what was observed most likely."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from needlab.tabular.evb.settings import EVBSettings
from needlab.tabular.fit.data import ReplayData
from needlab.tabular.fit.likelihood import likelihood
from needlab.tabular.rivals.parameters import MODELS, PARAMETERS, default_values, parse_model
from needreplay._core.errors import NeedReplayError, unknown
from needreplay._core.types import AnyArray, FloatArray

CHOICE_PARAMETERS = ("inverse_temperature", "step_size", "discount")
_STARTS_UP_TO = 3.0
"""Starts of a search on a linear scale lie below this."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be maximized: a sum over observations as a function of the free parameters."""

    model: str
    free: tuple[str, ...]
    fixed: Mapping[str, float]
    evaluate: Callable[[Mapping[str, float]], tuple[FloatArray, FloatArray]]
    """The log-likelihoods of all observations, under the model and if all is as likely."""
    data: ReplayData
    episodes: AnyArray
    """The episode of every observation."""

    @staticmethod
    def of_events(
        data: ReplayData, text: str, free: Sequence[str] | None, settings: EVBSettings
    ) -> Problem:
        """The fit of a model to events."""
        model, given = parse_model(text)
        usual = [name for name in MODELS[model].free if name not in given]
        chosen = usual if free is None else free
        _check_free(chosen, MODELS[model].parameters, given, text)

        def evaluate(values: Mapping[str, float]) -> tuple[FloatArray, FloatArray]:
            found = likelihood(data, model, values, settings=settings)
            return found.pairs, found.uniform

        fixed = {**default_values(model, settings), **given}
        return Problem(text, tuple(chosen), fixed, evaluate, data, data.episodes)

    @staticmethod
    def of_choices(
        data: ReplayData, replay: bool, free: Sequence[str], settings: EVBSettings
    ) -> Problem:
        """The fit of Q-learning to choices."""
        _check_free(free, (*CHOICE_PARAMETERS, "lapse"), {}, "choices")
        uniform = np.full(len(data.steps), -math.log(data.world.n_actions))

        def evaluate(values: Mapping[str, float]) -> tuple[FloatArray, FloatArray]:
            learned = {name: value for name, value in values.items() if name != "transition_rate"}
            found = likelihood(data, "evb", learned, settings=settings, taught=replay)
            return found.choices, uniform

        text = "choices, with replay" if replay else "choices, without replay"
        fixed = {name: default_values("evb", settings)[name] for name in CHOICE_PARAMETERS}
        fixed["lapse"] = 0.0
        return Problem(text, tuple(free), fixed, evaluate, data, data.steps["episode"])

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
        bounds = [(scaled(name, PARAMETERS[name].low), scaled(name, PARAMETERS[name].high))
                  for name in names]  # fmt: skip

        def point(x: FloatArray) -> dict[str, float]:
            inside = np.clip(x, *np.array(bounds).T) if names else x
            return {**held, **{n: unscaled(n, v) for n, v in zip(names, inside, strict=True)}}

        def loss(x: FloatArray) -> float:
            return -self.total(point(x), weights)

        x = np.array([scaled(name, first[name]) for name in names])
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


def scaled(name: str, value: float) -> float:
    """A parameter on the scale of the search."""
    return math.log10(value) if PARAMETERS[name].log else value


def unscaled(name: str, value: float) -> float:
    """A parameter from the scale of the search, inside its limits."""
    found = 10.0**value if PARAMETERS[name].log else float(value)
    return min(max(found, PARAMETERS[name].low), PARAMETERS[name].high)


def _drawn(name: str, rng: np.random.Generator) -> float:
    """A start."""
    own = PARAMETERS[name]
    high = own.high if own.high <= 1.0 else max(_STARTS_UP_TO, own.default)
    return unscaled(name, rng.uniform(scaled(name, own.low), scaled(name, high)))
