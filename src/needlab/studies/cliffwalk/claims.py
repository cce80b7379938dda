"""What figure 3 says: the paper's claims, which setting decides, and probability or magnitude.

Each difference between two presets is changed alone. And need is put into the sampling or into the
size of the update, the question of the paper's section 6: scaled by need over its mean, the
expected update is that of sampling by gain^alpha need; the two differ in variance only. Weights
matter in minibatches above 1 only, so there they correct for gain and need, or for gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from needlab.core.presets import changed
from needlab.core.tables import Table, long_table
from needlab.report.claims import Claim, Verdict, published_claim
from needlab.report.data import shipped_table
from needlab.report.statistics import Interval
from needlab.studies.cliffwalk.cases import (
    SHOWN_STATE,
    CaseResult,
    Comparison,
    center_interval,
    compare,
    interval_columns,
)
from needlab.studies.cliffwalk.settings import (
    CliffwalkSettings,
    Corrected,
    Method,
    cliffwalk_preset,
    differences,
    in_words,
)

SECTION = "paper, section 4.2 and fig. 3"


def claims_of(
    results: Sequence[CaseResult], need_rows: Table, preset: str, seed: int
) -> list[Claim]:
    """The claims table of one preset."""
    center = cliffwalk_preset(preset).center

    def compared(one: str, other: str) -> Comparison:
        return compare(results, preset, one, other, center, seed)

    def claim(
        statement: str, measured: str, verdict: Verdict, *detail: str, source: str = SECTION
    ) -> Claim:
        return Claim(statement, source, measured, verdict, preset, " ".join(filter(None, detail)))

    def fewer(one: str, other: str, statement: str, source: str = SECTION) -> list[Claim]:
        """Over all sizes together, and at the largest, where it matters most."""
        both = compared(one, other)
        size, overall, last = both.sizes[-1], both.overall(), both.at(both.sizes[-1])
        ratio, stopped = f"updates of {one} / updates of {other}", both.censoring()
        whole = f"{ratio}: {overall.text()}, geometric mean over sizes"
        return [
            claim(
                f"{statement}: all sizes together.", whole, overall.verdict("below"),
                both.by_size(), stopped, source=source,
            ),
            claim(
                f"{statement}: at {size} states.", f"{ratio}: {last.text()}",
                last.verdict("below"), stopped, source=source,
            ),
        ]  # fmt: skip

    need = "PER with need takes fewer updates than PER", SECTION
    if preset == "corrected":
        # The paper says nothing about the authors' settings without their faults.
        need = f"{need[0]}, once the faults in the authors' M are corrected", "beyond the paper"
    found = fewer("per", "uniform", "PER takes fewer updates than uniform replay")
    uniform = compared("uniform", "per")
    if len(uniform.sizes) > 1:
        growth = uniform.growth()
        found.append(
            claim(
                "How many times more updates uniform replay takes than PER grows with n.",
                f"the ratio is multiplied by {growth.text()} with each state more",
                growth.verdict("above"), uniform.by_size(), uniform.censoring(),
            )
        )  # fmt: skip
    found += fewer("need", "per", *need)
    found += fewer("need-random", "per", "Even random need takes fewer updates than PER")
    found += fewer(
        "need-optimal", "need",
        "Optimal need takes fewer than learned need, and so gets closer to the oracle",
    )  # fmt: skip
    oracle = compared("need-optimal", "oracle")
    largest = oracle.sizes[-1]
    last, learned = oracle.at(largest), compared("need", "oracle").at(largest)
    closed = compared("need-optimal", "per").share_of(compared("oracle", "per"), largest)
    found.append(
        claim(
            f"The oracle stays a lower bound of optimal need: at {largest} states.",
            f"updates of need-optimal / updates of oracle: {last.text()}",
            last.verdict("above"), oracle.by_size(),
            f"Learned need takes {learned.estimate:.3g} times the oracle's updates. Share of PER's "
            "distance to the oracle that optimal need closes, in logarithms of updates: "
            f"{closed.text()}.",
            oracle.censoring(),
        )
    )  # fmt: skip
    found.append(need_row_claim(need_rows, preset))
    return [*found, _published(results)] if preset == "released" else found


def need_row_claim(need_rows: Table, preset: str) -> Claim:
    """Panel 3: low need before the current state, high after it, falling with distance."""
    row = need_rows.where(preset=preset, method="need")["occupancy"]
    current = min(SHOWN_STATE, len(row) - 1)
    before, after = row[:current], row[current:]
    falls = bool((np.diff(after) < 0.0).all())
    return Claim(
        statement=f"The learned need of state {current + 1} is low before it, high after it, and "
        "falls with distance",
        source=f"{SECTION}, panel 3",
        measured=f"before it at most {before.max():.2f}; after it from {after[0]:.2f} to "
        f"{after.min():.2f}, {'falling' if falls else 'not falling'} throughout",
        verdict="holds" if before.max() < after.min() and falls else "does not hold",
        preset=preset,
        detail=f"M at the end of a trial, the median over trials, {len(row)} states.",
    )


def _published(results: Sequence[CaseResult]) -> Claim:
    """How far the means of ``released`` lie from the points of the published figure."""
    table = shipped_table("fig3_published")
    columns = (table[name].tolist() for name in ("method", "states", "updates"))
    published = {(method, int(n)): updates for method, n, updates in zip(*columns, strict=True)}
    ours = {r.key[1:]: float(r.counted.mean()) for r in results if r.label == "released"}
    ratios = np.array([ours[key] / published[key] for key in published if key in ours])
    words = {"source": "paper, fig. 3", "preset": "released"}
    return published_claim(ratios, "ours / published", "were read off the figure", **words)


# What decides: each setting alone ---------------------------------------------------------------

DECIDING_METHODS: tuple[Method, ...] = ("per", "need", "need-random", "need-optimal")
COMPARED: tuple[tuple[Method, Method], ...] = (
    ("need", "per"),
    ("need-random", "per"),
    ("need-optimal", "need"),
)
ORDER = ("released", "corrected", "printed")
"""Presets are compared with the next one in this order."""
NOTHING = "nothing"
_NOT_SETTINGS = ("sizes", "repetitions", "center", "buffer_axis")


class Change(NamedTuple):
    """A preset with one setting taken from another preset; ``setting`` may be nothing."""

    base: str
    towards: str
    setting: str
    value: str

    @property
    def label(self) -> str:
        """The name of its cases."""
        return f"{self.base}, {self.setting} = {self.value}" if self.value else self.base


class Effect(NamedTuple):
    """What one change does to one comparison at one size."""

    change: Change
    one: Method
    other: Method
    states: int
    ratio: Interval
    verdict: Verdict
    trials: int
    not_converged: int


def changes_between(presets: Sequence[str]) -> list[tuple[Change, CliffwalkSettings]]:
    """Each preset as it is, and with each single setting of its neighbor; settings included."""
    chosen = [name for name in ORDER if name in presets]
    found: dict[str, tuple[Change, CliffwalkSettings]] = {}
    for a, b in pairwise(chosen):
        for base, towards in ((a, b), (b, a)):
            settings = cliffwalk_preset(base)
            plain = Change(base, towards, NOTHING, "")
            found.setdefault(plain.label, (plain, settings))
            for name, (_, value) in differences(base, towards).items():
                if name not in _NOT_SETTINGS:
                    change = Change(base, towards, name, _text(value))
                    found.setdefault(change.label, (change, changed(settings, **{name: value})))
    return list(found.values())


def _text(value: object) -> str:
    if isinstance(value, float):
        return "the task's" if math.isnan(value) else f"{value:g}"
    return str(value)


def effects_of(
    changes: Sequence[tuple[Change, CliffwalkSettings]], results: Sequence[CaseResult], seed: int
) -> list[Effect]:
    """Every change's effect on every comparison at every size."""
    effects = []
    for change, settings in changes:
        ours = [r for r in results if r.label == change.label]
        for one, other in COMPARED:
            for states in sorted({r.states for r in ours}):
                here = [r for r in ours if r.states == states]
                single = compare(here, change.label, one, other, settings.center, seed)
                ratio, stopped = single.at(states), sum(single.censored)
                found = ratio, ratio.verdict("below"), single.trials, stopped
                effects.append(Effect(change, one, other, states, *found))
    return effects


