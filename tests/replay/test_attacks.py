"""A fixed part of the attacks that ``make fuzz`` runs."""

from __future__ import annotations

import copy
import io
import pickle
import signal
import threading
from pathlib import Path
from typing import Any

import buffer_attacks as attacks
import number_attacks as numbers
import numpy as np
import process_attacks as process
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay._core.uninterrupted import Uninterrupted
from needreplay.replay import ReplayBuffer, save


def test_mutated_files_are_rejected_or_are_buffers(tmp_path: Path) -> None:
    """2,500 files with the right digest: none crashes, hangs, or changes a buffer if rejected."""
    found = []
    try:
        for number in range(2_500):
            found.append(attacks.PROCESS(np.random.default_rng([1, number]), tmp_path))
            assert not found[-1][1], (number, *found[-1])
    finally:
        attacks.PROCESS.close()
    rejected = sum(": rejected (" in what for what, _ in found)
    assert 1_000 < rejected < 2_400


@pytest.mark.parametrize("dtype", [",", "O", "V", "<i9", "M8[ns]", 8, None])
def test_a_type_that_holds_no_numbers(dtype: Any) -> None:
    """numpy reads the type "," as a program with an error in it."""
    buffer = attacks.used("proportional", "plain")
    header, arrays = attacks.taken_apart(saved(buffer))
    header["arrays"]["ring/rows"][0] = dtype
    before = attacks.state_of(buffer)
    with pytest.raises(NeedReplayError, match="contradicts itself"):
        buffer.load(io.BytesIO(attacks.put_together(header, arrays)))
    assert attacks.state_of(buffer) == before


@pytest.mark.filterwarnings("ignore:No transition")
def test_an_interrupt_at_any_line_leaves_a_call_complete_or_not_begun(tmp_path: Path) -> None:
    for number in range(150):
        found = attacks.attack_by_interrupt(np.random.default_rng([2, number]), tmp_path)
        assert not found[1], (number, *found)


@pytest.mark.filterwarnings("ignore")  # hostile numbers overflow in numpy's own casts
@pytest.mark.parametrize(
    ("attack", "count"),
    [
        (attacks.attack_by_calls, 2),
        (process.attack_by_pair, 60),
        (process.attack_by_two_timers, 20),
        (numbers.attack_exponents, 100),
        (numbers.attack_columns, 100),
        (numbers.attack_rewards, 60),
        (numbers.attack_priorities, 60),
    ],
)
def test_a_fixed_part_of_other_attacks(attack: Any, count: int, tmp_path: Path) -> None:
    for number in range(count):
        found = attack(np.random.default_rng([3, number]), tmp_path)
        assert not found[1], (number, *found)


def saved(buffer: ReplayBuffer) -> bytes:
    file = io.BytesIO()
    buffer.save(file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_lock", 1),
        ("ids", [0, 10**6]),
        ("ids", [5, 3]),
        ("ids", [0, True]),
        ("counts", [-1, 0]),
        ("counts", [0]),
        ("max_seen", 0.5),
        ("max_seen", float("nan")),
        ("max_seen", 1e300),
        ("random", {}),
        ("random", {"bit_generator": "MT19937"}),
    ],
)
def test_the_state_of_a_file_is_known_and_within_bounds(name: str, value: Any) -> None:
    buffer = attacks.used("pser", "steps")
    header, arrays = attacks.taken_apart(saved(buffer))
    header["state"][name] = value
    before = attacks.state_of(buffer)
    with pytest.raises(NeedReplayError, match="contradicts itself"):
        buffer.load(io.BytesIO(attacks.put_together(header, arrays)))
    assert attacks.state_of(buffer) == before
    assert isinstance(buffer._lock, type(threading.RLock()))


