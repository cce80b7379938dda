"""The rivals of EVB: reductions, distributions, and the main claim of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from needlab.tabular.evb import EVB, simulate
from needlab.tabular.evb.backups import BACKUP
from needlab.tabular.fit import data_of, likelihood
from needlab.tabular.replay_events import FORWARD, REVERSE, replay_events
from needlab.tabular.rivals import MODELS, PARAMETERS, kernels, simulate_model
from needlab.tabular.rivals.parameters import parse_model
from needlab.tabular.rivals.simulation import new_mind, replay_drawn, similarity_of
from needlab.worlds import TabularWorld, tabular_world, world_of_arrays
from needlab.worlds.boards import linear_track
from needreplay._core.errors import NeedReplayError

LEFT, RIGHT = 0, 1


def corridor(cells: int = 5) -> TabularWorld:
    """A line of cells with two actions and a goal at its right end, which gives 1."""
    moves = [[max(s - 1, 0), min(s + 1, cells - 1)] for s in range(cells)]
    return world_of_arrays(moves, [0], goals=[cells - 1], rewards={cells - 1: [(1.0, 0.0)]})


class Watched:
    """A model, its agent and memory, so that tests can look at chances."""

    def __init__(self, text: str, world: TabularWorld, **changes: Any) -> None:
        name, given = parse_model(text)
        self.world = world
        self.mind = new_mind(name, world, given, replace(EVB["published"], **changes))
        self.agent, self.moment = self.mind.agent, self.mind.moment

    def step(self, s: int, a: int, reward: float = 0.0, first: bool = False) -> None:
        kernels.experience(self.mind, s, a, reward, int(self.world.next_state[s, a]), first)

    def begin(self, state: int) -> None:
        kernels.begin_replay(self.mind, state)

    def chances(self) -> Any:
        kernels.find_chances(self.mind)
        return self.moment.parts.sum(axis=0).reshape(self.world.next_state.shape)

    def choose(self, s: int, a: int, part: int = -1) -> None:
        kernels.run_chosen(self.mind, s * self.world.n_actions + a, part)


def directions(found: Any, world: TabularWorld) -> tuple[int, int]:
    """Forward and reverse events."""
    counts = {FORWARD: 0, REVERSE: 0}
    for pause in found.pauses:
        part = found.backups[pause["first"] : pause["first"] + pause["count"]]
        for event in replay_events(part["state"], part["action"], world.next_state, permutations=0):
            counts[int(event["direction"])] += 1
    return counts[FORWARD], counts[REVERSE]


@pytest.mark.parametrize("model", MODELS)
def test_chances_add_up_to_one(model: str) -> None:
    mind = Watched(model, corridor())
    for s in range(4):
        mind.step(s, RIGHT, float(s == 3), s == 0)
    mind.begin(3)
    for s in (3, 2, 1):
        assert mind.chances().sum() == pytest.approx(1.0)
        mind.choose(s, RIGHT)


def test_exponents_of_zero_are_uniform() -> None:
    mind = Watched("evb,gain_exponent=0,need_exponent=0,chain=1", corridor())
    mind.step(3, RIGHT, 1.0)
    mind.begin(3)
    # 4 cells with 2 actions; only going left from the first cell leads nowhere.
    expected = np.full((5, 2), 1 / 7)
    expected[0, LEFT] = 0.0
    expected[4] = 0.0
    np.testing.assert_allclose(mind.chances(), expected)


def test_chances_of_evb_are_gain_and_need_to_their_powers() -> None:
    """Three cells, γ = 0.5, α = 1, β = 1, rate of T 1; the last step entered the goal from cell 1.

    Q(1, right) = 1. Backup of (0, right): target 0.5, gain with q' = (0, 0.5): the new policy gives
    0.5 e^0.5 / (1 + e^0.5), the old one 0.25. All other gains are the floor, 0.01. T is exactly
    what happened in row 1 (goal) and random in row 0: (0, right) has need from cell 1 of
    0.5² T(goal, 0) G, where G is the need of 0 once there; goal -> start 0.
    """
    world = corridor(3)
    settings = {"discount": 0.5, "inverse_temperature": 1.0, "transition_rate": 1.0}
    mind = Watched("evb,gain_exponent=2,need_exponent=0.5,floor=0.01,chain=1", world, **settings)
    mind.step(1, RIGHT, 1.0)
    mind.begin(1)
    # Row 0 of T: half stays, half goes to 1. Visits v: v1 = 1 + 0.5 * 0.5 v0, v2 = 0.5 v1,
    # v0 = 0.5 v2 + 0.5 * 0.5 v0. So v0 = v1 / 3, v1 = 12 / 11, v0 = 4 / 11.
    need = {0: 4 / 11, 1: 12 / 11}
    high = np.exp(0.5)
    gain = 0.5 * high / (1 + high) - 0.25
    weights = {
        (0, RIGHT): gain**2 * need[0] ** 0.5,
        (1, LEFT): 0.0,
        (1, RIGHT): 0.01**2 * need[1] ** 0.5,
    }
    # (1, left): target 0.5 max Q(0) = 0, the value that it has: no gain.
    weights[1, LEFT] = 0.01**2 * need[1] ** 0.5
    total = sum(weights.values())
    found = mind.chances()
    for (s, a), weight in weights.items():
        assert found[s, a] == pytest.approx(weight / total)


def test_large_exponents_are_the_published_rule() -> None:
    """Of the authors' argmax, every backup has the chance 1 / ties, so few bits in all."""
    world = linear_track()
    found = simulate(world, EVB["published"], episodes=20, seed=3)
    data = data_of(found, world)
    # Ties are exact in the authors' rule. Larger exponents than 50 would separate rounding errors.
    greedy = likelihood(data, "evb", {"gain_exponent": 50.0, "need_exponent": 50.0})
    assert np.mean(np.exp(greedy.pairs) > 0.01) > 0.97
    assert greedy.pairs.mean() > 0.15 * greedy.uniform.mean()
    loose = likelihood(data, "evb", {"gain_exponent": 50.0, "need_exponent": 0.0})
    assert loose.pairs.mean() < greedy.pairs.mean()


