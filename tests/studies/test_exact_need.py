"""Deep Q-learning with exact need: tables, need and values against closed forms; tiny runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from needlab.core.tables import Table, read_table
from needlab.studies.deep import exact, exact_analysis, exact_arms, exact_training
from needlab.studies.deep.exact_analysis import comparisons
from needlab.studies.deep.exact_arms import ARMS, BLOCKS, Arm, ExactNeed, Memory, StateRing
from needlab.studies.deep.exact_tasks import ExactTask, deep_sea, exact_task, taxi
from needlab.studies.deep.exact_training import Case, train
from needlab.studies.study import Options
from needlab.worlds.tabular import world_of_arrays
from needreplay._core.errors import NeedReplayError
from needreplay.need.form import NeedForm, tabular_need
from needreplay.replay import ProportionalSampler, ReplayBuffer
from needreplay.replay.samplers import StateNeedSampler

RESULTS = Path(__file__).resolve().parents[2] / "results"


def test_the_best_policy_takes_the_shortest_path() -> None:
    """Deep sea of 8: eight moves to the right, 1 at the end, each costs 0.01 / 8."""
    task = deep_sea()
    best = exact_training.best_policy(task)
    best = np.eye(2)[best.argmax(axis=1)]
    costs = sum(0.99**step * 0.01 / 8 for step in range(8))
    assert exact_training.policy_value(task, best) == pytest.approx(0.99**7 - costs)
    assert len(task.world.next_state) == 36


def test_distances_follow_the_arrows() -> None:
    """In deep sea nothing leads back, and the corner is seven steps from the start."""
    task = deep_sea()
    kernel = exact_arms.distance_kernel(task)
    assert kernel[0].max() == 1.0
    assert (kernel[1:, 0] == 0.0).all()
    assert kernel[0].min() == 0.5**7


def test_tasks_are_the_known_ones() -> None:
    assert taxi().world.next_state.shape == (400, 6)
    mazes = exact_task("twelve mazes")
    assert len(mazes.starts) == 12
    assert (mazes.obs.sum(axis=1) == 3.0).all()


@pytest.mark.parametrize("name", ["FourRooms", "MultiRoom", "DistShift"])
def test_minigrids_worlds_become_tables(name: str) -> None:
    pytest.importorskip("minigrid")
    task = exact_task(name)
    assert task.world.reward_mean.max() == 1.0
    assert task.world.ends[task.world.reward_mean > 0].all()
    assert exact_training.policy_value(task, exact_training.best_policy(task)) > 0.3


def ring_of(n_states: int) -> ExactTask:
    """0 -> 1 -> ... -> 0, one action, without an end."""
    states = np.arange(n_states)
    return ExactTask(
        world=world_of_arrays(
            ((states + 1) % n_states)[:, np.newaxis], [0], ends=np.zeros((n_states, 1))
        ),
        obs=np.eye(n_states, dtype=np.float32),
        starts=(states[:1],),
        phase_steps=1,
        keys=states[:, np.newaxis],
        episode_steps=200,
    )


FORMS = [
    NeedForm(direction=direction, relative=relative)
    for direction in ("forward", "backward")
    for relative in (True, False)
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_exact_need_is_the_tabular_need_of_the_present_policy(form: NeedForm) -> None:
    task = exact_task("moving goal")
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(len(task.world.next_state)))
    need = ExactNeed(task, Arm("gain x need", form=form))
    for _ in range(2):  # what was computed for the first policy is not used for the second
        policy = rng.dirichlet(np.ones(4), len(task.world.next_state))
        need.follow(policy)
        n = task.world.n_states
        T = np.zeros((n, n))
        flows = np.where(task.world.ends, 0.0, policy).ravel()
        np.add.at(T, (np.repeat(np.arange(n), 4), task.world.next_state.ravel()), flows)
        M = np.linalg.inv(np.eye(n) - 0.9 * T).astype(np.float64, copy=False)
        for state in (5, 17, 5):
            found = need.seen_from(state, p)
            np.testing.assert_allclose(found, tabular_need(M, p, state, form), atol=1e-12)
            assert (found >= 0.0).all()
            assert found.any()


def test_a_policy_changes_nothing_in_a_table_of_distances() -> None:
    task = deep_sea()
    need = ExactNeed(task, ARMS["0.5^distance, .25 uniform"])
    need.follow(np.full(task.world.reward_mean.shape, 0.5))
    p = np.zeros(len(task.world.next_state))
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
        assert set(ring.recent(60, rng).tolist()) == set(stored[-3:].tolist())


def store(memory: Memory, states: Any) -> None:
    for state in states:
        memory.add(int(state), action=0, reward=0.0, next_s=0, discount=0.9)


def test_shuffled_need_is_a_permutation_without_fixed_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each transition has a state of its own, so need in one state shows who has its need."""
    monkeypatch.setattr(exact_arms, "CAPACITY", 8)
    arm = ARMS["relative need shuffled, .25 uniform"]._replace(uniform_mix=0.0)
    memory, n = Memory(ring_of(30), arm, 0), 30
    for state in range(n):
        store(memory, [state])
        stored = range(max(0, state - 7), state + 1)
        receivers = []
        for donor in stored:
            probabilities = memory.buffer.sampler.probabilities(np.eye(n)[donor])  # type: ignore[attr-defined]
            (slot,) = np.flatnonzero(probabilities)
            receivers.append(slot)
            assert slot != donor % 8 or len(stored) == 1
        assert sorted(receivers) == list(range(len(stored)))


