"""Agents, samplers and networks of one's own, by ``module:name``; only the user names them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from killed import TINY

from needlab.runs import load_sweep
from needlab.runs.config import RunConfig
from needlab.runs.evaluation import load_player
from needlab.runs.run import run_training
from needreplay._core.errors import NeedReplayError

pytest.importorskip("torch")

MODULE = """
from torch import nn
from needreplay import RankSampler
from needlab.deep import DeepAgent


def ranks(settings):
    return RankSampler(settings.alpha)


def network(shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], 10), nn.Tanh())


def not_a_network(shape):
    return None


def broken(given):
    return given.nothing


def misfit(shape):
    return nn.Linear(shape[0] + 1, 10)


class Timid(DeepAgent):
    changes = {"alpha": 0.3, "sampler": "own_module:ranks"}

    def act(self, obs):
        super().act(obs)
        return 0
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    sys.modules.pop("own_module", None)


@pytest.mark.usefixtures("own")
def test_own_agent_sampler_and_network_train_resume_and_play(tmp_path: Path) -> None:
    overrides = {**TINY, "network": "own_module:network"}
    config = RunConfig("CartPole-v1", "own_module:Timid", steps=200, overrides=overrides)
    assert config.resolved().agent.alpha == 0.3

    def on_steps(steps: int, _row: object) -> None:
        if steps >= 150:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_training(config, tmp_path / "run", on_steps=on_steps)
    for name in ("run", "unbroken"):
        run_training(config, tmp_path / name)
    metrics = [(tmp_path / name / "metrics.csv").read_bytes() for name in ("run", "unbroken")]
    assert metrics[0] == metrics[1]
    with pytest.raises(NeedReplayError, match="--allow-code own_module"):
        load_player(tmp_path / "run")
    player = load_player(tmp_path / "run", allow_code=["own_module"])
    assert type(player.agent).__name__ == "Timid"
    assert player.agent.q.online.n_hidden == 10
    assert player.agent.buffer.sampler.name == "rank"


@pytest.mark.usefixtures("own")
def test_need_with_an_own_network(tmp_path: Path) -> None:
    overrides = {**TINY, "network": "own_module:network"}
    config = RunConfig("CartPole-v1", "per-sr", "corrected", steps=100, overrides=overrides)
    run_training(config, tmp_path / "run")
    assert (tmp_path / "run" / "done.json").exists()


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("agent", "overrides", "said"),
    [
        ("own_module:ranks", {}, "is not a subclass of needlab.deep.DeepAgent"),
        ("per", {"network": "own_module:not_a_network"}, "must take the shape of an observation"),
        ("per", {"sampler": "own_module:not_a_network"}, "that returns a Sampler"),
        ("per", {"network": "own_module:broken"}, "'own_module:broken', called with tuple, raised"),
        ("per", {"network": "own_module:misfit"}, "The module of 'own_module:misfit', called with"),
        ("per", {"sampler": "own_module:broken"}, r"AttributeError: .*own_module\.py, line 20\)"),
        ("per", {"sampler": "own_module:nothing"}, "The module 'own_module' has no 'nothing'"),
        ("per", {"sampler": "own:"}, "is not of the form module:name"),
    ],
)
def test_wrong_own_code_raises(
    agent: str, overrides: dict[str, str], said: str, tmp_path: Path
) -> None:
    config = RunConfig("CartPole-v1", agent, steps=2_000, overrides=overrides)
    with pytest.raises(NeedReplayError, match=said):
        run_training(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "entry",
    [
        'world = "evil_module:Foo-v0"',
        'world = "CartPole-v1"\nagents = ["per", "evil_module:Agent"]',
        'world = "CartPole-v1"\noverrides = { sampler = "evil_module:make" }',
        'world = "CartPole-v1"\noverrides = [{}, { network = "evil_module:make" }]',
        'kind = "evil_module:run"',
        'kind = "tabular"\nagent = "ps"\nworld = "evil_module:Foo-v0"',
        'kind = "tabular"\nagent = "ps"\nworld_options = { env_id = "evil_module:F" }',
    ],
)
def test_a_sweep_file_imports_nothing_that_the_user_did_not_name(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil_module.py").write_text("raise SystemExit('it ran')")
    (tmp_path / "s.toml").write_text(f"[[runs]]\n{entry}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NeedReplayError, match=r"s\.toml asks for .*--allow-code evil_module"):
        load_sweep("s.toml")
    assert "evil_module" not in sys.modules


@pytest.mark.parametrize("name", ["../../escape", "a/b", "..", ".hidden", "", "a\\u0000", "a\\nb"])
def test_the_name_of_a_sweep_is_a_plain_file_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'name = "{name}"\n[[runs]]\nworld = "CartPole-v1"\nsteps = 5000\n')
    with pytest.raises(NeedReplayError, match=r"s\.toml: name is .* plain file name"):
        load_sweep(path)
