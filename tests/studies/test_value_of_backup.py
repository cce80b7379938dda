"""The value of a backup: hand-worked chains, closed forms, finite differences; tiny runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from needlab.core.tables import Table, long_table
from needlab.runs.trials import trial_runner
from needlab.studies.deep.exact_arms import ARMS, Memory
from needlab.studies.deep.exact_tasks import deep_sea, exact_task
from needlab.studies.deep.exact_training import DISCOUNT, played, policy_value
from needlab.studies.locality import backup, backup_analysis, further, value_of_backup
from needlab.studies.locality.backup import FACTORS, Case, Moment, correlations, measure
from needlab.studies.locality.classes import CLASSES, features_of, new_agent
from needlab.studies.locality.value import (
    Function,
    PolicyValue,
    locality,
    near_states,
    softmax_policy,
    unit_directions,
)
from needlab.studies.study import Options
from needlab.worlds.tabular import TabularWorld, world_of_arrays

CHAIN_DISCOUNT, TEMPERATURE = 0.5, 0.1


def chain() -> TabularWorld:
    """State 0: action 0 stays (0), action 1 goes to 1 (0). State 1: 0 ends (1), 1 ends (0)."""
    return world_of_arrays(
        [[0, 1], [0, 0]],
        [0],
        ends=[[False, False], [True, True]],
        reward_mean=[[0.0, 0.0], [1.0, 0.0]],
    )


def test_the_value_of_a_backup_on_a_chain_is_the_one_worked_by_hand() -> None:
    """All Q are 0, so π = 1/2, V(1) = 1/2, V(0) = (1/2 · 1/2) V(0) + 1/2 · 1/2 V(1) = 1/6.

    Q(0, stay) = 1/12, Q(0, go) = 1/4, Q(1, ·) = 1, 0. From state 0 the visits are 4/3 and 1/3, so
    dV(0) / dQ(0, go) = 4/3 · 1/2 · (1/4 − 1/6) / 0.1 and dV(0) / dQ(1, 0) = 1/3 · 1/2 · 1/2 / 0.1.
    """
    exact = PolicyValue(chain(), np.full((2, 2), 0.5), CHAIN_DISCOUNT)
    np.testing.assert_allclose(exact.V, [1 / 6, 1 / 2])
    np.testing.assert_allclose(exact.Q, np.array([[1 / 12, 1 / 4], [1.0, 0.0]]))
    found = exact.gradient(np.array([1.0, 0.0]), TEMPERATURE)
    np.testing.assert_allclose(found, [[-5 / 9, 5 / 9], [5 / 6, -5 / 6]])


def test_the_chains_backup_by_hand_as_a_finite_step() -> None:
    """Q(1, 0) up by 0.05: π(1, 0) = e^½ / (1 + e^½) is V(1), and V(0) = V(1) / 3."""
    values = np.array([[0.0, 0.0], [0.05, 0.0]])
    better = math.exp(0.5) / (1.0 + math.exp(0.5))
    exact = PolicyValue(chain(), softmax_policy(values, TEMPERATURE), CHAIN_DISCOUNT)
    np.testing.assert_allclose(exact.V, [better / 3, better])


def test_values_are_those_of_the_exact_study() -> None:
    task = deep_sea()
    policy = softmax_policy(np.random.default_rng(0).normal(size=(36, 2)), 1.0)
    V = PolicyValue(task.world, policy, DISCOUNT).V
    assert V[task.starts[0]].mean() == pytest.approx(policy_value(task, policy))


@pytest.mark.parametrize("name", ["radial 1.5", "network 16"])
def test_first_order_effects_are_those_of_small_steps(name: str) -> None:
    """The adjoint against central differences through the network, the policy and the solve."""
    task, view = deep_sea(), np.eye(36)[0]
    agent = new_agent(task, "deep sea", name, seed=1)
    function = Function(agent.network, agent.obs)
    values = function.values()
    exact = PolicyValue(task.world, softmax_policy(values, TEMPERATURE), DISCOUNT)
    moved = function.spread(exact.gradient(view, TEMPERATURE)[None])[0]
    for state, action in ((0, 0), (0, 1), (9, 1), (20, 0)):
        gradient = function.gradient_of(state, action)
        ends = []
        for step in (1e-5, -1e-5):
            there = {n: v + step * gradient[n] for n, v in function.parameters.items()}
            policy = softmax_policy(function(there).detach().numpy(), TEMPERATURE)
            ends.append(view @ PolicyValue(task.world, policy, DISCOUNT).V)
        numeric = (ends[0] - ends[1]) / 2e-5
        assert moved[state, action] == pytest.approx(numeric, rel=1e-4, abs=1e-9)


def test_an_update_of_a_table_is_local_and_a_wide_one_is_not() -> None:
    task = deep_sea()
    near, stored = near_states(task.world), np.ones(36, np.bool_)
    pairs = np.array([0, 10, 35]), np.array([0, 1, 0])
    found = {}
    for name in CLASSES:
        agent = new_agent(task, "deep sea", name, seed=0)
        spread = Function(agent.network, agent.obs).spread(unit_directions(*pairs, (36, 2)))
        found[name] = locality(spread, pairs[0], near, stored)
    assert found["table"] == 1.0
    radial = [found[f"radial {width}"] for width in ("0.7", "1.5", "3", "6")]
    assert radial == sorted(radial, reverse=True)
    assert 1.0 > radial[0] > 0.7 > found["network 64"]


def test_locality_is_the_share_that_stays_near() -> None:
    """A line of five states; the update at 0 changes Q by 4, 2, 1, 1, 8, and state 4 is not stored.

    Near are 0, 1, 2: (4 + 2 + 1) / 8.
    """
    line = world_of_arrays(
        [[1], [2], [3], [4], [0]], [0], ends=[[False]] * 4 + [[True]], reward_mean=[[0.0]] * 5
    )
    near = near_states(line)
    assert near[2].tolist() == [True] * 5
    assert near[0].tolist() == [True, True, True, False, False]
    spread = np.array([[[4.0], [-2.0], [1.0], [1.0], [8.0]]])
    stored = np.array([True, True, True, True, False])
    assert locality(spread, np.array([0]), near, stored) == 7 / 8


def test_features_tell_directions_apart() -> None:
    """In a world with directions only the table's states that are alike in all else share any."""
    task = exact_task("twelve mazes")
    features = features_of(task, "radial 3", (1, 2))
    overlap = features @ features.T
    other = task.keys[:, 0][:, None] != task.keys[:, 0][None]
    assert (overlap[other] == 0.0).all()
    np.testing.assert_allclose(np.diag(overlap), 1.0, rtol=1e-5)
    table = features_of(task, "table", (1, 2))
    np.testing.assert_array_equal(table @ table.T, np.eye(len(table)))


