"""The kinds of run: the same numbers as the studies, whole after every stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from needlab.core.tables import read_table
from needlab.runs import RunSpec, cluster, load_sweep, run_sweep
from needlab.runs import speed as speed_module
from needlab.runs import tabular_runs as tabular
from needlab.runs.kinds import Kind, kind_named
from needlab.runs.local import LocalEngine
from needlab.runs.runner import NOTHING, Worked, read_progress
from needlab.runs.speed import Estimate, _speed, estimate, probe, speeds_of
from needlab.runs.sweep_file import parsed
from needlab.runs.sweep_run import execute as execute_item
from needlab.runs.sweep_run import item_of
from needlab.studies import SWEEP_KINDS
from needreplay._core.errors import NeedReplayError

MAZE = '[[runs]]\nkind = "tabular"\nagent = "ps-sr"\ntrials = 4\nepisodes = 50\n'
CLIFF = '[[runs]]\nkind = "cliffwalk"\nagent = "need"\ntrials = 3\nsizes = [3, 5]\n'


def execute(
    spec: RunSpec, folder: Path, on_units: Callable[[float], None] = lambda _units: None
) -> None:
    execute_item(spec, folder / "done.json", on_units)


def one(text: str) -> RunSpec:
    (spec,) = parsed(text, "a.toml", kinds=SWEEP_KINDS).runs
    return spec


def test_maze_trials_are_those_of_the_agent(tmp_path: Path) -> None:
    from needlab.tabular.settings import PS_SR
    from needlab.tabular.trial import run_trial
    from needlab.worlds import DYNA_MAZE, world_of_text
    from needreplay._core.rng import stream

    execute(one(MAZE), tmp_path)
    table = read_table(tmp_path / "metrics.csv")
    world = world_of_text(DYNA_MAZE)
    lived = [run_trial(world, PS_SR["printed"], 50, stream(0, "maze", i)) for i in range(4)]
    theirs = np.array([trial.lengths for trial in lived])
    assert np.array_equal(table["steps"].reshape(4, 50), theirs)
    assert table["trial"].reshape(4, 50)[:, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("agent", ["ps", "ps-sr", "dyna-q", "q-learning"])
def test_any_agent_on_any_world(tmp_path: Path, agent: str) -> None:
    text = f'[[runs]]\nkind = "tabular"\nagent = "{agent}"\ntrials = 2\nepisodes = 3\n'
    (tmp_path / "small.txt").write_text("S.\n.G\n")
    for world, options in (
        ("cliffwalk", "{ n = 3 }"),
        (str(tmp_path / "small.txt"), "{ reward_std = 0.0 }"),
        ("FrozenLake-v1", "{ is_slippery = false }"),
    ):
        spec = one(text + f'world = "{world}"\nworld_options = {options}\n')
        execute(spec, tmp_path / spec.name)
        assert len(read_table(tmp_path / spec.name / "metrics.csv")) == 6


def test_cliffwalk_trials_are_those_of_the_method(tmp_path: Path) -> None:
    from needlab.studies.cliffwalk.agent import run_trial
    from needlab.studies.cliffwalk.settings import cliffwalk_preset
    from needlab.worlds.cliffwalk import cliffwalk_world

    execute(one(CLIFF.replace("need", "gain") + 'preset = "released"\n'), tmp_path)
    table = read_table(tmp_path / "metrics.csv")
    settings = cliffwalk_preset("released")
    for states in (3, 5):
        world = cliffwalk_world(states, settings.fall, settings.right_actions)
        lived = [run_trial(world, settings, "gain", seed=0, trial=i) for i in range(3)]
        rows = table["states"] == states
        counted = [trial.updates if trial.converged else trial.budget for trial in lived]
        assert table["updates"][rows].tolist() == counted
        assert table["replayed"][rows].tolist() == [trial.updates for trial in lived]
        assert table["converged"][rows].tolist() == [trial.converged for trial in lived]
    assert not table["converged"].all()
    assert table["updates"].tolist() != table["replayed"].tolist()


def test_a_kind_that_is_passed_runs_in_other_processes(tmp_path: Path) -> None:
    (tmp_path / "cliff.toml").write_text(CLIFF)
    sweep = load_sweep(tmp_path / "cliff.toml", kinds=SWEEP_KINDS)
    assert [spec.kind for spec in sweep.runs] == [SWEEP_KINDS["cliffwalk"]]
    result = run_sweep(sweep, tmp_path / "out", lambda _: LocalEngine(1))
    assert (len(result.done), result.failures) == (1, [])
    assert len(read_table(tmp_path / "out/runs" / sweep.runs[0].name / "metrics.csv")) == 6
    (tmp_path / "code.toml").write_text(CLIFF + 'overrides = { method = "os:system" }\n')
    with pytest.raises(NeedReplayError, match="asks for 'os:system'"):
        load_sweep(tmp_path / "code.toml", kinds=SWEEP_KINDS)
    with pytest.raises(NeedReplayError, match="no kind of run 'cliffwalk'"):
        load_sweep(tmp_path / "cliff.toml")


def test_chunks_add_up_to_one_run(tmp_path: Path) -> None:
    """Results do not depend on how trials are cut into runs."""
    execute(one(MAZE), tmp_path / "whole")
    for spec in parsed(MAZE + "trials_per_run = 3\n", "a.toml").runs:
        execute(spec, tmp_path / spec.name)
    parts = [
        read_table(tmp_path / s.name / "metrics.csv")
        for s in parsed(MAZE + "trials_per_run = 3\n", "").runs
    ]
    whole = read_table(tmp_path / "whole" / "metrics.csv")
    for column in whole.names:
        assert np.array_equal(np.concatenate([part[column] for part in parts]), whole[column])


@pytest.mark.parametrize("text", [MAZE, CLIFF])
def test_a_chunk_resumes_after_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    spec = one(text)
    execute(spec, tmp_path / "whole")
    monkeypatch.setattr(tabular, "_SECONDS_BETWEEN_WRITES", 0.0)
    stopped: list[float] = []

    def on_units(units: float) -> None:
        stopped.append(units)
        if len(stopped) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(spec, tmp_path / "cut", on_units)
    assert not (tmp_path / "cut" / "done.json").exists()
    assert stopped == [0, 1, 2]
    execute(spec, tmp_path / "cut")
    for name in ("metrics.csv", "done.json", "config.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_complete_run_is_left_as_it_is(tmp_path: Path) -> None:
    """Also by whoever was asked to run it: a task that Ray had given up may still run."""
    execute(one(MAZE), tmp_path)
    (tmp_path / "metrics.csv").write_text("as it is")
    execute(one(MAZE), tmp_path)
    assert (tmp_path / "metrics.csv").read_text() == "as it is"


def test_a_metrics_file_of_something_else_raises(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("trial,episode,steps\n0,0,1\n")
    with pytest.raises(NeedReplayError, match="complete trials"):
        execute(one(MAZE), tmp_path)


def test_a_run_raises_where_it_cannot_be_right(tmp_path: Path) -> None:
    item = item_of(one(MAZE), tmp_path / "a")
    with pytest.raises(NeedReplayError, match="the same version on every machine"):
        cluster._task(item, str(tmp_path / "a"), "runs", "token", version="0.0.0")
    execute(one(MAZE), tmp_path / "b")
    with pytest.raises(NeedReplayError, match="holds another config"):
        execute(one(CLIFF), tmp_path / "b")


def test_a_deep_run_and_its_command(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = (
        '[[runs]]\nworld = "CartPole-v1"\nagent = "per"\nsteps = 150\noverrides = '
        "{ min_history = 50, iteration_steps = 50, eval_steps = 20, reward_clip = true }\n"
    )
    spec = one(text)
    execute(spec, tmp_path / "a")
    from needlab.runs.config import RunConfig
    from needlab.runs.kinds import DEEP
    from needlab.runs.run import run_training

    run_training(RunConfig(**spec.config), tmp_path / "b")
    for name in ("metrics.csv", "done.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    command = DEEP.command(dict(spec.config), Path("x y"))
    assert "--set reward_clip=true" in command
    assert command.endswith("--out 'x y'")
    shorter = DEEP.probe(dict(spec.config)) if DEEP.probe else {}
    assert (shorter["overrides"]["iteration_steps"], shorter["overrides"]["eval_steps"]) == (
        500,
        200,
    )
    with pytest.raises(NeedReplayError, match="There is no setting 'x'"):
        parsed(text.replace("min_history", "x"), "a.toml")


def test_the_time_is_estimated_from_measured_speed(tmp_path: Path) -> None:
    maze, more, cliff = (item_of(one(t), tmp_path) for t in (MAZE, MAZE + "seed = 1\n", CLIFF))
    assert maze.like == more.like != cliff.like
    worked = {more.name: Worked(2, 10.0)}
    speeds = speeds_of([maze, more, cliff], worked)
    # 0.2 trials a second: 4 trials are left of the one, 2 of the other.
    assert speeds == {maze.like: 0.2}
    found = estimate([maze, more, cliff], worked, speeds, starting=4.0)
    assert found.seconds == pytest.approx({maze.name: 24.0, more.name: 14.0})
    assert found.unknown == (cliff.name,)
    assert (found.wall(1), found.wall(2)) == pytest.approx((38.0, 24.0))
    assert Estimate({}).wall(2) == 0.0
    # Too short to measure; with an expected speed, both count by their seconds.
    short = {more.name: Worked(6, 3.0)}
    assert speeds_of([maze, more], short) == {}
    assert speeds_of([maze, more], short, expected=0.5) == {maze.like: (6 + 10) / (3 + 20)}
    assert speeds_of([maze], {}, expected=0.5) == {maze.like: 0.5}


@pytest.mark.parametrize(
    "said", ['{"units": 1, "seconds": 1' + "0" * 400 + "}", '{"units": 1e999, "seconds": 1}', "[]",
             '{"units": 1, "seconds": Infinity}', '{"units": 1, "seconds": NaN}', "{", "",
             '{"units": "1", "seconds": 1}'],
)  # fmt: skip
def test_nonsense_is_no_progress(tmp_path: Path, said: str) -> None:
    (tmp_path / "progress.json").write_text(said)
    assert read_progress(tmp_path / "progress.json") == NOTHING


def test_speed_leaves_out_the_first_second() -> None:
    assert _speed([(0.0, 0), (2.0, 100), (4.0, 500)]) == 200.0
    assert _speed([(0.0, 0), (0.5, 100)]) == 200.0
    assert _speed([(0.0, 0)]) is None
    assert _speed([]) is None


def test_speed_leaves_out_what_came_before_the_first_unit() -> None:
    """Compiled for eight seconds, then ten a second; the start is where a stopped run went on."""
    marks = [(0.0, 7), (0.5, 7), (8.0, 8), (8.1, 9), (8.2, 10)]
    assert _speed(marks) == pytest.approx(10.0)
    # A second more of warming up is left out where enough came after it.
    assert _speed([*marks, (9.5, 11), (11.5, 71)]) == pytest.approx(30.0)


def test_a_probe_measures() -> None:
    speed: Any = probe(one(MAZE))
    assert speed > 0


@pytest.mark.parametrize("trial", [0.1, 6.0])
def test_a_probe_does_not_measure_compilation(
    monkeypatch: pytest.MonkeyPatch, trial: float
) -> None:
    now = 100.0

    def run(config: dict[str, Any], folder: Path, on_units: Callable[[int], None]) -> None:
        nonlocal now
        on_units(0)
        now += 8.0
        for number in range(1, config["trials"] + 1):
            now += trial
            on_units(number)

    kind = Kind(run=run, probe=lambda config: config)
    monkeypatch.setattr(speed_module, "kind_named", lambda _: kind)
    monkeypatch.setattr("needlab.runs.speed.time.monotonic", lambda: now)
    assert probe(RunSpec("slow", {"trials": 1000})) == pytest.approx(1 / trial)
    assert now < 140.0, "it has seen enough after a few seconds"


def test_a_probe_has_a_trial_to_compile_in() -> None:
    for text in (MAZE, CLIFF):
        spec = one(text.replace("trials = 4", "trials = 1").replace("trials = 3", "trials = 1"))
        shorter = kind_named(spec.kind).probe
        assert shorter is not None
        assert shorter(dict(spec.config))["trials"] == 2


def test_a_sweep_runs_evb_in_the_maze_that_watch_reads(tmp_path: Path) -> None:
    """Several starts and goals, rewards that change at an episode, a door."""
    from needlab.tabular.evb import EVB, simulate
    from needlab.worlds.changes import tabular_schedule

    path = tmp_path / "maze.txt"
    path.write_text("S.>A\nS..B\n\nA: 1\nA from episode 2: 3\n", encoding="utf-8")
    text = f'[[runs]]\nkind = "tabular"\ntrials = 2\nepisodes = 4\nworld = "{path}"\nagent = '
    execute(one(text + '"evb"\n'), tmp_path / "evb")
    table = read_table(tmp_path / "evb" / "metrics.csv")
    theirs = [
        simulate(tabular_schedule(path), EVB["published"], episodes=4, simulation=i).lengths
        for i in range(2)
    ]
    assert table["steps"].reshape(2, 4).tolist() == np.array(theirs).tolist()
    assert one(text + '"evb"\n').config["preset"] == "published"
    assert one(text + '"ps-sr"\n').config["preset"] == "printed"
    for agent, message in (("evb-x", "There is no agent"), ("evb", "slip")):
        if agent == "evb":
            path.write_text("S..G\n\nslip: 0.1\n", encoding="utf-8")
        with pytest.raises(NeedReplayError, match=message):
            execute(one(text + f'"{agent}"\n'), tmp_path / agent / "no")