@pytest.mark.parametrize(
    "repeats",
    [[[0, 3, 0]], [[-1, 1, 0]], [[1, 1, 0]], [[1, 2, 0], [0, 1, 0]], [[0, 1, 2**64]], [[0, 1, -1]],
     [[0, 1]], [[0.0, 1, 0]], {"0": 1}],
)  # fmt: skip
@pytest.mark.parametrize("name", ["ring/rows", "sampler/priorities"])
def test_repeated_blocks_are_some_of_the_array(
    name: str, repeats: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An array of 40,000 bytes has two whole blocks."""
    monkeypatch.setattr(save, "_repeats", lambda _: [])
    buffer = ReplayBuffer(5_000, {"x": np.float64})
    buffer.add(x=np.ones(5_000))
    header, arrays = attacks.taken_apart(saved(buffer))
    header["repeats"] = {name: repeats}
    before = attacks.state_of(buffer)
    with pytest.raises(NeedReplayError, match="contradicts itself"):
        buffer.load(io.BytesIO(attacks.put_together(header, arrays)))
    assert attacks.state_of(buffer) == before


def test_a_setting_of_another_type_is_another_setting() -> None:
    buffer = attacks.used("proportional", "plain")
    header, arrays = attacks.taken_apart(saved(buffer))
    header["settings"]["sampler.stratified"] = 1
    with pytest.raises(NeedReplayError, match="was saved with"):
        buffer.load(io.BytesIO(attacks.put_together(header, arrays)))


@pytest.mark.filterwarnings("ignore:No transition")
@pytest.mark.parametrize("sampler", attacks.SAMPLERS)
@pytest.mark.parametrize("kind", attacks.KINDS)
def test_pickles_and_copies_go_on_with_the_very_samples(sampler: str, kind: str) -> None:
    buffer = attacks.used(sampler, kind)
    others = [pickle.loads(pickle.dumps(buffer)), copy.deepcopy(buffer), copy.copy(buffer)]
    rng = [np.random.default_rng(5) for _ in range(4)]
    for _ in range(10):
        batches = []
        for number, each in zip(rng, [buffer, *others], strict=True):
            attacks.use(each, kind, number, 1)
            batches.append(each.sample(6, need=attacks.need_for(each)))
        for batch in batches[1:]:
            np.testing.assert_array_equal(batch.ids, batches[0].ids)
            np.testing.assert_array_equal(batch.weights, batches[0].weights)
    assert attacks.state_of(others[0]) == attacks.state_of(buffer)


def test_a_file_object_is_written_and_read_from_where_it_stands(tmp_path: Path) -> None:
    buffer, again = attacks.used("rank", "plain"), attacks.make("rank", "plain")
    with (tmp_path / "both").open("w+b") as file:
        file.write(b"something else")
        at = file.tell()
        buffer.save(file)
        file.seek(at)
        again.load(file)
    assert attacks.state_of(again) == attacks.state_of(buffer)

    class Pipe(io.RawIOBase):
        def readable(self) -> bool:
            return True

    with pytest.raises(NeedReplayError, match="seekable"):
        again.load(Pipe())  # type: ignore[arg-type]


def test_an_invalid_buffer_is_not_saved(tmp_path: Path) -> None:
    buffer = attacks.used("proportional", "plain")
    buffer.save(tmp_path / "buffer")
    before = (tmp_path / "buffer").read_bytes()
    buffer.sampler.priorities[3] += 1.0  # type: ignore[attr-defined]
    with pytest.raises(NeedReplayError):
        buffer.save(tmp_path / "buffer")
    assert (tmp_path / "buffer").read_bytes() == before


def test_interrupts_wait_and_are_not_lost() -> None:
    reached = []

    def change() -> None:
        with Uninterrupted():
            signal.raise_signal(signal.SIGINT)
            with Uninterrupted():
                signal.raise_signal(signal.SIGINT)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        change()
    assert reached == ["the end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_threads_have_nothing_to_hold_back() -> None:
    results = []

    def work() -> None:
        buffer = attacks.used("rank", "plain")
        results.append(len(buffer))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [20]