@pytest.mark.parametrize("arm", ["relative need", "recent need", "start need"])
def test_relative_need_replays_states_as_often_as_they_will_be_visited(
    arm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ring of six states, stored 1 to 4 times, with equal gains; M[s, s + k] is 0.9^k, summed."""
    monkeypatch.setattr(exact_arms, "BATCH", 20_000)
    monkeypatch.setattr(exact_arms, "RECENT", 1)
    needed = ARMS[f"{arm}, .25 uniform"]._replace(uniform_mix=0.0)
    memory = Memory(ring_of(6), needed, 0)
    store(memory, [0, 0, 0, 0, 1, 2, 2, 3, 4, 4, 4, 5])
    memory.follow(np.ones((6, 1)))
    seen_from = {"relative need": 2, "recent need": 5, "start need": 0}[arm]
    batch = memory.sample(2, np.array([0]), 1.0)
    found = np.bincount(batch["s"], minlength=6) / 20_000
    expected = 0.9 ** ((np.arange(6) - seen_from) % 6)
    np.testing.assert_allclose(found, expected / expected.sum(), atol=0.015)  # four deviations


@pytest.mark.parametrize(("uniform_mix", "rows"), [(0.0, False), (0.25, False), (0.0, True)])
def test_need_of_ones_is_per_to_the_last_sample(uniform_mix: float, rows: bool) -> None:
    """Each slot has a state of its own, so both samplers go through slots in the same order."""
    columns, gains = {"s": np.int64}, np.random.default_rng(1).random(16)
    found = []
    for sampler in (
        ProportionalSampler(stratified=False, uniform_mix=uniform_mix),
        StateNeedSampler(16, uniform_mix=uniform_mix),
    ):
        buffer = ReplayBuffer(16, columns, sampler=sampler, seed=0)
        by_state = isinstance(sampler, StateNeedSampler)
        for s in range(16):
            buffer.add(s=s, **({"state": s} if by_state else {}))
        buffer.update_priorities(np.arange(16), gains)
        need = np.ones((32, 16) if rows else 16) if by_state else None
        found.append(buffer.sample(32, need=need, beta=0.5))
    per, ones = found
    assert per.ids.tolist() == ones.ids.tolist()
    np.testing.assert_allclose(per.weights, ones.weights, rtol=1e-12)


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


def test_the_quick_size_compares_all_forms() -> None:
    class Runner:
        def run(self, function: Any, cases: list[Case], *_: Any, **__: Any) -> dict[Case, Any]:
            shorter = [case._replace(steps=800) for case in cases]
            found = {case: function(short, 0) for case, short in zip(cases, shorter, strict=True)}
            return {case: {"value": one["value"][np.newaxis]} for case, one in found.items()}

    result = exact.run(Options(("forms",), 1, 0, 1, "quick"), Runner())  # type: ignore[arg-type]
    assert set(result.tables["data"]["arm"].tolist()) == set(BLOCKS["forms"].arms)
    assert len(result.claims) == len(exact_arms.FORM_TESTS)
    assert "no interval: too few trials" in result.claims[0].measured
    table = result.tables["differences"]
    assert len(table.where(task=exact_analysis.ALL_TASKS)) == len(exact_arms.FORM_TESTS)


def test_a_tiny_run_of_every_arm() -> None:
    curves = {arm: train(Case("deep sea", 4, arm, 0, 800)) for arm in ARMS}
    assert all(len(curve) == exact_training.CHECKPOINTS for curve in curves.values())
    assert all(np.isfinite(curve).all() for curve in curves.values())
    assert len({tuple(curve) for curve in curves.values()}) > 4  # arms differ


def test_blocks_with_other_arms_and_steps_are_reported_together() -> None:
    """Every preset in one call; what is measured is made up: exact need is better by 0.1."""

    class Runner:
        def run(self, _: Any, cases: list[Case], *__: Any, **___: Any) -> dict[Case, Any]:
            assert len(set(cases)) == len(cases)  # as the real one asks

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
    assert len(of) == len(exact_arms.FIRST_TESTS) + len(exact_arms.FORM_TESTS)
    question = of["exact need, .25 uniform learns faster than shuffled need, .25 uniform"]
    assert question.verdict == "holds"
    assert "mean over tasks: 0.100 (95% interval 0.100 to 0.100), ahead in 13 of 13 tasks" in (
        question.measured
    )
    backward = of["exact need, .25 uniform learns faster than backward need, .25 uniform"]
    assert "ahead in 9 of 9 tasks" in backward.measured
