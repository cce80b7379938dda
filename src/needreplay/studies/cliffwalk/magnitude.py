"""Probability or magnitude: need in the sampling, or in the size of the update.

The question of the paper's section 6. Scaled by need over its mean, the expected update is that of
sampling by gain^α need; the two differ in variance only. Weights matter in minibatches above 1
only, so there they correct for gain and need, or for gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from needreplay.core.tables import Table, long_table
from needreplay.studies.cliffwalk.cases import (
    Case,
    CaseResult,
    cases_of,
    centre_interval,
    interval_columns,
)
from needreplay.studies.cliffwalk.settings import (
    CliffwalkSettings,
    Corrected,
    Method,
    cliffwalk_preset,
)

BATCH = 8
WAYS: dict[Method, str] = {"per": "gain alone", "need": "sampled", "need-magnitude": "scaled"}


@dataclass(frozen=True)
class Variant:
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
        return "/".join(map(str, (self.preset, *self._cells())))

    def _cells(self) -> tuple[object, ...]:
        return self.method, self.need_alpha, self.minibatch, self.beta, self.weights_correct

    def settings(self) -> CliffwalkSettings:
        """The preset with this variant's values.

        A minibatch takes the mean of its steps with a step size of 1: a transition sampled
        once moves Q by 1/8 of its error, one that fills the batch by all of it.
        """
        changed = replace(
            cliffwalk_preset(self.preset),
            need_alpha=self.need_alpha,
            beta=self.beta,
            weights_correct=self.weights_correct,
        )
        if self.minibatch == 1:
            return changed
        return replace(changed, minibatch=self.minibatch, batch_step="mean", step_size=1.0)


def variants_of(preset: str) -> list[Variant]:
    """All that are compared: exponents 0.6 and 1, batches of 1 and 8, β 0.4 and 1."""
    variants = []
    for minibatch, beta in ((1, 0.4), (BATCH, 0.4), (BATCH, 1.0)):
        variants.append(Variant(preset, "per", 0.0, minibatch, beta, "gain"))
        for exponent in (0.6, 1.0):
            corrections: tuple[Corrected, ...] = ("both", "gain") if minibatch > 1 else ("both",)
            variants += [
                Variant(preset, "need", exponent, minibatch, beta, correction)
                for correction in corrections
            ]
            variants.append(Variant(preset, "need-magnitude", exponent, minibatch, beta, "gain"))
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
        key = v.preset, WAYS[v.method], v.need_alpha, v.minibatch, v.beta, v.weights_correct
        rows[*key, r.states] = {
            **interval_columns(centre_interval(r, v.settings().centre, seed), "updates"),
            "trials": len(r.converged),
            "not_converged": r.censored,
        }
    names = "preset", "need", "need_alpha", "minibatch", "beta", "weights_correct", "states"
    return long_table(names, rows.items())
