"""Attacks on the buffer, for ``make fuzz`` and, a fixed part of them, for the tests.

Each returns ``Counts``. Files are attacked in a process of their own, so that a crash or a hang is
counted, not suffered: ``aside("buffer_files", count, seed, timeout)``.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.replay import (
    Episodes,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    ReplayBuffer,
    UniformSampler,
)
from needreplay.replay.samplers import (
    ExhaustiveNeedSampler,
    FeatureNeedSampler,
    NeedScalingSampler,
    StateNeedSampler,
)

MAGIC = b"needreplay buffer\n"
SAMPLERS: dict[str, Callable[[], Any]] = {
    "proportional": ProportionalSampler,
    "uniform": UniformSampler,
    "rank": lambda: RankSampler(uniform_mix=0.1),
    "pser": PSERSampler,
    "state": lambda: StateNeedSampler(3),
    "norms": lambda: FeatureNeedSampler(2),
    "vectors": lambda: FeatureNeedSampler(2, nonnegative=True),
    "exhaustive": lambda: ExhaustiveNeedSampler(n_features=2, uniform_mix=0.1),
    "scaling": lambda: NeedScalingSampler(PSERSampler(), n_states=3),
}
KINDS = ("plain", "steps", "frames")


@dataclass
class Counts:
    """What was tried, how much of it was refused, and every failure in a line."""

    tried: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)


def make(sampler: str, kind: str) -> ReplayBuffer:
    """An empty buffer."""
    made = SAMPLERS[sampler]()
    options: dict[str, Any] = {"sampler": made}
    if sampler in ("proportional", "pser", "uniform", "rank"):
        options["weight_norm"] = "buffer"
    if sampler in ("rank", "pser", "norms"):
        options["initial_priority"] = "max_present"
    if kind == "plain":
        return ReplayBuffer(20, {"x": np.int64}, **options)
    frames = 2 if kind == "frames" else 0
    columns = {"obs": (np.uint8, (2, 3)) if frames else np.float32, "action": np.int64}
    episodes = Episodes(n_envs=2, n_step=3, frame_stack=frames, autoreset="next_step")
    return ReplayBuffer(20, columns, episodes=episodes, **options)


def values(buffer: ReplayBuffer, kind: str, rng: np.random.Generator) -> dict[str, Any]:
    """What one ``add`` takes."""
    size = 3 if kind == "plain" else 2
    given: dict[str, Any] = {}
    if getattr(buffer.sampler, "n_features", None):
        given["features"] = rng.random((size, 2))
    if getattr(buffer.sampler, "n_states", None):
        given["state"] = rng.integers(0, 3, size)
    if kind == "plain":
        return {**given, "x": rng.integers(0, 9, size)}
    stacks = rng.integers(0, 9, (2, 3, 3), dtype=np.uint8)
    numbers = rng.random((2, 2)).astype(np.float32)
    return {
        **given,
        "obs": stacks[:, :2] if kind == "frames" else numbers[0],
        "next_obs": stacks[:, 1:] if kind == "frames" else numbers[1],
        "action": rng.integers(0, 9, 2),
        "reward": rng.random(2),
        "terminated": rng.random(2) < 0.1,
        "truncated": rng.random(2) < 0.1,
    }


def need_for(buffer: ReplayBuffer) -> Any:
    """A need query, for a sampler that takes one."""
    sampler: Any = buffer.sampler
    if getattr(sampler, "n_states", None):
        return np.arange(3.0)
    return np.ones(2) if getattr(sampler, "n_features", None) else None


def use(buffer: ReplayBuffer, kind: str, rng: np.random.Generator, steps: int) -> None:
    """Call everything that a learner calls."""
    for _ in range(steps):
        buffer.add(**values(buffer, kind, rng))
        if len(buffer):
            batch = buffer.sample(4, need=need_for(buffer))
            buffer.update_priorities(batch.ids, rng.random(4))
            if getattr(buffer.sampler, "n_features", None):
                due = buffer.next_to_refresh(2)
                buffer.set_features(due, rng.random((len(due), 2)))
            if kind != "plain":
                buffer.future(batch.ids, 2)
    if kind != "plain":
        buffer.cut()


# Files -------------------------------------------------------------------------------------------

NUMBERS = [0, 1, -1, 2, 3, 19, 20, 21, 255, 2**31, 2**62, 2**63 - 1, -(2**63), 0.5, -0.5, 1e300]
NUMBERS += [float("nan"), float("inf"), 5e-324]
JSON = [*NUMBERS, None, True, False, "", "x", [], {}, [0, 0], 10**400, [[[[]]]], "<f8"]


def taken_apart(saved: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header of a file, and its arrays by name."""
    at = len(MAGIC) + 8
    length = int.from_bytes(saved[len(MAGIC) : at], "little")
    header, at, arrays = json.loads(saved[at : at + length]), at + length, {}
    for name, (dtype, shape) in header["arrays"].items():
        size = np.dtype(dtype).itemsize * int(np.prod(shape))
        arrays[name] = np.frombuffer(saved[at : at + size], dtype).reshape(shape).copy()
        at += size
    return header, arrays


