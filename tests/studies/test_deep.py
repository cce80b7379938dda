"""Figure 5: the published runs read by hand, and a study of our own in very small."""

from __future__ import annotations

import numpy as np
import pytest

from needlab.core.tables import Table
from needlab.report.claims import DOUBTS, Verdict
from needlab.runs.trials import trial_runner
from needlab.studies import deep
from needlab.studies.deep import ours
from needlab.studies.deep.claims import our_claims, published_claims
from needlab.studies.deep.figure import rolling
from needlab.studies.deep.published import (
    changes,
    collapsed,
    end_level,
    published_games,
    relative_change,
)
from needlab.studies.study import Options
from needreplay._core.errors import NeedReplayError

GAMES = {game.name: game for game in published_games()}


def test_the_published_runs_are_all_there() -> None:
    assert len(GAMES) == 15
    lengths = {name: (len(game.per), len(game.per_sr)) for name, game in GAMES.items()}
    assert lengths["Berzerk"] == (200, 191)
    assert lengths["Boxing"] == (197, 200)
    assert lengths["Qbert"] == (200, 200)


@pytest.mark.parametrize(
    ("name", "best", "end"),
    [("Asterix", -27.7, -71.5), ("Qbert", 475.5, 1404.9), ("Boxing", 41.4, 122.2)],
)
def test_changes_by_hand(name: str, best: float, end: float) -> None:
    """Asterix: 4004.506 after 5541.584 at best, 1370.964 after 4813.653 at the end."""
    assert list(changes(GAMES[name])) == pytest.approx([best, end], abs=0.06)


def test_a_change_from_below_zero_to_above_is_a_gain() -> None:
    assert relative_change(10.0, -40.0) == 125.0


def test_the_paper_counts_ten_games_and_the_last_iterations_nine() -> None:
    claims = {claim.statement: claim for claim in published_claims(list(GAMES.values()))}
    best = claims["PER-SR is better than PER in most games, by the best iteration"]
    end = claims["PER-SR is better than PER in most games, by the last ten iterations"]
    assert best.measured.startswith("in 10 of 15 games")
    assert end.measured.startswith("in 9 of 15 games")
    assert claims["Berzerk, Qbert and Robotank stand out"].verdict == "does not hold"


def test_levels_and_collapse_by_hand() -> None:
    rising, falling = np.arange(20.0), np.array([0.0] + [10.0] * 9 + [4.0] * 10)
    assert end_level(rising) == 14.5
    assert not collapsed(rising)
    assert collapsed(falling)
    falling[10:] = 6.0
    assert not collapsed(falling)


def test_the_rolling_mean_is_shorter_at_the_start() -> None:
    assert rolling(np.array([2.0, 4.0, 6.0])).tolist() == [2.0, 3.0, 4.0]
    assert rolling(np.arange(8.0))[-1] == 4.5


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Options:
    settings = {
        **ours.QUICK_SETTINGS,
        "min_history": 60,
        "iteration_steps": 100,
        "eval_steps": 50,
        "capacity": 500,
    }
    plan = ours.Plan(("minatar/breakout",), ("per", "per-sr mean"), 2, 250, settings)
    monkeypatch.setitem(ours.PLANS, "quick", plan)
    monkeypatch.setattr(deep, "random_return", lambda *_: np.array([0.5, 0.5]))
    return Options(("corrected",), None, 0, 1, "quick")


