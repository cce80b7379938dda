"""One replay of vanilla PER-SR, worked out by hand.

These look inside the kernels, each of which would have to be compiled alone: they run uncompiled
(``make uncompiled``). ``test_trial`` compares compiled trials with uncompiled ones.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from needlab.studies.cliffwalk.agent import (
    AT_REST,
    BY_GAIN,
    CONTINUE,
    NEGATIVE_ROWS,
    OVERFLOWED,
    CliffwalkAgent,
    error_of,
    need_factor,
    new_agent,
    oracle_pair,
    parameters_of,
    read_need,
    replay,
    replay_one,
)
from needlab.studies.cliffwalk.settings import Method, cliffwalk_preset
from needlab.tabular.state_tree import OWN, set_power
from needlab.worlds.cliffwalk import cliffwalk_world
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") != "1",
    reason="looks inside kernels: make uncompiled runs it uncompiled",
)


def made(method: Method, n: int = 2, preset: str = "released", **overrides: Any) -> tuple[Any, Any]:
    settings = cliffwalk_preset(preset, **overrides)
    table = cliffwalk_world(n, settings.fall, settings.right_actions)
    agent = new_agent(table, settings, method, stream(0, "made"))
    return agent, parameters_of(settings, method, n, len(agent.slot_pair))


def probabilities(agent: CliffwalkAgent, rule: Any, need: FloatArray) -> FloatArray:
    """P of every slot, written out."""
    states = agent.slot_pair // 2
    scores = agent.tree.power[:, OWN] * np.maximum(need[states], 0.0) ** rule.need_alpha
    p: FloatArray = scores / scores.sum()
    return p


def test_need_is_a_row_a_column_or_a_shifted_row() -> None:
    M = np.array([[1.0, -2.0, 0.5], [3.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
    agent, rule = made("need")
    agent.M[:] = M
    assert read_need(agent, rule, 1)
    np.testing.assert_array_equal(agent.need, [3.0, 4.0, 0.0])
    assert read_need(agent, rule, 0)
    np.testing.assert_allclose(agent.need, [3.001, 0.001, 2.501])
    assert agent.counts[NEGATIVE_ROWS] == 1
    agent, rule = made("need-backward", negative_need="zero")
    agent.M[:] = M
    assert read_need(agent, rule, 1)
    np.testing.assert_array_equal(agent.need, [-2.0, 4.0, 0.0])
    agent.M[0, 1] = np.inf
    assert not read_need(agent, rule, 1)


def test_greedy_need_follows_q() -> None:
    agent, rule = made("need-optimal", 3, "printed")
    agent.pairs["q"][:6] = [1, 0, 0, 1, 1, 0]  # right is 0, 1, 0
    read_need(agent, rule, 0)
    np.testing.assert_allclose(agent.need, [1.0, 2 / 3, 4 / 9, 8 / 27])
    agent.pairs["q"][2] = 2.0  # state 1 falls now, and the episode ends
    read_need(agent, rule, 0)
    np.testing.assert_allclose(agent.need, [1.0, 2 / 3, 0.0, 0.0])


def test_td_error_by_hand() -> None:
    agent, _ = made("per")  # γ = 2/3
    agent.pairs["q"][:4] = [0.1, 0.2, 0.6, 0.3]
    assert error_of(agent, 0) == pytest.approx(2 / 3 * 0.6 - 0.1)
    assert error_of(agent, 1) == pytest.approx(2 / 3 * 0.2 - 0.2)  # teleports to the start
    assert error_of(agent, 2) == pytest.approx(1.0 - 0.6)
    agent, _ = made("per", fall="ends")
    agent.pairs["q"][:4] = [0.1, 0.2, 0.6, 0.3]
    assert error_of(agent, 1) == pytest.approx(-0.2)


def test_oracles_by_hand() -> None:
    q = [0.1, 0.6, 0.9, 0.0]
    # δ: 2/3·0.9 − 0.1 = 0.5; 2/3·0.6 − 0.6 = −0.2; 0.1; 2/3·0.6 − 0 = 0.4
    for oracle, found in (("pair", 0), ("right", 0), ("global", 0)):
        agent, rule = made("oracle", oracle=oracle)
        agent.pairs["q"][:4] = q
        assert oracle_pair(agent, rule) == found
    # δ: −0.9 for the pair (0, 0), which is the largest, but not positive
    for oracle, found in (("pair", 0), ("right", 2), ("global", 0)):
        agent, rule = made("oracle", oracle=oracle)
        agent.pairs["q"][:4] = [1.5, 1.5, 0.9, 1.0]
        assert oracle_pair(agent, rule) == found
    # every right δ is negative: the start's right action
    agent, rule = made("oracle", oracle="right")
    agent.pairs["q"][:4] = [3.0, 0.0, 2.0, 0.0]
    assert oracle_pair(agent, rule) == 0


@pytest.mark.parametrize("method", ["per", "need"])
def test_samples_follow_the_distribution(method: Method) -> None:
    agent, rule = made(method, 3, step_size=0.0)
    rng = stream(2, "draws")
    agent.pairs["q"][:6] = rng.random(6)
    for slot, pair in enumerate(agent.slot_pair):
        gain = abs(error_of(agent, int(pair))) + rule.priority_floor
        set_power(agent.tree, slot, gain**rule.alpha)
    need = np.ones(4)
    if method == "need":
        read_need(agent, rule, 1)
        need = agent.need.copy()
    p = probabilities(agent, rule, need)
    expected = np.bincount(agent.slot_pair, p, 6)
    counts = np.zeros(6)
    for _ in range(4000):
        replay_one(agent, rule, 0, rng.random())
        counts[agent.batch_pair[0]] += 1
    assert chisquare(counts, expected * 4000).pvalue > 0.01
    np.testing.assert_allclose(probabilities(agent, rule, need), p, rtol=1e-12)


def test_need_in_the_probability_and_in_the_step_have_the_same_mean() -> None:
    agent, rule = made("need-magnitude", 4, need_alpha=1.0)
    rng = stream(3, "magnitude")
    agent.pairs["q"][:8] = rng.random(8)
    for slot in range(len(agent.slot_pair)):
        set_power(agent.tree, slot, rng.random())
    agent.M[:] = rng.random((5, 5))
    read_need(agent, rule, 2)
    errors = np.array([error_of(agent, int(pair)) for pair in agent.slot_pair])
    drawn = np.bincount(agent.slot_pair, probabilities(agent, rule, agent.need) * errors)
    by_gain = agent.tree.power[:, OWN] / agent.tree.power[:, OWN].sum()
    factors = np.array([need_factor(agent, rule, int(pair) // 2) for pair in agent.slot_pair])
    scaled = np.bincount(agent.slot_pair, by_gain * factors * errors)
    np.testing.assert_allclose(scaled, drawn, rtol=1e-12)


def test_need_factors_at_the_edges() -> None:
    agent, rule = made("need-magnitude", need_alpha=1.0)
    agent.need[:] = [-1.0, 0.0, 0.0]
    assert need_factor(agent, rule, 0) == 1.0  # no need anywhere: as without need
    agent.need[:] = [0.0, 1e200, 0.0]  # two of eight transitions are of state 1
    assert need_factor(agent, rule, 1) == pytest.approx(4.0)


def test_a_scaled_step_is_no_longer_than_allowed() -> None:
    agent, rule = made("need-magnitude", need_alpha=1.0, step_size=0.5)  # 0.5 · 4 would be 2
    agent.M[:] = [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    read_need(agent, rule, 0)
    replay_one(agent, rule, 0, 0.99)  # the rewarded one of state 1's two
    assert agent.batch_pair[0] == 2
    assert rule.step_size * agent.batch_step[0] == 1.0


def test_what_weights_correct_for_by_hand() -> None:
    agent, rule = made("need", minibatch=2, alpha=1.0, need_alpha=1.0)
    agent.M[0] = [1.0, 3.0, 0.0]  # six slots of state 0, two of state 1: total 6 + 6
    read_need(agent, rule, 0)
    replay_one(agent, rule, 0, 0.0)
    assert agent.batch_probability[0] == pytest.approx(1 / 12)
    agent, rule = made("need", minibatch=2, alpha=1.0, need_alpha=1.0, weights_correct="gain")
    agent.M[0] = [1.0, 3.0, 0.0]
    read_need(agent, rule, 0)
    replay_one(agent, rule, 0, 0.9)
    assert agent.batch_pair[0] in (2, 3)
    assert agent.batch_probability[0] == pytest.approx(1 / 8)  # all gains are equal
    agent, rule = made("rank", minibatch=2, rank_exponent=1.0)
    replay_one(agent, rule, 0, 0.0)
    first = 1 / sum(1 / rank for rank in range(1, 9))
    assert agent.batch_probability[0] == pytest.approx(first)


def test_the_weight_of_a_sample_by_hand() -> None:
    agent, rule = made("need", minibatch=2, alpha=1.0, need_alpha=1.0, beta=0.6)
    agent.M[0] = [1.0, 3.0, 0.0]
    read_need(agent, rule, 0)
    replay(agent, rule, _Fixed([0.0, 0.99]))  # type: ignore[arg-type]
    # One of state 0 with probability 1/12; its gain is 1e-3 then, so the rewarded one of state 1
    # has 3 / 11.001, a weight of (11.001 / 36)^beta, and an error of 1.
    assert agent.batch_pair.tolist() == [0, 2]
    beta = np.log(agent.pairs["q"][2] / rule.step_size) / np.log(11.001 / 36)
    assert beta == pytest.approx(0.6)


class _Fixed:
    """A generator of given numbers."""

    def __init__(self, numbers: list[float]) -> None:
        self.numbers = iter(numbers)

    def random(self) -> float:
        return next(self.numbers)


def test_a_minibatch_sums_or_averages_its_weighted_steps() -> None:
    for batch_step, expected in (("sum", 0.5), ("mean", 0.25)):
        agent, rule = made("per", minibatch=2, beta=0.0, batch_step=batch_step)
        # Both draws are the rewarded transition, with δ = 1 before either of them moves Q.
        agent.slot_pair[:] = 2
        replay(agent, rule, stream(0, "batch"))
        assert agent.batch_pair.tolist() == [2, 2]
        assert agent.pairs["q"][2] == expected


def test_pser_passes_gain_back_along_the_string() -> None:
    agent, rule = made("pser", 3, pser_window=2, start_priority=1e-9)
    agent.gain[:] = 1e-9
    rewarded = int(np.flatnonzero(agent.slot_pair == 4)[0])
    set_power(agent.tree, rewarded, 1e9)
    replay_one(agent, rule, 0, 0.5)
    assert agent.batch_pair[0] == 4
    middle = agent.before[rewarded]
    first = agent.before[middle]
    assert agent.before[first] == -1
    gains = agent.gain[[rewarded, middle, first]]
    np.testing.assert_allclose(gains, 1.001 * 0.4 ** np.arange(3))
    np.testing.assert_allclose(agent.tree.power[middle, OWN], (1.001 * 0.4) ** 0.6)
    assert (agent.gain > 1e-6).sum() == 3


def test_pser_keeps_a_share_of_an_old_gain() -> None:
    agent, rule = made("pser")
    replay_one(agent, rule, 0, 0.0)  # δ = 0, but the gain was 1
    assert np.sort(agent.gain)[0] == 0.7


def test_ranks_after_a_replay() -> None:
    agent, rule = made("rank")
    fallen = int(np.flatnonzero(agent.slot_pair[agent.order.slot.ravel()] == 1)[0])
    slot = agent.order.slot[fallen]
    below = agent.order.cumulative[fallen - 1] if fallen else 0.0
    replay_one(agent, rule, 0, below)
    assert agent.batch_pair[0] == 1
    assert agent.order.slot[7] == slot
    assert -agent.order.minus_gain[7] == 0.001  # δ = 0: its gain is the floor


def test_how_a_replay_went() -> None:
    agent, rule = made("per")
    assert replay(agent, rule, stream(0, "went")) == CONTINUE
    agent.pairs["q"][:] = np.nan
    assert replay(agent, rule, stream(0, "went")) == OVERFLOWED


def test_a_greedy_sampler_at_rest() -> None:
    # With a step size of 0 the rewarded transition keeps δ = 1 and the largest gain for ever.
    agent, rule = made("gain", start_priority=0.5, step_size=0.0)
    went = [replay(agent, rule, stream(0, "went")) for _ in range(10)]
    at = went.index(AT_REST)
    assert went[:at] == [CONTINUE] * at
    assert set(went[at:]) == {AT_REST}
    assert agent.batch_pair[0] == 2


def test_no_need_at_all_falls_back_to_gain_and_is_counted() -> None:
    agent, rule = made("need", negative_need="zero")
    agent.M[:] = -1.0
    read_need(agent, rule, 0)
    replay_one(agent, rule, 0, 0.3)
    assert agent.counts[BY_GAIN] == 1
