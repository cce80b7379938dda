"""Figures 2 and 3 under ``released`` lie on the points of the published figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from needlab.core.tables import read_json
from needlab.report.claims import Claim, Verdict, claim_from, published_claim
from needlab.runs.trials import trial_runner
from needlab.studies import load_study
from needlab.studies.study import Options

RESULTS = Path(__file__).parents[2] / "results"


def about_points(claims: list[Claim]) -> Claim:
    """The claim about the published points, of ``released``."""
    (found,) = [
        claim
        for claim in claims
        if claim.statement == "Our means lie on the published figure" and claim.preset == "released"
    ]
    return found


@pytest.mark.parametrize(("figure", "points"), [("fig2", 98), ("fig3", 60)])
def test_the_committed_figures_lie_on_all_points(figure: str, points: int) -> None:
    records = read_json(RESULTS / figure / "claims.json")
    claim = about_points([claim_from(record) for record in records])
    assert claim.verdict == "holds"
    assert claim.measured.endswith(f"; {points} of {points} points within a quarter")


@pytest.mark.parametrize(("figure", "trials", "states"), [("fig2", 200, ()), ("fig3", 15, (7, 8))])
def test_new_trials_lie_on_the_points(figure: str, trials: int, states: tuple[int, ...]) -> None:
    options = Options(("released",), trials, seed=1, workers=1, size="quick", states=states)
    with trial_runner() as runner:
        claims = load_study(figure).run(options, runner).claims
    assert about_points(claims).verdict == "holds"


@pytest.mark.parametrize("ratio", [0.79, 1.26])
@pytest.mark.parametrize(("off", "verdict"), [(10, "holds"), (11, "does not hold")])
def test_at_most_a_tenth_of_the_points_may_be_off(off: int, verdict: Verdict, ratio: float) -> None:
    ratios = np.repeat([ratio, 1.0], [off, 100 - off])
    claim = published_claim(ratios, "ours / published", "are made up", source="x", preset="x")
    assert claim.verdict == verdict
    assert f"{100 - off} of 100 points" in claim.measured
