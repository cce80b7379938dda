"""A buffer in a folder against its twin in memory, and against what it promises when killed."""

from __future__ import annotations

import copy
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from killed_folder import CAPACITY, opened
from twins import KINDS, Actor, buffer_of, check_equal

from needreplay import NeedReplayError, ReplayBuffer, Sequences, UniformSampler
from needreplay.replay import save
from needreplay.replay.storage import flatten

pytestmark = pytest.mark.filterwarnings("ignore:Whenever an episode ended")  # none is ever reset

COLUMNS = {"x": np.int64, "o": (np.float32, (30,))}
FAKE = Path(__file__).parents[1] / "fakes/killed_folder.py"


def make(folder: Any, capacity: int = 50, **options: Any) -> ReplayBuffer:
    return ReplayBuffer(capacity, COLUMNS, folder=folder, **options)


def fill(buffer: ReplayBuffer, count: int) -> None:
    for x in range(buffer.next_id, buffer.next_id + count):
        buffer.add(x=x, o=np.full(30, x, np.float32))


@settings(max_examples=30)
@given(
    kind=st.sampled_from(KINDS),
    capacity=st.integers(16, 40),
    n_step=st.integers(1, 3),
    seed=st.integers(0, 1_000),
)
@example("frames", 20, 2, 0)
@example("sequences", 30, 2, 1)
@example("need", 16, 1, 2)
@example("hindsight", 30, 1, 2)
@example("rank", 16, 3, 3)
def test_it_is_its_twin_when_reopened_and_loses_only_what_was_overwritten_when_killed(
    kind: str, capacity: int, n_step: int, seed: int
) -> None:
    """A copy of the folder at any time is what a process that was killed then leaves."""
    rng, query = np.random.default_rng(seed), np.array([1.0, 2.0]) if kind == "need" else None
    plain, actors = buffer_of(kind, capacity, n_step, seed), [Actor(seed, kind), Actor(seed, kind)]
    with tempfile.TemporaryDirectory() as place:
        here, dead = Path(place) / "here", Path(place) / "dead"
        replay = buffer_of(kind, capacity, n_step, seed, folder=here)
        replay.flush()
        flushed = copy.deepcopy(plain)
        for _ in range(30):
            for buffer, actor in zip((replay, plain), actors, strict=True):
                for _ in range(3):
                    buffer.add(**actor.step())
            if len(plain) and rng.random() < 0.7:
                batch = plain.sample(4, need=query)
                check_equal(replay.sample(4, need=query), batch)
                errors = rng.random(4)
                for buffer in (replay, plain):
                    buffer.update_priorities(batch.ids, errors)
            event = rng.integers(8)
            if event < 2:
                replay.flush()
                flushed = copy.deepcopy(plain)
            if event == 0:
                replay.close()
                replay = buffer_of(kind, capacity, n_step, seed + 1, folder=here)
            if event == 2:
                shutil.copytree(here, dead)
                check_found(
                    kind, buffer_of(kind, capacity, n_step, 0, folder=dead), flushed, plain, query
                )
                shutil.rmtree(dead)
        replay.close()


def check_found(
    kind: str, found: ReplayBuffer, flushed: ReplayBuffer, now: ReplayBuffer, query: Any
) -> None:
    """What was flushed, as far as its rows have not been overwritten, and it can go on."""
    found.check_valid()
    assert found.next_id == flushed.next_id
    overwritten = now._rows.next_id - now.capacity
    slack = 8 * (1 + now._writer.frame_stack)  # of the add that might have been under way
    first = found._rows.oldest_id
    assert first <= max(flushed._rows.oldest_id, now._rows.oldest_id + slack)
    assert first >= min(overwritten, flushed._rows.next_id)
    ids = np.arange(found.oldest_id, found.next_id)
    ours, theirs = flatten(found.read(ids)), flatten(flushed.read(ids))
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])
    slots = ids % found._ring.capacity
    for name in ("sampler/priorities", "sampler/vectors"):
        if name in found.arrays():
            np.testing.assert_array_equal(
                found.arrays()[name][slots], flushed.arrays()[name][slots]
            )
    actor = Actor(1, kind)
    for _ in range(20):
        found.add(**actor.step())
    if len(found):
        found.sample(3, need=query)
    found.check_valid()
    found.close()


