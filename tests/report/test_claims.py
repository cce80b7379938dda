"""Verdicts, and claims that come from files."""

from __future__ import annotations

import math
from typing import Any

import pytest

from needreplay.core.errors import NeedReplayError
from needreplay.report.claims import (
    DOUBTS,
    Claim,
    Direction,
    Verdict,
    claim_from,
    need_verdict,
    verdict_of,
)
from needreplay.report.statistics import Interval

RECORD = {
    "statement": "s",
    "source": "paper",
    "measured": "1",
    "verdict": "holds",
    "preset": "printed",
}


@pytest.mark.parametrize(
    ("low", "high", "direction", "verdict"),
    [
        (0.1, 2.0, "above", "holds"),
        (0.1, 2.0, "below", "does not hold"),
        (-2.0, -0.1, "above", "does not hold"),
        (-2.0, -0.1, "below", "holds"),
        (-1.0, 1.0, "above", "undecided"),
        (0.0, 1.0, "above", "undecided"),
        (-float("inf"), float("inf"), "below", "undecided"),
    ],
)
def test_verdicts(low: float, high: float, direction: Direction, verdict: Verdict) -> None:
    assert verdict_of(Interval((low + high) / 2, low, high), 0.0, direction) == verdict


@pytest.mark.parametrize(
    ("auc", "said", "conclusion"),
    [
        (0.8, "holds", "holds"),
        (0.79, "holds, but need was not accurate", "concludes nothing"),
        (math.nan, "holds, but whether need was accurate was not measured", "concludes nothing"),
    ],
)
def test_a_verdict_says_whether_need_was_accurate(auc: float, said: str, conclusion: str) -> None:
    claim = claim_from({**RECORD, "detail": f"By a test. {DOUBTS[need_verdict(auc, 0.6)]}"})
    assert (claim.full_verdict, claim.conclusion) == (said, conclusion)


def test_need_is_compared_with_trivial_scores() -> None:
    assert need_verdict(0.9, 0.7) == "holds"
    assert need_verdict(0.9, 0.85) == "does not hold"
    assert need_verdict(0.9, math.nan) == "undecided"


def test_a_claim_comes_back_from_its_record() -> None:
    assert claim_from(RECORD) == Claim("s", "paper", "1", "holds", "printed")
    assert claim_from({**RECORD, "detail": "d"}).detail == "d"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": "maybe"}, "no verdict 'maybe'"),
        ({"verdict": ["holds"]}, "verdict must be text"),
        ({"measured": 3}, "measured must be text"),
        ({"extra": "x"}, "is a record of"),
    ],
)
def test_a_damaged_record_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(NeedReplayError, match=said):
        claim_from({**RECORD, **change})


@pytest.mark.parametrize("record", [None, [], "x", {"statement": "x"}])
def test_what_is_no_claim_is_refused(record: object) -> None:
    with pytest.raises(NeedReplayError, match="A claim"):
        claim_from(record)
