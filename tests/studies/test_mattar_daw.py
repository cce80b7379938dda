"""The study of Mattar & Daw's figures: its cases, measures, tables and claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.report.figures import save_figure
from needlab.report.statistics import Interval
from needlab.runs.local import LocalEngine
from needlab.runs.trials import TrialRunner, trial_runner
from needlab.studies import mattar_daw
from needlab.studies.mattar_daw.cases import (
    CHANGES,
    LINEAR,
    OPEN,
    Case,
    Variant,
    run_behavior,
    run_events,
    run_shock,
    run_sleep,
)
from needlab.studies.mattar_daw.claims import QUESTIONS, Answer
from needlab.studies.mattar_daw.heights import HEIGHTS
from needlab.studies.mattar_daw.measures import (
    columns_ahead,
    count_near,
    leads_to_goal,
    path_lengths,
    visit_counts,
)
from needlab.studies.study import Options
from needlab.tabular.evb.settings import EVB
from needlab.tabular.evb.simulation import simulate
from needlab.worlds.boards import linear_track
from needlab.worlds.make import tabular_world
from needlab.worlds.tabular import world_of_arrays

PUBLISHED = Variant("published")


def options(**changes: Any) -> Options:
    return Options(**{
        "presets": ("published", "text"), "trials": 6, "seed": 0, "workers": 2, "size": "quick",
        **changes,
    })  # fmt: skip


class HereRunner(TrialRunner):
    """Runs trials in this process."""

    def run(self, function: Any, cases: Any, trials: Any, **_: Any) -> Any:
        counts = [trials] * len(cases) if isinstance(trials, int) else trials
        rows = [
            [function(case, i) for i in range(n)] for case, n in zip(cases, counts, strict=True)
        ]
        stacked = [{name: np.stack([r[name] for r in own]) for name in own[0]} for own in rows]
        return dict(zip(cases, stacked, strict=True))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Any:
    runner = HereRunner(LocalEngine(1), tmp_path_factory.mktemp("cache"))
    # Changes of the preset show what they do in two simulations; claims need six for an interval.
    # The linear track has more than the others, as in the full size.
    few = {kind: 2 if kind == "change" else 6 for kind in mattar_daw.SIMULATIONS["quick"]}
    few[LINEAR] = 7
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(mattar_daw.SIMULATIONS, "quick", few)
        return mattar_daw.run(options(presets=("published",), trials=None), runner)


def test_the_data_has_the_columns_and_values_that_others_compare_with(result: Any) -> None:
    data = result.tables["data"]
    assert data.names == (
        "preset", "change", "world", "schedule", "simulation", "direction", "when",
        "events_per_episode",
    )  # fmt: skip
    assert set(data["schedule"]) == {
        "baseline", "1-or-4 after 1", "1-or-4 after 4", "1-or-0 after 1", "1-or-0 after 0",
    }  # fmt: skip
    assert set(data["world"]) == {LINEAR, OPEN}
    assert set(data["change"]) == set(CHANGES)
    assert set(data["direction"]) == {"forward", "reverse"}
    assert set(data["when"]) == {"before", "after"}
    # Counts over 50 episodes, and over 25 in each class of a changing reward.
    changing = data["schedule"] != "baseline"
    for rows, episodes in ((~changing, 50), (changing, 25)):
        counts = data["events_per_episode"][rows] * episodes
        np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    mine = (data["preset"] == "published") & (data["change"] == "none") & ~changing
    means = {
        (direction, when): data["events_per_episode"][
            mine
            & (data["world"] == LINEAR)
            & (data["direction"] == direction)
            & (data["when"] == when)
        ].mean()
        for direction in ("forward", "reverse")
        for when in ("before", "after")
    }
    assert means["forward", "before"] > 0.5 > means["reverse", "after"] > 0.25
    assert means["forward", "after"] < 0.02
    assert means["reverse", "before"] < 0.05


def test_published_numbers_stand_beside_ours(result: Any) -> None:
    heights = result.tables["heights"]
    for figure in ("fig. 3", "fig. 5"):
        axes = heights.where(kind="axis", figure=figure)
        low, ours, high = (axes[name] for name in ("published_low", "ours", "published_high"))
        assert np.all((low <= ours) & (ours <= high))
    assert heights.where(kind="animals")["published_low"].tolist() == [-3, 56, -83, -88]


def test_a_change_of_events_with_reward_is_a_percentage_of_those_after_1() -> None:
    # [simulation, reward, direction, when]: 2 reverse events after 1, 3 after 4; no forward ones.
    events = np.zeros((6, 2, 2, 2))
    events[:, 0, 1], events[:, 1, 1] = 1.0, 1.5
    found, rng = {f"{LINEAR}/1-or-4": {"events": events}}, np.random.default_rng(0)
    changes = {height.quantity: height for height in HEIGHTS if height.kind == "animals"}
    reverse = changes["change of reverse events from reward 1 to 4, in percent"]
    assert reverse.measure(found, rng) == Interval(50.0, 50.0, 50.0)
    forward = changes["change of forward events from reward 1 to 4, in percent"]
    assert np.isnan(forward.measure(found, rng).estimate)


def test_forward_events_vanish_without_the_floor_of_each_element(result: Any) -> None:
    decided = result.tables["deciding"]
    for change in ("no floor", "floor on the sum", "no chains"):
        rows = (decided["change"] == change) & (decided["direction"] == "forward")
        assert rows.sum() == 4, "two worlds, two rules"
        assert not decided["mean"][rows].any()
        reverse = (decided["change"] == change) & (decided["direction"] == "reverse")
        assert np.all(decided["mean"][reverse] > 0.1)


def test_every_claim_has_an_answer_under_every_change(result: Any) -> None:
    table = result.tables["claims_by_change"]
    assert len(table) == len(QUESTIONS) * len(CHANGES)
    assert len(result.claims) == len(QUESTIONS)
    holding = {claim.statement for claim in result.claims if claim.verdict == "holds"}
    assert "Forward events come before a run rather than after it (linear track)" in holding
    assert "Reverse events come after a run rather than before it (open field)" in holding
    assert set(result.captions) == set(result.figures)
    shown = {(claim.source.rpartition(", ")[2], claim.figure) for claim in result.claims}
    assert shown == {
        ("fig. 1", "behavior"), ("fig. 3", "figure"), ("fig. 4", "distances"),
        ("fig. 4", "rewards"), ("fig. 5", "rewards"), ("fig. 6", "laps"),
    }  # fmt: skip
    assert {claim.figure for claim in result.claims} < set(result.figures)
    assert any("Without the gain floor" in note for note in result.notes)


def test_what_is_compared_has_the_same_axes(result: Any) -> None:
    for name in ("figure", "behavior", "deciding"):
        axes = result.figures[name].axes
        assert len({one.get_ylim() for one in axes}) == 1, name
    assert len({one.get_xlim() for one in result.figures["deciding"].axes}) == 1
    first, last = result.figures["distances"].axes[:2]
    assert first.get_ylim() == last.get_ylim()


def test_the_legend_of_what_decides_hides_no_point(result: Any, tmp_path: Path) -> None:
    figure = result.figures["deciding"]
    save_figure(figure, tmp_path)
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert [text.get_text() for text in legend.get_texts()] == ["forward", "reverse"]
    assert all(axes.get_legend() is None for axes in figure.axes)
    assert not any(box.overlaps(axes.get_tightbbox()) for axes in figure.axes)


def test_text_alone_runs_without_changes(tmp_path: Path) -> None:
    assert mattar_daw.variants_of(("text",)) == [Variant("text")]
    runner = HereRunner(LocalEngine(1), tmp_path)
    found = mattar_daw.run(options(presets=("text",), trials=2), runner)
    assert set(found.tables["data"]["preset"]) == {"text"}
    assert "deciding" not in found.figures


def test_workers_change_nothing() -> None:
    case = Case(PUBLISHED, LINEAR, "1-or-4")
    columns = []
    for workers in (1, 2):
        with trial_runner(workers) as runner:
            columns.append(runner.run(run_events, [case], 4, label="events", seconds=3.0)[case])
    here = run_events(case, 3)
    for name, values in columns[0].items():
        np.testing.assert_array_equal(values, columns[1][name])
        np.testing.assert_array_equal(values[3], here[name])


def test_agents_share_their_first_episode_and_replay_helps() -> None:
    steps = {
        agent: np.array(run_behavior(Case(PUBLISHED, LINEAR, agent=agent), 0)["steps"])
        for agent in ("full", "no replay", "dyna")
    }
    assert len({int(found[0]) for found in steps.values()}) == 1
    assert steps["full"].sum() < steps["dyna"].sum() < steps["no replay"].sum()


def test_sleep_and_shock() -> None:
    cued, uncued, total = np.sum(
        [np.array(run_sleep(Case(PUBLISHED, LINEAR), i)["arms"]) for i in range(5)], axis=0
    )
    assert total > cued > uncued > 0
    assert run_shock(Case(PUBLISHED, LINEAR), 0)["replayed"].tolist() == [0.0, 1.0]  # type: ignore[union-attr]


def test_positions_by_hand() -> None:
    track = linear_track()
    assert [columns_ahead(track, 0, 5), columns_ahead(track, 29, 24)] == [5, 5]
    assert columns_ahead(track, 8, 0) == -8
    assert np.flatnonzero(leads_to_goal(track)).tolist() == [8, 9, 20, 21]
    field = tabular_world("open-field")
    assert np.flatnonzero(leads_to_goal(field)).tolist() == [8, 17]
    between = path_lengths(field)
    assert (between[17, 8], between[8, 35], between[0, 0], between[2, 8]) == (1, 3, 0, 12)


def test_states_around_an_event_by_hand() -> None:
    near = np.zeros((2, 10, 3))
    path = [0, 1, 2, 3, 4, 5]
    count_near(near, path, 2, np.array([3, 4, 9, 9, 9, 5]), 12)
    # Before: 1 and 0, neither in the event; after: 3 and 4 are, 5 is not among the first five.
    assert near[0, :3, 0].tolist() == [0, 0, 0]
    assert near[0, :3, 1].tolist() == [1, 1, 0]
    assert near[1, :4, 0].tolist() == [1, 1, 0, 0]
    assert near[1, :4, 2].tolist() == [0.5, 0.5, 0.5, 0.0]


def test_visits_count_every_state_of_every_lap() -> None:
    task = world_of_arrays(
        [[0, 1], [0, 2], [2, 2]], starts=[0], goals=[2], rewards={2: [(1.0, 0.0)]}
    )
    life = simulate(task, EVB["published"], episodes=10)
    counts = visit_counts(task, life, np.ones((10, 3), np.bool_))
    assert counts[:, 1].sum() <= 20
    assert counts[0].tolist() == [0, 0], "both states are passed in every lap"
    np.testing.assert_array_equal(counts[:, 0], counts[:, 1])


@pytest.mark.parametrize(
    ("direction", "low", "high", "verdict"),
    [
        ("above", 0.1, 0.2, "holds"),
        ("above", -0.2, -0.1, "does not hold"),
        ("above", -0.1, 0.1, "undecided"),
        ("above", 0.0, 0.0, "does not hold"),
        ("below", -0.2, -0.1, "holds"),
        ("same", 0.9, 1.1, "holds"),
        ("same", 1.3, 1.5, "does not hold"),
        ("same", 1.1, 1.5, "undecided"),
    ],
)
def test_verdicts(direction: str, low: float, high: float, verdict: str) -> None:
    question = next(own for own in QUESTIONS if own.direction == direction)
    assert Answer(question, Interval((low + high) / 2, low, high)).verdict == verdict
    assert Answer(question, None).verdict == "undecided"


def test_a_variant_without_forward_events_answers_all_the_same(result: Any) -> None:
    table = result.tables["claims_by_change"]
    row = (table["change"] == "no floor") & (table["claim"] == "forward ahead")
    assert table["verdict"][row].tolist() == ["undecided"]
    assert np.isnan(table["mean"][row]).all()
