"""Prefetched batches against a list of batches that were sampled as far ahead in one thread."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twins import KINDS, STACK, Actor, buffer_of, check_equal

from needreplay import (
    NeedBuffer,
    NeedReplayError,
    ReplayBuffer,
)
from needreplay.replay import prefetch
from needreplay.replay.batch import Batch
from needreplay.replay.prefetch import Chosen

pytestmark = pytest.mark.filterwarnings("ignore:Whenever an episode ended")  # none is ever reset


@settings(max_examples=40)
@given(
    kind=st.sampled_from(KINDS),
    capacity=st.integers(4, 40),
    n_step=st.integers(1, 3),
    depth=st.integers(0, 4),
    pace=st.sampled_from(["never", "late", "at once"]),
    seed=st.integers(0, 1_000),
)
@example("proportional", 4, 1, 3, "never", 0)
@example("proportional", 40, 3, 2, "late", 0)
@example("frames", 12, 1, 3, "never", 1)
@example("frames", 40, 3, 2, "at once", 1)
@example("sequences", 12, 2, 3, "never", 2)
@example("need", 12, 1, 2, "late", 3)
@example("hindsight", 12, 1, 3, "never", 4)
def test_batches_are_those_of_one_thread_whatever_the_timing(
    kind: str, capacity: int, n_step: int, depth: int, pace: str, seed: int
) -> None:
    """Rows are overwritten while batches are on their way; priorities change all the time."""
    capacity += 12 * (kind in ("sequences", "hindsight"))
    replay, plain = (buffer_of(kind, capacity, n_step, seed) for _ in range(2))
    actors, rng = [Actor(seed, kind), Actor(seed, kind)], np.random.default_rng(seed)
    query = (lambda: np.array([1.0, 2.0])) if kind == "need" else None

    def act(count: int) -> None:
        for _ in range(count):
            for buffer, actor in zip((replay, plain), actors, strict=True):
                buffer.add(**actor.step())
        if len(plain) < 2:
            act(1)

    act(1)
    ahead: list[Batch] = []
    with at_pace(pace), replay.prefetch(5, depth=depth, need=query) as batches:
        for batch in batches:
            while len(ahead) <= depth:
                ahead.append(plain.sample(5, need=query() if query else None))
            expected = ahead.pop(0)
            check_equal(batch, expected)
            if plain.batches > 12 + depth:
                break
            errors = rng.random(5)
            for buffer in (replay, plain):
                buffer.update_priorities(expected.ids, errors)
            if rng.random() < 0.1:
                replay.cut(), plain.cut()
            act(int(rng.integers(0, 3)))
    check_equal(replay.sample(4, need=query and query()), plain.sample(4, need=query and query()))
    replay.check_valid()


class at_pace:  # noqa: N801 - a context manager
    """The thread works never, late or at once."""

    def __init__(self, pace: str) -> None:
        self.pace = pace

    def __enter__(self) -> None:
        self.work = prefetch._work
        slow: dict[str, Callable[..., None]] = {
            "never": lambda _: None,
            "late": self.late,
            "at once": self.work,
        }
        prefetch._work = slow[self.pace]

    def late(self, queue: Any) -> None:
        time.sleep(2e-3)
        self.work(queue)

    def __exit__(self, *_: object) -> None:
        prefetch._work = self.work


@pytest.fixture
def replay() -> ReplayBuffer:
    made = ReplayBuffer(100, {"x": np.int64, "o": (np.float32, (3,))}, seed=1)
    made.add(x=np.arange(100), o=np.zeros((100, 3), np.float32))
    return made


def test_depth_is_how_late_priorities_are(replay: ReplayBuffer) -> None:
    """Only one transition has a priority from the third batch on; it is seen ``depth`` later."""
    batches = replay.prefetch(8, depth=2)
    for k in range(8):
        batch = next(batches)
        only_7 = bool((batch["x"] == 7).all())
        assert only_7 == (k >= 3 + 2)
        if k == 2:
            replay.update_priorities(np.arange(100), 1.0 * (np.arange(100) == 7))


def test_to_torch(replay: ReplayBuffer) -> None:
    torch = pytest.importorskip("torch")
    with replay.prefetch(8, device="cpu") as batches:
        batch = next(batches)
    assert batch["o"].dtype == torch.float32
    assert batch.weights.dtype == torch.float32
    np.testing.assert_array_equal(batch["x"].numpy(), batch.ids)
    with replay.prefetch(8, device="meta") as batches:
        assert next(batches)["o"].device.type == "meta"


def test_need_is_seen_from_where_the_agent_is_when_a_batch_is_chosen() -> None:
    pytest.importorskip("torch")
    space = Box(-1, 1, (2,), np.float32)
    buffers = [
        NeedBuffer.for_spaces(space, Discrete(2), capacity=60, learn_every=3, seed=2)
        for _ in range(2)
    ]
    rng, ahead = np.random.default_rng(0), list[Batch]()
    obs = rng.uniform(-1, 1, 2).astype(np.float32)
    batches = buffers[0].prefetch(4, lambda: obs, depth=1)
    for t in range(80):
        following = rng.uniform(-1, 1, 2).astype(np.float32)
        for buffer in buffers:
            buffer.add(
                obs=obs,
                action=t % 2,
                reward=0.0,
                next_obs=following,
                terminated=t % 9 == 8,
                truncated=False,
            )
        obs = following
        if t >= 30:
            while len(ahead) <= 1:
                ahead.append(buffers[1].sample(4, obs))
            expected = ahead.pop(0)
            check_equal(next(batches), expected)
            for buffer in buffers:
                buffer.update_priorities(expected.ids, np.abs(expected["obs"][:, 0]) + 0.1)


def test_an_error_in_the_thread_is_the_loops_and_no_batch_is_lost(
    replay: ReplayBuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [replay.sample(4).ids for _ in range(3)]
    again = ReplayBuffer(100, {"x": np.int64, "o": (np.float32, (3,))}, seed=1)
    again.add(x=np.arange(100), o=np.zeros((100, 3), np.float32))
    rows, broken = prefetch._rows, [True]

    def failing(*arguments: Any) -> Any:
        if broken[0]:
            raise MemoryError("no more")
        return rows(*arguments)

    monkeypatch.setattr(prefetch, "_rows", failing)
    with again.prefetch(4) as batches:
        for _ in range(2):
            with pytest.raises(MemoryError, match="no more"):
                next(batches)
        broken[0] = False
        for ids in expected:
            np.testing.assert_array_equal(next(batches).ids, ids)


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if "_work" in t.name]


def wait_for_no_thread() -> None:
    deadline = time.monotonic() + 20
    while threads():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_leaving_the_loop_ends_the_thread(replay: ReplayBuffer) -> None:
    gc.collect()
    wait_for_no_thread()  # those of other tests
    for _ in replay.prefetch(4):
        assert len(threads()) == 1
        assert replay._contents.guards
        break
    gc.collect()
    wait_for_no_thread()
    assert not replay._contents.guards
    batches = replay.prefetch(4, depth=3)
    next(batches)
    batches.close()
    batches.close()
    wait_for_no_thread()
    assert not replay._contents.guards
    with pytest.raises(NeedReplayError, match="closed"):
        next(batches)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A thread that gathers nothing before the event."""
    event, complete = threading.Event(), Chosen.complete

    def wait(chosen: Chosen) -> Batch:
        if "_work" in threading.current_thread().name:
            with chosen._lock:
                event.wait(20)
                return complete(chosen)
        return complete(chosen)

    monkeypatch.setattr(Chosen, "complete", wait)
    yield event
    event.set()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_interrupts_the_wait_and_loses_no_batch(
    replay: ReplayBuffer, slow: threading.Event
) -> None:
    expected = [np.array(ids) for ids in _ids_of_twin(replay, 3)]
    batches = replay.prefetch(4, depth=1)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    chosen: list[Chosen] = []
    send = batches._send

    def noticed(one: Chosen) -> None:
        chosen.append(one)
        send(one)
        while len(chosen) == 1 and one._lock.acquire(blocking=False):  # until the thread has it
            one._lock.release()
            time.sleep(0.001)

    batches._send = noticed  # type: ignore[method-assign,assignment]
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    timer.join()
    slow.set()
    for ids in expected:
        np.testing.assert_array_equal(next(batches).ids, ids)
    batches.close()


