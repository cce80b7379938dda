"""Figure 3: the same data whatever the workers, and nothing that did not converge is hidden."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from needreplay.records import write_table
from needreplay.runs.progress import Progress
from needreplay.studies import fig3, load_study
from needreplay.studies.base import Outcome, Request, Size
from needreplay.studies.engine import plan
from needreplay.studies.fig3.claims import claims_of
from needreplay.studies.fig3.compare import centre_interval, compare
from needreplay.studies.fig3.deciding import (
    NOTHING,
    changes_between,
    effects_of,
    sentences,
)
from needreplay.studies.fig3.figure import memory_of
from needreplay.studies.fig3.magnitude import variants_of
from needreplay.studies.fig3.runs import Found, data_table, jobs_of, need_row_table
from needreplay.studies.fig3.summary import summary_table
from needreplay.tabular.cliffwalk_settings import METHODS, Method, cliffwalk_preset


def found_of(
    label: str,
    method: Method,
    states: int,
    updates: list[int],
    stopped: int = 0,
    budget: int = 10_000,
) -> Found:
    """Trials with told updates, the last ``stopped`` of which did not converge."""
    n = len(updates)
    converged = (True,) * (n - stopped) + (False,) * stopped
    return Found(
        label=label, method=method, states=states, trials=tuple(range(n)),
        updates=tuple(updates), converged=converged, diverged=(False,) * n,
        budget=budget, transitions=states * 2**states, largest_entry=(1.0,) * n,
        negative_rows=(0.0,) * n, by_gain=(0,) * n,
        rows=np.arange(n * (states + 1), dtype=np.float64).reshape(n, states + 1),
    )  # fmt: skip


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fig3, "QUICK_LARGEST", 4)
    monkeypatch.setattr(fig3, "QUICK_EXTRA_SIZES", (3,))


def outcome(workers: int = 1, presets: tuple[str, ...] = ("released", "corrected")) -> Outcome:
    request = Request(presets=presets, trials=3, seed=1, workers=workers, size="quick")
    return load_study("fig3").run(request, Progress(visible=False))


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
    assert len(one.claims) == 22
    assert set(one.tables["deciding"]["setting"].tolist()) >= {NOTHING, "trace_reset"}
    assert set(one.tables["magnitude"]["need"].tolist()) == {"gain alone", "drawn", "scaled"}
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
    request = Request(presets=asked, trials=3, seed=1, workers=1, size=size)
    ((_, planned),) = plan(["fig3"], request)
    assert planned.presets == run


def test_pieces_of_jobs_hold_every_trial_once() -> None:
    jobs = jobs_of("x", cliffwalk_preset("released"), ("per",), (2, 9, 11), 15, 0)
    for states in (2, 9, 11):
        trials = [t for job in jobs if job.states == states for t in job.trials]
        assert trials == list(range(15))


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
    assert held.fewer(held.at(3)) == "undecided"
    assert "1 of 3 trials of need did not converge" in held.censoring()
    median = compare([stopped, per], "x", "need", "per", "median", 0)
    assert median.at(3).estimate == pytest.approx(10 / 5000)
    assert median.fewer(median.at(3)) == "holds"
    other_way = compare([stopped, per], "x", "per", "need", "mean", 0)
    assert other_way.fewer(other_way.at(3)) == "undecided"


def test_one_trial_has_no_interval() -> None:
    single = found_of("x", "per", 3, [7])
    assert centre_interval(single, "mean", 0).low == -np.inf
    held = compare([single, found_of("x", "need", 3, [5])], "x", "need", "per", "mean", 0)
    assert held.fewer(held.overall()) == "undecided"


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


def claimed(optimal: int, need: int) -> dict[str, str]:
    updates: dict[Method, int] = {
        "uniform": 900, "per": 300, "need": need, "need-random": 350,
        "need-optimal": optimal, "oracle": 20,
    }  # fmt: skip
    found = [
        found_of("released", method, n, [x * n + i for i in range(6)])
        for method, x in updates.items()
        for n in (3, 4)
    ]
    return {c.statement: c.verdict for c in claims_of(found, "released", 0)}


def test_claims_hold_or_not() -> None:
    verdicts = claimed(optimal=40, need=100)
    assert verdicts["PER takes fewer updates than uniform replay: at 4 states."] == "holds"
    assert verdicts["Even random need takes fewer updates than PER: at 4 states."] == (
        "does not hold"
    )
    assert verdicts["Optimal need takes fewer than learned need: all sizes together."] == "holds"
    close = next(verdict for said, verdict in verdicts.items() if "comes close" in said)
    assert close == "holds"
    assert claimed(optimal=200, need=100)[
        "Optimal need takes fewer than learned need: at 4 states."
    ] == ("does not hold")


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
    assert "random_need = policy" in said[0]
    assert "random_need = faulty" in said[1]
    assert "trace_reset" not in said[0]


def test_the_authors_axis() -> None:
    assert memory_of(found_of("released", "per", 4, [1])) == 24.0
    assert memory_of(found_of("corrected", "per", 4, [1])) == 64.0


def test_need_rows_are_of_the_largest_size() -> None:
    found = [found_of("x", "need", n, [1, 1, 1]) for n in (3, 4)]
    table = need_row_table(found)
    assert table["states"].tolist() == [4] * 4
    assert table["occupancy"].tolist() == [5.0, 6.0, 7.0, 8.0]  # the median of three trials
    assert len(data_table(found)) == 6


def test_variants_pair_scaling_with_drawing() -> None:
    variants = variants_of("corrected")
    assert len({variant.label for variant in variants}) == len(variants)
    for variant in variants:
        settings = variant.settings()
        assert settings.minibatch == variant.minibatch
        assert settings.batch_step == ("sum" if variant.minibatch == 1 else "mean")
