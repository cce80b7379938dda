"""The extension in C against the kernels in Python: the same bits, and the same refusals."""

from __future__ import annotations

import copy
import enum
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray
from needreplay.replay import ProportionalSampler, PSERSampler, ReplayBuffer, UniformSampler, native
from needreplay.replay.intake import Episodes
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.sumtree import SumTree
from needreplay.replay.validation import MAX_PRIORITY

pytestmark = pytest.mark.skipif(
    not native.is_built() and not os.environ.get("NEEDREPLAY_CI"),
    reason="the extension was not built: no C compiler?",
)

COLUMNS: dict[str, Any] = {
    "obs": (np.float32, (3,)),
    "image": (np.uint8, (2, 5)),
    "action": np.int64,
    "reward": np.float32,
    "done": np.bool_,
}


class LongWay(ReplayBuffer):
    """A memory that knows of no extension."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        with mock.patch.object(native, "_extension", None):
            super().__init__(*args, **kwargs)

    def add(self, **values: Any) -> range:
        with mock.patch.object(native, "_extension", None):  # room is made at the first add
            return super().add(**values)


def both_ways(
    columns: dict[str, Any],
    capacity: int,
    make_sampler: Callable[[], Sampler] = ProportionalSampler,
    **options: Any,
) -> tuple[ReplayBuffer, ReplayBuffer]:
    """The same memory twice: by the extension, and by the kernels."""
    short = ReplayBuffer(capacity, columns, sampler=make_sampler(), **options)
    with mock.patch.object(native, "_extension", None):
        sampler = make_sampler()
    return short, LongWay(capacity, columns, sampler=sampler, **options)


def transitions(count: int, seed: int = 0) -> dict[str, AnyArray]:
    rng = np.random.default_rng(seed)
    return {
        "obs": rng.normal(size=(count, 3)).astype(np.float32),
        "image": rng.integers(0, 256, (count, 2, 5), dtype=np.uint8),
        "action": rng.integers(0, 9, count),
        "reward": rng.normal(size=count).astype(np.float32),
        "done": rng.integers(0, 2, count).astype(np.bool_),
    }


def one(index: int = 0) -> dict[str, Any]:
    return {name: column[index] for name, column in transitions(index + 1).items()}


def assert_same_arrays(left: dict[str, AnyArray], right: dict[str, AnyArray]) -> None:
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert array.dtype == right[name].dtype
        assert array.shape == right[name].shape
        assert array.tobytes() == right[name].tobytes(), name


def assert_same_batch(short: Any, long: Any) -> None:
    names = ("ids", "probabilities", "weights")
    assert_same_arrays(
        {**{name: getattr(short, name) for name in names}, **short.columns},
        {**{name: getattr(long, name) for name in names}, **long.columns},
    )
    assert list(short.keys()) == list(long.keys())
    assert short.normalized is long.normalized
    assert all(
        array.flags.c_contiguous and array.flags.writeable for array in short.columns.values()
    )


def outcome(act: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """What was said, or that nothing was."""
    try:
        act(*args, **kwargs)
    except (NeedReplayError, RuntimeWarning) as error:
        return str(error)
    return "taken"


def test_is_built_where_changes_land() -> None:
    assert native.is_built()


@settings(max_examples=60, deadline=None)
@given(
    capacity=st.integers(1, 200),
    exponent=st.sampled_from([0.0, 0.3, 0.6, 1.0]),
    stratified=st.booleans(),
    beta=st.sampled_from([0.0, 0.4, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_same_bits(
    capacity: int, exponent: float, stratified: bool, beta: float, seed: int
) -> None:
    short, long = both_ways(
        COLUMNS, capacity, lambda: ProportionalSampler(exponent, stratified=stratified), beta=beta
    )
    rng = np.random.default_rng(seed)
    given = transitions(3 * capacity + 9, seed)
    for index in range(30):
        size = int(rng.integers(1, 40))
        batches = []
        gain = rng.exponential(size=size) * rng.integers(0, 2, size)
        if rng.random() < 0.5:
            gain = gain.astype(np.float32)
        for memory in (short, long):
            memory.add(**{name: column[index % len(column)] for name, column in given.items()})
            batches.append(memory.sample(size) if memory.sampler.priorities.max() > 0.0 else None)  # type: ignore[attr-defined]
            ids = np.random.default_rng(index + seed).integers(0, memory.next_id, size)
            memory.update_priorities(ids, gain)
            memory.check_valid()
        if batches[0] is not None:
            assert_same_batch(*batches)
        assert_same_arrays(short.arrays(), long.arrays())
    assert (short.dropped, short.next_id) == (long.dropped, long.next_id)
    assert short._largest_seen == long._largest_seen


@pytest.mark.parametrize(
    "make_sampler", [UniformSampler, lambda: PSERSampler(decay=0.5), lambda: ProportionalSampler()]
)
@pytest.mark.parametrize("weight_norm", ["batch", "buffer"])
@pytest.mark.parametrize("initial_priority", ["seen", "present"])
def test_every_way_through_the_memory(
    make_sampler: Callable[[], Sampler], weight_norm: Any, initial_priority: Any
) -> None:
    """Draws and options that have no short way, or only a part of it."""
    short, long = both_ways(
        COLUMNS, 40, make_sampler, weight_norm=weight_norm, initial_priority=initial_priority
    )
    for index in range(70):
        for memory in (short, long):
            memory.add(**one(index))
        batches = [memory.sample(8) for memory in (short, long)]
        assert_same_batch(*batches)
        for memory, batch in zip((short, long), batches, strict=True):
            memory.update_priorities(batch.ids, np.abs(batch["reward"]) + 0.1)
    assert_same_arrays(short.arrays(), long.arrays())


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("n_step", [1, 3])
def test_episodes(n_envs: int, n_step: int) -> None:
    columns = {"obs": (np.float32, (3,)), "action": np.int32}
    short, long = both_ways(columns, 30, episodes=Episodes(n_envs=n_envs, n_step=n_step))
    rng = np.random.default_rng(0)
    for step in range(60):
        values: dict[str, Any] = {
            "obs": rng.normal(size=(n_envs, 3)).astype(np.float32),
            "action": rng.integers(0, 4, n_envs).astype(np.int32),
            "reward": rng.normal(size=n_envs).astype(np.float32 if step % 3 else np.float64),
            "next_obs": rng.normal(size=(n_envs, 3)).astype(np.float32),
            "terminated": rng.random(n_envs) < 0.1,
            "truncated": rng.random(n_envs) < 0.1,
        }
        if n_envs == 1 and step % 2:  # as an environment of one's own hands them out
            values = {name: value[0] for name, value in values.items()}
            if step % 4 == 1:
                values["reward"] = float(values["reward"])
            values["terminated"] = bool(values["terminated"])
        for memory in (short, long):
            memory.add(**values)
        if n_envs > 1:
            fewer = {name: value[:-1] for name, value in values.items()}
            said = [outcome(memory.add, **fewer) for memory in (short, long)]
            assert said[0] == said[1] != "taken"
    assert_same_arrays(short.arrays(), long.arrays())
    assert_same_batch(short.sample(16), long.sample(16))


ODD_VALUES: dict[str, list[Any]] = {
    "obs": [
        np.arange(3.0),
        [1, 2, 3],
        (0.5, 1.5, 2.5),
        np.arange(3),
        np.arange(6, dtype=np.float32)[::2],
        np.arange(3, dtype=">f4"),
        np.zeros(4, np.float32),
        np.zeros((1, 3), np.float32),
        np.zeros((2, 3), np.float32),
        np.zeros(3, np.complex64),
        np.ma.masked_array(np.ones(3, np.float32)),
        np.float32(3.0),
        None,
        "three",
    ],
    "image": [
        np.arange(10, dtype=np.uint8).reshape(5, 2).T,
        np.zeros((5, 2), np.uint8),
        np.zeros((2, 4), np.uint8),
        np.full((2, 5), 7),
        np.zeros((1, 2, 5), np.uint8),
    ],
    "action": [
        3,
        -1,
        True,
        2**62,
        2**63,
        2**70,
        3.0,
        np.int32(4),
        np.uint8(5),
        np.array(6),
        np.array([7]),
        np.float64(8.0),
        np.bool_(1),
        None,
    ],
    "reward": [
        1.5,
        2,
        True,
        float("nan"),
        float("inf"),
        -float("inf"),
        np.float64(0.1),
        np.float16(0.1),
        np.array(0.1),
        np.array(0.1, np.float32),
        2**30,
        1e-60,
        1j,
        "1",
    ],
    "done": [True, 1, 0, np.bool_(1), np.array(1, np.bool_), 1.0, None],
}
ODD = [(name, value) for name, values in ODD_VALUES.items() for value in values]


@pytest.mark.parametrize(("name", "value"), ODD, ids=[f"{n}={v!r}"[:40] for n, v in ODD])
def test_odd_values_are_taken_or_refused_alike(name: str, value: Any) -> None:
    short, long = both_ways(COLUMNS, 4)
    said = []
    for memory in (short, long):
        for index in range(5):
            memory.add(**one(index))
        said.append(outcome(memory.add, **{**one(7), name: value}))
    assert said[0] == said[1]
    assert short.next_id == long.next_id
    assert_same_arrays(short.arrays(), long.arrays())


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_whole_numbers_at_the_edges(dtype: str, beyond: int) -> None:
    limits = np.iinfo(dtype)
    for edge in (int(limits.min) - beyond, int(limits.max) + beyond):
        short, long = both_ways({"number": dtype}, 1)
        assert outcome(short.add, number=edge) == outcome(long.add, number=edge)
        assert_same_arrays(short.arrays(), long.arrays())
        assert len(short) == (limits.min <= edge <= limits.max)


@pytest.mark.parametrize(
    "kind", ["f2", "f8", ">i4", ">f8", "c16", "M8[s]", "S3", "U2", [("x", "i4"), ("y", "f8")]]
)
def test_any_dtype(kind: Any) -> None:
    dtype = np.dtype(kind)
    value, pair = np.ones((), dtype), np.ones(2, dtype)
    short, long = both_ways({"a": dtype, "b": (dtype, (2,))}, 4)
    for memory in (short, long):
        memory.add(a=value, b=pair)
        memory.add(a=value[()], b=pair)
        outcome(memory.add, a=1, b=pair)
        outcome(memory.add, a=1.0, b=pair)
    assert short.next_id == long.next_id >= 2
    assert_same_arrays(short.arrays(), long.arrays())
    assert_same_batch(short.sample(9), long.sample(9))


def test_a_record_alone() -> None:
    """Its scalar is numpy's, but no number that could be copied from where one is."""
    dtype = np.dtype([("x", "i4"), ("y", "f8")])
    short, long = both_ways({"a": dtype}, 2)
    for memory in (short, long):
        memory.add(a=np.ones(1, dtype)[0])
    assert_same_arrays(short.arrays(), long.arrays())
    assert short.sample(1)["a"].tolist() == [(1, 1.0)]


