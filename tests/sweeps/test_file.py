"""What a sweep's file says, what ships, and names that follow from configs."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

import pytest

from needlab.runs import RunSpec, load_sweep, shipped_sweeps
from needlab.runs import sweep_file as file_module
from needlab.runs.sweep_file import parsed
from needlab.studies import SWEEP_KINDS
from needreplay._core.errors import NeedReplayError

TABULAR = "[[runs]]\nkind = 'tabular'\n"
PS = TABULAR + "agent = 'ps'\n"
BLOCK = """
[[runs]]
kind = "tabular"
agents = ["ps", "ps-sr"]
presets = ["printed", "released"]
seeds = 3
"""


def test_a_block_is_every_combination() -> None:
    runs = parsed(BLOCK, "a.toml").runs
    assert len(runs) == 12
    assert len({run.name for run in runs}) == 12
    first = runs[0].config
    assert (first["agent"], first["preset"], first["seed"]) == ("ps", "printed", 0)
    assert [run.config["seed"] for run in runs[:3]] == [0, 1, 2]
    assert first["episodes"] == 50, "every value is filled in"


def test_overrides_are_variants_and_chunks_cut_trials() -> None:
    text = PS + "seeds = [4]\ntrials = 25\ntrials_per_run = 10\n"
    runs = parsed(text + "overrides = [{ threshold = 1 }, { threshold = 2 }]", "a.toml").runs
    assert [run.config["overrides"]["threshold"] for run in runs] == [1, 1, 1, 2, 2, 2]
    pieces = [(run.config["first_trial"], run.config["trials"]) for run in runs[:3]]
    assert pieces == [(0, 10), (10, 10), (20, 5)]
    assert {run.config["seed"] for run in runs} == {4}


def test_equal_runs_are_one() -> None:
    assert len(parsed(BLOCK + BLOCK, "a.toml").runs) == 12


def test_a_name_is_a_hash_of_the_config_and_stays() -> None:
    """Folders of earlier sweeps are found by it, so it must never change."""
    spec = RunSpec("tabular", {"agent": "ps", "seed": 0})
    assert spec.name == "30122a1b928e6f9d"
    assert RunSpec("tabular", {"agent": "ps", "seed": 1}).name != spec.name
    assert RunSpec("cliffwalk", dict(spec.config)).name != spec.name
    assert doctest.testmod(file_module).failed == 0
    for config in ({"a": float("nan")}, {"a": object()}):
        with pytest.raises(NeedReplayError, match="JSON"):
            _ = RunSpec("tabular", config).name
    with pytest.raises(NeedReplayError, match="kind"):
        _ = RunSpec("tabular", {"kind": "deep"}).name


def test_the_sweeps_that_ship() -> None:
    assert shipped_sweeps() == (
        "ablation-need", "minatar-full", "minatar-small", "paper-atari",
        "paper-cliffwalk", "paper-maze",
    )  # fmt: skip
    assert len(load_sweep("paper-maze").runs) == 6
    assert len(load_sweep("paper-cliffwalk", kinds=SWEEP_KINDS).runs) == 18
    assert load_sweep("paper-maze").about


def test_the_deep_sweeps_that_ship() -> None:
    pytest.importorskip("torch")
    small = load_sweep("minatar-small").runs
    assert len(small) == 24
    assert {run.config["steps"] for run in small} == {200_000}
    atari = load_sweep("paper-atari").runs
    assert len({run.config["world"] for run in atari}) == 15
    assert len(atari) == 15 * 5 * 5
    # 200 iterations of 250,000 steps.
    assert {run.config["steps"] for run in atari} == {50_000_000}
    needs = [run.config["overrides"] for run in load_sweep("ablation-need").runs]
    for setting in ("direction", "negative", "scale"):
        assert any(setting in overrides for overrides in needs)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "There is no entry 'x'"),
        ("name = 'a'", "has no runs"),
        ("[[runs", "is not TOML"),
        (
            "[[runs]]\nkind = 'walk'",
            "no kind of run 'walk'; choose from: deep, tabular, linear, cliffwalk, mod",
        ),
        ("[[runs]]\nkind = 'tabular'", "needs 'agent'"),
        (TABULAR + "agent = 'x'", "There is no agent 'x'"),
        (PS + "preset = 'x'", "There is no preset 'x'"),
        (PS + "agents = ['ps']", "has both agent and agents"),
        (TABULAR + "agents = []", "agents must be a list"),
        (
            PS + "world = 'moon'",
            "world is 'moon', which is not one of linear-track, open-field",
        ),
        (PS + "trials = 0", "trials is 0"),
        (
            PS + "trials_per_run = 0\ntrials = 1",
            "trials_per_run is 0",
        ),
        (
            PS + "trials_per_run = 5",
            "trials_per_run needs trials",
        ),
        (
            PS + "steps = 1",
            "There is no entry of a tabular run",
        ),
        (PS + "overrides = { x = 1 }", "no setting 'x'"),
        ("[[runs]]\nkind = 'cliffwalk'\nagent = 'ps'", "There is no agent of kind cliffwalk"),
        ("[[runs]]\nkind = 'cliffwalk'\nagent = 'per'\nsizes = [1]", "must be a whole number, 2"),
        ("[[runs]]\nkind = 'nothing:here'", "'nothing:here' cannot be imported"),
        ("[[runs]]\nkind = 'json:here'", "has no 'here'"),
        (
            "[[runs]]\nworld = 'CartPole-v1'\nseeds = 99999999999999999999",
            "seeds is 99999999999999999999; it must be a whole number from 1 to 100000.",
        ),
        (
            "[[runs]]\nkind = 'tabular'\nagent = 'ps'\ntrials = 999999999999\ntrials_per_run = 1",
            "a sweep has at most 100,000 runs",
        ),
        ("runs = [1]", "each entry of runs must be a table, [[runs]]"),
        ("[[runs]]\nkind = 1", "kind is 1; it must be text"),
        (PS + "overrides = [1]", "overrides must be a table"),
        (PS + "overrides = []", "overrides must be a table"),
        (
            PS + "trials_per_run = true\ntrials = 1",
            "trials_per_run is True",
        ),
        (
            PS + "trials_per_run = 1\ntrials = 1\nfirst_trial = 'x'",
            "first_trial is 'x'; it must be a whole number, 0 or more",
        ),
        (TABULAR + "agent = 'dyna-q'\npreset = 'x'", "There is no preset 'x'"),
        (
            TABULAR + "agent = 'q-learning'\npreset = []",
            "preset is []; it must be text",
        ),
        (
            PS + "world_options = { reward_std = 'a' }",
            "reward_std': 'a'}: must be real number",
        ),
        (
            PS + "world_options = { reward_std = -1.0 }",
            "reward_std",
        ),
        ("[[runs]]\nkind = 'cliffwalk'\nagent = 'per'\nsizes = 3", "sizes is 3; it must be a list"),
    ],
)
def test_what_raises_names_the_file(text: str, said: str) -> None:
    with pytest.raises(NeedReplayError, match=r"^a\.toml") as raised:
        parsed(text, "a.toml", allow_code=["nothing", "json"], kinds=SWEEP_KINDS)
    assert said in str(raised.value)


def test_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fakes_folder: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(BLOCK)
    assert load_sweep(path).name == "mine"
    with pytest.raises(NeedReplayError, match="There is no sweep 'x'; choose from: ablation-need"):
        load_sweep("x")
    with pytest.raises(NeedReplayError, match="cannot be read"):
        load_sweep(tmp_path / "none.toml")
    monkeypatch.syspath_prepend(str(fakes_folder))
    monkeypatch.setenv("FAKE_RUNS", "2")
    assert len(load_sweep("fake_runs:specs").runs) == 2
    with pytest.raises(NeedReplayError, match="must return RunSpec objects"):
        load_sweep("json:JSONDecoder")


def test_a_kind_in_the_present_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kind_of_here.py").write_text("def run(config, folder, on_units): ...\n")
    (tmp_path / "mine.toml").write_text('[[runs]]\nkind = "kind_of_here:run"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    with pytest.raises(NeedReplayError, match="--allow-code kind_of_here"):
        load_sweep("mine.toml")
    (spec,) = load_sweep("mine.toml", allow_code=["kind_of_here"]).runs
    assert spec.kind == "kind_of_here:run"
