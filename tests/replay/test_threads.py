"""An actor's and a learner's thread on one buffer, under load."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from needreplay.replay import (
    Episodes,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    ReplayBuffer,
    UniformSampler,
)
from needreplay.replay.samplers.base import Sampler

CALLS = 200
WARM_UP = 20


@pytest.fixture(autouse=True)
def _hectic() -> Iterator[None]:
    """Let threads take turns as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_together(act: Callable[[], None], learn: Callable[[], None]) -> None:
    """Call each in a thread of its own until both were called ``CALLS`` times.

    Everything they call is compiled before, so that the threads really run side by side.
    """
    for _ in range(WARM_UP):
        act()
        learn()
    calls, failures = {act: 0, learn: 0}, list[BaseException]()

    def repeat(what: Callable[[], None]) -> None:
        try:
            while not failures and min(calls.values()) < CALLS:
                what()
                calls[what] += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=repeat, args=(what,)) for what in (act, learn)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.filterwarnings("ignore:Whenever an episode ended")  # observations count on
@pytest.mark.parametrize(
    "sampler", [UniformSampler(), ProportionalSampler(), PSERSampler(), RankSampler()]
)
def test_no_half_written_transition_is_ever_seen(sampler: Sampler) -> None:
    columns = {"obs": (np.int64, 50), "action": np.int64}
    episodes = Episodes(n_envs=4, n_step=2, discount=1.0, autoreset="same_step")
    replay = ReplayBuffer(64, columns, episodes=episodes, sampler=sampler)
    steps = itertools.count(1)

    def act() -> None:
        t = next(steps)
        numbers = 4 * t + np.arange(4)
        replay.add(
            obs=np.repeat(numbers[:, None], 50, axis=1),
            action=numbers,
            reward=np.ones(4),
            next_obs=np.repeat((numbers + 4)[:, None], 50, axis=1),
            terminated=np.zeros(4, bool),
            truncated=np.full(4, t % 7 == 0),
        )

    def learn() -> None:
        if len(replay) == 0:
            return
        batch = replay.sample(16)
        numbers = batch["action"]
        assert np.all(batch["obs"] == numbers[:, None])
        assert np.all(batch["next_obs"] == (numbers + 4 * batch["reward"].astype(int))[:, None])
        replay.update_priorities(batch.ids, np.abs(numbers % 10).astype(float) + 1.0)

    run_together(act, learn)
    assert replay.next_id > 64
    replay.check_valid()


def test_ids_and_columns_belong_together() -> None:
    replay = ReplayBuffer(2, {"value": np.int64})
    values = itertools.count()
    for _ in range(2):
        replay.add(value=next(values))

    def learn() -> None:
        batch = replay.sample(2)
        np.testing.assert_array_equal(batch["value"], batch.ids)

    def act() -> None:
        replay.add(value=next(values))

    run_together(act, learn)
    replay.check_valid()


def test_no_gain_goes_to_a_transition_that_came_later() -> None:
    """Each id is set a gain of its own below 1, which is what new transitions get."""
    # with a uniform share the extension takes no part, and threads take turns within an update
    capacity, sampler = 2**15, ProportionalSampler(1.0, uniform_mix=0.5)
    replay = ReplayBuffer(capacity, {"x": np.int8}, sampler=sampler)
    replay.add(x=np.zeros(capacity, dtype=np.int8))

    def act() -> None:
        replay.add(x=np.zeros(8, dtype=np.int8))

    def learn() -> None:
        ids = replay.oldest_id + np.arange(64)  # soon overwritten
        replay.update_priorities(ids, 1.0 / (ids + 2.0))

    run_together(act, learn)
    assert replay.next_id > capacity
    learn()
    replay.check_valid()
    ids = np.arange(replay.oldest_id, replay.next_id)
    gain = replay.arrays()["sampler/priorities"][ids % capacity]
    own = gain == 1.0 / (ids + 2.0)
    assert own[:64].all()
    assert np.all(own | (gain == 1.0))


def test_a_file_saved_meanwhile_holds_whole_and_consecutive_transitions(tmp_path: Path) -> None:
    columns = {"value": np.int64, "copies": (np.int64, 50)}
    replay, again = ReplayBuffer(256, columns), ReplayBuffer(256, columns)
    values = itertools.count()

    def act() -> None:
        value = next(values)
        replay.add(value=value, copies=np.full(50, value))

    def learn() -> None:
        replay.save(tmp_path / "buffer")
        again.load(tmp_path / "buffer")
        again.check_valid()
        ids = np.arange(again.oldest_id, again.next_id)
        kept = again.read(ids)
        np.testing.assert_array_equal(kept["value"], ids)
        np.testing.assert_array_equal(kept["copies"], np.repeat(ids[:, None], 50, axis=1))

    run_together(act, learn)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("holding", [0.3, 60.0])
def test_a_forked_child_has_the_buffer_whatever_other_threads_did(
    holding: float, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that is done soon is waited for; the child does not wait for one that is not.

    ``inside``: that thread draws random numbers, which has a lock of numpy's own.
    """
    monkeypatch.setattr("needreplay._core.forks.PATIENCE", 1.0)
    replay = ReplayBuffer(4, {"x": np.int64}, sampler=UniformSampler())
    replay.add(x=7)
    holds, done = threading.Event(), threading.Event()

    def hold() -> None:
        with replay._lock, replay._contents.rng.bit_generator.lock if inside else nullcontext():
            holds.set()
            done.wait(holding)

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: fork beside threads
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        with replay._lock:
            os._exit(0 if next(replay.prefetch(2, depth=0))["x"].tolist() == [7, 7] else 1)
    assert os.waitpid(child, 0)[1] == 0
    done.set()
    thread.join()
    with replay._lock:  # and the parent has it again
        assert replay.add(x=8) == range(1, 2)


def test_actors_add_steps_of_their_own_environments() -> None:
    """Three threads, one environment each: every episode is that of its thread, in order."""
    columns = {"obs": (np.float64, (1,)), "action": np.int64}
    episodes = Episodes(n_envs=3, n_step=2, autoreset="same_step")
    replay = ReplayBuffer(3_000, columns, episodes=episodes)
    steps = 300

    def act(env: int) -> None:
        for t in range(steps):
            ended = t == steps - 1
            obs, after = np.array([float(t)]), np.array([t + 1.0])
            step = {"obs": obs, "next_obs": after, "action": env, "reward": 1.0}
            replay.add(env=env, **step, terminated=ended, truncated=False)
            if len(replay):
                replay.sample(8)

    threads = [threading.Thread(target=act, args=(env,)) for env in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    replay.check_valid()
    rows, place = replay[:], replay.episodes(np.arange(3 * steps))[1]
    for env in range(3):
        own = rows["action"] == env
        assert rows["obs"][own, 0].tolist() == place[own].tolist() == [*range(steps)]
