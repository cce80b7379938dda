"""Figure 3: the same data whatever the workers, and nothing that did not converge is hidden."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.core.tables import Table, write_table
from needlab.report.claims import Claim, Verdict
from needlab.report.statistics import Interval
from needlab.runs.trials import trial_runner
from needlab.studies import cliffwalk as fig3
from needlab.studies import load_study, study_names
from needlab.studies.cliffwalk.agent import run_trial
from needlab.studies.cliffwalk.cases import (
    CaseResult,
    cases_of,
    center_interval,
    compare,
    data_table,
    need_row_table,
    run_cases,
    summary_table,
)
from needlab.studies.cliffwalk.claims import (
    NOTHING,
    Change,
    Effect,
    changes_between,
    claims_of,
    effects_of,
    sentences,
    variants_of,
)
from needlab.studies.cliffwalk.figure import buffer_size_of
from needlab.studies.cliffwalk.settings import (
    METHODS,
    PAPER_METHODS,
    Method,
    cliffwalk_preset,
    in_words,
)
from needlab.studies.reproduce import plan
from needlab.studies.study import Options, Result, Size
from needlab.worlds.cliffwalk import cliffwalk_world
from needreplay._core.errors import NeedReplayError


def found_of(
    label: str,
    method: Method,
    states: int,
    updates: list[int],
    stopped: int = 0,
    budget: int = 10_000,
) -> CaseResult:
    """Trials with these updates, the last ``stopped`` of which did not converge."""
    n = len(updates)
    columns = {
        "updates": np.array(updates),
        "converged": np.arange(n) < n - stopped,
        "diverged": np.zeros(n, np.bool_),
        "budget": np.full(n, budget),
        "transitions": np.full(n, states * 2**states),
        "largest_entry": np.ones(n),
        "negative_rows": np.zeros(n),
        "by_gain": np.zeros(n, np.int64),
        "need_row": np.arange(n * (states + 1), dtype=np.float64).reshape(n, states + 1),
    }
    return CaseResult(label, method, states, columns)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fig3, "QUICK_LARGEST", 4)
    monkeypatch.setitem(fig3.EXTRA_SIZES, "quick", (3,))


def test_every_setting_that_is_changed_alone_has_words() -> None:
    changed = [c for c, _ in changes_between(("released", "corrected", "printed")) if c.value]
    said = [in_words(change.setting, change.value) for change in changed]
    assert not any("_" in words for words in said)
    assert len({(c.setting, c.value) for c in changed}) == len(set(said))


def test_options_that_nobody_follows_raise() -> None:
    options = Options((), trials=None, seed=0, workers=1, size="quick")
    errors: tuple[tuple[list[str], dict[str, Any], str], ...] = (
        (
            ["maze-replay"],
            {"trials": 5},
            "--trials changes nothing in maze-replay; it is for: fig1",
        ),
        (
            ["fig2", "dyna"],
            {"trial": 1},
            "--trial changes nothing in fig2 and dyna; it is for: fig1",
        ),
        (["fig1"], {"states": (4,)}, "--states changes nothing in fig1; it is for: fig3."),
        (["fig3"], {"states": (4, 1)}, "--states must be at least 2, not 1."),
    )
    for names, asked, said in errors:
        with pytest.raises(NeedReplayError) as raised:
            plan(names, replace(options, **asked))
        assert str(raised.value).startswith(said)
    # One that somebody follows is taken, and where no figure is named all are meant.
    assert len(plan(["fig1", "maze-replay"], replace(options, trials=5))) == 2
    assert len(plan([], replace(options, states=(4,)))) == len(study_names())


def test_sizes_that_are_asked_for() -> None:
    options = Options(("released",), trials=2, seed=1, workers=1, size="quick", states=(3,))
    with trial_runner() as runner:
        found = load_study("fig3").run(options, runner)
    assert sorted(found.tables) == ["data", "need_row", "successor", "summary"]
    assert set(found.tables["data"]["states"].tolist()) == {3}
    assert set(found.tables["data"]["method"].tolist()) == set(PAPER_METHODS)
    assert list(found.figures) == ["figure"]
    assert not any("grows" in claim.statement for claim in found.claims)
    assert found.config["released"]["sizes"] == [3]


def test_the_sketch_says_what_a_wrong_action_does() -> None:
    options = Options(("printed",), trials=2, seed=1, workers=1, size="quick", states=(3,))
    with trial_runner() as runner:
        figure = load_study("fig3").run(options, runner).figures["figure"]
    (said,) = [
        text.get_text()
        for axes in figure.axes
        for text in axes.texts
        if text.get_text().startswith("wrong action")
    ]
    assert said.splitlines()[1:] == [
        "printed: ends the episode", "printed-returns: back to the start"
    ]  # fmt: skip


def outcome(workers: int = 1, presets: tuple[str, ...] = ("released", "corrected")) -> Result:
    options = Options(presets=presets, trials=3, seed=1, workers=workers, size="quick")
    with trial_runner(workers) as runner:
        return load_study("fig3").run(options, runner)


def test_the_study(small: None, tmp_path: Path) -> None:
    one, two = outcome(1), outcome(2)
    for stem, table in one.tables.items():
        write_table(tmp_path / "one.csv", table)
        write_table(tmp_path / "two.csv", two.tables[stem])
        assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes(), stem
    data = one.tables["data"]
    assert data.names == ("preset", "method", "states", "trial", "updates", "converged")
    assert len(data) == 2 * len(METHODS) * 3 * 3
    assert set(data["states"].tolist()) == {2, 3, 4}
    rows = one.tables["need_row"]
    assert rows.names == ("preset", "method", "states", "state", "occupancy")
    assert rows["states"].tolist() == [4] * 2 * 3 * 4
    assert set(one.figures) == set(one.captions) == {"figure", "beyond", "deciding"}
    assert {claim.preset for claim in one.claims} == {"released", "corrected"}
    assert len(one.claims) == 23
    assert set(one.tables["deciding"]["setting"].tolist()) >= {NOTHING, "trace_reset"}
    assert set(one.tables["magnitude"]["need"].tolist()) == {"gain alone", "sampled", "scaled"}
    stopped = int((~data["converged"]).sum())
    assert stopped == one.tables["summary"]["not_converged"].sum()


def test_one_preset_has_nothing_to_decide(small: None) -> None:
    found = outcome(presets=("printed",))
    assert "deciding" not in found.tables
    assert set(found.tables["data"]["states"].tolist()) == {3, 4}


@pytest.mark.parametrize(
    ("size", "asked", "run"),
    [
        ("quick", (), ("released", "corrected")),
        ("full", (), ("released", "corrected", "printed")),
        ("quick", ("printed",), ("printed",)),
        ("quick", ("released", "corrected", "printed"), ("released", "corrected", "printed")),
    ],
)
def test_the_quick_size_leaves_printed_out_unless_asked(
    size: Size, asked: tuple[str, ...], run: tuple[str, ...]
) -> None:
    options = Options(presets=asked, trials=3, seed=1, workers=1, size=size)
    ((_, planned),) = plan(["fig3"], options)
    assert planned.presets == run


def test_results_are_those_of_the_trials() -> None:
    settings = cliffwalk_preset("corrected")
    cases = cases_of("x", settings, ("need", "uniform"), (4, 6), 2, 3)
    table = cliffwalk_world(6, settings.fall, settings.right_actions)
    with trial_runner() as runner:
        found = run_cases(cases, runner, "x")
    assert [one.key for one in found] == [
        ("x", "need", 4), ("x", "uniform", 4), ("x", "need", 6), ("x", "uniform", 6)
    ]  # fmt: skip
    for one in found[2:]:
        trials = [run_trial(table, settings, one.method, seed=3, trial=i) for i in range(2)]
        for name in set(one.columns) - {"need_row"}:
            assert one.columns[name].tolist() == [getattr(trial, name) for trial in trials], name
        assert np.array_equal(one.columns["need_row"], np.array([trial.M[4] for trial in trials]))


def test_a_ratio_by_hand() -> None:
    found = [
        found_of("x", "need", 3, [100, 300]),
        found_of("x", "per", 3, [400, 400]),
        found_of("x", "need", 5, [100, 100]),
        found_of("x", "per", 5, [100, 100]),
    ]
    held = compare(found, "x", "need", "per", "mean", 0)
    assert held.at(3).estimate == pytest.approx(0.5)
    assert held.at(5).low == held.at(5).high == pytest.approx(1.0)
    assert held.overall().estimate == pytest.approx(0.5**0.5)
    assert held.growth().estimate == pytest.approx(2**0.5)
    assert held.by_size() == "By states: 0.50 at 3, 1.00 at 5."
    assert held.censoring() == ""


def test_what_rests_on_trials_that_did_not_converge_is_not_decided() -> None:
    per = found_of("x", "per", 3, [5000, 5000, 5000])
    stopped = found_of("x", "need", 3, [10, 10, 7], stopped=1, budget=100)
    held = compare([stopped, per], "x", "need", "per", "mean", 0)
    # (10 + 10 + 100) / 3 = 40: the stopped trial counts as its whole budget
    assert held.at(3).estimate == pytest.approx(40 / 5000)
    assert held.at(3).verdict("below") == held.at(3).verdict("above") == "undecided"
    assert "1 of 3 trials of need did not converge" in held.censoring()
    # of the medians of three drawn trials, 7 of 27 are the stopped one's
    median = compare([stopped, per], "x", "need", "per", "median", 0)
    assert median.at(3).estimate == pytest.approx(10 / 5000)
    assert median.at(3).verdict("below") == "undecided"
    other_way = compare([stopped, per], "x", "per", "need", "mean", 0)
    assert other_way.at(3).verdict("above") == other_way.overall().verdict("below") == "undecided"


def test_one_stopped_trial_of_ten_does_not_move_a_median() -> None:
    per = found_of("x", "per", 3, [5000] * 10)
    stopped = found_of("x", "need", 3, [10] * 10, stopped=1)
    ratio = compare([stopped, per], "x", "need", "per", "median", 0).at(3)
    assert (ratio.may_rise, ratio.may_fall) == (False, False)
    assert ratio.verdict("below") == "holds"


def test_a_bound_that_only_strengthens_a_verdict_leaves_it() -> None:
    per = found_of("x", "per", 3, [10, 10, 10])
    stopped = found_of("x", "need", 3, [900, 900, 7], stopped=1, budget=1000)
    worse = compare([stopped, per], "x", "need", "per", "mean", 0).at(3)
    assert (worse.may_rise, worse.may_fall) == (True, False)
    assert (worse.verdict("below"), worse.verdict("above")) == ("does not hold", "holds")
    better = compare([stopped, per], "x", "per", "need", "mean", 0).at(3)
    assert (better.may_rise, better.may_fall) == (False, True)
    assert (better.verdict("below"), better.verdict("above")) == ("holds", "does not hold")


@pytest.mark.parametrize(
    ("stopped", "at", "verdict"),
    [
        ("uniform", 3, "undecided"),  # truly larger where it should be small: no growth
        ("uniform", 5, "holds"),
        ("per", 3, "holds"),
        ("per", 5, "undecided"),
    ],
)
def test_a_growth_is_undone_by_bounds_at_one_end(stopped: Method, at: int, verdict: str) -> None:
    updates: dict[tuple[Method, int], int] = {
        ("uniform", 3): 20, ("per", 3): 10, ("uniform", 5): 400, ("per", 5): 20,
    }  # fmt: skip
    found = [
        found_of("x", m, n, [u] * 3, stopped=int((m, n) == (stopped, at)), budget=u)
        for (m, n), u in updates.items()
    ]
    held = compare(found, "x", "uniform", "per", "mean", 0)
    assert held.growth().estimate == pytest.approx(10**0.5)
    assert held.growth().verdict("above") == verdict


def test_a_bound_at_one_size_leaves_the_others_decided() -> None:
    found = [
        found_of("x", "need", 3, [10] * 3, stopped=1, budget=10),
        found_of("x", "need", 5, [10] * 3),
        *(found_of("x", "per", n, [20] * 3) for n in (3, 5)),
    ]
    held = compare(found, "x", "need", "per", "mean", 0)
    assert held.at(5).verdict("below") == "holds"
    assert held.at(3).verdict("below") == held.overall().verdict("below") == "undecided"


def test_one_trial_has_no_interval() -> None:
    single = found_of("x", "per", 3, [7])
    assert center_interval(single, "mean", 0).low == -np.inf
    held = compare([single, found_of("x", "need", 3, [5])], "x", "need", "per", "mean", 0)
    assert held.overall().verdict("below") == "undecided"


def test_the_summary_says_which_numbers_are_bounds() -> None:
    table = summary_table(
        [
            found_of("x", "per", 3, [1, 2, 3]),
            found_of("x", "need", 3, [1, 2, 3], stopped=1),
            found_of("x", "rank", 3, [1, 2, 3], stopped=2),
        ],
        0,
    )
    assert table["mean_is_bound"].tolist() == [False, True, True]
    assert table["median_is_bound"].tolist() == [False, False, True]
    assert table["median"].tolist() == [2.0, 2.0, 10_000.0]
    assert table["not_converged"].tolist() == [0, 1, 2]


def claims(
    optimal: int, need: int, preset: str = "released", stopped: Method | None = None
) -> list[Claim]:
    """Claims of made-up trials; the last trial of the method ``stopped`` did not converge."""
    updates: dict[Method, int] = {
        "uniform": 900, "per": 300, "need": need, "need-random": 350,
        "need-optimal": optimal, "oracle": 20,
    }  # fmt: skip
    found = [
        found_of(
            preset, method, n, [x * n + i for i in range(6)],
            int(method == stopped), x * n + 5,
        )
        for method, x in updates.items()
        for n in (3, 4)
    ]  # fmt: skip
    row = [0.1, 0.1, 0.2, 1.0] if need < 200 else [0.1, 1.2, 0.2, 1.0]
    need_rows = Table({"preset": np.array([preset] * 4), "method": np.array(["need"] * 4),
                 "state": np.arange(4), "occupancy": np.array(row)})  # fmt: skip
    return claims_of(found, need_rows, preset, 0)


def claimed(optimal: int, need: int, stopped: Method | None = None) -> dict[str, str]:
    return {c.statement: c.verdict for c in claims(optimal, need, stopped=stopped)}


OPTIMAL = "Optimal need takes fewer than learned need, and so gets closer to the oracle"
CLOSER = f"{OPTIMAL}: at 4 states."
BOUND = "The oracle stays a lower bound of optimal need: at 4 states."


def test_claims_hold_or_not() -> None:
    verdicts = claimed(optimal=40, need=100)
    assert verdicts["PER takes fewer updates than uniform replay: at 4 states."] == "holds"
    assert verdicts["Even random need takes fewer updates than PER: at 4 states."] == (
        "does not hold"
    )
    assert verdicts[f"{OPTIMAL}: all sizes together."] == "holds"
    assert verdicts[CLOSER] == verdicts[BOUND] == "holds"
    worse = claimed(optimal=200, need=100)
    assert worse[CLOSER] == "does not hold"


def test_how_much_closer_by_hand() -> None:
    (closer,) = (c for c in claims(optimal=40, need=100) if c.statement == BOUND)
    # means at 4 states: oracle 82.5, optimal 162.5, need 402.5, PER 1202.5
    assert closer.measured.startswith("updates of need-optimal / updates of oracle: 1.97 (")
    assert "Learned need takes 4.88 times the oracle's updates." in closer.detail
    # log(162.5 / 1202.5) / log(82.5 / 1202.5) = 0.747
    assert "in logarithms of updates: 0.747 (" in closer.detail


def test_claims_that_a_stopped_trial_could_undo_are_undecided() -> None:
    assert claimed(40, 100, "need-optimal")[CLOSER] == "undecided"
    assert claimed(40, 100, "need")[CLOSER] == "holds"
    assert claimed(40, 100, "oracle")[BOUND] == "undecided"
    assert claimed(40, 100, "need-optimal")[BOUND] == "holds"
    growing = "How many times more updates uniform replay takes than PER grows with n."
    assert claimed(40, 100, "uniform")[growing] == "undecided"


def test_what_the_paper_does_not_say_is_no_claim_of_the_paper() -> None:
    for preset, beyond in (("released", 0), ("corrected", 2), ("printed", 0)):
        made = claims(40, 100, preset)
        assert sum(c.source == "beyond the paper" for c in made) == beyond
        assert sum("are corrected" in c.statement for c in made) == beyond
        assert len(made) == (12 if preset == "released" else 11)


def test_changes_are_single_and_go_both_ways() -> None:
    changes = changes_between(("corrected", "released"))
    assert [c.base for c, _ in changes if c.setting == NOTHING] == ["released", "corrected"]
    for change, settings in changes:
        plain = cliffwalk_preset(change.base)
        differing = [
            name for name, value in vars(settings).items()
            if value is not getattr(plain, name) and value != getattr(plain, name)
        ]  # fmt: skip
        assert differing == ([] if change.setting == NOTHING else [change.setting])
    assert changes_between(("printed",)) == []


def test_the_setting_that_decides_is_named() -> None:
    changes = changes_between(("released", "corrected"))
    found = []
    for change, _ in changes:
        bad = change.base == "corrected" or change.setting == "random_need"
        good_again = change.base == "corrected" and change.setting == "random_need"
        need = 900 if bad and not good_again else 50
        for method, updates in (
            ("per", 300),
            ("need", need),
            ("need-random", 1),
            ("need-optimal", 1),
        ):
            found.append(found_of(change.label, method, 3, [updates, updates + 1]))  # type: ignore[arg-type]
    said = sentences(effects_of(changes, found, 0))
    assert len(said) == 2
    assert "random policy's T: rows sum to 1 (" in said[0]
    assert "random policy's T: rows sum to more than 1 (" in said[1]
    assert "trace" not in said[0]


def effect(setting: str, ratio: float, base: str, verdict: Verdict) -> Effect:
    towards = "corrected" if base == "released" else "released"
    change = Change(base, towards, setting, "" if setting == NOTHING else "x")
    around = Interval(ratio, ratio / 1.1, ratio * 1.1)
    return Effect(change, "need", "per", 3, around, verdict, 10, 0)


def test_the_strongest_setting_is_the_one_that_moves_towards_the_other_preset() -> None:
    plain = [
        effect(NOTHING, 0.5, "released", "holds"),
        effect(NOTHING, 4.0, "corrected", "does not hold"),
    ]
    away_and_towards = [
        effect("epsilon", 0.01, "released", "holds"),
        effect("trace_reset", 0.9, "released", "undecided"),
        effect("epsilon", 90.0, "corrected", "does not hold"),
        effect("trace_reset", 2.0, "corrected", "does not hold"),
    ]
    said = sentences([*plain, *away_and_towards])
    assert len(said) == 2
    for sentence in said:
        assert "the strongest is trace set to 0: x" in sentence


def test_the_authors_axis() -> None:
    assert buffer_size_of(found_of("released", "per", 4, [1])) == 24.0
    assert buffer_size_of(found_of("corrected", "per", 4, [1])) == 64.0


def test_need_rows_are_of_the_largest_size() -> None:
    found = [found_of("x", "need", n, [1, 1, 1]) for n in (3, 4)]
    table = need_row_table(found)
    assert table["states"].tolist() == [4] * 4
    assert table["occupancy"].tolist() == [5.0, 6.0, 7.0, 8.0]  # the median of three trials
    assert len(data_table(found)) == 6


def test_variants_pair_scaling_with_sampling() -> None:
    variants = variants_of("corrected")
    assert len({variant.label for variant in variants}) == len(variants)
    for variant in variants:
        settings = variant.settings()
        assert settings.minibatch == variant.minibatch
        assert settings.batch_step == ("sum" if variant.minibatch == 1 else "mean")


def test_panel_three_has_a_verdict() -> None:
    said = {need: claims(optimal=40, need=need)[-2] for need in (100, 300)}
    assert all("falls with distance" in claim.statement for claim in said.values())
    # The shown state is the last of 4; made-up rows are low before it, or high.
    assert {need: claim.verdict for need, claim in said.items()} == {
        100: "holds",
        300: "does not hold",
    }


def test_the_printed_task_is_run_in_both_readings() -> None:
    assert fig3.readings(("released", "printed")) == ("released", "printed", "printed-returns")
    one, other = cliffwalk_preset("printed"), cliffwalk_preset("printed-returns")
    assert (one.fall, other.fall) == ("ends", "teleports")
    # Not ==: from Python 3.13 on a setting that is nan makes them differ.
    assert repr(replace(one, fall="teleports")) == repr(other)