def test_one_candidate_goal_is_evb_with_need_of_the_policy() -> None:
    world = corridor()
    goals = Watched("goals,gain_exponent=0.7,need_exponent=0.3", world)
    evb = Watched("evb,gain_exponent=0.7,need_exponent=0.3,chain=1", world, need="policy")
    for mind in (goals, evb):
        for s in range(4):
            mind.step(s, RIGHT, float(s == 3))
        mind.begin(2)
    np.testing.assert_allclose(goals.chances(), evb.chances(), rtol=1e-10)
    for s, a in ((2, RIGHT), (3, LEFT), (1, RIGHT)):
        for mind in (goals, evb):
            mind.choose(s, a)
        np.testing.assert_allclose(goals.chances(), evb.chances(), rtol=1e-10)


def test_goals_that_are_not_rewarded_now_are_replayed() -> None:
    """Sagiv et al.'s claim: places on the way to likely future goals are visited by replay.

    Two arms. Only the left one gives a reward; the agent was in the right one three times before.
    """
    world = tabular_world("L.....S.....R\n\nL: 1 sd 0\nR: 0")
    left, right, shares = 2, 3, {}
    for model in ("evb,chain=1", "goals"):
        mind = Watched(model, world, need="policy")
        for _ in range(3):
            for s in range(6, 12):
                mind.step(s, right)
        for s in range(6, 0, -1):
            mind.step(s, left, float(s == 1))
        mind.begin(6)
        shares[model] = mind.chances()[7:12].sum()
    assert shares["goals"] > 0.5 > 0.01 > shares["evb,chain=1"]


def test_similarity_is_the_successor_matrix_of_the_random_policy() -> None:
    D = similarity_of(corridor(3), 0.5)
    # Row of cell 2, whose moves lead to 1 and (a bump) to itself; row 0 likewise; T = 1/2 each.
    T = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    series = sum(np.linalg.matrix_power(0.5 * T, k) for k in range(60))
    np.testing.assert_allclose(D, series, rtol=1e-12)


