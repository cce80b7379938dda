"""The maze's studies at a tiny size: their columns, their claims, and what they read off curves."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.core.tables import read_table, write_table
from needlab.report.statistics import median_interval
from needlab.report.watched import watched_run, watched_runs, world_named
from needlab.runs.display import Display
from needlab.runs.trials import trial_runner
from needlab.studies import load_study, study_names
from needlab.studies.maze import dyna, fig1, growth, settings, world
from needlab.studies.maze.world import best_mean_steps, dyna_world, trial_stream
from needlab.studies.reproduce import reproduce
from needlab.studies.study import Options, Result
from needlab.tabular.settings import PS_SR, agent_settings, without_need
from needlab.tabular.trial import new_agent, run_trial
from needlab.worlds import shortest_path_length
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream

COLUMNS = {
    "fig1": ("preset", "lambda", "episodes", "row", "column", "occupancy"),
    "fig2": ("preset", "agent", "trial", "episode", "steps"),
    "dyna": ("preset", "agent", "trial", "episode", "steps"),
    "mazes": (
        "preset",
        "step_size",
        "resolution",
        "states",
        "agent",
        "trial",
        "updates",
        "steps",
        "found",
        "path_in_model",
    ),
    "maze-settings": ("preset", "agent", "changed", "trial", "steps_2_to_50"),
    "maze-replay": ("preset", "agent", "trial", "episode", "replays", "mean_distance"),
}


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    options = Options((), 3, seed=5, workers=1, size="quick")
    found = {}
    with trial_runner() as runner:
        for name in COLUMNS:
            study = load_study(name)
            found[name] = study.run(replace(options, presets=study.presets), runner)
    return found


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_the_documented_ones(results: dict[str, Result], name: str) -> None:
    result = results[name]
    assert result.tables["data"].names == COLUMNS[name]
    assert set(result.captions) == set(result.figures) >= {"figure"}


def test_every_maze_study_is_tested_here() -> None:
    assert set(COLUMNS) <= set(study_names())


def test_fig2_is_trials_of_the_presets(results: dict[str, Result]) -> None:
    data = results["fig2"].tables["data"]
    assert len(data) == 2 * 2 * 3 * 50
    rows = (data["preset"] == "released") & (data["agent"] == "ps-sr") & (data["trial"] == 2)
    lived = run_trial(dyna_world(), PS_SR["released"], 50, trial_stream(5, 2))
    assert data["steps"][rows].tolist() == lived.lengths.tolist()
    assert data["episode"][rows].tolist() == list(range(50))


def test_fig2_agents_share_their_first_episode(results: dict[str, Result]) -> None:
    data = results["fig2"].tables["data"]
    first = data["episode"] == 0
    ps, ps_sr = (data["steps"][first & (data["agent"] == agent)] for agent in ("ps", "ps-sr"))
    assert ps.tolist() == ps_sr.tolist()


def test_fig2_summary_is_the_mean_of_the_data(results: dict[str, Result]) -> None:
    data, summary = results["fig2"].tables["data"], results["fig2"].tables["summary"]
    rows = (data["preset"] == "printed") & (data["agent"] == "ps") & (data["episode"] == 7)
    (at,) = np.flatnonzero(
        (summary["preset"] == "printed") & (summary["agent"] == "ps") & (summary["episode"] == 7)
    )
    assert summary["mean"][at] == pytest.approx(data["steps"][rows].mean())
    assert summary["low"][at] <= summary["mean"][at] <= summary["high"][at]
    assert summary["trials"][at] == 3


def test_convergence_is_read_off_a_curve() -> None:
    best = best_mean_steps(dyna_world(), 0.1)
    curve = np.full(50, best)
    assert world.converged_at(curve) == 1
    curve[20] = 1.2 * best
    assert world.converged_at(curve) == 22
    curve[:] = 1.05 * best
    assert world.converged_at(curve) == 1
    curve[49] = 1.2 * best
    assert world.converged_at(curve) == 51
    assert dyna.near_optimal_at(curve) == 1
    curve[10] = 1.3 * best
    assert dyna.near_optimal_at(curve) == 12


def test_best_mean_steps() -> None:
    table = dyna_world()
    assert best_mean_steps(table, 0.0) == pytest.approx(14.0)
    # By simulation: an agent whose Q is right takes that many steps.
    agent = without_need(PS_SR["printed"])
    late = run_trial(dyna_world(0.0), agent, 4000, stream(1)).lengths[2000:]
    assert late.mean() == pytest.approx(best_mean_steps(table, 0.1), abs=0.3)


def test_fig1_shows_the_chosen_trial(results: dict[str, Result]) -> None:
    data = results["fig1"].tables["data"]
    assert len(data) == 2 * 2 * 4 * 54
    # The start is visited at least once, whatever has been learned.
    start = (data["row"] == 2) & (data["column"] == 0)
    assert (data["occupancy"][start & (data["episodes"] == 1)] > 0.5).all()
    shown = (data["preset"] == "printed") & (data["lambda"] == 1.0) & (data["episodes"] == 10)
    other, same = (fig1.snapshots(fig1.Case("printed", 1.0, 5), trial) for trial in (1, 0))
    assert data["occupancy"][shown].tolist() == same["occupancy"][1].tolist()
    assert data["occupancy"][shown].tolist() != other["occupancy"][1].tolist()
    options = Options(("printed",), 3, seed=5, workers=1, size="quick", trial=3)
    with trial_runner() as runner, pytest.raises(NeedReplayError, match="--trial 3 is not one of"):
        fig1.run(options, runner)


def test_fig1_distance_is_zero_for_the_closed_form() -> None:
    agent = fig1.Case("printed", 0.5, 0).settings
    # Before anything is learned the policy is random, and M begins as its closed form.
    assert fig1.distance_to_truth(new_agent(dyna_world(), agent), agent) < 1e-12


def test_every_difference_of_the_presets_is_changed_alone() -> None:
    printed, released = asdict(PS_SR["printed"]), asdict(PS_SR["released"])
    differing = {field for field in printed if printed[field] != released[field]}
    assert set(settings.DIFFERENCES) == differing
    for name in ("printed", "released"):
        base = asdict(PS_SR[name])
        for (_, agent, label), overrides in settings.changes(name).items():
            if agent == "ps-sr":
                own = asdict(agent_settings(agent, name, **overrides))
                changed = {field for field in own if own[field] != base[field]}
                assert len(changed) == (label != "as it is")


def test_maze_settings_effects_are_paired_differences(results: dict[str, Result]) -> None:
    data = results["maze-settings"].tables["data"]
    effects = results["maze-settings"].tables["effects"]
    at = 5
    key = {name: effects[name][at] for name in ("preset", "agent", "changed")}
    rows = np.logical_and.reduce([data[name] == value for name, value in key.items()])
    base = np.logical_and.reduce(
        [data["preset"] == key["preset"], data["agent"] == key["agent"],
         data["changed"] == "as it is"]
    )  # fmt: skip
    steps = data["steps_2_to_50"]
    assert effects["difference"][at] == pytest.approx(steps[rows].mean() - steps[base].mean())


def test_larger_mazes_have_more_cells_and_are_solved(results: dict[str, Result]) -> None:
    data = results["mazes"].tables["data"]
    assert sorted(set(data["states"].tolist())) == [47, 188, 423]
    shortest = {k: shortest_path_length(dyna_world(0.0, k)) for k in (1, 2, 3)}
    assert shortest == {1: 14, 2: 25, 3: 38}
    budget = np.array([growth.BUDGET * shortest[k] for k in data["resolution"].tolist()])
    # A trial that found nothing walked all its steps; one that found a path knew it.
    assert (data["steps"][~data["found"]] == budget[~data["found"]]).all()
    assert (data["steps"] <= budget).all()
    assert data["path_in_model"][data["found"]].all()
    assert data["found"].mean() > 0.5
    assert (data["updates"] > 0).all()


def test_a_trial_without_a_path_loses_to_one_with_it() -> None:
    def ended(*updates: float) -> dict[str, Any]:
        values = np.array(updates)
        return {"updates": np.where(np.isinf(values), 10, values), "found": np.isfinite(values)}

    never = np.inf
    found = {
        growth.Case(0.5, 1, "ps-sr"): ended(3, never, 4, never, 8, 1, 2),
        growth.Case(0.5, 1, "ps"): ended(never, 90, 5, never, 8, 2, 3),
    }
    medians = {case: median_interval(growth.ranked(own), stream(0)) for case, own in found.items()}
    claim, largest = growth.compare(0.5, "ps-sr", "ps", "", found, medians)
    # Won: trials 0, 2, 5, 6; lost: 1; neither found it in 3; in 4 they are equal.
    assert claim.measured.startswith("fewer in 4 of 5 trials: 0.80 (95% interval 0.38 to 0.96)")
    assert claim.measured.endswith("; in 2 more neither")
    assert (largest.measured, largest.verdict) == (claim.measured, claim.verdict)
    assert "47 cells: 4 of 5, medians 4 and 8" in claim.detail
    assert claim.verdict == "undecided"


def test_replay_events_are_the_updates_of_the_trial(results: dict[str, Result]) -> None:
    events = results["maze-replay"].tables["replay_events"]
    rows = (events["preset"] == "printed") & (events["agent"] == "ps-sr")
    lived = run_trial(dyna_world(), PS_SR["printed"], 50, trial_stream(5, 0))
    assert rows.sum() == lived.agent.updates
    counts = results["maze-replay"].tables["data"]
    of_agent = (counts["preset"] == "printed") & (counts["agent"] == "ps-sr")
    assert counts["replays"][of_agent].sum() == lived.agent.updates
    # Nothing is replayed before the goal has been found, and then its own pair comes first.
    assert events["episode"][rows][0] == 0
    assert events["agent_state"][rows][0] == 8
    assert events["need"][(events["agent"] == "ps")].tolist() == [1.0] * int(
        (events["agent"] == "ps").sum()
    )


def test_replay_events_can_be_watched(results: dict[str, Result], tmp_path: Path) -> None:
    events = results["maze-replay"].tables["replay_events"]
    write_table(tmp_path / "replay_events.csv", events)
    logs = watched_runs(str(tmp_path / "replay_events.csv"), world_named("dyna-maze"))
    names = [(preset, agent) for preset in ("printed", "released") for agent in ("ps", "ps-sr")]
    assert [log.name for log in logs] == [f"replay_events.csv: {', '.join(own)}" for own in names]
    for log, (preset, agent) in zip(logs, names, strict=True):
        # The run that watch itself makes, with what a table does not have: values and steps.
        run = watched_run(f"{agent}:{preset}", world_named("dyna-maze"), seed=5)
        np.testing.assert_array_equal(log.backups, run.backups)
        for field in ("episode", "first", "count"):
            np.testing.assert_array_equal(log.pauses[field], run.pauses[field])
        own = events.where(preset=preset, agent=agent)
        np.testing.assert_array_equal(own["event"], run.backups["event"])


def test_data_does_not_depend_on_workers(tmp_path: Path) -> None:
    for workers in (1, 2):
        options = Options((), 45, seed=9, workers=workers, size="quick")
        reproduce(
            ["fig2"], options, tmp_path / str(workers), ["test"], display=Display(visible=False)
        )
    one, two = ((tmp_path / name / "fig2" / "data.csv").read_bytes() for name in ("1", "2"))
    assert one == two
    assert len(read_table(tmp_path / "1" / "fig2" / "data.csv")) == 45 * 50 * 4