def test_float32_in_columns_of_float64() -> None:
    short, long = both_ways({"a": np.float64, "b": (np.float64, (2,))}, 9)
    wide = np.random.default_rng(0).normal(size=(5, 2))
    narrow = wide.astype(np.float32)
    for memory in (short, long):
        memory.add(a=narrow[:, 0].copy(), b=narrow)
        memory.add(a=narrow[:, 0].copy(), b=wide)
        memory.add(a=narrow[0, 0], b=wide[0])
        memory.add(a=narrow[0, 0], b=narrow[0])
        memory.add(a=np.array(narrow[0, 0]), b=wide[0])
    assert_same_arrays(short.arrays(), long.arrays())


def test_a_reward_too_large_for_its_column_is_not_hidden() -> None:
    """numpy warns when a cast overflows; the extension leaves such a number to it."""
    short, long = both_ways({"reward": np.float32}, 2)
    said = [outcome(memory.add, reward=1e300) for memory in (short, long)]
    assert said[0] == said[1] != "taken"


def test_names_that_there_are_not() -> None:
    short, long = both_ways(COLUMNS, 2)
    wrong: list[dict[str, Any]] = [{}, {**one(), "more": 1}, {**one(), "obs": one()["image"]}]
    wrong += [{name: value for name, value in one().items() if name != "obs"}]
    wrong += [{**wrong[-1], "observation": one()["obs"]}]
    for values in wrong:
        said = [outcome(memory.add, **values) for memory in (short, long)]
        assert said[0] == said[1] != "taken"