def test_sfma_by_hand() -> None:
    """Strengths 1, 2 of two experiences; default mode from cell 0; k = 1."""
    world = corridor(3)
    mind = Watched("sfma,reverse=0,sharpness=1,similarity_discount=0.5", world)
    for s, a in ((0, RIGHT), (1, RIGHT), (1, RIGHT)):
        mind.step(s, a)
    mind.begin(0)
    D = similarity_of(world, 0.5)
    R = np.array([1.0 * D[0, 0], 2.0 * D[0, 1]])
    weights = np.expm1(R / R.max())
    found = mind.chances()
    assert found[[0, 1], RIGHT] == pytest.approx(weights / weights.sum())
    mind.choose(1, RIGHT)
    R = np.array([1.0 * D[1, 0], 0.0])  # cell 1 is inhibited fully
    assert mind.chances()[0, RIGHT] == pytest.approx(1.0)
    mind.choose(0, RIGHT)
    R = np.array([0.0, 2.0 * D[0, 1] * (1 - 0.9)])
    assert mind.chances()[1, RIGHT] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("mode", "here", "to_next"),
    [
        ("reverse=1", 1, True), ("reverse=0", 1, False),
        ("reverse=0,forward=1", 2, False), ("reverse=0,forward=0,sweeping=1", 2, True),
    ],
)  # fmt: skip
def test_modes_of_sfma_compare_other_states(mode: str, here: int, to_next: bool) -> None:
    """Before the replay the agent went from 1 to 2; then (0, right) is replayed, which leads to 1.

    The present is cell 1 and next 2, then cell 0 and next 1. All strengths are 1, k = 1.
    """
    world = corridor(5)
    mind = Watched(f"sfma,{mode},sharpness=1,similarity_discount=0.5", world)
    for s in (3, 2, 0, 1):
        mind.step(s, RIGHT)
    D, free = similarity_of(world, 0.5), np.ones(4)
    for present in (here, here - 1):
        if present == here:
            mind.begin(1)
        else:
            mind.choose(0, RIGHT)
            free[0] = 0.0
        R = D[present, 1:5] * free if to_next else D[present, :4] * free
        weights = np.expm1(R / R.max())
        np.testing.assert_allclose(mind.chances()[:4, RIGHT], weights / weights.sum())


def test_chances_of_modes_are_given_one_after_the_other() -> None:
    mind = Watched("sfma,reverse=0.5,forward=0.4,sweeping=0.1", corridor())
    mind.step(0, RIGHT)
    mind.begin(1)
    # reverse, default, forward, sweeping
    np.testing.assert_allclose(mind.moment.hidden, [0.5, 0.27, 0.2, 0.03])


def test_the_likelihood_tells_the_modes_of_sfma_apart() -> None:
    world = tabular_world("S.......G")
    found = simulate_model("sfma,reverse=0.2,forward=0.7", world, episodes=20)
    data = data_of(found, world)
    totals = {
        chances: likelihood(data, "sfma", dict(zip(("reverse", "forward"), chances, strict=True)))
        for chances in ((0.2, 0.7), (0.2, 0.0), (0.9, 0.7))
    }
    true, *others = (one.pairs.sum() for one in totals.values())
    assert all(true > other + 5.0 for other in others)


def test_a_goal_is_as_near_to_its_neighbors_as_they_are_to_it() -> None:
    world = tabular_world("S...G")
    D = similarity_of(world, 0.9)
    np.testing.assert_allclose(D, D.T)
    assert np.argmax(D[3, :5]) == 3, "no place is nearer than the place itself"


def test_sfma_joins_pieces_that_were_never_walked_in_one_run() -> None:
    """Diekmann & Cheng: a sequence that the animal never made, since its pieces are neighbors."""
    world = corridor(12)
    mind, rng = Watched("sfma,reverse=0,forward=1", world), np.random.default_rng(0)
    for run in (range(6, 11), range(6)):
        for s in run:
            mind.step(s, RIGHT, first=s == run[0])
    joined = 0
    for _ in range(50):
        log = np.zeros(20, BACKUP)
        count = replay_drawn(mind.mind, 0, log, rng)
        states, actions = log["state"][:count], log["action"][:count]
        for event in replay_events(states, actions, world.next_state, permutations=0):
            visited = set(states[event["first"] : event["last"] + 1].tolist())
            joined += event["direction"] == FORWARD and {3, 4, 5, 6, 7} <= visited
    assert joined > 25


def test_sfma_dynamic_mode_follows_td_errors() -> None:
    for errors, expected in ((0.0, 1 / (1 + np.exp(2.0))), (1.0, 1 / (1 + np.exp(-3.0)))):
        mind = Watched("sfma-dynamic", corridor())
        mind.step(3, RIGHT, errors, first=True)
        mind.begin(3)
        assert mind.moment.hidden[0] == pytest.approx(expected)


def test_sfma_replays_sequences_without_gain_or_need() -> None:
    """Diekmann & Cheng's claims: sequences arise, and reverse ones in the reverse mode."""
    world = linear_track()

    def events(mode: int) -> Any:
        found = [simulate_model(f"sfma,reverse={mode}", world, simulation=i) for i in (0, 1)]
        return np.sum([directions(one, world) for one in found], axis=0)

    by_mode = {mode: events(mode) for mode in (0, 1)}
    random = directions(simulate_model("uniform", world, episodes=60), world)
    assert sum(by_mode[0]) > 20 > 3 >= sum(random)
    assert by_mode[1][1] > 60
    assert by_mode[1][0] <= 0.05 * by_mode[1][1]