def test_a_study_of_our_own(small: Options) -> None:
    with trial_runner(workers=2) as runner:
        result = deep.run(small, runner)
        files = sorted(runner.cache.iterdir())
        assert [path.suffix for path in files] == [".csv"] * 4
        # Finished runs are read, not run: their files stay as they are.
        written = [path.stat().st_mtime_ns for path in files]
        again = deep.run(small, runner).tables["data"]
        assert written == [path.stat().st_mtime_ns for path in sorted(runner.cache.iterdir())]
    data = result.tables["data"]
    for name in data.names:
        np.testing.assert_array_equal(again[name], data[name])
    assert data.names[:8] == (
        "world",
        "agent",
        "preset",
        "seed",
        "iteration",
        "steps",
        "train_return",
        "eval_return",
    )
    assert set(data["agent"].tolist()) == {"per", "per-sr mean"}
    assert set(data["seed"].tolist()) == {0, 1}
    assert np.isfinite(data["eval_return"]).all()
    with_need = data["agent"] == "per-sr mean"
    assert np.isfinite(data["need_mean"][with_need & (data["iteration"] > 1)]).all()
    assert np.isnan(data["need_mean"][~with_need]).all()
    assert set(result.figures) == {"figure", "published_curves", "ours"}
    ours_said = [claim for claim in result.claims if claim.preset == "corrected"]
    assert len(ours_said) == 2 + 1 + 4 + 2
    assert result.tables["need"]["feature_similarity"][0] <= 1.0


def test_late_collapse_is_asked_of_our_runs_too() -> None:
    plan = ours.Plan(("w",), ("per", "per-sr mean"), 2, 300, {})
    returns = {"per": [[0.0, 10.0, 4.0], [0.0, 10.0, 6.0]], "per-sr mean": [[0.0, 5.0, 4.0]] * 2}
    rows = [
        ("w", agent, seed, number, value)
        for agent, runs in returns.items()
        for seed, run in enumerate(runs)
        for number, value in enumerate(run)
    ]
    names = ("world", "agent", "seed", "iteration", "eval_return")
    data = Table(
        {
            name: np.array(column)
            for name, column in zip(names, zip(*rows, strict=True), strict=True)
        }
    )
    said = {claim.statement: claim for claim in our_claims(data, plan, {"w": np.zeros(3)})}
    assert said["On w per collapses late"].measured.startswith("in 1 of 2 runs")
    assert said["On w per-sr mean does not collapse"].measured.startswith("in 2 of 2 runs")


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        ([0.2, np.nan, 0.81], "holds"),
        ([0.9, 0.79, np.nan], "does not hold"),
        ([np.nan] * 3, "undecided"),
    ],
)
def test_of_need_that_is_not_accurate_nothing_is_concluded(
    measured: list[float], verdict: Verdict
) -> None:
    """The last measurement counts."""
    plan = ours.Plan(("w",), ("per", "per-sr mean"), 1, 300, {})
    columns = {"world": ["w"] * 6, "agent": ["per"] * 3 + ["per-sr mean"] * 3, "seed": [0] * 6}
    values = {"eval_return": [0.0, 1.0, 2.0] * 2, "need_auc": [np.nan] * 3 + measured}
    values["need_auc_baseline"] = [np.nan] * 3 + [0.95, 0.6, 0.6]
    data = Table({name: np.array(column) for name, column in {**columns, **values}.items()})
    claims = our_claims(data, plan, {"w": np.zeros(3)})
    said = [claim for claim in claims if "is accurate" in claim.statement]
    assert [claim.verdict for claim in said] == [verdict]
    compared = [claim for claim in claims if "than PER" in claim.statement]
    assert [claim.doubt for claim in compared] == [DOUBTS[verdict]] * 4
    assert said[0].conclusion == verdict, "that need was not accurate is itself beyond doubt"


def test_a_run_that_cannot_be_raises() -> None:
    plan = ours.Plan(("minatar/breakout",), ("per",), 1, 100, {"device_of_no_kind": 1})
    with trial_runner() as runner, pytest.raises(NeedReplayError, match="device_of_no_kind"):
        ours.train_all(ours.runs_of(plan, 0), runner)


def test_a_random_player_has_returns_that_follow_from_the_seed() -> None:
    first = ours.random_return("minatar/breakout", 1, episodes=20)
    assert np.array_equal(first, ours.random_return("minatar/breakout", 1, episodes=20))
    assert not np.array_equal(first, ours.random_return("minatar/breakout", 2, episodes=20))
    assert 0.1 < first.mean() < 1.5