def _moment(name: str, steps: int = 1_500) -> Moment:
    task = exact_task("deep sea")
    agent, memory = new_agent(task, "deep sea", name, 0), Memory(task, ARMS["uniform"], 0)
    for _ in played(task, agent, memory, np.random.default_rng(0), steps, 4):
        pass
    present = np.zeros(backup.PRESENT, np.int64)
    return Moment(task, agent, memory, present, np.random.default_rng(0))


def test_in_a_table_the_effect_is_gain_times_need_times_the_policys_part() -> None:
    """|effect| = |δ| M(q, s) π(a | s) |A(s, a)| / temperature, with M of the discount .99."""
    moment = _moment("table")
    stored = moment._stored(200)
    effect = np.abs(moment._first_order(stored, backup.TEMPERATURE) * stored.error)
    exact = PolicyValue(moment._task.world, moment._policy, DISCOUNT)
    states, actions = stored.batch["s"], stored.batch["action"]
    part = np.abs(moment._policy * (exact.Q - exact.V[:, None]))[states, actions]
    factors = moment._factors(stored)
    product = factors[FACTORS.index("gain x need .99")] * part / backup.TEMPERATURE
    np.testing.assert_allclose(effect, product, rtol=1e-6, atol=1e-12)


def test_a_small_finite_step_has_its_first_order_effect(monkeypatch: Any) -> None:
    monkeypatch.setattr(backup, "SIZES", (1e-4,))
    monkeypatch.setattr(backup, "FURTHER", 2)
    moment = _moment("network 16")
    some = moment._stored(5)
    effects = moment._finite(some, 1.0)
    expected = moment._first_order(some, backup.TEMPERATURE) * some.error * 1e-4
    np.testing.assert_allclose(effects[0], expected, rtol=0.02, atol=1e-9)


