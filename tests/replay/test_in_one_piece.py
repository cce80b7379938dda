"""A call in one piece does what the same call does step by step: ids, rows, samples, errors.

Step by step: values are converted by numpy first, and the sampler's methods are called one by one,
as those of a sampler of one's own are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from needreplay.replay._kernels.buffer import Core
from needreplay.replay._kernels.proportional import Proportional
from needreplay.replay._kernels.sumtree import SumTree

from needreplay._core.errors import NeedReplayError, NeedReplayWarning
from needreplay._core.types import AnyArray
from needreplay.replay import (
    Batch,
    Episodes,
    ProportionalSampler,
    PSERSampler,
    ReplayBuffer,
    UniformSampler,
)
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.validation import MAX_PRIORITY

COLUMNS: dict[str, Any] = {
    "obs": (np.float32, (3,)),
    "image": (np.uint8, (2, 5)),
    "action": np.int64,
    "reward": np.float32,
    "done": np.bool_,
}


def both(
    columns: dict[str, Any],
    capacity: int,
    make_sampler: Callable[[], Sampler] = ProportionalSampler,
    **options: Any,
) -> tuple[ReplayBuffer, ReplayBuffer]:
    """The same buffer twice: in one piece, and step by step."""
    fast = ReplayBuffer(capacity, columns, sampler=make_sampler(), **options)
    stepwise: Any = make_sampler()
    stepwise.__class__ = type("Derived", (type(stepwise),), {})
    general = ReplayBuffer(capacity, columns, sampler=stepwise, **options)
    general._contents._takes_plain = False
    assert fast._contents._stores_all
    assert not general._contents._stores_all
    return fast, general


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


def assert_same(fast: ReplayBuffer, general: ReplayBuffer) -> None:
    """Rows, ids and counts are equal; powers and sums of them nearly."""
    left, right = fast.arrays(), general.arrays()
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert array.tobytes() == right[name].tobytes(), name
    assert (fast.oldest_id, fast.next_id, fast.dropped) == (
        general.oldest_id,
        general.next_id,
        general.dropped,
    )
    assert fast._contents.max_seen == general._contents.max_seen
    fast.check_valid()
    general.check_valid()


def assert_same_batch(fast: Batch, general: Batch) -> None:
    np.testing.assert_array_equal(fast.ids, general.ids)
    np.testing.assert_allclose(fast.probabilities, general.probabilities, rtol=1e-12)
    np.testing.assert_allclose(fast.weights, general.weights, rtol=1e-12)
    assert list(fast.keys()) == list(general.keys())
    for name in fast.columns:
        assert fast[name].dtype == general[name].dtype
        assert fast[name].shape == general[name].shape
        assert fast[name].tobytes() == general[name].tobytes()
        assert fast[name].flags.c_contiguous
        assert fast[name].flags.writeable


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The error message, or that it was taken."""
    try:
        call(*args, **kwargs)
    except (NeedReplayError, NeedReplayWarning) as error:
        return str(error)
    return "taken"


