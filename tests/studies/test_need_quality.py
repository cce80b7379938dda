"""The study of need's quality: its rows, and what is computed from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.core.tables import Table, read_json, read_table, write_table
from needlab.runs.trials import trial_runner
from needlab.studies.deep import need_quality as study
from needlab.studies.deep.need_quality import Case, Plan, accuracy_of, claims_of, measure
from needlab.studies.study import Options

RESULTS = Path(__file__).parents[2] / "results/need-quality"


def test_the_committed_tables_follow_from_the_committed_data(tmp_path: Path) -> None:
    data = read_table(RESULTS / "data.csv")
    assert not [need for need in set(data["need"].tolist()) if need.startswith("successor-own")]
    accuracy = accuracy_of(data)
    write_table(tmp_path / "accuracy.csv", accuracy)
    assert (tmp_path / "accuracy.csv").read_text() == (RESULTS / "accuracy.csv").read_text()
    committed = read_json(RESULTS / "claims.json")
    assert [claim.measured for claim in claims_of(accuracy)] == [c["measured"] for c in committed]
    runs = {*zip(data["preset"].tolist(), data["world"].tolist(), strict=True)}
    planned = {(name, world) for name, plan in study.PLANS.items() for world in plan.worlds}
    assert runs == planned


def rows(scores: dict[str, tuple[float, float, float]], preset: str = "rows") -> Table:
    """Two measurements of a run; the first one must not count."""
    names = [*scores, *scores]
    numbers = np.array([*[(0.0, 0.0, 0.0)] * len(scores), *scores.values()])
    columns = dict(zip(study.COLUMNS, numbers.T, strict=True))
    run: dict[str, Any] = {"preset": preset, "world": "a", "seed": 0}
    keys = {name: [value] * len(names) for name, value in run.items()}
    return Table({**keys, "need": names, **columns})


def test_accuracy_and_claims_by_hand() -> None:
    """Of the past recency does not count; a clock never does."""
    found = rows(
        {
            "successor": (0.5, 0.5, 0.5),
            "cosine/4": (0.97, 0.85, 0.83),
            "recency": (0.6, 1.0, 0.6),
            "clock": (1.0, 1.0, 1.0),
            "similarity": (0.93, 0.7, 0.75),
            "cosine/4, untrained": (0.4, 0.72, 0.4),
            "cosine/4, other query": (0.4, 0.4, 0.4),
        }
    )
    accuracy = accuracy_of(found).where(need="cosine")
    assert accuracy["number"].tolist() == ["auc", "auc_past", "auc_time"]
    assert accuracy["trivial"].tolist() == [0.93, 0.72, 0.75]
    assert accuracy["trivial_score"].tolist() == ["similarity", "untrained", "similarity"]
    # .97 is above .93 by half of what is left to 1; .83 is above .75 by less than .1.
    assert accuracy["accurate"].tolist() == [True, True, False]
    claims = {claim.statement: claim for claim in claims_of(accuracy_of(found))}
    assert claims["Need is accurate in every world: cosine"].verdict == "holds"
    assert (
        claims["Need is accurate in every world: cosine"].measured == "in 1 of 1: a 0.970 (0.930)"
    )
    assert claims["Need is accurate in every world: the paper's"].verdict == "does not hold"
    unknown = rows(
        {"successor": (np.nan, 0.5, 0.5), "recency": (0.6, 1.0, 0.6), "similarity": (0.5,) * 3}
    )
    (claim,) = claims_of(accuracy_of(unknown))
    assert claim.verdict == "undecided"


def test_need_models_change_nothing_of_the_agent(tmp_path: Path) -> None:
    """The paper's need has the same numbers with a need model beside it and without."""
    plan = Plan(("CartPole-v1",), ("cosine/4",), 1_600, queries=10, overrides={"min_history": 200})
    shares: list[float] = []
    found = {}
    for name, learners in (("with", plan.learners), ("without", ())):
        path = tmp_path / f"{name}.csv"
        own = Plan(plan.worlds, learners, plan.steps, queries=10, overrides=plan.overrides)
        measure((Case("rows", "CartPole-v1", 3), own), path, shares.append)
        found[name] = read_table(path)
    assert shares == [0.25, 0.5, 0.75, 1.0] * 2
    both, alone = found["with"], found["without"]
    assert set(alone["need"].tolist()).isdisjoint({"cosine/4", "cosine/4, new episodes"})
    names = {"cosine/4", "cosine/4, untrained", "cosine/4, other query", "cosine/4, new episodes"}
    assert names <= set(both["need"].tolist())
    for need in ("successor", "successor, m solved 0.9", "recency"):
        for column in ("steps", "updates", "auc", "auc_past", "variation"):
            one, other = both.where(need=need)[column], alone.where(need=need)[column]
            np.testing.assert_array_equal(one, other)
    assert both.where(need="successor")["steps"].tolist() == [400, 800, 1_200, 1_600]
    # At the last of four moments, vectors of the first three are there, by their age in updates.
    updates = both.where(need="cosine/4")["updates"]
    ages = [f"cosine/4, age {updates[3] - earlier}" for earlier in updates[:3]]
    last = both.where(steps=1_600)["need"].tolist()
    assert [need for need in last if ", age" in need] == ages
    trained = both.where(need="cosine/4, new episodes")["auc"]
    assert 0.5 < trained[0] <= 1.0


def test_the_study_resumes_from_finished_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(("CartPole-v1",), (), 400, queries=5, overrides={"min_history": 100})
    monkeypatch.setattr(study, "QUICK", plan)
    options = Options(("rows",), None, 0, 1, "quick")
    with trial_runner() as runner:
        first = study.run(options, runner)
        (path,) = runner.cache.iterdir()
        assert path.name == "rows-CartPole-v1-0.csv"
        written = path.stat().st_mtime_ns
        second = study.run(options, runner)
        assert path.stat().st_mtime_ns == written
    for name in first.tables["data"].names:
        np.testing.assert_array_equal(first.tables["data"][name], second.tables["data"][name])
