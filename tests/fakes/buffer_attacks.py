"""Attacks on the replay buffer: a fixed part in the tests, more in ``make fuzz``.

Each attack gets random numbers and a folder, says what it did, and returns a line if the buffer
failed. Files are loaded in a process of their own, so that a crash or a hang is counted, not
suffered.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import signal
import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from served import Served, serve

from needreplay._core.errors import NeedReplayError
from needreplay.replay import (
    Episodes,
    Hindsight,
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    RecencySampler,
    ReplayBuffer,
    Sequences,
    UniformSampler,
)
from needreplay.replay.samplers import ExhaustiveNeedSampler, FeatureNeedSampler, StateNeedSampler

MAGIC = b"needreplay buffer\n"
SAMPLERS: dict[str, Callable[[], Any]] = {
    "proportional": ProportionalSampler,
    "uniform": UniformSampler,
    "rank": lambda: RankSampler(uniform_mix=0.1),
    "pser": PSERSampler,
    "recency": lambda: RecencySampler(3.0, alpha=0.5),
    "state": lambda: StateNeedSampler(3),
    "features": lambda: FeatureNeedSampler(2),
    "exhaustive": lambda: ExhaustiveNeedSampler(n_features=2, uniform_mix=0.1),
    "exhaustive by state": lambda: ExhaustiveNeedSampler(n_states=3),
}
KINDS = ("plain", "steps", "frames", "sequences", "hindsight")
GOAL = Box(-np.inf, np.inf, (2,), np.float32)
WITH_GOALS = Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), GOAL))


def goal_reward(achieved: Any, desired: Any, _infos: Any) -> Any:
    """Minus the distance."""
    return -np.abs(achieved - desired).sum(axis=-1)


def make(sampler: str, kind: str) -> ReplayBuffer:
    """An empty buffer."""
    made = SAMPLERS[sampler]()
    if kind == "plain":
        return ReplayBuffer(20, {"x": np.int64}, sampler=made)
    if kind == "hindsight":
        return ReplayBuffer.for_spaces(
            WITH_GOALS,
            Discrete(9),
            capacity=20,
            n_envs=2,
            hindsight=Hindsight(2, compute_reward=goal_reward),
            autoreset="same_step",
            sampler=made,
        )
    frames = 2 if kind == "frames" else 0
    columns = {"obs": (np.uint8, (2, 3)) if frames else np.float32, "action": np.int64}
    episodes = Episodes(n_envs=2, n_step=3, frame_stack=frames, autoreset="next_step")
    sequences = Sequences(4, burn_in=1, stride=2) if kind == "sequences" else None
    return ReplayBuffer(20, columns, episodes=episodes, sequences=sequences, sampler=made)


def values(buffer: ReplayBuffer, kind: str, rng: np.random.Generator) -> dict[str, Any]:
    """What one ``add`` takes."""
    size = 3 if kind == "plain" else 2
    given: dict[str, Any] = {}
    if kind in ("sequences", "hindsight"):
        pass  # theirs are set by id
    elif getattr(buffer.sampler, "n_features", None):
        given["features"] = rng.random((size, 2))
    elif getattr(buffer.sampler, "n_states", None):
        given["state"] = rng.integers(0, 3, size)
    if kind == "plain":
        return {**given, "x": rng.integers(0, 9, size)}
    stacks = rng.integers(0, 9, (2, 3, 3), dtype=np.uint8)
    numbers = rng.random((2, 2)).astype(np.float32)
    obs, next_obs = (stacks[:, :2], stacks[:, 1:]) if kind == "frames" else numbers
    if kind == "hindsight":
        obs, next_obs = ({name: rng.random((2, 2)).astype(np.float32) for name in WITH_GOALS}
                         for _ in range(2))  # fmt: skip
    return {
        **given,
        "obs": obs,
        "next_obs": next_obs,
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
            if getattr(buffer.sampler, "n_states", None):
                buffer.set_states(batch.ids, rng.integers(0, 3, 4))
            if kind in ("steps", "frames"):
                buffer.future(batch.ids, 2)
    if kind != "plain":
        buffer.cut()


# Files -------------------------------------------------------------------------------------------

NUMBERS = [0, 1, -1, 2, 3, 19, 20, 21, 255, 2**31, 2**62, 2**63 - 1, -(2**63), 0.5, -0.5, 1e300]
NUMBERS += [float("nan"), float("inf"), 5e-324]
JSON: list[Any] = [*NUMBERS, None, True, False, "", "x", [], {}, [0, 0], 10**400, [[[[]]]], "<f8"]


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
    """Everything that a rejected file must not change."""
    arrays = {name: array.tobytes() for name, array in buffer.arrays().items()}
    counts = buffer.oldest_id, buffer.next_id, buffer.batches, buffer.dropped
    return [
        arrays,
        counts,
        buffer._contents.max_seen.item(),
        buffer._contents.rng.bit_generator.state,
    ]


@cache
def case(sampler: str, kind: str) -> tuple[bytes, ReplayBuffer]:
    """A saved buffer, and another one to load it into."""
    saved, buffer, file = make(sampler, kind), make(sampler, kind), io.BytesIO()
    use(saved, kind, np.random.default_rng(0), 5 + 8 * (len(sampler) % 2))
    use(buffer, kind, np.random.default_rng(1), 7)
    saved.save(file)
    return file.getvalue(), buffer


def load_mutated(rng: np.random.Generator, _: Path) -> tuple[str, str]:
    """Load a mutated file: it is rejected without a change, or is a buffer to use."""
    sampler, kind = chosen(rng)
    original, buffer = case(sampler, kind)
    before, changed = state_of(buffer), mutated(original, rng)
    what = f"{sampler} sampler, {kind}"
    try:
        buffer.load(io.BytesIO(changed))
    except NeedReplayError:
        return f"{what}: rejected", "" if state_of(buffer) == before else "changed all the same"
    except Exception as error:
        return what, repr(error)
    try:
        buffer.check_valid()
        use(buffer, kind, rng, 12)
        buffer.save(io.BytesIO())
    except Exception as error:
        case.cache_clear()
        return f"{what}: loaded", repr(error)
    return f"{what}: loaded", ""


def chosen(rng: np.random.Generator) -> tuple[str, str]:
    """A sampler and a kind of buffer."""
    return list(SAMPLERS)[rng.integers(len(SAMPLERS))], KINDS[rng.integers(len(KINDS))]


PROCESS = Served(__file__, "files")
"""``load_mutated``, elsewhere."""


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

    def load() -> None:
        other.seek(0)
        buffer.load(other)

    name = next(name for name in SAMPLERS if repr(SAMPLERS[name]()) == repr(buffer.sampler))
    other.write(another(name, kind))
    return {**calls, "load": load}


@cache
def another(sampler: str, kind: str) -> bytes:
    """A saved buffer to load."""
    buffer, file = used(sampler, kind), io.BytesIO()
    use(buffer, kind, np.random.default_rng(0), 3)
    buffer.save(file)
    return file.getvalue()


def used(sampler: str, kind: str) -> ReplayBuffer:
    """A buffer that is full, with open windows."""
    buffer = make(sampler, kind)
    use(buffer, kind, np.random.default_rng(1), 14)
    buffer.add(**values(buffer, kind, np.random.default_rng(2)))
    return buffer


def lines_of(call: Callable[[], Any]) -> int:
    """How many lines of needreplay.replay ``call`` runs."""
    return 10**6 - interrupted_at(call, 10**6)


def interrupted_at(call: Callable[[], Any], line: int) -> int:
    """Send Ctrl-C at the given line of needreplay.replay that ``call`` runs.

    A trace counts the lines, so that every place in Python where a signal can be handled is tried.
    Returns how many lines were left to that one.
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
    return left