def deciding_table(effects: Sequence[Effect]) -> Table:
    """``deciding.csv``: the effect of each change on each comparison."""
    return long_table(
        ("preset", "setting", "value", "value_of", "compared", "states"),
        (
            (
                (c.base, c.setting, c.value, c.towards if c.value else c.base, compared, e.states),
                {
                    **{n: float(f"{end:.4g}") for n, end in e.ratio.columns("ratio").items()},
                    "fewer": e.verdict,
                    "trials": e.trials,
                    "not_converged": e.not_converged,
                },
            )
            for e in effects
            for c, compared in [(e.change, f"{e.one} / {e.other}")]
        ),
    )


def sentences(effects: Sequence[Effect]) -> list[str]:
    """For each comparison on which two presets disagree at the largest size: what decides it."""
    found = []
    largest = max(effect.states for effect in effects)
    here = [effect for effect in effects if effect.states == largest]
    bases = list(dict.fromkeys(effect.change.base for effect in here))
    plain = {(e.change.base, e.one): e for e in here if e.change.setting == NOTHING}
    for one, other in COMPARED:
        for base in bases:
            changed = [e for e in here if e.one == one and e.change.base == base and e.change.value]
            for towards in dict.fromkeys(e.change.towards for e in changed):
                before, after = plain[base, one], plain[towards, one]
                if {before.verdict, after.verdict} != {"holds", "does not hold"}:
                    continue
                candidates = [e for e in changed if e.change.towards == towards]
                flips = [e for e in candidates if e.verdict == after.verdict]
                strongest = max(candidates, key=lambda e: _moved(before, e, after))
                found.append(
                    f"At {largest} states {one} takes {before.ratio.estimate:.2f} times the "
                    f"updates of {other} under {base}, and {after.ratio.estimate:.2f} times "
                    f"under {towards}. "
                    + (
                        f"Changed alone in {base}, these settings of {towards} reverse it: "
                        + "; ".join(map(_with, flips))
                        if flips
                        else f"No setting of {towards} alone reverses {base}; the strongest is "
                        + _with(strongest)
                    )
                    + "."
                )
    return found


