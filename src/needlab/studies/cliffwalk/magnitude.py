"""Probability or magnitude: need in the sampling, or in the size of the update.

The question of the paper's section 6. Scaled by need over its mean, the expected update is that of
sampling by gain^α need; the two differ in variance only. Weights matter in minibatches above 1
only, so there they correct for gain and need, or for gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from needlab.core.tables import Table, long_table
from needlab.studies.cliffwalk.cases import (
    Case,
    CaseResult,
    cases_of,
    centre_interval,
    interval_columns,
)
from needlab.studies.cliffwalk.settings import (
    CliffwalkSettings,
    Corrected,
    Method,
    cliffwalk_preset,
)

BATCH = 8
WAYS: dict[str, Any] = {"per": "gain alone", "need": "sampled", "need-magnitude": "scaled"}


class Variant(NamedTuple):
    """One way to use need."""

    preset: str
    method: Method
    need_alpha: float
    minibatch: int
    beta: float
    weights_correct: Corrected

    @property
    def label(self) -> str:
        """Its name among cases."""
        return "/".join(map(str, self))

    def settings(self) -> CliffwalkSettings:
        """The preset with this variant's values.

        A minibatch takes the mean of its steps with a step size of 1: a transition sampled
        once moves Q by 1/8 of its error, one that fills the batch by all of it.
        """
        batch: dict[str, Any] = {"batch_step": "mean", "step_size": 1.0}
        own = self._asdict() | (batch if self.minibatch > 1 else {})
        return cliffwalk_preset(own.pop("preset"), **{k: own[k] for k in own if k != "method"})


def variants_of(preset: str) -> list[Variant]:
    """All that are compared: exponents 0.6 and 1, batches of 1 and 8, β 0.4 and 1."""
    variants = []
    for batch in ((1, 0.4), (BATCH, 0.4), (BATCH, 1.0)):
        variants.append(Variant(preset, "per", 0.0, *batch, "gain"))
        for exponent in (0.6, 1.0):
            variants.append(Variant(preset, "need", exponent, *batch, "both"))
            if batch[0] > 1:
                variants.append(Variant(preset, "need", exponent, *batch, "gain"))
            variants.append(Variant(preset, "need-magnitude", exponent, *batch, "gain"))
    return variants


def magnitude_cases(
    variants: Sequence[Variant], sizes: Sequence[int], trials: int | None, seed: int
) -> list[Case]:
    """The trials of all variants."""
    return [
        case
        for v in variants
        for case in cases_of(v.label, v.settings(), (v.method,), sizes, trials, seed)
    ]


def magnitude_table(variants: Sequence[Variant], results: Sequence[CaseResult], seed: int) -> Table:
    """``magnitude.csv``: transitions replayed until converged, for each variant and size."""
    by_label = {variant.label: variant for variant in variants}
    rows = {}
    for r in results:
        v = by_label[r.label]
        rows[*v._replace(method=WAYS[v.method]), r.states] = {
            **interval_columns(centre_interval(r, v.settings().centre, seed), "updates"),
            "trials": len(r.converged),
            "not_converged": r.censored,
        }
    names = "preset", "need", "need_alpha", "minibatch", "beta", "weights_correct", "states"
    return long_table(names, rows)