@cache
def to_interrupt(sampler: str, kind: str) -> tuple[ReplayBuffer, list[str]]:
    """A buffer to copy, and the names of its operations."""
    buffer = used(sampler, kind)
    return buffer, list(operations(buffer, kind))


@cache
def outcomes(sampler: str, kind: str, name: str) -> tuple[int, list[list[Any]]]:
    """How many lines an operation has, and the states before and after it."""
    fresh, _ = to_interrupt(sampler, kind)
    after = copy.deepcopy(fresh)
    operations(after, kind)[name]()
    lines = lines_of(operations(copy.deepcopy(fresh), kind)[name])
    return lines, [state_of(fresh)[:3], state_of(after)[:3]]


def attack_by_interrupt(rng: np.random.Generator, _: Path) -> tuple[str, str]:
    """Interrupt a call at some line: it is complete or did not begin, and the buffer is valid."""
    sampler, kind = chosen(rng)
    fresh, names = to_interrupt(sampler, kind)
    name = names[rng.integers(len(names))]
    lines, complete = outcomes(sampler, kind, name)
    buffer, line = copy.deepcopy(fresh), int(rng.integers(1, lines + 1))
    interrupted_at(operations(buffer, kind)[name], line)
    what = f"{name}, {sampler} sampler, {kind}, line {line} of {lines}"
    try:
        buffer.check_valid()
    except NeedReplayError as error:
        return what, repr(error)
    return what, "" if state_of(buffer)[:3] in complete else "it is half done"


# Sequences of calls ------------------------------------------------------------------------------


def attack_by_calls(rng: np.random.Generator, _: Path) -> tuple[str, str]:
    """Random calls against a plain list, as tests/replay/test_buffer_machine.py has them."""
    sys.path.append(str(Path(__file__).parents[1] / "replay"))
    machine = import_module("test_buffer_machine")

    capacity, number = int(rng.integers(1, 71)), int(rng.integers(2**31))
    sampler = machine.SAMPLERS[rng.integers(len(machine.SAMPLERS))]
    try:
        machine.run_machine(capacity, sampler, number)
    except Exception as error:
        return f"capacity {capacity}, {sampler}, seed {number}", repr(error)
    return "calls", ""


ATTACKS = {
    "buffer files": PROCESS,
    "interrupts of the buffer": attack_by_interrupt,
    "calls of the buffer": attack_by_calls,
}

if __name__ == "__main__":
    serve({"files": load_mutated})
