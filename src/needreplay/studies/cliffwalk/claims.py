"""The paper's claims of figure 3 and what was measured, per preset."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from needreplay.core.tables import Table
from needreplay.report.claims import Claim, Verdict
from needreplay.report.data import shipped_table
from needreplay.studies.cliffwalk.cases import SHOWN_STATE, CaseResult
from needreplay.studies.cliffwalk.compare import Comparison, compare
from needreplay.studies.cliffwalk.settings import cliffwalk_preset

SECTION = "paper, section 4.2 and fig. 3"
BEYOND = "beyond the paper"


def claims_of(
    results: Sequence[CaseResult], need_rows: Table, preset: str, seed: int
) -> list[Claim]:
    """The claims table of one preset."""
    centre = cliffwalk_preset(preset).centre

    def held(one: str, other: str) -> Comparison:
        return compare(results, preset, one, other, centre, seed)

    # The paper says nothing about the authors' settings without their faults.
    mended = preset == "corrected"
    need_fewer = "PER with need takes fewer updates than PER"
    need_mended = f"{need_fewer}, once the faults in the authors' M are mended"
    return [
        *_fewer(held("per", "uniform"), preset, "PER takes fewer updates than uniform replay"),
        *_growing(held("uniform", "per"), preset),
        *_fewer(
            held("need", "per"),
            preset,
            need_mended if mended else need_fewer,
            BEYOND if mended else SECTION,
        ),
        *_fewer(
            held("need-random", "per"), preset, "Even random need takes fewer updates than PER"
        ),
        *_fewer(
            held("need-optimal", "need"),
            preset,
            "Optimal need takes fewer than learned need, and so gets closer to the oracle",
        ),
        _against_oracle(held, preset),
        need_row_claim(need_rows, preset),
        *published_claim(results, preset),
    ]


def need_row_claim(need_rows: Table, preset: str) -> Claim:
    """Panel 3: low need before the current state, high after it, falling with distance."""
    own = (need_rows["preset"] == preset) & (need_rows["method"] == "need")
    row = need_rows["occupancy"][own].astype(np.float64)
    current = min(SHOWN_STATE, len(row) - 1)
    before, after = row[:current], row[current:]
    apart = before.max() < after.min()
    falls = bool((np.diff(after) < 0.0).all())
    verdict: Verdict = "holds" if apart and falls else "does not hold"
    return Claim(
        statement=f"The learned need of state {current + 1} is low before it, high after it, and "
        "falls with distance",
        source="paper, section 4.2 and fig. 3, panel 3",
        measured=f"before it at most {before.max():.2f}; after it from {after[0]:.2f} to "
        f"{after.min():.2f}, {'falling' if falls else 'not falling'} throughout",
        verdict=verdict,
        preset=preset,
        detail=f"M at the end of a trial, the median over trials, {len(row)} states.",
    )


def published_claim(results: Sequence[CaseResult], preset: str) -> list[Claim]:
    """How far the means lie from the points of the published figure; ``released`` alone."""
    if preset != "released":
        return []
    table = shipped_table("fig3_published")
    points = zip(
        table["method"].tolist(), table["states"].tolist(), table["updates"].tolist(), strict=True
    )
    published = {(method, int(states)): float(updates) for method, states, updates in points}
    ours = {(r.method, r.states): float(r.counted.mean()) for r in results if r.label == preset}
    ratios = np.array([ours[key] / published[key] for key in published if key in ours])
    near = int((np.abs(np.log(ratios)) < np.log(1.25)).sum())
    return [
        Claim(
            statement="Our means lie on the published figure",
            source="paper, fig. 3",
            measured=f"ours / published: median {np.median(ratios):.2f}, from {ratios.min():.2f} "
            f"to {ratios.max():.2f}; {near} of {len(ratios)} points within a quarter",
            verdict="holds" if near >= 0.9 * len(ratios) else "does not hold",
            preset=preset,
            detail="Holds: nine tenths of the points lie within a quarter. The published points "
            "were read off the figure.",
        )
    ]


def _fewer(held: Comparison, preset: str, statement: str, source: str = SECTION) -> list[Claim]:
    """The claim over all sizes together, and at the largest, where it matters most."""
    largest = held.sizes[-1]
    overall, last = held.overall(), held.at(largest)
    ratio = f"updates of {held.one} / updates of {held.other}"
    detail = " ".join(filter(None, (held.by_size(), held.censoring())))
    return [
        Claim(
            statement=f"{statement}: all sizes together.",
            source=source,
            measured=f"{ratio}: {overall.text()}, geometric mean over sizes",
            verdict=overall.verdict("below"),
            preset=preset,
            detail=detail,
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
        detail=" ".join(filter(None, (held.by_size(), held.censoring()))),
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
        detail=" ".join(filter(None, (held.by_size(), share, held.censoring()))),
    )
