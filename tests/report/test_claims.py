"""Verdicts, and claims that come from files."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from needlab.core.tables import plain, read_json
from needlab.report.claims import (
    DOUBTS,
    Claim,
    Direction,
    Verdict,
    claim_from,
    need_verdict,
    verdict_of,
)
from needlab.report.statistics import Interval
from needreplay._core.errors import NeedReplayError

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
    claim = claim_from({**RECORD, "doubt": DOUBTS[need_verdict(auc, 0.6)]})
    assert (claim.full_verdict, claim.conclusion) == (said, conclusion)


def test_a_doubt_is_not_read_from_the_detail() -> None:
    detail = "Need was not accurate; nothing can be concluded about it."
    assert claim_from({**RECORD, "detail": detail}).conclusion == "holds"
    claim = claim_from({**RECORD, "detail": "By a test.", "doubt": "the seeds were equal"})
    assert claim.full_verdict == "holds, but the seeds were equal"
    assert claim_from(plain(claim)) == claim


@pytest.mark.parametrize("folder", ["fig5", "minatar-need"])
def test_the_committed_claims_about_a_need_that_was_not_accurate_conclude_nothing(
    folder: str,
) -> None:
    path = Path(__file__).parents[2] / "results" / folder / "claims.json"
    claims = list(map(claim_from, read_json(path)))
    if folder == "minatar-need":
        assert {claim.doubt for claim in claims} == {DOUBTS["undecided"]}
        return
    words = re.compile(r"On (\S+) the need of (.*) is (?:true|accurate): ")
    doubts = {
        (found[1], found[2]): DOUBTS[claim.verdict]
        for claim in claims
        if (found := words.match(claim.statement))
    }
    assert set(doubts.values()) == {"", DOUBTS["does not hold"]}
    compared = 0
    for claim in claims:
        if found := re.match(r"On (\S+) (.*) is (better|slower) than PER", claim.statement):
            assert claim.doubt == doubts[found[1], found[2]]
            compared += 1
    assert compared == 4 * len(doubts)


def test_need_is_compared_with_trivial_scores() -> None:
    assert need_verdict(0.9, 0.7) == "holds"
    assert need_verdict(0.9, 0.85) == "does not hold"
    assert need_verdict(0.9, math.nan) == "undecided"
    assert need_verdict(0.7, math.nan) == "does not hold"


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
def test_a_damaged_record_raises(change: dict[str, Any], said: str) -> None:
    with pytest.raises(NeedReplayError, match=said):
        claim_from({**RECORD, **change})


@pytest.mark.parametrize("record", [None, [], "x", {"statement": "x"}])
def test_what_is_no_claim_raises(record: object) -> None:
    with pytest.raises(NeedReplayError, match="A claim"):
        claim_from(record)