@settings(max_examples=50)
@given(
    capacity=st.integers(1, 200),
    alpha=st.sampled_from([0.0, 0.3, 0.6, 1.0]),
    stratified=st.booleans(),
    beta=st.sampled_from([0.0, 0.4, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_same_contents_and_samples(
    capacity: int, alpha: float, stratified: bool, beta: float, seed: int
) -> None:
    buffers = both(
        COLUMNS, capacity, lambda: ProportionalSampler(alpha, stratified=stratified), beta=beta
    )
    rng = np.random.default_rng(seed)
    for index in range(30):
        size = int(rng.integers(1, 40))
        values: dict[str, Any] = transitions(size, index) if index % 3 == 0 else one(index)
        priorities: AnyArray = rng.exponential(size=size) * rng.integers(0, 2, size)
        if index % 2:
            priorities = priorities.astype(np.float32)
        ids = rng.integers(0, buffers[0].next_id + 1, size)
        batches = []
        for buffer in buffers:
            buffer.add(**values)
            if buffer.sampler.priorities.max() > 0.0:  # type: ignore[attr-defined]
                batches.append(buffer.sample(size))
            buffer.update_priorities(ids, priorities)
        if batches:
            assert_same_batch(*batches)
        assert_same(*buffers)


@pytest.mark.parametrize(
    "make_sampler",
    [
        UniformSampler,
        lambda: PSERSampler(decay=0.5),
        lambda: ProportionalSampler(uniform_mix=0.25),
        ProportionalSampler,
    ],
)
def test_samplers_that_c_knows_in_part(make_sampler: Callable[[], Sampler]) -> None:
    buffers = both(COLUMNS, 40, make_sampler)
    for index in range(70):
        for buffer in buffers:
            buffer.add(**one(index))
        batches = [buffer.sample(8) for buffer in buffers]
        assert_same_batch(*batches)
        for buffer, batch in zip(buffers, batches, strict=True):
            buffer.update_priorities(batch.ids, np.abs(batch["reward"]) + 0.1)
    assert_same(*buffers)


@pytest.mark.parametrize("make_sampler", [ProportionalSampler, PSERSampler])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
@pytest.mark.parametrize("capacity", [2, 30])
def test_episodes(
    make_sampler: Callable[[], Sampler], n_envs: int, n_step: int, autoreset: Any, capacity: int
) -> None:
    columns = {"obs": {"at": (np.float32, (3,)), "mode": np.int8}, "action": np.int32}
    episodes = Episodes(n_envs=n_envs, n_step=n_step, discount=0.9, autoreset=autoreset)
    buffers = both(columns, capacity, make_sampler, episodes=episodes)
    rng = np.random.default_rng(0)
    for step in range(60):
        pair: list[dict[str, Any]] = [
            {
                "at": rng.normal(size=(n_envs, 3)).astype(np.float32),
                "mode": rng.integers(0, 3, n_envs).astype(np.int8),
            }
            for _ in range(2)
        ]
        values: dict[str, Any] = {
            "action": rng.integers(0, 4, n_envs).astype(np.int32),
            "reward": rng.normal(size=n_envs).astype(np.float32 if step % 3 else np.float64),
            "terminated": rng.random(n_envs) < 0.1,
            "truncated": rng.random(n_envs) < 0.1,
        }
        if n_envs == 1 and step % 2:  # as a single environment returns them
            pair = [{name: value[0] for name, value in obs.items()} for obs in pair]
            values = {name: value[0] for name, value in values.items()}
            values["reward"] = int(10 * values["reward"]) if step % 4 == 1 else values["reward"]
            values["terminated"] = bool(values["terminated"])
        obs, next_obs = pair
        stored = [b.add(obs=obs, next_obs=next_obs, **values) for b in buffers]
        assert stored[0] == stored[1]
        if n_envs > 1:
            fewer = {name: value[:-1] for name, value in values.items()}
            said = [outcome(b.add, obs=obs, next_obs=next_obs, **fewer) for b in buffers]
            assert said[0] == said[1] != "taken"
    assert_same(*buffers)
    batches = [buffer.sample(16) for buffer in buffers]
    np.testing.assert_array_equal(batches[0].ids, batches[1].ids)
    for name in ("reward", "discount", "action"):
        np.testing.assert_array_equal(batches[0][name], batches[1][name])


ODD_VALUES: dict[str, list[Any]] = {
    "obs": [
        np.arange(3.0),
        [1, 2, 3],
        np.arange(3),
        np.arange(6, dtype=np.float32)[::2],
        np.arange(3, dtype=">f4"),
        np.zeros(4, np.float32),
        np.zeros((1, 3), np.float32),
        np.zeros((2, 3), np.float32),
        np.zeros((0, 3), np.float32),
        np.zeros(3, np.complex64),
        np.ma.masked_array(np.ones(3, np.float32)),
        np.float32(3.0),
        None,
        "three",
    ],
    "image": [
        np.arange(10, dtype=np.uint8).reshape(5, 2).T,
        np.zeros((5, 2), np.uint8),
        np.full((2, 5), 7),
        np.full((2, 5), 300),
        np.zeros((1, 2, 5), np.uint8),
    ],
    "action": [
        3, -1, True, 2**62, 2**63, 2**70, 3.0, np.int32(4), np.uint8(5), np.array(6), np.array([7]),
        np.float64(8.0), np.bool_(1), None,
    ],
    "reward": [
        1.5, 2, True, float("nan"), float("inf"), np.float64(0.1), np.float16(0.1), np.array(0.1),
        np.array(0.1, np.float32), 2**24, 2**24 + 1, 2**30, 1e-60, 1e300, 1j, "1",
    ],
    "done": [True, 1, 0, np.bool_(1), np.array(1, np.bool_), 1.0, None],
}  # fmt: skip
ODD = [(name, value) for name, values in ODD_VALUES.items() for value in values]


@pytest.mark.parametrize(("name", "value"), ODD, ids=[f"{n}={v!r}"[:40] for n, v in ODD])
def test_odd_values_are_taken_or_rejected_alike(name: str, value: Any) -> None:
    buffers = both(COLUMNS, 4)
    said = []
    for buffer in buffers:
        for index in range(5):
            buffer.add(**one(index))
        said.append(outcome(buffer.add, **{**one(7), name: value}))
    assert said[0] == said[1]
    assert_same(*buffers)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("kind", [int, np.int64, np.array])
def test_integers_at_the_limits(dtype: str, kind: Any) -> None:
    """Also of a numpy type: 300 is never stored as 44."""
    limits = np.iinfo(dtype)
    for edge in (limits.min, limits.max):
        for number in (int(edge) - 1, int(edge), int(edge) + 1):
            if kind is np.int64 and not -(2**63) <= number < 2**63:
                continue
            buffers = both({"number": dtype}, 1)
            said = [outcome(buffer.add, number=kind(number)) for buffer in buffers]
            assert said[0] == said[1]
            assert (said[0] == "taken") is (limits.min <= number <= limits.max)
            assert_same(*buffers)


@pytest.mark.parametrize(
    "kind", ["f2", "f8", ">i4", ">f8", "c16", "M8[s]", "S3", "U2", [("x", "i4"), ("y", "f8")]]
)
def test_any_dtype(kind: Any) -> None:
    dtype = np.dtype(kind)
    value, pair = np.ones((), dtype), np.ones(2, dtype)
    buffers = both({"a": dtype, "b": (dtype, (2,))}, 4)
    for buffer in buffers:
        buffer.add(a=value, b=pair)
        buffer.add(a=value[()], b=pair)
        outcome(buffer.add, a=1, b=pair)
        outcome(buffer.add, a=1.0, b=pair)
        assert buffer.next_id >= 2
    assert_same(*buffers)
    batches = [buffer.sample(9) for buffer in buffers]
    np.testing.assert_array_equal(batches[0]["b"], batches[1]["b"])


def test_names_that_do_not_exist() -> None:
    buffers = both(COLUMNS, 2)
    wrong: list[dict[str, Any]] = [{}, {**one(), "more": 1}, {**one(), "obs": one()["image"]}]
    wrong += [{name: value for name, value in one().items() if name != "obs"}]
    wrong += [{**wrong[-1], "observation": one()["obs"]}]
    for values in wrong:
        said = [outcome(buffer.add, **values) for buffer in buffers]
        assert said[0] == said[1] != "taken"


def test_nothing_is_written_if_the_last_value_is_rejected() -> None:
    for buffer in both(COLUMNS, 1):
        buffer.add(**one(0))
        before = buffer.arrays()["ring/rows"].copy()
        with pytest.raises(NeedReplayError, match="done"):
            buffer.add(**{**one(1), "done": "perhaps"})
        np.testing.assert_array_equal(buffer.arrays()["ring/rows"], before)


THREE = np.arange(4, 7)
ODD_UPDATES: list[tuple[Any, Any]] = [
    ([5, 6], [1.0, 2.0]),
    (np.array([5, 6], np.int32), np.ones(2)),
    (np.array([5, 6], np.uint64), np.ones(2)),
    (np.array([5, 5, 6, 5]), np.array([9.0, 8.0, 1.0, 2.0])),
    (np.array([0, 1, 6]), np.array([50.0, 60.0, 2.0])),
    (np.arange(4, 10)[::2], np.ones(3)),
    (THREE, np.arange(6.0)[::2]),
    (THREE, np.arange(3)),
    (THREE, np.ones(3, np.float16)),
    (THREE, np.ones(3, ">f8")),
    (THREE, np.array([1.0, np.nan, 1.0])),
    (THREE, np.array([1.0, np.inf, 1.0], np.float32)),
    (THREE, np.array([1.0, 1.0, -1.0])),
    (THREE, np.array([1.0, 1.0, -0.0])),
    (THREE, np.array([MAX_PRIORITY, 1.0, 1.0])),
    (THREE, np.array([2 * MAX_PRIORITY, 1.0, 1.0])),
    (THREE, np.ones(2)),
    (THREE, np.ones((3, 1))),
    (THREE[:, None], np.ones((3, 1))),
    (np.array([9, 10]), np.ones(2)),
    (np.array([-1, 9]), np.ones(2)),
    ([], []),
    (THREE, None),
    (np.arange(4.0, 7.0), np.ones(3)),
]


@pytest.mark.parametrize("case", range(len(ODD_UPDATES)))
def test_odd_updates_are_taken_or_rejected_alike(case: int) -> None:
    ids, priorities = ODD_UPDATES[case]
    buffers = both(COLUMNS, 6)
    said = []
    for buffer in buffers:
        buffer.add(**transitions(10))
        said.append(outcome(buffer.update_priorities, ids, priorities))
        assert not np.signbit(buffer.sampler.priorities).any()  # type: ignore[attr-defined]
    assert said[0] == said[1]
    assert_same(*buffers)
    assert_same_batch(*[buffer.sample(9) for buffer in buffers])


GAPS = np.array([0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 0.0, 3.0, 0.0, 1.0, 0.0])


def with_gaps() -> tuple[ReplayBuffer, ReplayBuffer]:
    """Leaves with and without priority."""
    buffers = both({"a": np.int64}, len(GAPS), lambda: ProportionalSampler(1.0))
    for buffer in buffers:
        buffer.add(a=np.arange(len(GAPS)))
        buffer.update_priorities(np.arange(len(GAPS)), GAPS)
    return buffers


def test_targets_on_the_edges_of_leaves() -> None:
    """A generator of zeros: eight strata of a total of eight start where leaves do."""
    for buffer in with_gaps():
        zeros: Any = np.random.MT19937(0)
        zeros.state = {**zeros.state, "state": {"key": np.zeros(624, np.uint32), "pos": 0}}
        buffer._contents.rng = np.random.Generator(zeros)
        assert buffer.sample(8).ids.tolist() == [2, 4, 4, 6, 9, 9, 9, 11]


def test_targets_beyond_the_end_fall_on_positive_leaves() -> None:
    """As rounding can carry them; here the total is too large."""
    sampled = []
    for buffer in with_gaps():
        buffer.arrays()["sampler/tree"][-1] *= 3.0
        sampled.append(buffer.sample(50).ids.tolist())
    assert sampled[0] == sampled[1]
    assert np.all(GAPS[sampled[0]] > 0.0)


def test_all_priorities_zero() -> None:
    buffers = both(COLUMNS, 6)
    for buffer in buffers:
        buffer.add(**transitions(6))
        buffer.update_priorities(range(6), np.zeros(6))
    with pytest.warns(NeedReplayWarning, match="Every priority") as said:
        batches = [buffer.sample(5) for buffer in buffers]
    assert said[0].filename == __file__
    assert_same_batch(*batches)


def test_a_file_of_one_path_loads_on_the_other(tmp_path: Any) -> None:
    fast, general = both(COLUMNS, 6)
    fast.add(**transitions(6))
    fast.update_priorities(range(6), np.arange(6.0))
    fast.sample(4)
    fast.save(tmp_path / "buffer")
    general.load(tmp_path / "buffer")
    for index in range(3):
        assert_same_batch(fast.sample(7), general.sample(7))
        for buffer in (fast, general):
            buffer.add(**one(index))
    general.save(tmp_path / "back")
    fast.load(tmp_path / "back")
    assert_same_batch(fast.sample(7), general.sample(7))


def test_a_cleared_buffer_uses_its_new_arrays() -> None:
    buffer = ReplayBuffer(6, COLUMNS)
    buffer.add(**transitions(6))
    buffer._contents.reset()
    buffer.add(**one())
    buffer.update_priorities([0], np.array([3.0]))
    buffer.update_priorities(np.array([0]), np.array([4.0]))
    buffer.check_valid()
    assert buffer.sample(2).ids.tolist() == [0, 0]


class Halved(ProportionalSampler):
    """A sampler derived from one that C knows."""

    def set_priorities(self, slots: Any, priorities: Any) -> Any:
        return super().set_priorities(slots, priorities / 2)


def test_a_sampler_derived_from_proportional_is_called() -> None:
    buffer = ReplayBuffer(4, COLUMNS, sampler=Halved())
    buffer.add(**one())
    assert buffer.sampler.priorities[0] == 0.5  # type: ignore[attr-defined]
    buffer.update_priorities(np.array([0]), np.array([3.0]))
    assert buffer.sampler.priorities[0] == 1.5  # type: ignore[attr-defined]


def test_a_uniform_share_takes_the_general_path() -> None:
    buffers = both(COLUMNS, 6, lambda: ProportionalSampler(uniform_mix=0.5))
    for buffer in buffers:
        buffer.add(**transitions(6))
        buffer.update_priorities(np.arange(6), np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
    assert_same(*buffers)
    batches = [buffer.sample(200) for buffer in buffers]
    assert_same_batch(*batches)
    assert set(batches[0].ids) == set(range(6))


def test_settings_of_a_sampler_that_change() -> None:
    buffers = both(COLUMNS, 6)
    for buffer in buffers:
        buffer.add(**transitions(6))
        buffer.sampler.alpha, buffer.sampler.stratified = 0.3, False  # type: ignore[attr-defined]
        buffer.update_priorities(np.arange(6), np.arange(6.0))
    assert_same(*buffers)
    assert_same_batch(*[buffer.sample(9) for buffer in buffers])


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


def test_a_name_that_runs_code() -> None:
    for buffer in both({"a": np.int64, "b": (np.int64, (3,))}, 4):
        Name.run = lambda buffer=buffer: buffer.add(a=7, b=np.full(3, 7))
        buffer.add(**{"a": 5, Name("b"): np.full(3, 5)})
        buffer.add(a=9, b=np.full(3, 9))
        Name.run = None
        stored = buffer.read(range(buffer.next_id))
        assert np.all(stored["a"][:, None] == stored["b"])
        assert stored["a"].tolist()[-1] == 9


def test_values_from_the_buffer_itself() -> None:
    buffers = both({"a": np.int64, "b": (np.int64, (3,))}, 4, lambda: ProportionalSampler(1.0))
    for buffer in buffers:
        buffer.add(a=np.arange(4), b=np.arange(12).reshape(4, 3))
        buffer.update_priorities(np.arange(4), np.array([1.0, 2.0, 3.0, 4.0]))
        priorities = buffer.sampler.priorities  # type: ignore[attr-defined]
        buffer.update_priorities(np.array([3, 2, 1, 0]), priorities)
        assert priorities.tolist() == [4.0, 3.0, 2.0, 1.0]
        buffer.add(a=3, b=buffer._ring.columns["b"][1])
    assert_same(*buffers)


class Own(float):
    """A number that converts to another one."""

    def __float__(self) -> float:
        return 77.0


def test_a_subclass_of_float() -> None:
    buffers = both({"reward": np.float64}, 2)
    for buffer in buffers:
        buffer.add(reward=Own(1.5))
    assert_same(*buffers)


@pytest.mark.parametrize("size", [2**61, 2**63, 10**30, True, 0, -1, 1.0, "2", None])
def test_sizes_that_are_rejected(size: Any) -> None:
    """2**61 numbers of eight bytes overflow to none."""
    for buffer in both(COLUMNS, 4):
        buffer.add(**one())
        with pytest.raises(NeedReplayError, match="size is"):
            buffer.sample(size)


def test_arrays_that_do_not_fit_are_rejected() -> None:
    """Kernels trust the sizes that they checked once."""
    rows, ids, tree = np.zeros((5, 8), np.uint8), np.zeros(2, np.int64), SumTree(5)
    columns = {"a": rows.view(np.float64)[:, 0]}
    counts, largest = np.zeros(2, np.int64), np.ones(1)
    arrays = {"window": np.zeros(2, np.int64), "priorities": np.full(5, -1.0)}
    pieces = np.zeros((5, 4))[:, ::2]

    def kernel(priorities: Any = arrays["priorities"], sums: Any = tree) -> Any:
        return Proportional({**arrays, "priorities": priorities}, 5, True, sums, 0.6, True)

    def make(c: Any = columns, r: Any = rows, i: Any = ids, k: Any = None) -> Any:
        watch = SimpleNamespace(continuity=None, until_look=np.array([500]), observed=())
        return Core(c, r, i, counts, largest, None, {}, k, watch)

    for p in (np.zeros(9), np.zeros(0), np.zeros(5, np.float32), [0.0] * 5, np.zeros(10)[::2]):
        with pytest.raises(TypeError, match="contiguous numbers"):
            kernel(p)
    with pytest.raises(TypeError):
        kernel(sums=tree.array)
    for wrong in (pieces, np.array(1.0), np.zeros(5, object)):
        with pytest.raises(TypeError, match="column"):
            make(c={"a": wrong})
    for some in ({"a": np.zeros(5), "b": np.zeros(4)}, {"a": np.zeros(4)}):
        with pytest.raises(TypeError, match="rows"):
            make(c=some)
    for wrong_rows, wrong_ids in ((rows[:, ::2], ids), (rows, np.zeros(3)), (rows, [0, 1])):
        with pytest.raises(TypeError):
            make(r=wrong_rows, i=wrong_ids)
    core = make(k=kernel())
    ids[1] = 3
    for slot in (-1, 3, 5):
        with pytest.raises(IndexError, match="not one of"):
            core.gather(np.array([slot]), np.ones(1), 0.4)
    assert core.update(np.array([1, 2]), np.array([1.0, 3.0])) is True
    assert largest.item() == 3.0
    with pytest.raises(ValueError, match="PyCapsule"):
        core.sample(1, "a generator", 0.4)


def test_references_are_released() -> None:
    episodes = Episodes(n_step=2)
    buffer = ReplayBuffer(50, COLUMNS)
    stepped = ReplayBuffer(50, {"obs": (np.float32, (3,))}, episodes=episodes)
    watched = [
        np.dtype(np.float32),
        np.dtype(np.int64),
        np.dtype(np.float64),
        buffer._contents.rng,
        None,
    ]
    watched += [buffer._contents.core, stepped._contents.core, *COLUMNS, *buffer.arrays().values()]
    usual = one()
    numbers = {**usual, "reward": 0.5, "action": 3, "done": True}
    rejected = {**usual, "done": "perhaps"}
    step = {"obs": usual["obs"], "next_obs": usual["obs"], "reward": 1.0}
    negative = -np.ones(7)

    def run() -> None:
        for _ in range(300):
            buffer.add(**usual)
            buffer.add(**numbers)
            stepped.add(**step, terminated=False, truncated=True)
            outcome(buffer.add, **rejected)
            batch = buffer.sample(7)
            buffer.update_priorities(batch.ids, batch.weights)
            assert buffer._contents.core.update(batch.ids, negative) is None

    run()
    before = [sys.getrefcount(thing) for thing in watched]
    run()
    after = [sys.getrefcount(thing) for thing in watched]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 100
