"""Two features of the buffer together: every row right, or one sentence. The docs show which."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
from pairs import PAIRS, SAMPLERS, check, outcome

from needreplay.replay.batch import Batch

DOCS = Path(__file__).parents[2] / "docs/compare.md"


def of_the_docs() -> dict[tuple[str, str], str]:
    """The cell of each pair in the table that ``make tables`` writes."""
    text = DOCS.read_text(encoding="utf-8")
    block = re.search(r"<!-- table: pairs -->\n(.*?)<!-- end of table -->", text, re.S)
    assert block is not None
    head, _, *rows = [line.strip("|").split("|") for line in block[1].strip().splitlines()]
    names = [cell.strip() for cell in head]
    cells: dict[tuple[str, str], str] = {}
    for row in rows:
        name, *words = (cell.strip() for cell in row)
        cells |= {(name, other): word for other, word in zip(names[1:], words, strict=True) if word}
    return cells


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_each_pair_is_as_the_docs_say(pair: tuple[str, str]) -> None:
    works, sentence = outcome(pair)
    assert of_the_docs()[pair] == ("works" if works else "raises")
    assert works or (sentence.endswith(".") and len(sentence) < 300)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("pair", [p for p in PAIRS if "NeedBuffer" not in p], ids="-".join)
def test_each_pair_with_every_sampler(pair: tuple[str, str], sampler: str) -> None:
    works, sentence = outcome(pair, sampler)
    assert of_the_docs()[pair] == ("works" if works else "raises"), sentence


def test_the_table_has_every_pair() -> None:
    assert list(of_the_docs()) == PAIRS


@pytest.mark.parametrize("column", ["obs", "next_obs", "reward", "discount"])
def test_a_wrong_row_is_noticed(column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    get = Batch.__getitem__
    monkeypatch.setattr(Batch, "__getitem__", lambda self, name: get(self, name) + (name == column))
    with pytest.raises(AssertionError):
        check({"n-step"}, "")


def test_each_yes_of_ours_is_a_test() -> None:
    text = DOCS.read_text(encoding="utf-8")
    named = re.findall(r"^(\d+)\. `(\S+)::(\w+)`$", text, re.M)
    assert re.findall(r"\| yes \[(\d+)\]", text) == [number for number, _, _ in named]
    for _, file, name in named:
        assert f"\ndef {name}(" in (DOCS.parents[1] / file).read_text(encoding="utf-8")