def put_together(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """A file whose digest is right."""
    text = json.dumps(header).encode()
    data = b"".join(array.tobytes() for array in arrays.values())
    return signed(MAGIC + len(text).to_bytes(8, "little") + text + data)


def signed(body: bytes) -> bytes:
    """``body`` and its digest."""
    return body + hashlib.blake2b(body, digest_size=32).digest()


def mutated(saved: bytes, rng: np.random.Generator) -> bytes:
    """A file with one to three changes, and the right digest."""
    if rng.random() < 0.1:
        body = bytearray(saved[:-32])
        body[rng.integers(len(body))] ^= 1 << int(rng.integers(8))
        return signed(bytes(body))
    header, arrays = taken_apart(saved)
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.3:
            _change_header(header, rng)
        else:
            _change_array(arrays[str(rng.choice(list(arrays)))], rng)
    return put_together(header, arrays)


def _change_array(array: Any, rng: np.random.Generator) -> None:
    flat = array.reshape(-1)
    if not len(flat):
        return
    at = rng.integers(len(flat), size=rng.integers(1, 4))
    how = rng.random()
    if how < 0.2:
        flat[at] = flat[rng.integers(len(flat))]
    elif how < 0.4 or flat.dtype.kind not in "if":
        raw = flat.view(np.uint8)
        raw[rng.integers(len(raw))] = rng.integers(256)
    else:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            flat[at] = np.float64(rng.choice(NUMBERS)).astype(flat.dtype)


def _change_header(header: dict[str, Any], rng: np.random.Generator) -> None:
    place: Any = header
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[rng.integers(len(keys))]
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.2:
            break
        place = inner
    how = rng.random()
    if how < 0.15:
        del place[key]
    elif how < 0.25 and isinstance(place, dict):
        place["_lock"] = 1
    else:
        place[key] = JSON[rng.integers(len(JSON))]


def state_of(buffer: ReplayBuffer) -> list[Any]:
    """Everything that a refused file must not change."""
    arrays = {name: array.tobytes() for name, array in buffer.arrays().items()}
    counts = buffer.oldest_id, buffer.next_id, buffer.batches, buffer.dropped
    return [arrays, counts, buffer._max_seen.item(), buffer._rng.bit_generator.state]


def buffer_files(count: int, seed: int) -> Counts:
    """Load ``count`` mutated files; each is refused without a change, or is a buffer to use."""
    rng, counts = np.random.default_rng(seed), Counts()
    cases = []
    for sampler in SAMPLERS:
        for kind in KINDS:
            saved, buffer, file = make(sampler, kind), make(sampler, kind), io.BytesIO()
            use(saved, kind, np.random.default_rng(len(cases)), 5 + len(cases) % 2 * 8)
            use(buffer, kind, np.random.default_rng(1), 7)
            saved.save(file)
            cases.append((sampler, kind, file.getvalue(), buffer))
    for number in range(count):
        sampler, kind, original, buffer = cases[number % len(cases)]
        before, changed = state_of(buffer), mutated(original, rng)
        counts.tried += 1
        try:
            buffer.load(io.BytesIO(changed))
        except NeedReplayError:
            counts.refused += 1
            if state_of(buffer) != before:
                counts.failures.append(f"{sampler} {kind} {number}: changed by a refused file")
            continue
        except Exception as error:
            counts.failures.append(f"{sampler} {kind} {number}: {error!r}")
            continue
        try:
            buffer.check_valid()
            use(buffer, kind, rng, 12)
            buffer.save(io.BytesIO())
        except Exception as error:
            counts.failures.append(f"{sampler} {kind} {number} after it was loaded: {error!r}")
    return counts


def aside(attack: str, count: int, seed: int, timeout: float) -> Counts:
    """Run an attack in a process of its own; a crash or a hang is a failure."""
    command = [sys.executable, __file__, attack, str(count), str(seed)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return Counts(failures=[f"{attack} {count} {seed} hangs"])
    if done.returncode:
        return Counts(failures=[f"{attack} {count} {seed} exits with {done.returncode}"])
    return Counts(**json.loads(done.stdout.splitlines()[-1]))


# Interrupts --------------------------------------------------------------------------------------


def operations(buffer: ReplayBuffer, kind: str) -> dict[str, Callable[[], Any]]:
    """Every public call that changes a buffer, with arguments that change it."""
    rng = np.random.default_rng(0)
    given, other = values(buffer, kind, rng), io.BytesIO()
    ids = np.arange(buffer.oldest_id, buffer.next_id)[-6:]
    calls: dict[str, Callable[[], Any]] = {
        "add": lambda: buffer.add(**given),
        "update_priorities": lambda: buffer.update_priorities([*ids, 0], np.arange(len(ids) + 1.0)),
    }
    if getattr(buffer.sampler, "n_features", None):
        calls["set_features"] = lambda: buffer.set_features(ids, np.ones((len(ids), 2)))
    if getattr(buffer.sampler, "n_states", None):
        calls["set_states"] = lambda: buffer.set_states(ids, ids % 3)
    if kind != "plain":
        calls["cut"] = buffer.cut
    name = next(name for name in SAMPLERS if repr(SAMPLERS[name]()) == repr(buffer.sampler))
    saved = make_used(name, kind)
    use(saved, kind, rng, 3)
    saved.save(other)

    def load() -> None:
        other.seek(0)
        buffer.load(other)

    return {**calls, "load": load}


def make_used(sampler: str, kind: str) -> ReplayBuffer:
    """A buffer that is full, with open windows."""
    buffer = make(sampler, kind)
    use(buffer, kind, np.random.default_rng(1), 14)
    buffer.add(**values(buffer, kind, np.random.default_rng(2)))
    return buffer


def interrupted_at(call: Callable[[], Any], line: int) -> bool:
    """Send Ctrl-C at the given line of needreplay.replay that ``call`` runs; False if it has less.

    A trace counts the lines, so that every place in Python where a signal can be handled is tried.
    """
    left = line

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        if "needreplay/replay" not in frame.f_code.co_filename.replace("\\", "/"):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return left <= 0


def interrupts(count: int, seed: int) -> Counts:
    """Interrupt calls at ``count`` lines: each is complete or did not begin, and stays valid."""
    rng, counts = np.random.default_rng(seed), Counts()
    cases = [(s, k) for s in SAMPLERS for k in KINDS]
    rng.shuffle(cases)
    while True:
        for sampler, kind in cases:
            fresh = make_used(str(sampler), str(kind))
            names = list(operations(fresh, str(kind)))
            name, line = names[rng.integers(len(names))], int(rng.integers(1, 25))
            after = copy.deepcopy(fresh)
            operations(after, str(kind))[name]()
            wanted = [state_of(fresh)[:3], state_of(after)[:3]]
            while counts.tried < count:
                buffer = copy.deepcopy(fresh)
                if not interrupted_at(operations(buffer, str(kind))[name], line):
                    break
                counts.tried += 1
                try:
                    buffer.check_valid()
                    if state_of(buffer)[:3] not in wanted:
                        raise AssertionError("half changed")
                except Exception as error:
                    counts.failures.append(f"{name} of {sampler} {kind}, line {line}: {error!r}")
                line += int(rng.integers(1, 25))
            if counts.tried >= count:
                return counts


# Sequences of calls ------------------------------------------------------------------------------


def call_sequences(count: int, seed: int) -> Counts:
    """``count`` random sequences of calls against a plain list, as in test_buffer_machine."""
    try:
        from test_buffer_machine import CASES, run_machine
    except ImportError:
        from .test_buffer_machine import CASES, run_machine
    rng, counts = np.random.default_rng(seed), Counts()
    for _ in range(count):
        capacity, case = int(rng.integers(1, 71)), CASES[rng.integers(len(CASES))]
        number = int(rng.integers(2**31))
        counts.tried += 1
        try:
            run_machine(capacity, *case, number)
        except Exception as error:
            counts.failures.append(f"capacity {capacity}, {case}, seed {number}: {error!r}")
    return counts


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(asdict(globals()[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3])))))
