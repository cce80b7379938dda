"""Fitting models of replay: likelihoods by hand, recovery, comparison, files, bad input."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.core.tables import Table, write_table
from needlab.tabular.evb import EVB, simulate, simulation_table
from needlab.tabular.fit import (
    ReplayData,
    compare_models,
    data_from,
    data_of,
    fit_choices,
    fit_events,
    likelihood,
    read_data,
    write_data,
)
from needlab.tabular.fit.likelihood import relived
from needlab.tabular.rivals import simulate_model
from needlab.worlds import tabular_schedule, tabular_world, world_of_arrays
from needlab.worlds.boards import linear_track
from needreplay._core.errors import NeedReplayError

TRUE = {"gain_exponent": 1.5, "need_exponent": 1.0, "lapse": 0.05}
TRUE_MODEL = "evb," + ",".join(f"{name}={value}" for name, value in TRUE.items())


@cache
def simulated(model: str, episodes: int = 20, simulation: int = 0) -> ReplayData:
    world = linear_track()
    return data_of(simulate_model(model, world, episodes=episodes, simulation=simulation), world)


def small() -> tuple[ReplayData, Any]:
    """Two cells before a goal; one run with reward 1, then (0, right) is replayed."""
    world = world_of_arrays([[0, 1], [0, 2], [2, 2]], [0], goals=[2], rewards={2: [(1.0, 0.0)]})
    steps = Table({"time": [0, 1, 2], "state": [0, 1, 2], "reward": [0.0, 0.0, 1.0]})
    events = Table({"event": [0], "time": [2.5], "state": [0], "action": [1], "agent_state": [1]})
    return data_from(events, steps, world), world


def test_likelihood_by_hand() -> None:
    """γ = 0.5, β = 1, rate of T 1, α = 1: Q(1, right) = 1 and the replayed target is 0.5.

    The gain of (0, right) is 0.5 e^0.5 / (1 + e^0.5) - 0.25, the others are the floor. T: 0 -> 1 ->
    goal -> 0, so need from 1 is 1 / (1 - γ^3) for 1, and γ^2 of that for 0.
    """
    data, _ = small()
    values = {
        "gain_exponent": 2.0, "need_exponent": 0.5, "floor": 0.01, "lapse": 0.1, "discount": 0.5,
        "inverse_temperature": 1.0, "transition_rate": 1.0, "chain": 1.0,
    }  # fmt: skip
    gain = 0.5 * math.exp(0.5) / (1 + math.exp(0.5)) - 0.25
    need = 1 / (1 - 0.5**3)
    weight = gain**2 * (0.25 * need) ** 0.5
    others = 2 * 0.01**2 * need**0.5
    expected = math.log(0.9 * weight / (weight + others) + 0.1 / 3)
    found = likelihood(data, "evb", values)
    assert found.pairs[0] == pytest.approx(expected)
    assert found.uniform[0] == pytest.approx(math.log(1 / 3))
    # Before the reward all Q are 0: each of two actions has the chance 1/2, lapse or not.
    np.testing.assert_allclose(found.choices, math.log(0.5))


def test_an_unknown_action_is_the_sum_over_actions() -> None:
    world = small()[1]
    steps = Table({"time": [0, 1, 2], "state": [0, 1, 2], "reward": [0.0, 0.0, 1.0]})

    def chance(**columns: Any) -> float:
        events = Table({"event": [0], "time": [2.5], "agent_state": [1], **columns})
        return float(np.exp(likelihood(data_from(events, steps, world)).pairs[0]))

    left, right = (chance(state=[1], action=[a]) for a in (0, 1))
    assert chance(state=[1]) == pytest.approx(left + right)
    assert likelihood(data_from(
        Table({"event": [0], "time": [2.5], "state": [1]}), steps, world
    )).uniform[0] == pytest.approx(math.log(2 / 3))  # fmt: skip


def test_powers_of_zero_are_uniform() -> None:
    data = simulated(TRUE_MODEL)
    found = likelihood(data, "evb", {"gain_exponent": 0.0, "need_exponent": 0.0, "chain": 1.0})
    np.testing.assert_allclose(found.pairs, math.log(1 / 34))
    np.testing.assert_allclose(likelihood(data, "uniform").pairs, math.log(1 / 34))


def test_a_lapse_of_one_is_uniform_under_every_model() -> None:
    data = simulated("recency")
    for model in ("evb", "goals", "sfma", "recency"):
        found = likelihood(data, model, {"lapse": 1.0})
        np.testing.assert_allclose(found.pairs, math.log(1 / 34))


@pytest.mark.parametrize("preset", ["published", "text"])
def test_the_fit_relives_what_the_agent_learned(preset: str, tmp_path: Path) -> None:
    """Q and T at the end are those of the simulation, to the last bit, also through files."""
    world, settings = linear_track(), EVB[preset]
    found = simulate(world, settings, episodes=20, seed=1)
    data = data_of(found, world, settings)
    write_data(data, tmp_path / "events.csv", tmp_path / "steps.csv")
    read = read_data(tmp_path / "events.csv", tmp_path / "steps.csv", world)
    for name in ("steps", "events", "pairs"):
        np.testing.assert_array_equal(getattr(read, name), getattr(data, name))
    _, agent = relived(read, "evb", None, settings, taught=True)
    np.testing.assert_array_equal(agent.Q, found.agent.Q)
    # The last goal's row also learns where the next episode would have begun.
    acting = np.flatnonzero(world.acts)
    np.testing.assert_array_equal(agent.T[acting], found.agent.T[acting])


@pytest.fixture(scope="module")
def recovered(request: Any) -> Any:
    return fit_events(simulated(TRUE_MODEL, 15), "evb", starts=2)


def test_estimates_recover_the_truth_within_intervals(recovered: Any) -> None:
    for one in recovered.estimates:
        assert one.low <= TRUE[one.name] <= one.high, one
        assert one.low < one.value < one.high
    assert recovered.log_likelihood > recovered.uniform
    truth = likelihood(recovered.data, "evb", TRUE).pairs.sum()
    assert 0.0 <= recovered.log_likelihood - truth < 8.0
    assert recovered.bic == pytest.approx(
        3 * math.log(recovered.observations) - 2 * recovered.log_likelihood
    )


def test_profile_ends_are_where_the_likelihood_drops(recovered: Any) -> None:
    """Hold need_exponent at an end: a fit of the rest is 1.92 worse."""
    (end,) = (one.high for one in recovered.estimates if one.name == "need_exponent")
    held = fit_events(recovered.data, f"evb,need_exponent={end!r}", starts=1, intervals="none")
    assert recovered.log_likelihood - held.log_likelihood == pytest.approx(1.92, abs=0.15)


def test_the_start_of_the_search_does_not_matter() -> None:
    data = simulated(TRUE_MODEL)
    found = [fit_events(data, intervals="none", starts=2, seed=seed) for seed in (1, 2)]
    assert found[0].log_likelihood == pytest.approx(found[1].log_likelihood, abs=0.01)


@pytest.mark.parametrize("truth", [TRUE_MODEL, "sfma,reverse=0.3", "recency"])
def test_comparison_finds_the_model_that_made_the_data(truth: str) -> None:
    models = ("evb", "sfma", "recency", "uniform")
    found = compare_models(simulated(truth, 12), models, folds=2, starts=1)
    assert found.best == truth.partition(",")[0]
    assert found.fits[int(np.argmin([one.bic for one in found.fits]))].model == found.best
    assert sum(found.folds) == found.fits[0].observations
    table = found.table()
    # Held out, no model fits better than where it was fitted.
    assert np.all(table["cross_validated"] <= table["log_likelihood"] + 1e-6)


def test_choices_recover_the_temperature_and_need_the_replay() -> None:
    data = simulated("evb,gain_exponent=10", 30)
    with_replay = fit_choices(data, starts=1, free=["inverse_temperature"])
    without = fit_choices(data, replay=False, starts=1, free=["inverse_temperature"])
    (beta,) = with_replay.estimates
    assert beta.low <= 5.0 <= beta.high
    assert with_replay.bic < without.bic


def test_bootstrap_intervals_contain_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("needlab.tabular.fit.intervals.BOOTSTRAP", 20)
    data = simulated(TRUE_MODEL)
    found = fit_events(data, f"{TRUE_MODEL.replace(',need_exponent=1.0', '')}", starts=1,
                       intervals="bootstrap")  # fmt: skip
    (one,) = found.estimates
    assert one.name == "need_exponent"
    assert one.low < one.high
    assert one.low - 0.1 <= 1.0 <= one.high + 0.1


def test_planning_length_is_found() -> None:
    """Chains of at most 2, in a world where longer ones pay."""
    data = simulated("evb,gain_exponent=8,need_exponent=8,chain=2")
    found = fit_events(data, "evb,gain_exponent=8,need_exponent=8,lapse=0.0001", free=["chain"],
                       starts=1)  # fmt: skip
    assert found.values["chain"] == 2


def test_files_give_the_same_data_back(tmp_path: Path) -> None:
    for model in ("recency", "sfma-dynamic"):
        data = simulated(model)
        write_data(data, tmp_path / "events.csv", tmp_path / "steps.csv")
        read = read_data(tmp_path / "events.csv", tmp_path / "steps.csv", data.world)
        for name in ("steps", "events", "pairs"):
            np.testing.assert_array_equal(getattr(read, name), getattr(data, name))


def test_decoded_states_alone_can_be_fitted(tmp_path: Path) -> None:
    """event, time, state and time, state, reward: no actions, repeated bins."""
    data = simulated("evb,gain_exponent=3,need_exponent=1", 20)
    write_data(data, tmp_path / "e.csv", tmp_path / "s.csv")
    from needlab.core.tables import read_table

    events, steps = read_table(tmp_path / "e.csv"), read_table(tmp_path / "s.csv")
    bare = data_from(
        Table({name: events[name] for name in ("event", "time", "state")}),
        Table({name: steps[name] for name in ("time", "state", "reward", "episode")}),
        data.world,
    )
    found = fit_events(bare, starts=1, intervals="none")
    assert found.log_likelihood > found.uniform + 100
    assert 1.0 < found.values["gain_exponent"] < 6.0


BOARD = "S..#G\n....."


def bad(events: dict[str, Any], steps: dict[str, Any] | None = None) -> Any:
    plain: dict[str, Any] = {"time": [0, 1, 2, 3], "state": [0, 1, 2, 7], "reward": [0, 0, 0, 0.0]}
    return data_from(Table(events), Table(plain | (steps or {})), tabular_world(BOARD))


GOOD = {"event": [0, 0], "time": [3.5, 3.6], "state": [1, 2]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": [1, math.inf]}, "Column 'state' of events has a value that is not finite"),
        ({"state": ["a", "b"]}, "Column 'state' of events has text"),
        (
            {"state": [1, 10]},
            "state 10; it must be a whole number from -1 to 9",
        ),
        ({"state": [1, 3]}, "Row 3 of events has state 3, which is a wall"),
        ({"state": [1, 1.5]}, "Row 3 of events has state 1.5"),
        ({"action": [0, 7]}, "Row 3 of events has action 7"),
        ({"time": [math.inf, 1]}, "Column 'time' of events has a value that is not finite"),
        ({"time": [-5, -4]}, "before the first position"),
        ({"state": [4, 4]}, "nothing can be fitted"),
        ({"event": [], "time": [], "state": []}, "events has no rows"),
    ],
)
def test_bad_events(change: dict[str, Any], message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        bad(GOOD | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"reward": [0, 0, math.nan, 0]},
            "'reward' of steps has a value that is not finite",
        ),
        ({"time": [0, 2, 1, 3]}, "Row 4 of steps is earlier than the row before it"),
        ({"state": [0, 1, 2, 3]}, "state 3, which is a wall"),
        ({"state": [0, 0, 0, 0]}, "no move that is possible"),
        ({"state": [0, 9, 0, 1]}, "another world, or bins are skipped"),
        ({"action": [-1, 0, 3, 1]}, "goes from state 0 to 1 by action 0"),
    ],
)
def test_bad_steps(change: dict[str, Any], message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        bad(GOOD, change)


def test_missing_columns_and_split_events() -> None:
    with pytest.raises(NeedReplayError, match="events has no column 'event'"):
        bad({"time": [4], "state": [1]})
    with pytest.raises(NeedReplayError, match="rows of one event of events are not together"):
        bad({"event": [0, 1, 0], "time": [4, 5, 6], "state": [1, 1, 1]})


def test_what_is_left_out_is_counted() -> None:
    found = bad({"event": [0, 0, 0], "time": [4, 5, 6], "state": [1, 4, 1], "action": [-1, -1, 0]})
    assert found.pairs["state"].tolist() == [1]
    assert found.notes == ("1 bump into walls left out.", "1 replayed state at goals left out.")


@pytest.mark.parametrize("gap", ["", -1, math.nan])
def test_bins_without_a_state_are_left_out(gap: Any) -> None:
    """Of 2, none, 2, 1 the second 2 is a repetition; a number is a number also beside text."""
    kind = str if gap == "" else float
    found = bad({
        "event": [0] * 4, "time": [4, 5, 6, 7], "state": [kind(2), gap, kind(2), kind(1)],
    })  # fmt: skip
    assert found.pairs["state"].tolist() == [2, 1]
    assert found.notes == ("1 bin without a state left out.",)


def test_a_simulation_in_a_world_whose_rewards_change() -> None:
    schedule = tabular_schedule("S...G\n\nG: 1\nG from episode 3: 0")
    found = simulate(schedule, EVB["published"], episodes=6)
    data = data_of(found, schedule)
    assert data.world is schedule[0][1]
    np.testing.assert_array_equal(data.pairs["state"], found.backups["state"])
    table = simulation_table(found, schedule)
    np.testing.assert_array_equal(table["state"], found.backups["state"])
    other = [(0, tabular_world("S...G\n.....")), (3, tabular_world("S..<G\n....."))]
    for take in (data_of, simulation_table):
        with pytest.raises(NeedReplayError, match="The world of episode 3 must have the moves"):
            take(found, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"free": ["alpha"]}, "no parameter of evb 'alpha'"),
        ({"free": "lapse"}, "it must be a list of names"),
        ({"free": ["lapse", "lapse"]}, "names a parameter twice"),
        ({"model": "evb,lapse=0", "free": ["lapse"]}, "both fixed"),
        ({"intervals": "exact"}, "no kind of intervals 'exact'"),
        ({"starts": 0}, "starts is 0"),
    ],
)
def test_bad_fits(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        fit_events(small()[0], **arguments)


def test_bad_comparisons() -> None:
    with pytest.raises(NeedReplayError, match="folds is 5, but only 1 episode"):
        compare_models(small()[0])
    with pytest.raises(NeedReplayError, match="name each once"):
        compare_models(simulated("recency"), ["evb", "evb"], folds=2)


def test_impossible_backups_are_named(tmp_path: Path) -> None:
    chosen = "recency,lapse=0,stay=1,recency=0"
    found = fit_events(simulated("uniform"), chosen, starts=1, intervals="none")
    assert any("cannot happen under this model" in note for note in found.notes)
    assert "Note:" in str(found)
    write_table(tmp_path / "fit.csv", found.table())
