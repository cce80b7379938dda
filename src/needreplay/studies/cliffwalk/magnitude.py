"""Probability or magnitude: need in the draw, or in the size of the update, like for like.

The paper's section 6 asks. Scaled by need over its mean, the expected update is that of a draw by
gain^α need; the two differ in spread only. Weights act in minibatches above 1 alone, so there they
correct for gain and need, or for gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from needreplay.core.tables import Table
from needreplay.studies.cliffwalk.compare import centre_interval
from needreplay.studies.cliffwalk.runs import Found, Job, jobs_of
from needreplay.studies.cliffwalk.settings import (
    CliffwalkSettings,
    Corrected,
    Method,
    cliffwalk_preset,
)

BATCH = 8
WAYS: dict[Method, str] = {"per": "gain alone", "need": "drawn", "need-magnitude": "scaled"}


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
        """Its name among jobs."""
        return "/".join(map(str, (self.preset, *self._cells())))

    def _cells(self) -> tuple[object, ...]:
        return self.method, self.need_alpha, self.minibatch, self.beta, self.weights_correct

    def settings(self) -> CliffwalkSettings:
        """The preset with this variant's values.

        A minibatch takes the mean of its steps with a step size of 1: a transition drawn alone
        moves Q by 1/8 of its error, one that fills the batch by all of it.
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


def magnitude_jobs(
    variants: Sequence[Variant], sizes: Sequence[int], trials: int | None, seed: int
) -> list[Job]:
    """The trials of all variants."""
    jobs = []
    for variant in variants:
        settings = variant.settings()
        jobs += jobs_of(
            variant.label, settings, (variant.method,), sizes, trials or settings.repetitions, seed
        )
    return jobs


def magnitude_table(variants: Sequence[Variant], found: Sequence[Found], seed: int) -> Table:
    """``magnitude.csv``: transitions replayed until converged, for each variant and size."""
    by_label = {variant.label: variant for variant in variants}
    rows = [(by_label[f.label], f) for f in found]
    intervals = [centre_interval(f, v.settings().centre, seed) for v, f in rows]
    return Table(
        {
            "preset": [v.preset for v, _ in rows],
            "need": [WAYS[v.method] for v, _ in rows],
            "need_alpha": [v.need_alpha for v, _ in rows],
            "minibatch": [v.minibatch for v, _ in rows],
            "beta": [v.beta for v, _ in rows],
            "weights_correct": [v.weights_correct for v, _ in rows],
            "states": [f.states for _, f in rows],
            "updates": [round(i.estimate, 1) for i in intervals],
            "low": [round(i.low, 1) for i in intervals],
            "high": [round(i.high, 1) for i in intervals],
            "trials": [len(f.trials) for _, f in rows],
            "not_converged": [f.censored for _, f in rows],
        }
    )
