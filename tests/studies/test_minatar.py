"""The MinAtar study: arms that differ in one thing, and what is computed from its runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.core.tables import Table, long_table, read_table
from needlab.deep.settings import DeepSettings
from needlab.runs.display import Display
from needlab.studies.deep import minatar
from needlab.studies.deep.minatar import ARMS, PLANS, Case, put_in_place, train
from needlab.studies.deep.minatar_analysis import (
    METRICS,
    OTHERS,
    PER_CPU,
    PRIMARY,
    TESTS,
    areas_of,
    claims_of,
    costs_of,
    pilot_of,
    ratios_of,
    seeds_for,
)
from needlab.studies.reproduce import reproduce
from needlab.studies.study import Options
from needreplay._core.errors import NeedReplayError
from needreplay.equations import mean_age_for

ROOT = Path(__file__).parents[2]


AGES = minatar.MEAN_AGES


def test_the_ages_of_recency_are_those_that_the_pilot_asks_for() -> None:
    """Effective numbers and mean ages of the committed pilot."""
    pilot = read_table(ROOT / "results/minatar/pilot_need.csv")
    assert tuple(pilot["game"].tolist()) == tuple(AGES) == PLANS["main"].games
    for number, game in enumerate(AGES):
        wanted = (pilot[name][number] for name in ("need_effective", "need_effective_recent"))
        assert AGES[game] == tuple(round(mean_age_for(each, *minatar.SIZES)) for each in wanted)


def test_metric_and_seeds_are_those_that_the_pilot_asks_for() -> None:
    pilot = read_table(ROOT / "results/minatar/pilot.csv")
    counted = np.isin(pilot["game"], PLANS["main"].games)
    variations = {name: pilot[f"variation_{name}"][counted] for name in METRICS}
    assert min(variations, key=lambda name: float(np.square(variations[name]).sum())) == PRIMARY
    assert PLANS["main"].seeds == seeds_for(variations[PRIMARY].tolist())
    later = read_table(ROOT / "results/minatar/pilot_every_step.csv")
    for table in (pilot, later):
        fine = table["is_learned"].astype(bool) & (table[f"variation_{PRIMARY}"] <= 0.5)
        assert set(table["game"][fine].tolist()) <= set(PLANS["main"].games)


@pytest.fixture(autouse=True)
def ages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minatar, "MEAN_AGES", dict.fromkeys(PLANS["main"].games, (800.0, 4_000.0)))


def settings(arm: str) -> dict[str, Any]:
    return Case("breakout", arm, 0, 50_000).config.resolved().flat()


def test_an_arm_differs_from_its_control_in_one_thing() -> None:
    """Beside the sampler, which for need brings what need takes."""

    def differing(arm: str, rival: str) -> set[str]:
        one, other = settings(arm), settings(rival)
        return {name for name in one if one[name] != other[name]}

    assert differing("need .25", "shuffled need .25") == {"shuffle"}
    assert differing("recent need .25", "shuffled recent need .25") == {"shuffle"}
    assert differing("recent need .25", "need .25") == {"need_query"}
    assert differing("need .25", "PER .25") == {"sampler"}
    assert differing("recency .25", "PER .25") == {"sampler", "mean_age"}
    assert differing("wide recency .25", "recency .25") == {"mean_age"}
    assert settings("wide recency .25")["mean_age"] == 4_000.0
    assert differing("PER .25", "PER") == {"uniform_mix"}
    assert differing("PER", "uniform") == {"sampler"}
    for arm in ARMS:
        assert not settings(arm)["stratified"]
        assert settings(arm)["correct_for"] == "gain"
        assert settings(arm)["need_relative"]
    for name in ("need_learner", "need_discount", "learn_every", "refresh"):
        assert settings("need .25")[name] == getattr(DeepSettings(), name)
    assert settings("need .25")["need_learner"] == "cosine"
    assert settings("need .25")["learn_every"] == 4


def test_the_plan_has_every_arm_of_its_tests_and_other_seeds_than_the_pilot() -> None:
    assert {arm for pair in (*TESTS, *OTHERS) for arm in pair} == set(ARMS)
    pilot, main = PLANS["pilot"], PLANS["main"]
    assert main.arms == tuple(ARMS)
    assert main.first_seed + main.seeds <= pilot.first_seed
    assert set(main.games) <= set(pilot.games)


def test_a_run_that_was_stopped_starts_again(tmp_path: Path) -> None:
    case = Case("breakout", "PER .25", 3, 1_000)
    assert case.file_name == "breakout-PER-25-3-1000.csv"
    path = tmp_path / case.file_name
    left = path.with_name(f".{path.stem}")
    left.mkdir()
    (left / "metrics.csv").write_text("damaged")
    shares: list[float] = []
    train(case, path, shares.append)
    assert not left.exists()
    record = read_table(path)
    assert len(record["steps"]) > 3
    assert record["steps"][-1] >= 1_000
    assert shares[0] == 0.0
    assert max(shares) == record["steps"][-1] / 1_000
    assert (record["train_cpu_seconds"].astype(float) > 0.0).all()
    assert np.isnan(record["need_auc"].astype(float)).all()


def test_finished_runs_of_the_full_size_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two committed files, made at an older commit, are all runs of this plan: nothing trains."""
    arms = ("PER .25", "need .25")
    names = ["breakout-PER-25-100-50000.csv", "breakout-need-25-100-50000.csv"]
    folder = tmp_path / "results/minatar/runs"
    folder.mkdir(parents=True)
    for name in names:
        shutil.copy(ROOT / "results/minatar/runs" / name, folder)
    monkeypatch.chdir(tmp_path)
    plan = PLANS["main"]._replace(games=("breakout",), arms=arms, seeds=1)
    monkeypatch.setitem(PLANS, "main", plan)
    monkeypatch.setattr(minatar, "claims_of", lambda *_: [])
    monkeypatch.setattr(minatar, "train", None)  # would fail
    out = tmp_path / "out"
    options = Options(("main",), None, 0, 1, "full")
    reproduce(["minatar"], options, out, [], display=Display(visible=False))
    assert f"2 finished runs of {minatar.FINISHED} used" in capsys.readouterr().err
    data = read_table(out / "minatar/data.csv")
    for arm, name in zip(arms, names, strict=True):
        own, committed = data.where(arm=arm, seed=100), read_table(folder / name)
        assert own["train_return"].tolist() == committed["train_return"].tolist()
        assert own["steps"].tolist() == committed["steps"].tolist()

    cases = {
        name: Case("breakout", arm, 100, 50_000) for arm, name in zip(arms, names, strict=True)
    }
    assert [case.file_name for case in cases.values()] == names
    (folder / names[0]).write_text("steps,train_return\n50001,1.0\n")
    with pytest.raises(NeedReplayError, match="has no column 'eval_return'"):
        put_in_place(cases, tmp_path / "cache")
    lines = (ROOT / "results/minatar/runs" / names[0]).read_text().splitlines()
    (folder / names[0]).write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(NeedReplayError, match="is too short"):
        put_in_place(cases, tmp_path / "cache")


