"""What a fit found: estimates, a fitted model, a comparison of models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from needlab.core.tables import Table
from needlab.tabular.fit.data import ReplayData
from needreplay._core.errors import counted
from needreplay._core.types import FloatArray


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
    """The model as it was named."""
    estimates: tuple[Estimate, ...]
    values: Mapping[str, float]
    """The values of all parameters, fitted or not."""
    log_likelihood: float
    uniform: float
    """The log-likelihood if everything that could happen is as likely."""
    observations: int
    starts: FloatArray
    """The log-likelihood that each start of the search ended with, best first."""
    data: ReplayData = field(repr=False)
    by_observation: FloatArray = field(repr=False)
    """The log-likelihood of every observation."""
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
    """One fit for each model, on all data."""
    held_out: FloatArray
    """[model, fold]: the log-likelihood of the episodes that were left out of the search."""
    folds: tuple[int, ...]
    """How many observations each fold has."""

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