def test_nothing_is_written_if_the_last_value_is_refused() -> None:
    memory = ReplayBuffer(1, COLUMNS)
    memory.add(**one(0))
    before = memory.arrays()["ring/rows"].copy()
    with pytest.raises(NeedReplayError, match="done"):
        memory.add(**{**one(1), "done": "perhaps"})
    assert np.array_equal(memory.arrays()["ring/rows"], before)


ODD_UPDATES: list[tuple[Any, Any]] = [
    ([5, 6], [1.0, 2.0]),
    (np.array([5, 6], np.int32), np.ones(2)),
    (np.array([5, 6], np.uint64), np.ones(2)),
    (np.array([5, 5, 6, 5]), np.array([9.0, 8.0, 1.0, 2.0])),
    (np.array([0, 1, 6]), np.array([50.0, 60.0, 2.0])),
    (np.arange(4, 10)[::2], np.ones(3)),
    (np.arange(4, 7), np.arange(6.0)[::2]),
    (np.arange(4, 7), np.arange(3)),
    (np.arange(4, 7), np.ones(3, np.float16)),
    (np.arange(4, 7), np.ones(3, ">f8")),
    (np.arange(4, 7), np.array([1.0, np.nan, 1.0])),
    (np.arange(4, 7), np.array([1.0, np.inf, 1.0], np.float32)),
    (np.arange(4, 7), np.array([1.0, 1.0, -1.0])),
    (np.arange(4, 7), np.array([1.0, 1.0, -0.0])),
    (np.arange(4, 7), np.array([MAX_PRIORITY, 1.0, 1.0])),
    (np.arange(4, 7), np.array([2 * MAX_PRIORITY, 1.0, 1.0])),
    (np.arange(4, 7), np.ones(2)),
    (np.arange(4, 7), np.ones((3, 1))),
    (np.arange(4, 7)[:, None], np.ones((3, 1))),
    (np.array([9, 10]), np.ones(2)),
    (np.array([-1, 9]), np.ones(2)),
    (np.array([], np.int64), np.array([])),
    ([], []),
    (np.arange(4, 7), None),
    (np.arange(4.0, 7.0), np.ones(3)),
]