def _ids_of_twin(replay: ReplayBuffer, count: int) -> list[Any]:
    twin = copy.deepcopy(replay)
    return [twin.sample(4).ids for _ in range(count)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_goes_on_with_the_same_batches(replay: ReplayBuffer) -> None:
    expected = _ids_of_twin(replay, 6)
    batches = replay.prefetch(4)
    for ids in expected[:2]:
        np.testing.assert_array_equal(next(batches).ids, ids)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: fork beside threads
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        right = all(np.array_equal(next(batches).ids, ids) for ids in expected[2:])
        os._exit(0 if right and len(threads()) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    for ids in expected[2:]:
        np.testing.assert_array_equal(next(batches).ids, ids)


def test_what_is_loaded_is_in_no_batch_that_was_chosen_before(
    replay: ReplayBuffer, tmp_path: Any
) -> None:
    other = ReplayBuffer(100, {"x": np.int64, "o": (np.float32, (3,))})
    other.add(x=np.arange(1000, 1100), o=np.ones((100, 3), np.float32))
    other.save(tmp_path / "other")
    with at_pace("never"), replay.prefetch(4, depth=2) as batches:
        next(batches)
        replay.load(tmp_path / "other")
        for _ in range(2):
            batch = next(batches)
            np.testing.assert_array_equal(batch["x"], batch.ids)
        assert (next(batches)["x"] >= 1000).all()


def test_frames_that_are_lost_before_their_rows_are_gathered_in_time() -> None:
    """Episodes of one step: the ring of frames is full long before that of transitions."""
    replay, plain = (buffer_of("frames", 60, 1, 0) for _ in range(2))
    actors = [Actor(0, "frames"), Actor(0, "frames")]
    with at_pace("never"), replay.prefetch(30, depth=2) as batches:
        ahead: list[Batch] = []
        for t in range(200):
            for buffer, actor in zip((replay, plain), actors, strict=True):
                buffer.add(**{**actor.step(), "terminated": np.ones(2, bool)})
                actor.obs = actor.rng.integers(0, 256, (2, *STACK)).astype(np.uint8)
            if t >= 40 and t % 10 == 0:  # frames stay a little longer than what needs them
                while len(ahead) <= 2:
                    ahead.append(plain.sample(30))
                check_equal(next(batches), ahead.pop(0))
        assert len(plain) < 60


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 0}, "size is 0"),
        ({"depth": -1}, "depth is -1"),
        ({"beta": 2.0}, "beta is 2.0"),
        ({"need": np.ones(2)}, "need=lambda: need"),
        ({"device": "toaster"}, "device is 'toaster'"),
        ({"device": "cuda:99"}, "device is 'cuda:99', which torch cannot use here"),
    ],
)
def test_what_is_rejected(replay: ReplayBuffer, options: dict[str, Any], said: str) -> None:
    with pytest.raises(NeedReplayError, match=said):
        replay.prefetch(**{"size": 4, **options})
    with pytest.raises(NeedReplayError, match="empty"):
        next(ReplayBuffer(4, {"x": float}).prefetch(2))
    for taken in (pickle.dumps, copy.deepcopy):
        with pytest.raises(NeedReplayError, match="pickle the buffer, and call prefetch again"):
            taken(replay.prefetch(4))
