"""Property tests of sequences, hindsight, folders and prefetch on new cases; folders that die."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import run_attacks as runs
from every_sampler import differing
from hypothesis import HealthCheck, Phase, given, seed, settings
from served import Attack, Served, serve
from twins import KINDS, Actor, buffer_of

from needreplay import ReplayBuffer
from needreplay._core.errors import NeedReplayError
from needreplay.replay.storage import flatten

REPLAY = Path(__file__).parents[1] / "replay"
PROPERTIES = {
    "sequences": ("test_sequences", "test_every_row_under_random_traffic"),
    "hindsight": ("test_hindsight", "test_every_relabeled_transition_under_random_traffic"),
    "folders": (
        "test_folder",
        "test_it_is_its_twin_when_reopened_and_loses_only_what_was_overwritten_when_killed",
    ),
    "prefetch": ("test_prefetch", "test_batches_are_those_of_one_thread_whatever_the_timing"),
}
CASES = 3


def attack_by_property(name: str) -> Attack:
    """Three new cases of a property test."""

    def attack(rng: np.random.Generator, _: Path) -> tuple[str, str]:
        if str(REPLAY) not in sys.path:
            sys.path.append(str(REPLAY))
        module, test = PROPERTIES[name]
        found: Any = getattr(import_module(module), test)
        number = int(rng.integers(2**62))
        few = settings(
            max_examples=CASES,
            database=None,
            deadline=None,
            derandomize=False,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        strategies = found.hypothesis._given_kwargs
        again: Callable[[], None] = few(
            seed(number)(given(**strategies)(found.hypothesis.inner_test))
        )
        try:
            again()
        except Exception as error:
            notes = " ".join(getattr(error, "__notes__", []))
            return f"{test}, seed {number}", f"{error!r} {notes}"[:1500]
        return f"{test}, {CASES} cases", ""

    return attack


# Whole trajectories ------------------------------------------------------------------------------


def stacked(steps: list[Any]) -> Any:
    """Steps with a leading axis of time."""
    if isinstance(steps[0], dict):
        return {name: stacked([step[name] for step in steps]) for name in steps[0]}
    return np.stack(steps)


def attack_by_trajectories(rng: np.random.Generator, _: Path) -> tuple[str, str]:
    """Steps in pieces of any length are stored, bit for bit, as one by one."""
    kind, number = KINDS[int(rng.integers(len(KINDS)))], int(rng.integers(10_000))
    capacity, n_step = int(rng.integers(8, 60)), int(rng.integers(1, 4))
    what = f"{kind}, number {number}, capacity {capacity}, n_step {n_step}"
    one, other = (buffer_of(kind, capacity, n_step, number) for _ in range(2))
    actor, left = Actor(number, kind), int(rng.integers(5, 120))
    try:
        while left > 0:
            steps = [actor.step() for _ in range(int(rng.integers(1, 30)))]
            left -= len(steps)
            for step in steps:
                one.add(**step)
            other.add(**stacked(steps))
            if rng.random() < 0.2:
                one.cut(), other.cut()
        for buffer in (one, other):
            buffer.check_valid()
        wrong = differing(one, other)
    except Exception as error:
        return what, repr(error)
    return what, f"other {', '.join(wrong)}" if wrong else ""


# Folders that are killed, interrupted or damaged -------------------------------------------------

CAPACITY, N_STEP = 24, 2
OF_SAMPLERS = ("sampler/priorities", "sampler/vectors")


def work(kind: str, number: int, place: Path | None, news: int | None, most: int) -> ReplayBuffer:
    """Fill a buffer, the same for each number; tell the operations that were flushed."""
    buffer = buffer_of(kind, CAPACITY, N_STEP, number, **({"folder": place} if place else {}))
    actor, rng = Actor(number, kind), np.random.default_rng(number)
    for done in range(1, most + 1):
        for _ in range(3):
            buffer.add(**actor.step())
        ids = np.arange(buffer.oldest_id, buffer.next_id)[-5:]
        buffer.update_priorities(ids, rng.random(len(ids)))
        if news is not None:
            buffer.flush()
            os.write(news, done.to_bytes(4, "little"))
    return buffer


def attack_by_kill(rng: np.random.Generator, place: Path) -> tuple[str, str]:
    """Kill who works in a folder: it has what was flushed, less what was overwritten since."""
    kind, number = KINDS[int(rng.integers(len(KINDS)))], int(rng.integers(10_000))
    folder, (heard, told) = place / "killed", os.pipe()
    shutil.rmtree(folder, ignore_errors=True)
    wanted, what = int(rng.integers(1, 12)), f"{kind}, number {number}"
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        try:
            work(kind, number, folder, told, 10_000)
        finally:
            os._exit(1)
    os.close(told)
    done = 0
    while done < wanted and (news := os.read(heard, 4)):
        done = int.from_bytes(news, "little")
    time.sleep(float(rng.uniform(0, 5e-3)))
    os.kill(child, signal.SIGKILL)
    while news := os.read(heard, 4):
        done = int.from_bytes(news, "little")
    os.close(heard)
    os.waitpid(child, 0)
    if done < wanted:
        return what, f"the writer ended after {done} flushes"
    try:
        with buffer_of(kind, CAPACITY, N_STEP, 0, folder=folder) as found:
            found.check_valid()
            plain = work(kind, number, None, None, done)
            if found.next_id != plain.next_id:  # killed between the flush and its news
                done += 1
                plain = work(kind, number, None, None, done)
            return f"{what}, {done} flushes", _differs(found, plain, work(
                kind, number, None, None, done + 1))  # fmt: skip
    except NeedReplayError as error:
        return what, f"it does not open: {error}"
    except Exception as error:
        return what, repr(error)


def _differs(found: ReplayBuffer, flushed: ReplayBuffer, later: ReplayBuffer) -> str:
    if found.next_id != flushed.next_id:
        return f"next_id is {found.next_id}, not {flushed.next_id}"
    slack = 8 * (1 + flushed._writer.frame_stack)
    most = max(flushed._rows.oldest_id, later._rows.oldest_id + slack)
    if not flushed._rows.oldest_id <= found._rows.oldest_id <= most:
        return f"oldest row {found._rows.oldest_id}, of {flushed._rows.oldest_id} to {most}"
    ids = np.arange(found.oldest_id, found.next_id)
    if len(ids):
        rows, kept = flatten(found.read(ids)), flatten(flushed.read(ids))
        if wrong := [n for n in rows if not np.array_equal(rows[n], kept[n])]:
            return f"other values in {', '.join(wrong)}"
    slots = ids % found._ring.capacity
    for name in OF_SAMPLERS:
        if name in found.arrays():
            ours, theirs = (each.arrays()[name][slots] for each in (found, flushed))
            if not np.array_equal(ours, theirs):
                return f"other {name}"
    return ""


def attack_by_damage(rng: np.random.Generator, place: Path) -> tuple[str, str]:
    """Damage one file of a folder: it is rejected in a sentence, or is a buffer to use."""
    kind, number = KINDS[int(rng.integers(len(KINDS)))], int(rng.integers(10_000))
    folder = place / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    work(kind, number, folder, os.open(os.devnull, os.O_WRONLY), int(rng.integers(1, 15))).close()
    files = sorted(folder.iterdir())
    path, way = files[int(rng.integers(len(files)))], runs.WAYS[int(rng.integers(len(runs.WAYS)))]
    if way is runs.of_another_run:
        way = runs.noise
    way(path, rng)
    what = f"{kind}, number {number}: {way.__name__} {path.name}"
    try:
        buffer = buffer_of(kind, CAPACITY, N_STEP, 0, folder=folder)
    except NeedReplayError as error:
        return what, "" if str(error).endswith(".") and "\n" not in str(error) else str(error)
    except Exception as error:
        return what, repr(error)
    try:
        buffer.check_valid()
        actor = Actor(1, kind)
        for _ in range(30):
            buffer.add(**actor.step())
        buffer.sample(3, need=np.ones(2) if kind == "need" else None)
        buffer.close()
    except Exception as error:
        return what, repr(error)
    return what, ""


SERVED: dict[str, Attack] = {name: attack_by_property(name) for name in PROPERTIES}
SERVED |= {"trajectories": attack_by_trajectories}
SERVED |= {"killed folders": attack_by_kill, "damaged folders": attack_by_damage}
ATTACKS = {name: Served(__file__, name, patience=200.0) for name in SERVED}

if __name__ == "__main__":
    serve(SERVED)
