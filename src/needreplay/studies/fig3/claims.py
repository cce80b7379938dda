"""What the paper claims of figure 3, held against what was measured, per preset."""

from __future__ import annotations

from collections.abc import Sequence

from needreplay.report.claims import Claim, verdict_of
from needreplay.studies.fig3.compare import Comparison, compare
from needreplay.studies.fig3.runs import Found
from needreplay.tabular.cliffwalk_settings import cliffwalk_preset

SECTION = "paper, section 4.2 and fig. 3"


def claims_of(found: Sequence[Found], preset: str, seed: int) -> list[Claim]:
    """The claims table of one preset."""
    centre = cliffwalk_preset(preset).centre

    def held(one: str, other: str) -> Comparison:
        return compare(found, preset, one, other, centre, seed)

    true_occupancy = preset != "released"
    need_beats = (
        "PER with need takes fewer updates than PER, now that M is a true occupancy"
        if true_occupancy
        else "PER with need takes fewer updates than PER"
    )
    return [
        *_fewer(held("per", "uniform"), preset, "PER takes fewer updates than uniform replay"),
        _growing(held("uniform", "per"), preset),
        *_fewer(held("need", "per"), preset, need_beats),
        *_fewer(
            held("need-random", "per"), preset, "Even random need takes fewer updates than PER"
        ),
        *_fewer(held("need-optimal", "need"), preset, "Optimal need takes fewer than learned need"),
        _against_oracle(held("need-optimal", "oracle"), preset),
        _gap_closed(held("need-optimal", "per"), held("oracle", "per"), preset),
    ]


def _fewer(held: Comparison, preset: str, statement: str) -> list[Claim]:
    """The claim over all sizes together, and at the largest, where it matters most."""
    largest = held.sizes[-1]
    overall, last = held.overall(), held.at(largest)
    ratio = f"updates of {held.one} / updates of {held.other}"
    detail = " ".join(filter(None, (held.by_size(), held.censoring())))
    return [
        Claim(
            statement=f"{statement}: all sizes together.",
            source=SECTION,
            measured=f"{ratio}: {overall.text()}, geometric mean over sizes",
            verdict=held.fewer(overall),
            preset=preset,
            detail=detail,
        ),
        Claim(
            statement=f"{statement}: at {largest} states.",
            source=SECTION,
            measured=f"{ratio}: {last.text()}",
            verdict=held.fewer(last),
            preset=preset,
            detail=held.censoring(),
        ),
    ]


def _growing(held: Comparison, preset: str) -> Claim:
    growth = held.growth()
    return Claim(
        statement="How many times more updates uniform replay takes than PER grows with n.",
        source=SECTION,
        measured=f"the ratio is multiplied by {growth.text()} with each state more",
        verdict=verdict_of(growth, 1.0, "above"),
        preset=preset,
        detail=" ".join(filter(None, (held.by_size(), held.censoring()))),
    )


def _against_oracle(held: Comparison, preset: str) -> Claim:
    largest = held.sizes[-1]
    last = held.at(largest)
    return Claim(
        statement=f"The oracle stays a lower bound of optimal need: at {largest} states.",
        source=SECTION,
        measured=f"updates of need-optimal / updates of oracle: {last.text()}",
        verdict=verdict_of(last, 1.0, "above"),
        preset=preset,
        detail=" ".join(filter(None, (held.by_size(), held.censoring()))),
    )


def _gap_closed(optimal: Comparison, oracle: Comparison, preset: str) -> Claim:
    """log(optimal / PER) / log(oracle / PER) at the largest size."""
    largest = optimal.sizes[-1]
    share = optimal.share_of(oracle, largest)
    return Claim(
        statement=(
            f"Optimal need comes close to the oracle: at {largest} states it closes more than "
            "half of PER's distance to it, counted in factors."
        ),
        source=SECTION,
        measured=f"share of the distance that is closed: {share.text()}",
        verdict="undecided" if optimal.bounded[0] else verdict_of(share, 0.5, "above"),
        preset=preset,
        detail=optimal.censoring(),
    )