def test_copies_learn_as_the_agent_does() -> None:
    """``trained_on`` makes the agent's own updates: Adam, double DQN, the copied target."""
    task = exact_task("deep sea")
    agent, memory = new_agent(task, "deep sea", "network 16", 3), Memory(task, ARMS["uniform"], 3)
    for _ in played(task, agent, memory, np.random.default_rng(3), 800, 4):
        pass
    batches = [memory.buffer.sample(32) for _ in range(7)]
    start = {n: v.detach().clone()[None] for n, v in agent.network.named_parameters()}
    copies = further.trained_on(agent, start, batches, target_period=3)
    for number, batch in enumerate(batches):
        if number and number % 3 == 0:
            agent.learner.update_target()
        agent.update(batch)
    for name, value in agent.network.named_parameters():
        np.testing.assert_allclose(
            copies[name][0].numpy(), value.detach().numpy(), rtol=1e-3, atol=1e-6
        )


def test_rank_correlations_by_hand() -> None:
    """Effects 1, -2, 3: their sizes rank 1, 2, 3 and they rank 2, 1, 3."""
    effects = np.array([[1.0, -2.0, 3.0], [1.0, -2.0, 3.0]])
    factors = np.stack([np.tile([10.0, 20.0, 30.0], (2, 1)), np.ones((2, 3))])
    found = correlations(effects, factors)
    np.testing.assert_allclose(found[0, 0], [1.0, 0.5])
    np.testing.assert_allclose(found[:, 1], 0.0)


def test_a_run_is_measured_at_every_checkpoint(monkeypatch: Any) -> None:
    monkeypatch.setattr(backup, "STEPS", 4_800)
    monkeypatch.setattr(backup, "TRANSITIONS", 100)
    monkeypatch.setattr(backup, "FURTHER", 3)
    found = measure(Case("deep sea", "table", 0, 1), 0)
    assert found["locality"].tolist() == [1.0] * 4
    assert found["correlation"].shape == (4, 2, len(FACTORS), 2)
    assert found["more"].shape == (2, len(backup.MORE), 2, len(FACTORS), 2)
    assert np.isfinite(found["more"]).all()
    again = measure(Case("deep sea", "table", 0, 0), 0)
    np.testing.assert_array_equal(found["correlation"], again["correlation"])


def _data(advantage: dict[str, float], locality_of: dict[str, float]) -> Table:
    """Two tasks, three seeds; gain predicts with .5, and the product is ahead by ``advantage``."""
    rows = []
    for task in ("one", "two"):
        for name, ahead in advantage.items():
            for seed, noise in enumerate((-0.01, 0.0, 0.01)):
                rows.append(
                    (
                        (task, name, seed),
                        {
                            "steps": 3_000,
                            "effect": "first order",
                            "seen_from": "present",
                            "size: gain": 0.5,
                            "size: gain x need": 0.5 + ahead + noise,
                            "locality": locality_of[name],
                            "value": 0.0,
                        },
                    )
                )
    return long_table(("task", "function", "seed"), rows)


@pytest.mark.parametrize(
    ("slope", "verdicts"),
    [(1.0, ["holds", "holds", "holds"]), (-1.0, ["does not hold"] * 3)],
)
def test_the_theory_is_judged_by_its_own_rule(slope: float, verdicts: list[str]) -> None:
    """The advantage is slope x (locality - .55), so its rank correlation is 1 or -1."""
    spread = {name: 1.0 - 0.1 * place for place, name in enumerate(CLASSES)}
    data = _data({name: slope * (local - 0.55) for name, local in spread.items()}, spread)
    claims = backup_analysis.claims_of(data, "main", seed=0)
    assert [claim.verdict for claim in claims] == verdicts
    assert f"{slope:.2f} on average" in claims[0].measured
    assert claims[1].measured.startswith(f"one {slope * 0.45:+.2f}".replace("+", "")[:8])


def test_the_study_makes_its_tables_and_figure(monkeypatch: Any) -> None:
    monkeypatch.setattr(backup, "STEPS", 2_400)
    monkeypatch.setattr(backup, "TRANSITIONS", 64)
    monkeypatch.setattr(value_of_backup, "QUICK_CLASSES", ("table", "network 64"))
    with trial_runner() as runner:
        result = value_of_backup.STUDY.run(Options(("main",), 2, 0, 1, "quick"), runner)
    data = result.tables["data"]
    assert len(data["steps"]) == 2 * 2 * 4 * 2
    assert set(data["effect"].tolist()) == {"first order"}
    assert len(result.claims) == 3
    local = data.where(function="table")
    assert (local["locality"] == 1.0).all()