def test_killed_while_it_works(tmp_path: Path) -> None:
    rng, last = np.random.default_rng(0), 0
    for _ in range(3):
        worker = subprocess.Popen(
            [sys.executable, str(FAKE), str(tmp_path / "replay")], stdout=subprocess.PIPE, text=True
        )
        assert worker.stdout is not None
        for _ in range(int(rng.integers(3, 12))):
            last = int(worker.stdout.readline())
        worker.kill()
        last = int((worker.stdout.read().split() or [str(last)])[-1])
        worker.stdout.close()
        assert worker.wait() == -signal.SIGKILL
        with opened(str(tmp_path / "replay")) as buffer:
            assert buffer.next_id in (last, last + 70)  # killed between the flush and its line
            assert buffer.oldest_id <= max(0, buffer.next_id - CAPACITY) + 70
            ids = np.arange(buffer.oldest_id, buffer.next_id)
            rows = buffer.read(ids)
            np.testing.assert_array_equal(rows["id"], ids)
            np.testing.assert_array_equal(rows["copies"], np.repeat(ids[:, None], 200, 1))
            own = buffer.arrays()["sampler/priorities"][ids % CAPACITY]
            np.testing.assert_array_equal(own, 1.0 / (1.0 + ids))
            buffer.check_valid()


def test_larger_than_the_memory_it_is_allowed(tmp_path: Path) -> None:
    """512 MiB of rows where 128 MiB more can be allocated: in memory they are rejected."""
    resource = pytest.importorskip("resource")
    if not sys.platform.startswith("linux"):
        pytest.skip("RLIMIT_DATA counts what is allocated on Linux alone")
    code = f"""
import resource
import numpy as np
from needreplay import ReplayBuffer, UniformSampler
rows, columns = 1 << 17, {{"x": np.int64, "o": (np.uint8, 4088)}}
warm = ReplayBuffer(10, columns, sampler=UniformSampler())
used = 1024 * int(next(l for l in open("/proc/self/status") if l.startswith("VmData")).split()[1])
resource.setrlimit(resource.RLIMIT_DATA, (used + (1 << 27),) * 2)
try:
    ReplayBuffer(rows, columns, sampler=UniformSampler())
except MemoryError:
    print("rejected in memory")
block = np.zeros((1024, 4088), np.uint8)
with ReplayBuffer(rows, columns, sampler=UniformSampler(), folder={str(tmp_path / "r")!r}) as big:
    for x in range(0, rows, 1024):
        block[:] = np.arange(x, x + 1024)[:, None] % 251
        big.add(x=np.arange(x, x + 1024), o=block)
    for _ in range(20):
        batch = big.sample(256)
        assert (batch["x"] == batch.ids).all()
        assert (batch["o"] == (batch.ids % 251)[:, None]).all()
print(big.nbytes >> 20)
"""
    assert resource.RLIM_INFINITY in resource.getrlimit(resource.RLIMIT_DATA)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["rejected", "in", "memory", "512"], done.stderr


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="not reserved at once")
def test_a_full_disk_is_one_sentence_and_what_was_flushed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    replay = make(tmp_path / "a")
    fill(replay, 70)
    replay.flush()
    expected = copy.deepcopy(replay)
    fill(replay, 3)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        with pytest.raises(NeedReplayError, match="disk is full"):
            replay.flush()
        with pytest.raises(NeedReplayError, match="disk is full"):
            make(tmp_path / "b")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_space)
    with pytest.raises(NeedReplayError, match="disk is full"):
        make(tmp_path / "b")
    monkeypatch.undo()
    assert sum(file.stat().st_size for file in (tmp_path / "b").iterdir()) < 100
    shutil.copytree(tmp_path / "a", tmp_path / "dead")
    found = make(tmp_path / "dead")
    assert (found.next_id, found.oldest_id) == (70, 23)
    ids = np.arange(23, 70)
    np.testing.assert_array_equal(found.read(ids)["o"], expected.read(ids)["o"])
    replay.flush()  # there is space again
    replay.close()
    make(tmp_path / "b").close()