def _moved(before: Effect, changed: Effect, after: Effect) -> float:
    """How far a change moves the log ratio, counted towards where the other preset has it."""
    start = math.log(before.ratio.estimate)
    towards = math.copysign(1.0, math.log(after.ratio.estimate) - start)
    return towards * (math.log(changed.ratio.estimate) - start)


def _with(effect: Effect) -> str:
    ratio = effect.ratio
    return (
        f"{in_words(effect.change.setting, effect.change.value)} "
        f"(ratio {ratio.estimate:.2f}, 95% interval {ratio.low:.2f} to {ratio.high:.2f})"
    )


# Need in the probability or in the size of the update --------------------------------------------

BATCH = 8
WAYS: dict[str, str] = {"per": "gain alone", "need": "sampled", "need-magnitude": "scaled"}


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
        """The name of its cases."""
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


def magnitude_table(variants: Sequence[Variant], results: Sequence[CaseResult], seed: int) -> Table:
    """``magnitude.csv``: transitions replayed until converged, for each variant and size."""
    by_label = {variant.label: variant for variant in variants}
    rows = {}
    for r in results:
        v = by_label[r.label]
        rows[v.preset, WAYS[v.method], *v[2:], r.states] = {
            **interval_columns(center_interval(r, v.settings().center, seed), "updates"),
            "trials": len(r.converged),
            "not_converged": r.censored,
        }
    names = "preset", "need", "need_alpha", "minibatch", "beta", "weights_correct", "states"
    return long_table(names, rows)