def runs(areas: dict[tuple[str, str], Any], seconds: float = 2.0) -> Table:
    """Two iterations for each run, whose mean is its area; evaluation is ten times as much."""
    rows = {}
    for (game, arm), values in areas.items():
        for seed, value in enumerate(values):
            two = np.array([0.5 * value, 1.5 * value])
            need = np.full(2, 0.95 if "need" in arm else np.nan)
            rows[game, arm, seed] = {
                "steps": np.array([1.0, 2.0]),
                "train_return": two,
                "train_return_by_step": two + 1.0,
                "eval_return": 10.0 * two,
                "need_auc": need,
                "need_auc_baseline": need - 0.3,
                "need_effective": need * 1_000,
                "need_effective_recent": need * 2_000,
                "train_cpu_seconds": np.full(2, seconds * (2.0 if "need" in arm else 1.0)),
            }
    return long_table(("game", "arm", "seed"), rows)


def test_ratios_and_claims_by_hand() -> None:
    """Ratios of 4 and 1 in two games: 2 over both; per CPU-second need counts half."""
    areas = areas_of(
        runs(
            {
                ("a", "PER .25"): np.linspace(0.9, 1.1, 9),
                ("a", "need .25"): np.linspace(3.6, 4.4, 9),
                ("b", "PER .25"): np.linspace(0.9, 1.1, 9),
                ("b", "need .25"): np.linspace(0.9, 1.1, 9),
            }
        )
    )
    assert areas.where(game="a", arm="need .25")[PRIMARY][4] == pytest.approx(4.0)
    assert areas.where(game="a", arm="need .25")["cpu_seconds"][0] == 8.0
    ratios = ratios_of(areas, 0)
    by_metric = {m: ratios.where(metric=m, arm="need .25")["ratio"][0] for m in (*METRICS, PER_CPU)}
    assert by_metric[PRIMARY] == pytest.approx(2.0)
    assert by_metric["eval_return"] == pytest.approx(2.0)
    assert by_metric["train_return_by_step"] == pytest.approx((5.0 / 2.0) ** 0.5)
    assert by_metric[PER_CPU] == pytest.approx(1.0)
    one = ratios.where(metric=PRIMARY)
    assert one["planned"].tolist() == [True]
    assert 1.9 < one["low"][0] < 2.0 < one["high"][0] < 2.1
    assert one["p_holm"][0] == one["p"][0] < 0.001
    assert one["ahead"][0] == 1
    assert not ratios.where(metric="eval_return")["planned"].any()
    (claim,) = claims_of(areas, ratios, "main")
    assert (claim.verdict, claim.doubt) == ("holds", "")
    assert "ratio of areas 2.000" in claim.measured
    costs = costs_of(areas).where(arm="need .25")
    assert costs["relative"].tolist() == [2.0, 2.0]


