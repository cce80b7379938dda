"""``needreplay train --actors``: the same agents and pages, whatever is lost on the way."""

from __future__ import annotations

import csv
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray_learner import killed_with

from needlab.runs.actors import ARRIVED, Fleet, epsilon_of
from needlab.runs.config import ActorSettings, RunConfig
from needlab.runs.metrics import COLUMNS, OF_ACTORS
from needlab.runs.run import run_training
from needlab.runs.run_folder import METRICS, newest_checkpoint, steps_of
from needlab.runs.stopping import Stopped
from needreplay._core.errors import NeedReplayError
from needreplay.equations import ape_x_epsilon

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]

QUICK: dict[str, Any] = {
    "min_history": 200,
    "iteration_steps": 400,
    "eval_steps": 50,
    "checkpoint_steps": 10_000,
    "capacity": 2_000,
    "batch_size": 16,
    "actors": 2,
    "block": 16,
}


def config(agent: str = "per", steps: int = 1_200, **overrides: Any) -> RunConfig:
    return RunConfig("CartPole-v1", agent, steps=steps, overrides={**QUICK, **overrides})


def rows_of(metrics: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(metrics.read_text(encoding="utf-8").splitlines()))


def test_exploration_differs_by_actor() -> None:
    """Ape-X with 8 actors: from 0.4 to 0.4^8."""
    assert ape_x_epsilon(0, 8) == pytest.approx(0.4)
    assert ape_x_epsilon(7, 8) == pytest.approx(0.4**8)
    assert ape_x_epsilon(1, 8) == pytest.approx(0.4**2)
    assert epsilon_of(ActorSettings(actors=8), 3) == pytest.approx(0.4**4)
    assert epsilon_of(ActorSettings(actors=1), 0) is None
    assert epsilon_of(ActorSettings(actors=8, exploration="same"), 3) is None
    with pytest.raises(NeedReplayError, match="shards is 3, above actors 2"):
        ActorSettings(actors=2, shards=3)


@pytest.mark.parametrize(
    ("agent", "more"),
    [
        ("per", {"n_step": 3, "first_priorities": "td-error", "shards": 2}),
        ("per-sr-sampling", {"steps": 600, "features": 8}),
    ],
)
def test_an_agent_trains(cluster: Any, tmp_path: Path, agent: str, more: dict[str, Any]) -> None:
    metrics = run_training(config(agent, **more), tmp_path / "run")
    rows = rows_of(metrics)
    assert list(rows[0]) == [*COLUMNS, *OF_ACTORS]
    last = rows[-1]
    steps, updates = int(last["steps"]), int(last["updates"])
    assert steps >= more.get("steps", 1_200)
    # An update at step 200 and at every period after it.
    period = config(agent, **more).resolved().agent.update_period
    assert updates == (steps - 200) // period + 1
    assert last["lost"] == last["lost_actors"] == "0"
    for name in ("steps_per_second", "updates_per_second", "sample_age", "eval_return"):
        assert float(last[name]) > 0.0, name
    assert float(last["weights_age"]) >= 0.0
    per_step = 16 / period
    assert float(last["samples_per_insert"]) == pytest.approx(per_step, rel=0.5)
    if agent == "per-sr-sampling":
        assert float(last["need_variation"]) > 0.0


def test_an_actor_and_a_shard_are_killed(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    fleets, said = list[Fleet](), list[str]()
    start = Fleet.start

    def started(fleet: Fleet, agent: Any) -> None:
        fleets.append(fleet)
        start(fleet, agent)

    monkeypatch.setattr(Fleet, "start", started)
    killed = list[str]()

    def on_steps(steps: int, _: Any) -> None:
        if steps > 400 and not killed:
            killed.append("actor")
            ray.kill(fleets[0].actors[0].handle)
        if steps > 700 and len(killed) == 1:
            killed.append("shard")
            buffer = fleets[0].buffer
            assert buffer is not None
            oldest = next(iter(buffer._blocks.values()))
            ray.kill(buffer._shards[oldest.shard].handle, no_restart=False)

    run = config(steps=1_600, shards=2)
    metrics = run_training(run, tmp_path, on_steps=on_steps, on_warning=said.append)
    last = rows_of(metrics)[-1]
    assert killed == ["actor", "shard"]
    assert int(last["lost_actors"]) == 1
    assert int(last["lost"]) > 0
    assert any("actor 0 was lost with its process" in text for text in said)


def test_a_stopped_run_resumes(cluster: Any, tmp_path: Path) -> None:
    def stopping(steps: int, _: Any) -> None:
        if steps > 600:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped):
        run_training(config(), tmp_path, on_steps=stopping)
    (checkpoint,) = tmp_path.glob("checkpoint-*")
    steps = int(checkpoint.name.removeprefix("checkpoint-"))
    assert 600 < steps < 1_200
    seen = list[int]()
    metrics = run_training(config(), tmp_path, on_steps=lambda steps, _: seen.append(steps))
    assert seen[0] == steps
    rows = rows_of(metrics)
    period = config().resolved().agent.update_period
    assert int(rows[-1]["updates"]) == (int(rows[-1]["steps"]) - 200) // period + 1
    numbers = [int(row["iteration"]) for row in rows]
    assert numbers == sorted(set(numbers))