@pytest.mark.parametrize("case", range(len(ODD_UPDATES)))
def test_odd_updates_are_taken_or_refused_alike(case: int) -> None:
    ids, gain = ODD_UPDATES[case]
    short, long = both_ways(COLUMNS, 6)
    said = []
    for memory in (short, long):
        memory.add(**transitions(10))
        said.append(outcome(memory.update_priorities, ids, gain))
        memory.check_valid()
    assert said[0] == said[1]
    assert (short.dropped, short._largest_seen) == (long.dropped, long._largest_seen)
    assert_same_arrays(short.arrays(), long.arrays())
    assert_same_batch(short.sample(9), long.sample(9))


GAPS = np.array([0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 0.0, 3.0, 0.0, 1.0, 0.0])


def gapped() -> tuple[ReplayBuffer, ReplayBuffer]:
    """Leaves with and without mass, by both ways."""
    memories = both_ways({"a": np.int64}, len(GAPS), lambda: ProportionalSampler(1.0))
    for memory in memories:
        memory.add(a=np.arange(len(GAPS)))
        memory.update_priorities(np.arange(len(GAPS)), GAPS)
    return memories


def test_targets_on_the_edges_of_leaves() -> None:
    """A generator of zeros: eight strata of a total of eight begin where leaves do."""
    drawn = []
    for memory in gapped():
        zeros: Any = np.random.MT19937(0)
        zeros.state = {**zeros.state, "state": {"key": np.zeros(624, np.uint32), "pos": 0}}
        memory._rng = np.random.Generator(zeros)
        assert memory._rng.random(3).tolist() == [0.0, 0.0, 0.0]
        drawn.append(memory.sample(8).ids.tolist())
    assert drawn[0] == drawn[1] == [2, 4, 4, 6, 9, 9, 9, 11]


def test_targets_beyond_the_end_fall_on_mass() -> None:
    """As rounding can carry them, here by a total that is too large."""
    drawn = []
    for memory in gapped():
        memory.arrays()["draw/tree"][-1] *= 3.0
        drawn.append(memory.sample(50).ids.tolist())
    assert drawn[0] == drawn[1]
    assert np.all(GAPS[drawn[0]] > 0.0)


def test_all_gains_zero() -> None:
    short, long = both_ways(COLUMNS, 6)
    for memory in (short, long):
        memory.add(**transitions(6))
        memory.update_priorities(range(6), np.zeros(6))
    with pytest.warns(RuntimeWarning, match="Every priority"):
        batches = [memory.sample(5) for memory in (short, long)]
    assert_same_batch(*batches)
    assert short.sampler.fallbacks == 5  # type: ignore[attr-defined]


