"""Deep Q-learning with exact need: tables, need and values against closed forms; a tiny run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from needreplay.studies.deep import exact
from needreplay.studies.deep.exact import ARMS, BLOCKS, Case
from needreplay.studies.deep.exact_tasks import deep_sea, exact_task, taxi
from needreplay.studies.study import Options


def test_need_is_a_row_and_a_column_of_the_closed_form() -> None:
    task = exact_task("moving goal")
    n = len(task.next_state)
    policy = np.random.default_rng(0).dirichlet(np.ones(4), n)
    flows = np.where(task.ends, 0.0, policy)
    T = np.zeros((n, n))
    np.add.at(T, (np.repeat(np.arange(n), 4), task.next_state.ravel()), flows.ravel())
    M = np.linalg.inv(np.eye(n) - 0.9 * T)
    for state in (0, 17, n - 1):
        row = exact.visits(task.next_state, flows, state, 400, False)
        column = exact.visits(task.next_state, flows, state, 400, True)
        assert np.allclose(row, M[state])
        assert np.allclose(column, M[:, state])


def test_the_best_policy_takes_the_shortest_path() -> None:
    """Deep sea of 8: eight moves to the right, 1 at the end, each costs 0.01 / 8."""
    task = deep_sea()
    best = exact.best_policy(task)
    best = np.eye(2)[best.argmax(axis=1)]
    costs = sum(0.99**step * 0.01 / 8 for step in range(8))
    assert exact.policy_value(task, best) == pytest.approx(0.99**7 - costs)
    assert len(task.next_state) == 36


def test_distances_follow_the_arrows() -> None:
    """In deep sea nothing leads back, and the corner is seven steps from the start."""
    task = deep_sea()
    kernel = exact.distance_kernel(task)
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
    assert exact.policy_value(task, exact.best_policy(task)) > 0.3


def test_a_tiny_run_of_every_arm() -> None:
    curves = {arm: exact.train(Case("deep sea", 4, arm, 0, 800)) for arm in ARMS}
    assert all(len(curve) == exact.CHECKPOINTS for curve in curves.values())
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
    n_runs = sum(len(block.tasks) * len(block.arms) for block in BLOCKS.values())
    assert len(result.tables["data"]["area"]) == 10 * n_runs
    assert "12,000 or 48,000 steps" in result.captions["figure"]
    of = {claim.statement: claim for claim in result.claims}
    assert len(of) == len(exact.TESTS)
    question = of["exact need, .25 uniform learns faster than shuffled need, .25 uniform"]
    assert question.verdict == "holds"
    assert "ahead in 13 of 13 tasks" in question.measured
    backward = of["exact need, .25 uniform learns faster than backward need, .25 uniform"]
    assert "ahead in 9 of 9 tasks" in backward.measured
