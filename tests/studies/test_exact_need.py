"""Deep Q-learning with exact need: tables, need and values against closed forms; tiny runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

pytest.importorskip("torch")

from needreplay.core.errors import NeedReplayError
from needreplay.core.tables import Table, read_table
from needreplay.report.statistics import student_interval
from needreplay.rules.need import NeedForm, tabular_need
from needreplay.rules.successor import closed_form, transition_matrix
from needreplay.studies.deep import exact, exact_arms, exact_training
from needreplay.studies.deep.exact_analysis import comparisons, difference
from needreplay.studies.deep.exact_arms import ARMS, BLOCKS, Arm, ExactNeed, StateRing
from needreplay.studies.deep.exact_tasks import deep_sea, exact_task, taxi
from needreplay.studies.deep.exact_training import Case, train
from needreplay.studies.study import Options

RESULTS = Path(__file__).resolve().parents[2] / "results"


def test_need_is_a_row_and_a_column_of_the_closed_form() -> None:
    task = exact_task("moving goal")
    n = len(task.next_state)
    policy = np.random.default_rng(0).dirichlet(np.ones(4), n)
    flows = np.where(task.ends, 0.0, policy)
    T = np.zeros((n, n))
    np.add.at(T, (np.repeat(np.arange(n), 4), task.next_state.ravel()), flows.ravel())
    M = np.linalg.inv(np.eye(n) - 0.9 * T)
    for state in (0, 17, n - 1):
        row = exact_arms.visits(task.next_state, flows, state, 400, False)
        column = exact_arms.visits(task.next_state, flows, state, 400, True)
        assert np.allclose(row, M[state])
        assert np.allclose(column, M[:, state])


def test_the_best_policy_takes_the_shortest_path() -> None:
    """Deep sea of 8: eight moves to the right, 1 at the end, each costs 0.01 / 8."""
    task = deep_sea()
    best = exact_training.best_policy(task)
    best = np.eye(2)[best.argmax(axis=1)]
    costs = sum(0.99**step * 0.01 / 8 for step in range(8))
    assert exact_training.policy_value(task, best) == pytest.approx(0.99**7 - costs)
    assert len(task.next_state) == 36


def test_distances_follow_the_arrows() -> None:
    """In deep sea nothing leads back, and the corner is seven steps from the start."""
    task = deep_sea()
    kernel = exact_arms.distance_kernel(task)
    assert kernel[0].max() == 1.0
    assert (kernel[1:, 0] == 0.0).all()
    assert kernel[0].min() == 0.5**7


def test_tasks_are_the_known_ones() -> None:
    assert taxi().next_state.shape == (400, 6)
    mazes = exact_task("twelve mazes")
    assert len(mazes.starts) == 12
    assert (mazes.obs.sum(axis=1) == 3.0).all()


@pytest.mark.parametrize("name", ["FourRooms", "MultiRoom", "DistShift"])
def test_minigrids_worlds_become_tables(name: str) -> None:
    pytest.importorskip("minigrid")
    task = exact_task(name)
    assert task.reward.max() == 1.0
    assert task.ends[task.reward > 0].all()
    assert exact_training.policy_value(task, exact_training.best_policy(task)) > 0.3


FORMS = [
    NeedForm(direction=direction, relative=relative)
    for direction in ("forward", "backward")
    for relative in (True, False)
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_exact_need_is_the_tabular_need_of_the_present_policy(form: NeedForm) -> None:
    task = exact_task("moving goal")
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(len(task.next_state)))
    need = ExactNeed(task, Arm("gain x need", form=form))
    for _ in range(2):  # what was computed for the first policy is not used for the second
        policy = rng.dirichlet(np.ones(4), len(task.next_state))
        need.follow(policy)
        M = closed_form(transition_matrix(task.next_state, task.ends, policy), 0.9)
        for state in (5, 17, 5):
            found = need.seen_from(state, p)
            # A sum of 61 terms lacks at most 0.9^61 / (1 - 0.9) of the visits, divided by p.
            lacking = 0.017 / (p if form.relative and form.direction == "forward" else 1.0)
            assert (np.abs(found - tabular_need(M, p, state, form)) <= lacking).all()
            assert found.any()


def test_a_policy_changes_nothing_in_a_table_of_distances() -> None:
    task = deep_sea()
    need = ExactNeed(task, ARMS["0.5^distance, .25 uniform"])
    need.follow(np.full(task.reward.shape, 0.5))
    p = np.zeros(len(task.next_state))
    assert np.array_equal(need.seen_from(3, p), exact_arms.distance_kernel(task)[3])


def test_the_ring_counts_what_is_stored_and_draws_what_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exact_arms, "RECENT", 3)
    rng = np.random.default_rng(0)
    states, ring = rng.integers(5, size=40), StateRing(8, 5)
    for i, state in enumerate(states):
        ring.add(int(state))
        stored = states[max(0, i - 7) : i + 1]
        assert len(ring) == len(stored)
        assert ring.shares.tolist() == (np.bincount(stored, minlength=5) / len(stored)).tolist()
        assert ring[i % 8] == state
        assert set(ring.recent(60, rng).tolist()) == set(stored[-3:].tolist())


def test_the_mean_over_tasks_has_students_interval() -> None:
    """By hand: a - b is 1, 3 in one task and 0, 4 in the other; v = s² / n is 1 and 4."""
    one = difference([np.array([1.0, 3.0])], [np.zeros(2)])
    assert one.interval == student_interval([1.0, 3.0])
    assert one.interval.high == pytest.approx(2.0 + 12.7062, abs=1e-4)
    both = difference(
        [np.array([1.0, 5.0]), np.array([0.0, 4.0])], [np.array([0.0, 2.0]), np.zeros(2)]
    )
    half = t.ppf(0.975, 25 / 17) * np.sqrt(5.0) / 2.0
    assert both.interval.estimate == 2.0
    assert both.interval.high == pytest.approx(2.0 + half)
    assert both.interval.low == pytest.approx(2.0 - half)
    assert both.visible == pytest.approx(half + t.ppf(0.9, 25 / 17) * np.sqrt(5.0) / 2.0)


def test_too_few_seeds_and_equal_seeds() -> None:
    alone = difference([np.array([1.0])], [np.array([0.5])])
    assert (alone.interval.estimate, alone.interval.high, alone.visible) == (0.5, np.inf, np.inf)
    equal = difference([np.full(3, 1.0)], [np.full(3, 0.5)])
    assert (equal.interval.low, equal.interval.high, equal.visible) == (0.5, 0.5, 0.0)


def test_a_visible_difference_is_seen_in_nine_of_ten_cases() -> None:
    """Three tasks of ten seeds with variance 1: the interval holds the mean, and leaves out 0."""
    rng = np.random.default_rng(0)
    spread = np.arange(10.0) / np.arange(10.0).std(ddof=1)
    true = difference([spread] * 3, [np.zeros(10)] * 3).visible
    found = [
        difference(list(rng.normal(true, 1.0, (3, 10))), [np.zeros(10)] * 3).interval
        for _ in range(2_000)
    ]
    assert np.mean([one.low > 0.0 for one in found]) == pytest.approx(0.9, abs=0.025)
    inside = [one.low <= true <= one.high for one in found]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)


def test_arms_with_other_seeds_are_not_compared() -> None:
    columns: dict[str, Any] = {
        "task": ["sea"] * 4,
        "arm": ["a", "a", "b", "b"],
        "area": [0.0, 1.0, 2.0, 3.0],
    }
    (one,) = comparisons(Table(columns | {"seed": [0, 1, 0, 1]}), [("a", "b"), ("a", "c")])
    assert [one.own[0].tolist(), one.rivals[0].tolist()] == [[0.0, 1.0], [2.0, 3.0]]
    with pytest.raises(NeedReplayError, match="complete rounds"):
        comparisons(Table(columns | {"seed": [0, 1, 1, 0]}), [("a", "b")])


@pytest.mark.parametrize("name", ["exact-need", "exact-need-large", "exact-need-long"])
def test_the_committed_claims_are_those_of_the_committed_data(name: str, tmp_path: Path) -> None:
    committed, folder = RESULTS / name, tmp_path / name
    folder.mkdir()
    for file in ("data.csv", "meta.json"):
        shutil.copy(committed / file, folder)
    exact.analyze_again(folder)
    assert (folder / "claims.json").read_text() == (committed / "claims.json").read_text()
    new, old = (json.loads((place / "meta.json").read_text()) for place in (folder, committed))
    assert {**new, "analyzed_again": ""} == {**old, "analyzed_again": ""}
    found, kept = (read_table(place / "differences.csv") for place in (folder, committed))
    assert found.names == kept.names
    for name in found.names:
        if found[name].dtype.kind == "f":
            np.testing.assert_allclose(found[name], kept[name], rtol=1e-9)
        else:
            assert found[name].tolist() == kept[name].tolist()


def test_a_tiny_run_of_every_arm() -> None:
    curves = {arm: train(Case("deep sea", 4, arm, 0, 800)) for arm in ARMS}
    assert all(len(curve) == exact_training.CHECKPOINTS for curve in curves.values())
    assert all(np.isfinite(curve).all() for curve in curves.values())
    assert len({tuple(curve) for curve in curves.values()}) > 4  # arms differ


def test_blocks_with_other_arms_and_steps_are_reported_together() -> None:
    """Every preset in one call; what is measured is made up: exact need is better by 0.1."""

    class Runner:
        def run(self, _: Any, cases: list[Case], *__: Any, **___: Any) -> dict[Case, Any]:
            def curve(case: Case) -> Any:
                luck = np.random.default_rng(case.seed).normal(size=20) / 100
                return np.array([luck + 0.1 * case.arm.startswith("exact")])

            return {case: {"value": curve(case)} for case in cases}

    options = Options(tuple(BLOCKS), None, 0, 1, "full")
    result = exact.run(options, Runner())  # type: ignore[arg-type]
    runs = {
        (task, arm, block.steps)
        for block in BLOCKS.values()
        for task in block.tasks
        for arm in block.arms
    }
    assert len(result.tables["data"]["area"]) == 10 * len(runs)  # a shared run is made once
    assert "12,000 or 48,000 steps" in result.captions["figure"]
    of = {claim.statement: claim for claim in result.claims}
    assert len(of) == len(exact_arms.FIRST_TESTS)
    question = of["exact need, .25 uniform learns faster than shuffled need, .25 uniform"]
    assert question.verdict == "holds"
    assert "mean over tasks: 0.100 (95% interval 0.100 to 0.100), ahead in 13 of 13 tasks" in (
        question.measured
    )
    backward = of["exact need, .25 uniform learns faster than backward need, .25 uniform"]
    assert "ahead in 9 of 9 tasks" in backward.measured