def test_a_file_of_one_way_goes_on_by_the_other(tmp_path: Any) -> None:
    short, long = both_ways(COLUMNS, 6)
    short.add(**transitions(6))
    short.update_priorities(range(6), np.arange(6.0))
    short.sample(4)
    short.save(tmp_path / "memory")
    long.load(tmp_path / "memory")
    for index in range(3):
        assert_same_batch(short.sample(7), long.sample(7))
        for memory in (short, long):
            memory.add(**one(index))
    long.save(tmp_path / "back")
    short.load(tmp_path / "back")
    assert_same_batch(short.sample(7), long.sample(7))


def test_a_memory_that_was_emptied_works() -> None:
    """As after a file that fails late. The draw's arrays are new; the old ones must not be used."""
    memory = ReplayBuffer(6, COLUMNS)
    memory.add(**transitions(6))
    memory._empty()
    memory.add(**one())
    memory.update_priorities([0], np.array([3.0]))
    memory.update_priorities(np.array([0]), np.array([4.0]))
    memory.check_valid()
    assert memory.sample(2).ids.tolist() == [0, 0]


@pytest.mark.parametrize(
    "through", [copy.deepcopy, lambda sampler: pickle.loads(pickle.dumps(sampler))]
)
def test_a_draw_that_is_copied_has_its_own(
    through: Callable[[ProportionalSampler], ProportionalSampler],
) -> None:
    sampler = ProportionalSampler()
    sampler.allocate(3)
    sampler.set_priorities(np.arange(3), np.ones(3))
    other = through(sampler)
    other.set_priorities(np.arange(3), np.array([0.0, 0.0, 5.0]))
    assert sampler.priorities.tolist() == [1.0, 1.0, 1.0]
    assert set(other.sample(5, np.random.default_rng(0)).slots) == {2}
    sampler.check_valid()
    other.check_valid()


def test_what_is_not_its_own_is_refused() -> None:
    extension: Any = native._extension
    tree = SumTree(5)
    generator = np.random.PCG64(0)
    bits = generator.capsule
    for gain, numbers in (
        (np.zeros(9), tree.array),
        (np.zeros(0), tree.array),
        (np.zeros(5, np.float32), tree.array),
        (np.zeros(5), tree.array[:-1]),
        (np.zeros((5, 1)), tree.array),
        ([0.0] * 5, tree.array),
    ):
        with pytest.raises(ValueError, match="sum tree"):
            extension.Gains(gain, numbers, 1e200)
    gains = extension.Gains(np.zeros(5), tree.array, 1e200)
    columns = extension.Columns({"a": np.zeros(5)})
    for kind in (extension.Gains, extension.Columns):
        with pytest.raises(TypeError, match="missing required argument"):
            kind.__new__(kind)
    locked = np.zeros(5)
    locked.flags.writeable = False
    pieces = np.zeros((5, 4))[:, ::2]
    for arrays in ({"a": locked}, {"a": pieces}, {"a": np.array(1.0)}, {"a": [1.0]}, {1: locked}):
        with pytest.raises(ValueError, match="column"):
            extension.Columns(arrays)
    with pytest.raises(ValueError, match="column"):
        extension.Columns({"a": np.zeros(5, object)})
    with pytest.raises(ValueError, match="equally many"):
        extension.Columns({"a": np.zeros(5), "b": np.zeros(4)})
    for slots in (np.array([5]), np.array([-1])):
        with pytest.raises(IndexError, match="not one of 5"):
            gains.set(slots, np.ones(1), 0.6)
        with pytest.raises(IndexError, match="not one of 5"):
            columns.hand_out(slots, np.ones(1), 0.0, 0.4, 7)
        with pytest.raises(IndexError, match="not one of 5"):
            columns.put({"a": 1.0}, int(slots[0]))
        with pytest.raises(IndexError, match="not one of 5"):
            gains.add(columns, {"a": 1.0}, int(slots[0]), 1.0, 0.6)
    with pytest.raises(IndexError, match="slot 3 is not one of 3"):
        columns.hand_out(np.array([2, 3]), np.ones(2), 0.0, 0.4, 3)
    gains.set(np.array([1]), np.ones(1), 0.6)
    with pytest.raises(TypeError, match="Columns"):
        gains.sample(gains, 1, bits, True, 0.4, 5)
    with pytest.raises(TypeError, match="Columns"):
        gains.add({}, {}, 1, 1.0, 0.6)
    with pytest.raises(ValueError, match="PyCapsule"):
        gains.sample(columns, 1, "a generator", True, 0.4, 5)
    for method, count in (("set", 3), ("take", 5), ("add", 5), ("sample", 6)):
        with pytest.raises(TypeError, match=f"{method} takes"):
            getattr(gains, method)(*range(count + 1))
    for method, count in (("put", 2), ("hand_out", 5)):
        with pytest.raises(TypeError, match=f"{method} takes"):
            getattr(columns, method)(*range(count + 1))


