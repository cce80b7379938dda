"""Claims: what the paper says, what was measured, and whether it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias, get_args

import numpy as np

from needlab.report.statistics import Interval
from needreplay._core.errors import NeedReplayError, unknown
from needreplay._core.types import FloatArray
from needreplay.need import LOWEST_AUC, accurate_need

Verdict: TypeAlias = Literal["holds", "does not hold", "undecided"]
Direction: TypeAlias = Literal["above", "below"]

DOUBTS: dict[Verdict, str] = {
    "holds": "",
    "does not hold": "need was not accurate",
    "undecided": "whether need was accurate was not measured",
}
"""The doubt about a comparison of need, by the verdict on need itself."""


@dataclass(frozen=True)
class Claim:
    """One statement and the measurement that tests it.

    Args:
        statement: what is claimed, in a sentence.
        source: where: "paper, fig. 2", "Sutton & Barto, fig. 8.2".
        measured: what was found, with its interval.
        verdict: whether the claim holds.
        preset: the settings under which it was measured.
        detail: how the measurement was made, or what else to know.
        doubt: why nothing can be concluded, whatever the verdict; empty: the verdict stands.
        figure: the picture that shows it, by its file's stem; empty: the first one.
    """

    statement: str
    source: str
    measured: str
    verdict: Verdict
    preset: str
    detail: str = ""
    doubt: str = ""
    figure: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str):
                raise NeedReplayError(f"A claim's {field.name} must be text, not {value!r}.")
        if self.verdict not in get_args(Verdict):
            raise unknown("verdict", self.verdict, get_args(Verdict))

    @property
    def conclusion(self) -> str:
        """What the claim counts as: its verdict, unless there is a doubt."""
        return "concludes nothing" if self.doubt else self.verdict

    @property
    def full_verdict(self) -> str:
        """The verdict with its doubt.

        >>> words = ("PER-SR is better", "paper", "+1.0", "holds", "corrected")
        >>> Claim(*words, doubt="need was not accurate").full_verdict
        'holds, but need was not accurate'
        """
        return f"{self.verdict}, but {self.doubt}" if self.doubt else self.verdict


CONCLUSIONS = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "undecided": ("undecided", "undecided"),
    "concludes nothing": ("concludes nothing", "conclude nothing"),
}
"""What a claim can count as, in the order of the list, in words for one and for more."""


def tally(claims: Iterable[Claim]) -> dict[str, str]:
    """How many claims count as what, in words: {"holds": "3 hold", "undecided": "1 undecided"}."""
    found = Counter(claim.conclusion for claim in claims)
    return {
        name: f"{found[name]} {words[found[name] > 1]}"
        for name, words in CONCLUSIONS.items()
        if found[name]
    }


def tallies(claims: Sequence[Claim]) -> dict[str, dict[str, str]]:
    """``tally`` for each preset: results under different settings are not added up."""
    return {
        preset: tally(claim for claim in claims if claim.preset == preset)
        for preset in dict.fromkeys(claim.preset for claim in claims)
    }


def need_verdict(auc: float, baseline: float) -> Verdict:
    """Whether need was accurate (``accurate_need``); undecided if that is not known.

    Below ``LOWEST_AUC`` it was not, whatever trivial scores reach.
    """
    if auc < LOWEST_AUC:
        return "does not hold"
    if np.isnan(auc) or np.isnan(baseline):
        return "undecided"
    return "holds" if accurate_need(auc, baseline) else "does not hold"


def verdict_of(interval: Interval, threshold: float, direction: Direction) -> Verdict:
    """Whether the quantity lies above (or below) ``threshold``; undecided where both could be."""
    if direction not in get_args(Direction):
        raise unknown("direction", direction, get_args(Direction))
    if interval.low > threshold:
        return "holds" if direction == "above" else "does not hold"
    if interval.high < threshold:
        return "holds" if direction == "below" else "does not hold"
    return "undecided"


def tested_verdict(p: float, as_claimed: bool) -> Verdict:
    """The verdict of a two-sided test: undecided from p = 0.05 on, else by the direction found."""
    if p < 0.05:
        return "holds" if as_claimed else "does not hold"
    return "undecided"


def less_claim(difference: Interval, said: str, *, digits: int = 3, **words: str) -> Claim:
    """The claim that a difference is below 0; ``said`` is what it is a difference of."""
    measured = f"{said}: {difference.text(digits)}"
    return Claim(measured=measured, verdict=verdict_of(difference, 0.0, "below"), **words)


def published_claim(ratios: FloatArray, said: str, points: str, **words: str) -> Claim:
    """The claim that our means lie on a published figure; ``ratios`` are ours / its points."""
    near = int((np.abs(np.log(ratios)) < np.log(1.25)).sum())
    return Claim(
        statement="Our means lie on the published figure",
        measured=f"{said}: median {np.median(ratios):.2f}, from {ratios.min():.2f} to "
        f"{ratios.max():.2f}; {near} of {len(ratios)} points within a quarter",
        verdict="holds" if near >= 0.9 * len(ratios) else "does not hold",
        detail=f"Holds: nine tenths of the points lie within a quarter. The published points "
        f"{points}.",
        **words,
    )


def claim_from(record: object) -> Claim:
    """The claim that a JSON record holds; a damaged one raises."""
    names = [field.name for field in fields(Claim)]
    if not isinstance(record, Mapping) or not set(record) <= set(names):
        raise NeedReplayError(f"A claim is a record of {', '.join(names)}.")
    missing = sorted(set(names) - set(record) - {"detail", "doubt", "figure"})
    if missing:
        raise NeedReplayError(f"A claim lacks its {', '.join(missing)}.")
    return Claim(**record)
