"""The paper's claims of figure 3 and what was measured, per preset."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from needlab.core.tables import Table
from needlab.report.claims import Claim, published_claim
from needlab.report.data import shipped_table
from needlab.studies.cliffwalk.cases import SHOWN_STATE, CaseResult
from needlab.studies.cliffwalk.compare import Comparison, compare
from needlab.studies.cliffwalk.settings import cliffwalk_preset

SECTION = "paper, section 4.2 and fig. 3"


def claims_of(
    results: Sequence[CaseResult], need_rows: Table, preset: str, seed: int
) -> list[Claim]:
    """The claims table of one preset."""
    centre = cliffwalk_preset(preset).centre

    def held(one: str, other: str) -> Comparison:
        return compare(results, preset, one, other, centre, seed)

    need = "PER with need takes fewer updates than PER", SECTION
    if preset == "corrected":
        # The paper says nothing about the authors' settings without their faults.
        need = f"{need[0]}, once the faults in the authors' M are mended", "beyond the paper"
    random = "Even random need takes fewer updates than PER"
    optimal = "Optimal need takes fewer than learned need, and so gets closer to the oracle"
    return [
        *_fewer(held("per", "uniform"), preset, "PER takes fewer updates than uniform replay"),
        *_growing(held("uniform", "per"), preset),
        *_fewer(held("need", "per"), preset, *need),
        *_fewer(held("need-random", "per"), preset, random),
        *_fewer(held("need-optimal", "need"), preset, optimal),
        _against_oracle(held, preset),
        need_row_claim(need_rows, preset),
        *_published(results, preset),
    ]


def need_row_claim(need_rows: Table, preset: str) -> Claim:
    """Panel 3: low need before the current state, high after it, falling with distance."""
    row = need_rows.where(preset=preset, method="need")["occupancy"]
    current = min(SHOWN_STATE, len(row) - 1)
    before, after = row[:current], row[current:]
    apart = before.max() < after.min()
    falls = bool((np.diff(after) < 0.0).all())
    return Claim(
        statement=f"The learned need of state {current + 1} is low before it, high after it, and "
        "falls with distance",
        source="paper, section 4.2 and fig. 3, panel 3",
        measured=f"before it at most {before.max():.2f}; after it from {after[0]:.2f} to "
        f"{after.min():.2f}, {'falling' if falls else 'not falling'} throughout",
        verdict="holds" if apart and falls else "does not hold",
        preset=preset,
        detail=f"M at the end of a trial, the median over trials, {len(row)} states.",
    )


def _published(results: Sequence[CaseResult], preset: str) -> list[Claim]:
    """How far the means lie from the points of the published figure; ``released`` alone."""
    if preset != "released":
        return []
    table = shipped_table("fig3_published")
    columns = (table[name].tolist() for name in ("method", "states", "updates"))
    published = {(method, int(n)): updates for method, n, updates in zip(*columns, strict=True)}
    ours = {(r.method, r.states): float(r.counted.mean()) for r in results if r.label == preset}
    ratios = np.array([ours[key] / published[key] for key in published if key in ours])
    words = {"source": "paper, fig. 3", "preset": preset}
    return [published_claim(ratios, "ours / published", "were read off the figure", **words)]


def _fewer(held: Comparison, preset: str, statement: str, source: str = SECTION) -> list[Claim]:
    """The claim over all sizes together, and at the largest, where it matters most."""
    largest = held.sizes[-1]
    overall, last = held.overall(), held.at(largest)
    ratio = f"updates of {held.one} / updates of {held.other}"
    return [
        Claim(
            statement=f"{statement}: all sizes together.",
            source=source,
            measured=f"{ratio}: {overall.text()}, geometric mean over sizes",
            verdict=overall.verdict("below"),
            preset=preset,
            detail=_detail(held),
        ),
        Claim(
            statement=f"{statement}: at {largest} states.",
            source=source,
            measured=f"{ratio}: {last.text()}",
            verdict=last.verdict("below"),
            preset=preset,
            detail=held.censoring(),
        ),
    ]


def _growing(held: Comparison, preset: str) -> list[Claim]:
    """No claim where there is only one size."""
    if len(held.sizes) < 2:
        return []
    growth = held.growth()
    claim = Claim(
        statement="How many times more updates uniform replay takes than PER grows with n.",
        source=SECTION,
        measured=f"the ratio is multiplied by {growth.text()} with each state more",
        verdict=growth.verdict("above"),
        preset=preset,
        detail=_detail(held),
    )
    return [claim]


def _against_oracle(between: Callable[[str, str], Comparison], preset: str) -> Claim:
    """The oracle as a lower bound, and the share of PER's distance to it that is closed."""
    held = between("need-optimal", "oracle")
    largest = held.sizes[-1]
    last, need = held.at(largest), between("need", "oracle").at(largest)
    closed = between("need-optimal", "per").share_of(between("oracle", "per"), largest)
    share = (
        f"Learned need takes {need.estimate:.3g} times the oracle's updates. Share of PER's "
        "distance to the oracle that optimal need closes, in logarithms of updates: "
        f"{closed.text()}."
    )
    return Claim(
        statement=f"The oracle stays a lower bound of optimal need: at {largest} states.",
        source=SECTION,
        measured=f"updates of need-optimal / updates of oracle: {last.text()}",
        verdict=last.verdict("above"),
        preset=preset,
        detail=_detail(held, share),
    )


def _detail(held: Comparison, *also: str) -> str:
    return " ".join(filter(None, (held.by_size(), *also, held.censoring())))