def test_one_folder_is_open_once(tmp_path: Path) -> None:
    replay = make(tmp_path / "a")
    fill(replay, 10)
    with pytest.raises(NeedReplayError, match="open in another process"):
        make(tmp_path / "a")
    code = f"""
import numpy as np
from needreplay import NeedReplayError, ReplayBuffer
columns = {{"x": np.int64, "o": (np.float32, (30,))}}
try:
    ReplayBuffer(50, columns, folder={str(tmp_path / "a")!r})
except NeedReplayError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "open in another process" in done.stdout
    assert done.stdout.count("\n") == 1
    replay.close()
    assert len(make(tmp_path / "a")) == 10


def test_a_buffer_that_was_dropped_is_what_it_was_when_flushed(tmp_path: Path) -> None:
    replay = make(tmp_path / "a")
    fill(replay, 10)
    replay.flush()
    fill(replay, 10)
    del replay
    assert len(make(tmp_path / "a")) == 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("releases", [True, False])
def test_a_forked_process_changes_nothing(tmp_path: Path, releases: bool) -> None:
    replay = make(tmp_path / "a")
    fill(replay, 60)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        rejected = 0
        calls: list[Callable[[], None]] = [lambda: fill(replay, 1), replay.flush, replay.close]
        for call in calls:
            try:
                call()
            except NeedReplayError as error:
                rejected += "forked" in str(error)
        if releases:
            replay._folder.release()  # type: ignore[union-attr]
        os.write(writing, b"%d" % rejected)
        signal.pause()
    try:
        assert os.read(reading, 1) == b"3"
        with pytest.raises(NeedReplayError, match="open in another"):
            make(tmp_path / "a")
        replay.close()
        with make(tmp_path / "a") as again:  # though the child lives
            assert again.next_id == 60
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_folders_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with make(tmp_path / "a") as replay:
        fill(replay, 10)
    before = {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir()}

    def rejected(match: str, folder: Any = tmp_path / "a", **options: Any) -> None:
        with pytest.raises(NeedReplayError, match=match):
            make(folder, **options)

    rejected("its capacity or its columns are others", capacity=51)
    rejected("saved with sampler proportional", sampler=UniformSampler())
    with pytest.raises(NeedReplayError, match="sequences needs") as kept:
        make(tmp_path / "a", sequences=Sequences(2))
    make(tmp_path / "a").close()  # while the error, and so what failed, is alive
    del kept
    with monkeypatch.context() as patch:
        patch.setattr(save, "FORMAT", save.FORMAT + 1)
        rejected("format")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis").write_text("chapter 1")
    rejected("no buffer of needreplay", tmp_path / "mine")
    rejected("no such file", tmp_path / "not/there")
    rejected("file exists", tmp_path / "mine/thesis")
    damaged = before["state"][:-1] + bytes([before["state"][-1] ^ 1])
    (tmp_path / "a/state").write_bytes(damaged)
    rejected("damaged")
    (tmp_path / "a/state").write_bytes(before["state"])
    (tmp_path / "a/rows").write_bytes(before["rows"][:-1])
    rejected("bytes of rows")
    (tmp_path / "a/rows").write_bytes(before["rows"])
    (tmp_path / "a/whole").unlink()
    rejected("no such file")
    (tmp_path / "a/whole").write_bytes(b"")
    rejected("damaged: its file 'whole'")
    (tmp_path / "a/whole").write_bytes(before["whole"])
    assert before == {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir()}
    with pytest.raises(NeedReplayError, match="folder True"):
        make(None).load(tmp_path / "a/state")
    assert len(make(tmp_path / "a")) == 10


def test_closed_and_not_in_a_folder(tmp_path: Path) -> None:
    with make(tmp_path / "a") as replay:
        fill(replay, 10)
        saved = tmp_path / "file"
        replay.save(saved)
        twin = copy.deepcopy(replay)
    assert twin.folder is None
    check_equal(twin.sample(4), twin_of(saved).sample(4))
    for call in (lambda: replay.sample(2), lambda: fill(replay, 1), replay.flush, replay.close):
        with pytest.raises(NeedReplayError, match="is closed"):
            call()
    with pytest.raises(NeedReplayError, match="flush is for a buffer in a folder"):
        twin.flush()
    with make(tmp_path / "b") as other:
        fill(other, 30)
        other.load(saved)
        shutil.copytree(tmp_path / "b", tmp_path / "dead")
    for place in ("b", "dead"):
        with make(tmp_path / place) as other:
            np.testing.assert_array_equal(other.read(np.arange(10))["x"], np.arange(10))
            assert len(other) == 10


@pytest.mark.parametrize("kind", ["frames", "sequences"])
def test_clear_and_load_are_what_a_killed_process_leaves(kind: str, tmp_path: Path) -> None:
    twin, actor = buffer_of(kind, 40, 2, 0), Actor(0, kind)
    for _ in range(60):
        twin.add(**actor.step())
    twin.save(tmp_path / "file")
    replay = buffer_of(kind, 40, 2, 1, folder=tmp_path / "a")
    replay.load(tmp_path / "file")
    shutil.copytree(tmp_path / "a", tmp_path / "loaded")
    replay.clear()
    shutil.copytree(tmp_path / "a", tmp_path / "cleared")
    found = buffer_of(kind, 40, 2, 2, folder=tmp_path / "loaded")
    check_equal(found.sample(8), twin.sample(8))
    assert len(buffer_of(kind, 40, 2, 2, folder=tmp_path / "cleared")) == 0


def twin_of(saved: Path) -> ReplayBuffer:
    twin = make(None)
    twin.load(saved)
    return twin