def test_recency_replays_the_last_run_backwards() -> None:
    mind = Watched("recency,recency=0,stay=1,reverse=1", corridor())
    for s in range(4):
        mind.step(s, RIGHT, float(s == 3))
    mind.begin(3)
    for s in (3, 2, 1, 0):
        expected = np.zeros((5, 2))
        expected[s, RIGHT] = 1.0
        np.testing.assert_allclose(mind.chances(), expected, atol=1e-12)
        mind.choose(s, RIGHT)
    # One reverse replay carries the reward to the start: γ^3.
    assert mind.agent.Q[0, RIGHT] == pytest.approx(0.9**3)


def test_recency_learns_the_direction_from_what_was_replayed() -> None:
    mind = Watched("recency,recency=0.5,stay=0.8,reverse=0.3", corridor())
    for s in range(4):
        mind.step(s, RIGHT)
    mind.begin(3)
    base = 0.5 ** np.arange(4) / 1.875  # of cells 3, 2, 1, 0
    np.testing.assert_allclose(mind.chances()[[3, 2, 1, 0], RIGHT], base)
    mind.choose(2, RIGHT)
    begins = 0.2 * base
    expected = begins + 0.8 * np.array([0.7, 0.0, 0.3, 0.0])
    np.testing.assert_allclose(mind.chances()[[3, 2, 1, 0], RIGHT], expected)
    mind.choose(1, RIGHT)
    older = 0.8 * 0.3 + 0.3 * begins[2]
    newer = 0.7 * begins[2]
    reverse = older / (older + newer)
    expected = begins + 0.8 * np.array([0.0, 1 - reverse, 0.0, reverse])
    np.testing.assert_allclose(mind.chances()[[3, 2, 1, 0], RIGHT], expected)


@pytest.mark.parametrize(
    "model", ["evb,gain_exponent=5,need_exponent=1", "goals", "sfma-dynamic", "recency"]
)
def test_every_model_learns_the_track_sooner_than_without_replay(
    model: str, uncompiled: bool
) -> None:
    """A greedy agent: steps of the first laps after the first reward."""
    world, count = linear_track(), 2 if uncompiled else 20
    base = replace(EVB["published"], behavior="epsilon-greedy", epsilon=0.1)
    steps = {}
    for name, backups in ((model, 20), ("uniform", 0)):
        settings = replace(base, backups=backups)
        lengths = [
            simulate_model(name, world, settings=settings, episodes=10, simulation=i).lengths[2:]
            for i in range(count)
        ]
        steps[name] = np.mean(lengths)
    assert steps[model] < 0.8 * steps["uniform"]


def test_simulated_backups_follow_the_chances(uncompiled: bool) -> None:
    """First backups of many replays in one state against the chances, by chi square."""
    from scipy.stats import chisquare

    mind = Watched("evb,gain_exponent=0.3,need_exponent=0.5,lapse=0.2", corridor())
    mind.step(3, RIGHT, 1.0)
    mind.begin(3)
    expected = mind.chances().ravel() * 0.8
    expected[mind.moment.candidate] += 0.2 / 7
    Q, rng, counts = mind.agent.Q.copy(), np.random.default_rng(0), np.zeros(10)
    draws = 300 if uncompiled else 5000
    for _ in range(draws):
        mind.agent.Q[:] = Q
        log = np.zeros(1, BACKUP)
        replay_drawn(mind.mind, 3, log, rng)
        counts[log["state"][0] * 2 + log["action"][0]] += 1
    inside = expected > 0
    assert counts[~inside].sum() == 0
    assert chisquare(counts[inside], draws * expected[inside]).pvalue > 0.001


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("evbb", "There is no model 'evbb'"),
        ("evb,alpha=1", "no parameter of evb 'alpha'"),
        ("evb,lapse=2", "lapse is 2.0; it must be a"),
        ("evb,lapse=nan", "lapse is nan"),
        ("evb,lapse", "write it as name=number"),
        ("evb,chain=1.5", "must be a whole number"),
    ],
)
def test_bad_models(text: str, message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        parse_model(text)


def test_every_parameter_is_used() -> None:
    used = {name for model in MODELS.values() for name in model.parameters}
    assert used == set(PARAMETERS)
    assert all(set(model.free) <= set(model.parameters) for model in MODELS.values())
