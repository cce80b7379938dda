"""Saved and loaded: the very same draws; damage, other settings and foreign files rejected."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay.replay import (
    LinearBeta,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    RecencySampler,
    ReplayBuffer,
    UniformSampler,
    save,
)
from needreplay.replay.samplers import ExhaustiveNeedSampler, FeatureNeedSampler, StateNeedSampler

SAMPLERS: dict[str, Any] = {
    "uniform": UniformSampler,
    "proportional": ProportionalSampler,
    "rank": RankSampler,
    "exact rank": lambda: RankSampler(exact=True),
    "sequence": PSERSampler,
    "recency": lambda: RecencySampler(3.0, alpha=0.5),
    "grouped": lambda: StateNeedSampler(3),
    "sweep by states": lambda: ExhaustiveNeedSampler(n_states=3),
    "sweep by features": lambda: ExhaustiveNeedSampler(n_features=3),
    "features": lambda: FeatureNeedSampler(3),
}


def make_buffer(sampler: str = "proportional", **options: Any) -> ReplayBuffer:
    space = gym.spaces.Box(0, 255, (3, 2, 2), np.uint8)
    chosen: dict[str, Any] = {
        "capacity": 40,
        "n_envs": 2,
        "autoreset": "same_step",
        "n_step": 3,
        "frame_stack": 3,
        "beta": LinearBeta(0.4, 1.0, 50),
        "seed": 3,
        **options,
    }
    return ReplayBuffer.for_spaces(
        space, gym.spaces.Discrete(4), sampler=SAMPLERS[sampler](), **chosen
    )


class Actor:
    """Steps two environments of random frames; its own numbers do not depend on the buffer."""

    def __init__(self, seed: int) -> None:
        self._rng = stream(seed, "actor")
        self._stacks = np.zeros((2, 3, 2, 2), dtype=np.uint8)

    def act(self, replay: ReplayBuffer) -> None:
        frames = self._rng.integers(0, 256, size=(2, 1, 2, 2), dtype=np.uint8)
        then = np.concatenate([self._stacks[:, 1:], frames], axis=1)
        ends = self._rng.random(2) < 0.1
        info: dict[str, Any] = {}
        if getattr(replay.sampler, "n_states", None):
            info["state"] = self._rng.integers(0, 3, 2)
        if getattr(replay.sampler, "n_features", None):
            info["features"] = self._rng.random((2, 3))
        replay.add(
            obs=self._stacks, action=self._rng.integers(0, 4, 2), reward=self._rng.random(2),
            next_obs=then, terminated=ends, truncated=np.zeros(2, bool), **info,
        )  # fmt: skip
        self._stacks = np.where(ends[:, None, None, None], frames, then)


def need_now(replay: ReplayBuffer) -> Any:
    """Another need at each batch, for a sampler that takes it."""
    sampler: Any = replay.sampler
    if getattr(sampler, "n_states", None) or getattr(sampler, "n_features", None):
        return np.abs(stream(replay.batches, "need").standard_normal(3))
    return None


def learn(replay: ReplayBuffer, record: list[Any]) -> None:
    batch = replay.sample(8, need=need_now(replay))
    drawn = batch.ids, batch.probabilities, batch.weights
    record.append((*drawn, batch["obs"], batch["reward"], *counts_of(replay)))
    replay.update_priorities(batch.ids, batch["reward"].astype(np.float64) + 0.1)


def counts_of(replay: ReplayBuffer) -> list[Any]:
    """What the sampler says of itself."""
    sampler: Any = replay.sampler
    said = [getattr(sampler, name, None) for name in ("fallbacks", "acceptance_rate")]
    if getattr(sampler, "n_features", None):
        said += [sampler.features.oldest_age, replay.next_to_refresh(3)]
    return said


def starve(replay: ReplayBuffer) -> None:
    """Every gain is 0 for one batch: how it is drawn then is counted."""
    if len(replay):
        ids = np.arange(replay.oldest_id, replay.next_id)
        replay.update_priorities(ids, np.zeros(len(ids)))
        learn(replay, [])


def go_on(replay: ReplayBuffer, actor: Actor, steps: int) -> list[Any]:
    record: list[Any] = []
    for _ in range(steps):
        actor.act(replay)
        if len(replay):
            learn(replay, record)
    return record


@pytest.mark.filterwarnings("ignore:Every priority")
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("steps", [1, 7, 60])
def test_a_loaded_buffer_takes_the_same_samples(sampler: str, steps: int, tmp_path: Path) -> None:
    straight, actor = make_buffer(sampler), Actor(0)
    go_on(straight, actor, steps - 1)
    starve(straight)
    go_on(straight, actor, 1)
    straight.save(tmp_path / "buffer")
    resumed, other = make_buffer(sampler, seed=9), Actor(0)
    go_on(make_buffer(sampler), other, steps)
    go_on(resumed, Actor(5), 20)
    resumed.load(tmp_path / "buffer")
    resumed.check_valid()
    for a, b in zip(go_on(straight, actor, 40), go_on(resumed, other, 40), strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
    assert straight.batches == resumed.batches
    assert straight.dropped == resumed.dropped


def test_saving_changes_nothing_and_leaves_one_file(tmp_path: Path) -> None:
    replay = make_buffer()
    go_on(replay, Actor(0), 30)
    before = {name: array.copy() for name, array in replay.arrays().items()}
    replay.save(tmp_path / "buffer")
    replay.save(tmp_path / "buffer")
    assert [path.name for path in tmp_path.iterdir()] == ["buffer"]
    for name, array in replay.arrays().items():
        np.testing.assert_array_equal(array, before[name])


def assert_rejected(path: Path, said: str, **options: Any) -> None:
    replay = make_buffer(**options)
    go_on(replay, Actor(1), 25)
    before = {name: array.copy() for name, array in replay.arrays().items()}
    state = replay._contents.rng.bit_generator.state
    with pytest.raises(NeedReplayError, match=said):
        replay.load(path)
    for name, array in replay.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    assert replay._contents.rng.bit_generator.state == state
    replay.check_valid()


def test_damage_anywhere_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "buffer"
    replay = make_buffer()
    go_on(replay, Actor(0), 30)
    replay.save(path)
    whole = path.read_bytes()
    places = [20, 40, 200, len(whole) // 2, len(whole) - 40, len(whole) - 1]
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert_rejected(path, "damaged")
    for length in (len(save._MAGIC), 30, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert_rejected(path, "damaged")
    path.write_bytes(whole + b"x")
    assert_rejected(path, "damaged")


def test_foreign_and_missing_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "buffer"
    assert_rejected(path, "cannot be opened")
    for content in (b"", b"\x80\x04pickle", b"PK\x03\x04" + bytes(100)):
        path.write_bytes(content)
        assert_rejected(path, "not a buffer")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX's")
def test_a_named_pipe_is_rejected_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert_rejected(tmp_path / "pipe", "named pipe")


def test_another_format_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay = make_buffer()
    monkeypatch.setattr(save, "FORMAT", 99)
    replay.save(tmp_path / "buffer")
    monkeypatch.undo()
    assert_rejected(tmp_path / "buffer", "format 99")


@pytest.mark.parametrize(
    "options",
    [
        {"capacity": 41},
        {"n_step": 2},
        {"n_envs": 1},
        {"discount": 0.5},
        {"sampler": "uniform"},
        {"sampler": "rank"},
        {"extra_columns": {"more": np.int8}},
    ],
)
def test_other_settings_are_rejected(options: dict[str, Any], tmp_path: Path) -> None:
    make_buffer(**options).save(tmp_path / "buffer")
    assert_rejected(tmp_path / "buffer", "was saved with")


RECORD, TURNED = [("a", "f4"), ("b", "f4")], [("b", "f4"), ("a", "f4")]


@pytest.mark.parametrize(
    ("columns", "others"),
    [
        ({"a": np.float32, "b": np.float32}, {"b": np.float32, "a": np.float32}),
        ({"x": np.dtype(RECORD)}, {"x": np.dtype(TURNED)}),
    ],
    ids=["columns", "fields of a record"],
)
def test_columns_in_another_order_are_rejected(
    columns: dict[str, Any], others: dict[str, Any], tmp_path: Path
) -> None:
    """They lie elsewhere in a row: read back, they would have changed places."""
    ReplayBuffer(3, columns).save(tmp_path / "buffer")
    with pytest.raises(NeedReplayError, match="was saved with columns"):
        ReplayBuffer(3, others).load(tmp_path / "buffer")


def test_another_exponent_is_rejected(tmp_path: Path) -> None:
    columns = {"x": np.int64}
    ReplayBuffer(3, columns, sampler=ProportionalSampler(0.5)).save(tmp_path / "buffer")
    with pytest.raises(NeedReplayError, match=r"alpha 0\.5"):
        ReplayBuffer(3, columns, sampler=ProportionalSampler(0.6)).load(tmp_path / "buffer")


def test_a_save_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "buffer"
    replay = make_buffer()
    replay.save(path)
    whole = path.read_bytes()
    go_on(replay, Actor(0), 10)

    def full_disk(descriptor: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(NeedReplayError, match="no space left"):
        replay.save(path)
    assert path.read_bytes() == whole
    assert [p.name for p in tmp_path.iterdir()] == ["buffer"]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_file_that_fails_after_all_checks_leaves_the_buffer_empty(
    sampler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "buffer"
    saved = make_buffer(sampler)
    go_on(saved, Actor(0), 30)
    saved.save(path)
    whole = path.read_bytes()
    replay = make_buffer(sampler)
    go_on(replay, Actor(1), 25)
    read = save.SavedBuffer.read

    def fail(opened: Any, name: str, array: Any) -> Any:
        """The last array, the only one that is not held aside, cannot be read."""
        if name == "writer/frames":
            array[:] = 1
            raise OSError("Input/output error")
        return read(opened, name, array)

    monkeypatch.setattr(save.SavedBuffer, "read", fail)
    with pytest.raises(NeedReplayError, match="empty now"):
        replay.load(path)
    monkeypatch.undo()
    replay.check_valid()
    assert len(replay) == replay.next_id == replay.batches == replay.dropped == 0
    with pytest.raises(NeedReplayError, match="buffer is empty"):
        replay.sample(1)
    fresh = make_buffer(sampler)
    fresh._contents.rng = stream(1, "both")
    replay._contents.rng = stream(1, "both")
    for a, b in zip(go_on(fresh, Actor(2), 30), go_on(replay, Actor(2), 30), strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
    path.write_bytes(whole)
    replay.load(path)
    assert len(replay) == len(saved)


def test_a_file_that_fails_before_that_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_buffer().save(tmp_path / "buffer")

    class Short:
        def seek(self, *_: int) -> None: ...

        def readinto(self, chunk: memoryview) -> int:
            return len(chunk) - 1

    read = save.SavedBuffer.read

    def cut(opened: Any, name: str, array: Any) -> Any:
        opened._file = Short()
        return read(opened, name, array)

    monkeypatch.setattr(save.SavedBuffer, "read", cut)
    assert_rejected(tmp_path / "buffer", "became shorter")


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_file_grows_with_what_is_stored(sampler: str, tmp_path: Path) -> None:
    """Of 200,000 slots 300 are in use: 3.5 MB to 12 MB if all were written."""
    large = make_buffer(sampler, capacity=200_000)
    go_on(large, Actor(0), 150)
    large.save(tmp_path / "buffer")
    assert (tmp_path / "buffer").stat().st_size < 300_000
    loaded, again = make_buffer(sampler, capacity=200_000, seed=9), Actor(0)
    go_on(loaded, Actor(5), 20)
    loaded.load(tmp_path / "buffer")
    for name, array in loaded.arrays().items():
        used = 400 if name.startswith(("ring/", "writer/")) else len(array)
        np.testing.assert_array_equal(array[:used], large.arrays()[name][:used], err_msg=name)
    for a, b in zip(go_on(large, again, 5), go_on(loaded, Actor(0), 5), strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_no_second_copy_is_made(tmp_path: Path) -> None:
    import tracemalloc

    replay = ReplayBuffer(40_000, {"x": (np.float64, 100)}, sampler=UniformSampler())
    replay.add(x=np.ones((20_000, 100)))
    path = tmp_path / "buffer"
    tracemalloc.start()
    replay.save(path)
    replay.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size < 17_000_000
    assert peak < 9_000_000