def test_holm_counts_the_planned_tests_and_an_inaccurate_need_concludes_nothing() -> None:
    values = {
        (game, arm): np.linspace(1.0, 1.1, 6) * (1.3 if arm == "need .25" else 1.0)
        for game in ("a", "b")
        for arm in ARMS
    }
    data = runs(values)
    ratios = ratios_of(areas_of(data), 0)
    planned = ratios.where(metric=PRIMARY, planned=True)
    assert len(planned["p"]) == 6
    first = planned["p"].argmin()
    assert planned["p_holm"][first] == pytest.approx(6 * planned["p"][first])
    claims = {claim.statement: claim for claim in claims_of(areas_of(data), ratios, "main")}
    assert claims["need .25 learns faster than PER .25"].conclusion == "holds"
    assert claims["recent need .25 learns faster than PER .25"].conclusion == "undecided"
    columns = {name: data[name].copy() for name in data.names}
    poor = (columns["arm"] == "need .25") & (columns["game"] == "b")
    columns["need_auc_baseline"][poor] = 0.92
    areas = areas_of(Table(columns))
    claims = {claim.statement: claim for claim in claims_of(areas, ratios_of(areas, 0), "main")}
    assert claims["need .25 learns faster than PER .25"].conclusion == "concludes nothing"
    assert claims["recent need .25 learns faster than PER .25"].conclusion == "undecided"


def test_what_the_pilot_decides_by_hand() -> None:
    areas = areas_of(
        runs(
            {
                ("learned", "uniform"): [0.4, 0.6],
                ("learned", "need .25"): [1.0, 1.0],
                ("slow", "uniform"): [0.02, 0.02],
                ("slow", "need .25"): [1.0, 1.0],
            }
        )
    )
    # A fifth of two iterations is none of them; all count then.
    found = pilot_of(areas, {"learned": np.array([1.0, 2.0]), "slow": np.array([0.0])})
    rows = {name: dict(zip(found["game"].tolist(), found[name].tolist(), strict=True))
            for name in found.names}  # fmt: skip
    assert rows["random"] == {"learned": 1.5, "slow": 0.0}
    assert rows["uniform_last_fifth"]["learned"] == pytest.approx(5.0)
    assert rows["is_learned"] == {"learned": True, "slow": False}
    # Of 0.4 and 0.6: deviation 0.1 sqrt(2) / mean 0.5; need's runs do not differ.
    assert rows[f"variation_{PRIMARY}"]["learned"] == pytest.approx(0.2)
    assert rows["need_effective"]["slow"] == pytest.approx(950.0)
    assert rows["need_effective_recent"]["slow"] == pytest.approx(1_900.0)


def test_areas_weigh_iterations_by_their_steps_and_zeros_have_no_ratio() -> None:
    """The first row has three quarters of the steps."""
    data = runs({("a", "PER .25"): [1.0, 1.0], ("a", "need .25"): [0.0, 1.0]})
    columns = {name: data[name].copy() for name in data.names}
    columns["steps"] = np.tile([3.0, 4.0], 4)
    areas = areas_of(Table(columns))
    assert areas.where(arm="PER .25")[PRIMARY].tolist() == [0.75, 0.75]
    ratios = ratios_of(areas, 0)
    assert np.isnan(ratios.where(metric="eval_return")["ratio"]).all()
    assert np.isfinite(ratios.where(metric="train_return_by_step")["ratio"]).all()


def test_the_number_of_seeds_sees_the_effect_that_it_promises() -> None:
    """Three games of variation .1: a true ratio of 1.05 is found in nine of ten studies."""
    n = seeds_for([0.1, 0.1, 0.1], tests=1)
    rng = np.random.default_rng(0)
    logs = np.log(rng.normal(1.0, 0.1, (2, 4_000, 3, n)).mean(3))
    gaps = (np.log(1.05) + logs[0] - logs[1]).mean(1)
    error = np.sqrt(2 * 0.01 / (n * 3))
    assert np.mean(gaps > 1.96 * error) == pytest.approx(0.9, abs=0.02)
    assert seeds_for([0.1] * 3, tests=6) > n
    assert seeds_for([0.2] * 3, tests=1) == pytest.approx(4 * n, abs=3)