class Halved(ProportionalSampler):
    """A draw of one's own."""

    def set_priorities(self, slots: Any, gain: Any) -> None:
        super().set_priorities(slots, gain / 2)


def test_a_draw_derived_from_proportional_is_asked() -> None:
    memory = ReplayBuffer(4, COLUMNS, sampler=Halved())
    memory.add(**one())
    assert memory.sampler.priorities[0] == 0.5  # type: ignore[attr-defined]
    memory.update_priorities(np.array([0]), np.array([3.0]))
    assert memory.sampler.priorities[0] == 1.5  # type: ignore[attr-defined]


def test_a_draw_whose_settings_change_or_that_is_made_anew() -> None:
    short, long = both_ways(COLUMNS, 6)
    for memory in (short, long):
        memory.add(**transitions(6))
        memory.sampler.alpha, memory.sampler.stratified = 0.3, False  # type: ignore[attr-defined]
        memory.update_priorities(np.arange(6), np.arange(6.0))
        memory.check_valid()
    assert_same_batch(short.sample(9), long.sample(9))
    for memory in (short, long):
        memory.sampler.allocate(6)
        memory.add(**one())
        memory.check_valid()
        assert memory.sampler.priorities.tolist() == [5.0] + [-1.0] * 5  # type: ignore[attr-defined]


class Name(str):
    """A key whose comparison runs code: here it adds another transition."""

    run: Callable[[], Any] | None = None

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        if Name.run is not None:
            run, Name.run = Name.run, None
            run()
        return str.__eq__(self, other)


class Kind(enum.StrEnum):
    """Names that are members of an enumeration."""

    OBS = "obs"


def test_names_of_other_kinds() -> None:
    columns: dict[str, Any] = {Kind.OBS: (np.float32, (3,)), np.str_("action"): np.int64}
    short, long = both_ways(columns, 4)
    for memory in (short, long):
        memory.add(obs=np.ones(3, np.float32), action=1)
        memory.add(**{Kind.OBS: np.zeros(3, np.float32), "action": 2})
        assert memory.sample(2)[Kind.OBS].shape == (2, 3)
    assert_same_arrays(short.arrays(), long.arrays())


def test_a_name_that_runs_code() -> None:
    for memory in both_ways({"a": np.int64, "b": (np.int64, (3,))}, 4):
        Name.run = lambda memory=memory: memory.add(a=7, b=np.full(3, 7))
        memory.add(**{"a": 5, Name("b"): np.full(3, 5)})
        memory.add(a=9, b=np.full(3, 9))
        Name.run = None
        kept = memory.read(range(memory.next_id))
        assert np.all(kept["a"][:, None] == kept["b"])
        assert kept["a"].tolist()[-1] == 9


def test_values_from_the_memory_itself() -> None:
    short, long = both_ways(
        {"a": np.int64, "b": (np.int64, (3,))}, 4, lambda: ProportionalSampler(1.0)
    )
    for memory in (short, long):
        memory.add(a=np.arange(4), b=np.arange(12).reshape(4, 3))
        memory.update_priorities(np.arange(4), np.array([1.0, 2.0, 3.0, 4.0]))
        memory.update_priorities(np.array([3, 2, 1, 0]), memory.sampler.priorities)  # type: ignore[attr-defined]
        memory.check_valid()
        memory.add(a=3, b=memory._ring.column("b")[1])
    assert short.sampler.priorities.tolist() == [4.0, 3.0, 2.0, 1.0]  # type: ignore[attr-defined]
    assert_same_arrays(short.arrays(), long.arrays())


class Own(float):
    """A number that says another when asked."""

    def __float__(self) -> float:
        return 77.0