def test_a_killed_run_resumes_and_says_what_it_lost(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever had come is in the checkpoint, or counted."""
    run = config(steps=10**6, checkpoint_steps=500, actors=1)
    killed_with(cluster, "ray_learner:train", run, tmp_path, until=lambda: beyond(tmp_path, 200))
    came, known = int(np.fromfile(tmp_path / ARRIVED, np.int64)[0]), list[int]()
    resume = Fleet.resume

    def resumed(fleet: Fleet, folder: Path, steps: int) -> None:
        assert fleet.buffer is not None
        known.append(fleet.buffer.inserted)
        resume(fleet, folder, steps)

    monkeypatch.setattr(Fleet, "resume", resumed)
    said, checkpoint = list[str](), newest_checkpoint(tmp_path)
    assert checkpoint is not None
    stop_at = steps_of(checkpoint) + 600

    def stopping(steps: int, _: Any) -> None:
        if steps > stop_at:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped):
        run_training(run, tmp_path, on_steps=stopping, on_warning=said.append)
    lost = came - known[0]
    assert lost > 0
    assert any(
        f"{lost:,} transitions came after the checkpoint at step {steps_of(checkpoint):,}" in text
        for text in said
    )
    assert rows_of(tmp_path / METRICS)[-1]["lost_with_learner"] == str(lost)


def beyond(folder: Path, steps: int) -> bool:
    """Whether there is a checkpoint, and so many transitions have come after it."""
    found = newest_checkpoint(folder)
    return (
        found is not None and np.fromfile(folder / ARRIVED, np.int64)[0] > steps_of(found) + steps
    )


@pytest.mark.parametrize(
    ("world", "message"),
    [
        ("ray_worlds:Raises-v0", "Actor 0 stopped: .*the motor is on fire"),
        ("ray_worlds:NaN-v0", "Actor 0 stopped: Writer 0: reward is nan; it must be finite"),
        (
            "ray_worlds:Differs-v0",
            r"^Actor 0 does not start: its world has observations Box\(.*\(4,\).* the learner's "
            r"has observations Box\(.*\(3,\).*; install the same world on every machine\.$",
        ),
    ],
)
def test_a_world_that_fails_is_named(
    cluster: Any, tmp_path: Path, world: str, message: str
) -> None:
    import ray_worlds  # noqa: F401 - registers them

    overrides = {**QUICK, "actors": 1, "eval_steps": 0, "reward_clip": False}
    with pytest.raises(NeedReplayError, match=message):
        run_training(RunConfig(world, steps=1_000, overrides=overrides), tmp_path)


def test_an_actor_with_another_version_is_named(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Fleet.start

    def started(fleet: Fleet, agent: Any) -> None:
        assert fleet.buffer is not None
        writer = fleet.buffer.writer()
        writer._format = replace(writer._format, version="0.0.1")
        monkeypatch.setattr(fleet.buffer, "writer", lambda: writer)
        start(fleet, agent)

    monkeypatch.setattr(Fleet, "start", started)
    message = (
        r"^Actor 0 does not start: Writer 0: the learner has needreplay 0\.0\.1, but this machine "
        r"has .*; install the same version on every machine\.$"
    )
    with pytest.raises(NeedReplayError, match=message):
        run_training(config(actors=1), tmp_path)


def test_an_actor_that_waits_for_others_is_named(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster has enough CPUs, but somebody else has all but one of them."""
    import ray

    class Idle:
        def begin(self) -> None:
            pass

    has = [int(n["Resources"]["CPU"]) for n in ray.nodes() if n["Alive"]]  # type: ignore[no-untyped-call]
    has[-1] -= 1
    idle: Any = ray.remote(Idle)
    others = [idle.options(num_cpus=count).remote() for count in has]
    ray.get([other.begin.remote() for other in others])
    monkeypatch.setattr("needlab.runs.actors.START", 15.0)
    message = (
        r"^Actor [01] has not started for 15 s; the cluster has 0 of its \d+ CPUs free\. End other "
        r"work there, add nodes, or take fewer actors\.$"
    )
    try:
        with pytest.raises(NeedReplayError, match=message):
            run_training(config(steps=10**6), tmp_path)
    finally:
        for other in others:
            ray.kill(other)


def test_a_cluster_that_is_too_small_is_refused(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(NeedReplayError, match="40 actors need 40 CPUs and 0 GPUs, and the cluster"):
        run_training(config(actors=40), tmp_path)
    with pytest.raises(NeedReplayError, match="2 actors need 2 CPUs and 2 GPUs"):
        run_training(config(), tmp_path, gpus_per_actor=1.0)
