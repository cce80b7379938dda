"""The ladder: its first rung is PS-SR, its network is torch's, draws have the right shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from needlab.core.tables import long_table, read_json, write_json, write_table
from needlab.runs.trials import trial_runner
from needlab.studies.locality import both, ladder, ladder_agent, ladder_network
from needlab.studies.locality.classes import CLASSES, ClassNetwork
from needlab.studies.locality.ladder import RUNGS, Case, claims_of, learn, the_fall
from needlab.studies.locality.ladder_agent import DISCOUNT, Plan, new_agent, run_kernel
from needlab.studies.maze.world import dyna_world
from needlab.studies.study import Options
from needlab.tabular.settings import agent_settings
from needlab.tabular.trial import random_policy_successor, run_trial
from needreplay._core.types import FloatArray, IntArray

STORED = RUNGS["stored transitions"].plan


def run(plan: Plan, trial: int = 0, **options: Any) -> tuple[IntArray, Any]:
    """The steps of 30 episodes in the Dyna maze, and the agent."""
    world = dyna_world(0.0)
    M = random_policy_successor(world, DISCOUNT)
    agent = new_agent(world, plan, M, rng=np.random.default_rng(5), **options)
    steps = np.zeros(30, np.int64)
    run_kernel(agent, plan, world, steps, 2_000, np.random.default_rng(trial))
    return steps, agent


@pytest.mark.parametrize(("name", "uses_need"), [("ps", False), ("ps-sr", True)])
def test_the_first_rung_is_prioritized_sweeping_step_for_step(name: str, uses_need: bool) -> None:
    steps, agent = run(RUNGS["PS-SR"].plan, uses_need=uses_need)
    world, settings = dyna_world(0.0), agent_settings(name)
    expected = run_trial(world, settings, 30, np.random.default_rng(0))
    assert steps.tolist() == expected.lengths.tolist()
    np.testing.assert_allclose(agent.Q, expected.agent.Q, rtol=1e-12)
    if uses_need:
        np.testing.assert_allclose(agent.M, expected.agent.M, rtol=1e-12)


def test_linear_with_one_hot_features_is_the_table() -> None:
    table, agent = run(STORED)
    linear, other = run(STORED, kernel=np.eye(54))
    assert table.tolist() == linear.tolist()
    np.testing.assert_allclose(agent.Q, other.Q, rtol=1e-12)


@pytest.mark.parametrize("rung", ["sampled", "stored transitions", "radial 1.5", "minibatches"])
def test_rungs_learn_the_maze(rung: str) -> None:
    """A random walk takes hundreds of steps; the shortest path has 14."""
    own = RUNGS[rung]
    kernel = ladder.inner_products(1, own.width)
    steps, _ = run(own.plan, kernel=kernel, uses_need=False)
    assert np.median(steps[-10:]) < 100


def _network() -> tuple[FloatArray, ClassNetwork, Any]:
    theta = ladder_network.first_parameters(7, 8, 3, np.random.default_rng(0))
    network = ClassNetwork(7, 8, 3).double()
    named = ladder_network.parameters_of(theta[0], 7, 8, 3)
    network.load_state_dict({name: torch.from_numpy(part) for name, part in named.items()})
    obs = torch.zeros(1, 7, dtype=torch.float64)
    obs[0, [2, 5]] = 1.0
    return theta, network, obs


def test_the_plain_network_is_torchs() -> None:
    """Values, the gradient of the Huber loss and two steps of Adam."""
    theta, network, obs = _network()
    optimizer = torch.optim.Adam(network.parameters(), lr=ladder_network.RATE)
    ones, layers, out = np.array([2, 5]), np.zeros((4, 8)), np.zeros(3)
    for step, target in ((1, 0.4), (2, 3.0)):
        ladder_network.q_values(theta[0], ones, layers, out)
        values = network(obs)
        np.testing.assert_allclose(out, values.detach().numpy()[0], rtol=1e-9)
        error = target - out[1]
        optimizer.zero_grad()
        loss = torch.nn.functional.huber_loss(
            values[0, 1], torch.tensor(target, dtype=torch.float64)
        )
        loss.backward()  # type: ignore[no-untyped-call]
        ladder_network.gradient_step(theta, ones, 1, 3, error, 1.0, layers)
        named = ladder_network.parameters_of(theta[4], 7, 8, 3)
        for name, parameter in network.named_parameters():
            assert parameter.grad is not None
            np.testing.assert_allclose(named[name], parameter.grad.numpy(), rtol=1e-9, atol=1e-12)
        optimizer.step()
        ladder_network.adam(theta, step)
        assert not theta[4].any()
        named = ladder_network.parameters_of(theta[0], 7, 8, 3)
        for name, parameter in network.named_parameters():
            np.testing.assert_allclose(named[name], parameter.detach().numpy(), rtol=1e-6)


def test_draws_are_in_proportion_to_gain_times_need() -> None:
    """Stored: a quarter uniform, the rest 1 : 0 : 3. The queue: gain x need is 2 : 6, one is 0."""
    from scipy.stats import chisquare

    rng = np.random.default_rng(1)
    cumulative = np.array([1.0, 1.0, 4.0])
    rows = [ladder_agent._drawn(cumulative, 3, 4.0, rng) for _ in range(4_000)]
    shares = 0.25 / 3 + 0.75 * np.array([0.25, 0.0, 0.75])
    assert chisquare(np.bincount(rows, minlength=3), 4_000 * shares).pvalue > 1e-3
    gain, queued_at = np.array([2.0, 0.0, 3.0, 0.0]), np.array([0, 0, 1, 0])
    need = np.array([1.0, 2.0])
    popped = [ladder_agent._popped(gain, queued_at, need, 2, True, rng) for _ in range(4_000)]
    counts = np.bincount(popped, minlength=4)
    assert counts[[1, 3]].tolist() == [0, 0]
    assert chisquare(counts[[0, 2]], [1_000, 3_000]).pvalue > 1e-3
    assert ladder_agent._popped(gain, queued_at, need, 2, False, rng) == 2


def test_shuffled_need_has_other_places_and_is_worse_in_the_maze() -> None:
    cases = {arm: Case("6x9", "PS-SR", arm, 0) for arm in ladder.ARMS}
    later = {
        arm: np.mean([learn(case, trial)["later"] for trial in range(5, 15)])
        for arm, case in cases.items()
    }
    assert later["need"] < later["none"] < 1.2 * later["shuffled"]


def test_locality_falls_from_rung_to_rung() -> None:
    """1 for one-hot features; a network spreads more than narrow features."""
    found = {
        rung: learn(Case("6x9", rung, "none", 0), 0)["locality"]
        for rung in ("linear, one-hot", "radial 0.7", "radial 3", "minibatches")
    }
    assert found["linear, one-hot"] == 1.0
    assert found["radial 0.7"] > found["radial 3"]
    assert found["radial 0.7"] > found["minibatches"]


def test_the_fall_by_hand() -> None:
    assert the_fall({"a": True, "b": False, "c": True, "d": False, "e": False}) == "d"
    assert the_fall({"a": True}) == ""
    assert the_fall({"a": False, "b": False}) == "a"


@pytest.mark.parametrize(
    ("last", "verdict"),
    [("radial 1.5", "holds"), ("linear, one-hot", "does not hold"), ("network", "does not hold")],
)
def test_the_place_of_the_fall_decides(last: str, verdict: str) -> None:
    """Need saves half of the steps up to ``last``, and none after it."""
    order = list(RUNGS)
    rng = np.random.default_rng(0)
    steps = {}
    for rung in order:
        base = rng.integers(90, 110, 20)
        ratio = 0.5 if order.index(rung) <= order.index(last) else 1.0
        need = (ratio * base).astype(np.int64) + rng.integers(-3, 4, 20)
        steps["6x9", rung] = {"none": base, "need": need, "shuffled": base + 5}
    summary = ladder.summary_of(steps, dict.fromkeys(order, 1.0), 0)
    claim = claims_of(summary, "6x9")[0]
    assert claim.verdict == verdict
    assert the_fall(ladder.pays(summary)) == order[order.index(last) + 1]


def test_the_study_makes_its_tables_and_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("PS-SR", "linear, one-hot", "radial 0.7", "target network")
    monkeypatch.setattr(ladder, "RUNGS", {rung: RUNGS[rung] for rung in few})
    with trial_runner() as runner:
        options = Options(("6x9",), 2, 0, 1, "quick")
        result = ladder.STUDY.run(options, runner)
    assert result.tables["summary"]["rung"].tolist() == 3 * list(few)
    assert len(result.tables["data"]["steps"]) == 4 * 3 * 2
    assert len(result.claims) == 1 + len(few)


@pytest.mark.parametrize(("sign", "verdict"), [(-1.0, "holds"), (1.0, "does not hold")])
def test_prediction_b_compares_both_studies(sign: float, verdict: str, tmp_path: Path) -> None:
    """The ratio of steps is exp(sign x advantage), so the rank correlation is the sign."""
    advantage = {name: 0.4 - 0.1 * place for place, name in enumerate(CLASSES)}
    rows = {
        ("deep sea", name, seed): {
            "effect": "first order",
            "seen_from": "present",
            "locality": 0.5,
            "size: gain": 0.1,
            "size: gain x need": 0.1 + value,
        }
        for name, value in advantage.items()
        for seed in (0, 1)
    }
    rungs = [rung for rung, own in RUNGS.items() if own.function]
    ratios = {
        ("need / none", rung): {"ratio": np.exp(sign * advantage[RUNGS[rung].function])}
        for rung in rungs
    }
    write_table(tmp_path / "data.csv", long_table(("task", "function", "seed"), rows))
    write_table(tmp_path / "summary.csv", long_table(("ratio_of", "rung"), ratios))
    write_json(tmp_path / "meta.json", {"presets": ["6x9"]})
    write_json(tmp_path / "claims.json", [])
    for _ in range(2):
        claim = both.judge(tmp_path, tmp_path)
    assert (claim.verdict, claim.measured[-5:].strip()) == (verdict, f"{sign:.2f}")
    assert [one["verdict"] for one in read_json(tmp_path / "claims.json")] == [verdict]