def test_a_float_of_ones_own_is_asked() -> None:
    short, long = both_ways({"reward": np.float64}, 2)
    for memory in (short, long):
        memory.add(reward=Own(1.5))
    assert_same_arrays(short.arrays(), long.arrays())


def test_zero_has_no_sign() -> None:
    short, long = both_ways(COLUMNS, 3, lambda: ProportionalSampler(1.0))
    for memory in (short, long):
        memory.add(**transitions(3))
        memory.update_priorities(np.arange(3), np.array([5.0, 0.0, 1.0]))
        memory.update_priorities(np.array([0, 1, 0]), np.array([5.0, 0.0, -0.0]))
    assert_same_arrays(short.arrays(), long.arrays())
    assert not np.signbit(short.sampler.priorities).any()  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [2**61, 2**63, 10**30, True, 0, -1, 1.0, "2", None])
def test_sizes_that_cannot_be_drawn(size: Any) -> None:
    """2**61 numbers of eight bytes are none, if nobody looks."""
    short, long = both_ways(COLUMNS, 4)
    for memory in (short, long):
        memory.add(**one())
        with pytest.raises(NeedReplayError, match="size is"):
            memory.sample(size)
    assert_same_batch(short.sample(500), long.sample(500))


def test_an_interrupted_add_leaves_nothing_that_cannot_be_drawn() -> None:
    memory = ReplayBuffer(4, COLUMNS)
    memory.add(**one())

    class Interrupted:
        """The extension, when Ctrl-C comes while it is at work."""

        def add(self, *given: Any) -> bool:  # noqa: ARG002
            raise KeyboardInterrupt

    sampler: Any = memory.sampler
    sampler.fast_path, usual = Interrupted(), sampler.fast_path
    with pytest.raises(KeyboardInterrupt):
        memory.add(**one(1))
    sampler.fast_path = usual
    memory.check_valid()
    assert set(memory.sample(50).ids) == {0}
    assert memory.add(**one(2)) == range(2, 3)
    assert set(memory.sample(50).ids) == {0, 2}


def test_where_a_warning_points_to() -> None:
    memory = ReplayBuffer(4, COLUMNS)
    memory.add(**one())
    memory.update_priorities([0], [0.0])
    with pytest.warns(RuntimeWarning, match="Every priority") as said:
        memory.sample(1)
    assert said[0].filename == __file__


def test_an_extension_of_other_source_is_not_used() -> None:
    extension: Any = native._extension
    assert extension.source == native.source_beside()
    with (
        mock.patch.object(native, "source_beside", return_value="another"),
        pytest.warns(RuntimeWarning, match="built from other source"),
    ):
        assert native._found() is None
    with mock.patch.object(native, "source_beside", return_value=None):
        assert native._found() is extension


def test_memory_that_is_smaller_than_its_columns_is_refused() -> None:
    """A draw bound to more slots than there are rows would read what is not there."""
    extension: Any = native._extension
    gains = extension.Gains(np.zeros(9), SumTree(9).array, 1e200)
    gains.set(np.array([8]), np.ones(1), 0.6)
    columns = extension.Columns({"a": np.zeros(5)})
    generator = np.random.PCG64(0)
    bits = generator.capsule
    with pytest.raises(IndexError, match="not one of 5"):
        gains.sample(columns, 1, bits, True, 0.4, 9)


def test_references_are_given_back() -> None:
    short = ReplayBuffer(50, COLUMNS)
    rng, names = short._rng, list(COLUMNS)
    watched = [np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.float64), rng, None]
    watched += [short._ring.native, short.sampler.fast_path, *names]  # type: ignore[attr-defined]
    watched += list(short.arrays().values())

    usual = one()
    numbers = {**usual, "reward": 0.5, "action": 3, "done": True}
    refused = {**usual, "done": "perhaps"}
    negative = -np.ones(7)

    def go() -> None:
        for _ in range(300):
            short.add(**usual)
            short.add(**numbers)
            outcome(short.add, **refused)
            batch = short.sample(7)
            short.update_priorities(batch.ids, batch.weights)
            assert short.sampler.fast_path.take(batch.ids, negative, 0, 9, 0.6) is None  # type: ignore[attr-defined]

    go()
    before = [sys.getrefcount(thing) for thing in watched]
    go()
    after = [sys.getrefcount(thing) for thing in watched]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 100
