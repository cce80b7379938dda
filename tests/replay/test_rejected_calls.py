"""What a buffer cannot take is rejected, and the buffer is as before, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay.replay import (
    LinearBeta,
    ProportionalSampler,
    RankSampler,
    ReplayBuffer,
    UniformSampler,
)
from needreplay.replay.samplers import (
    ExhaustiveNeedSampler,
    FeatureNeedSampler,
    PSERSampler,
    StateNeedSampler,
)
from needreplay.replay.samplers.base import Sampler

CAPACITY, STORED = 6, 4
RAGGED = [[1.0, 2.0], [3.0]]
Make = Callable[[], Sampler]

BY_GAIN: dict[str, Make] = {
    "uniform": UniformSampler,
    "proportional": ProportionalSampler,
    "stays in Python": lambda: PSERSampler(window=0),
    "rank": RankSampler,
}
BY_FEATURES: dict[str, Make] = {
    "features": lambda: FeatureNeedSampler(2),
    "sweep": lambda: ExhaustiveNeedSampler(n_features=2),
}
BY_STATES: dict[str, Make] = {
    "grouped": lambda: StateNeedSampler(3),
    "sweep by states": lambda: ExhaustiveNeedSampler(n_states=3),
}
BY_NUMBER: dict[str, Make] = {"sweep by slots": ExhaustiveNeedSampler}
EVERY = {**BY_GAIN, **BY_FEATURES, **BY_STATES, **BY_NUMBER}
BY_NEED = {**BY_FEATURES, **BY_STATES, **BY_NUMBER}


def each(draws: dict[str, Make]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("make", draws.values(), ids=draws.keys())


def given(*values: Any) -> pytest.MarkDecorator:
    """Named by what they look like, without an address, which is another in each process."""
    names = [re.sub(" at 0x[0-9a-f]+", "", repr(value))[:40] for value in values]
    return pytest.mark.parametrize("value", values, ids=names)


def make_buffer(sampler: Sampler, **options: Any) -> ReplayBuffer:
    replay = ReplayBuffer(CAPACITY, {"x": np.float32}, sampler=sampler, seed=5, **options)
    ids = replay.add(x=np.arange(STORED, dtype=np.float32))
    if getattr(sampler, "n_features", None):
        replay.set_features(ids, np.ones((STORED, 2)))
    if getattr(sampler, "n_states", None):
        replay.set_states(ids, np.arange(STORED) % 3)
    replay.update_priorities(ids, np.arange(1.0, 1.0 + STORED))
    return replay


def need_for(replay: ReplayBuffer) -> int:
    """How many numbers need has."""
    sampler: Any = replay.sampler
    told_as = getattr(sampler, "n_features", None), getattr(sampler, "n_states", None)
    return told_as[0] or told_as[1] or CAPACITY


def contents(replay: ReplayBuffer) -> Any:
    """All that a buffer is, as it would be saved."""
    return (
        {name: array.tobytes() for name, array in replay.arrays().items()},
        repr(replay._contents.rng.bit_generator.state),
        (replay.batches, replay.dropped, replay.next_id, replay.oldest_id),
    )


def rejects(replay: ReplayBuffer, ask: Callable[[], object], *words: str) -> None:
    """``ask`` is rejected with a message that has ``words``, and changes nothing."""
    before = contents(replay)
    with pytest.raises(NeedReplayError) as rejected:
        ask()
    said = str(rejected.value)
    assert all(word in said for word in words), said
    assert said.endswith(".")
    assert contents(replay) == before
    replay.check_valid()


# Gains ------------------------------------------------------------------------------------------


@each(EVERY)
@given(
    1.0,
    np.float64(1.0),
    np.array(1.0),
    "1",
    ["1"],
    [b"1"],
    np.array(["2020-01-01"], dtype="M8[D]"),
    np.array([3], dtype="m8[s]"),
    np.ma.array([1.0], mask=[True]),
    np.ma.array([1.0]),
    [1j],
    np.array([1j]),
    [10**400],
    [None],
    [[1.0]],
    RAGGED,
    [object()],
    {0: 1.0},
    None,
    np.array([(1.0,)], dtype=[("a", float)]),
    np.array([np.longdouble("1e400")]),
)
def test_gains(make: Make, value: Any) -> None:
    replay = make_buffer(make())
    rejects(
        replay,
        lambda: replay.update_priorities([0], value),
        "priorities",
        "Nothing was changed",
    )
    rejects(
        replay,
        lambda: replay.update_priorities(np.array([0]), value),
        "priorities",
        "Nothing was changed",
    )


@each(EVERY)
@given(
    [2, 0],
    [2.0, 0.0],
    (2, 0.0),
    [True, False],
    np.array([2, 0]),
    np.array([2, 0], dtype=np.uint8),
    np.array([True, False]),
    np.array([2.0, 0.0], dtype=np.float16),
    np.array([2.0, 0.0], dtype=">f4"),
    np.array([2.0, 9.0, 0.0, 9.0])[::2],
    [2**70, 0],
    [Fraction(1, 2), 0],
    np.array([2, 0.0], dtype=object),
)
def test_gains_that_are_fine(make: Make, value: Any) -> None:
    replay, same = make_buffer(make()), make_buffer(make())
    replay.update_priorities([1, 3], value)
    same.update_priorities(np.array([1, 3]), np.array([float(value[0]), float(value[1])]))
    assert contents(replay) == contents(same)


@given(RAGGED, np.ma.array([0], mask=[True]), [0.0], ["0"], [True], 0, None, [[0]], [10**400])
def test_ids(value: Any) -> None:
    replay = make_buffer(ExhaustiveNeedSampler(n_features=2))
    rejects(replay, lambda: replay.update_priorities(value, [1.0]), "ids", "integers")
    rejects(replay, lambda: replay.set_features(value, [[1.0, 1.0]]), "ids", "integers")
    rejects(replay, lambda: replay.read(value), "ids", "integers")


# Features, states and need ----------------------------------------------------------------------


@each(BY_FEATURES)
@given(
    [["a", "b"], ["c", "d"]],
    "ab",
    RAGGED,
    [[1j, 0.0], [0.0, 0.0]],
    np.ones((2, 2), dtype=np.complex64),
    np.ma.ones((2, 2)),
    np.ones((2, 2), dtype="m8[s]"),
    [[10**400, 0], [0, 0]],
    [[None, 0.0], [0.0, 0.0]],
    [1.0, 1.0],
    np.ones((2, 3)),
    np.ones((2, 2, 1)),
    np.ones((1, 2)),
    1.0,
    None,
    [[np.nan, 0.0], [0.0, 0.0]],
)
def test_features(make: Make, value: Any) -> None:
    replay = make_buffer(make())
    rejects(replay, lambda: replay.set_features([0, 1], value), "features", "Nothing was changed")


@each(BY_FEATURES)
@given(
    [[1, 2], [0, 3]],
    [[True, False], [False, True]],
    np.array([[1, 2], [0, 3]], dtype=np.int8),
    np.array([[1, 2], [0, 3]], dtype=np.float16),
    np.asfortranarray([[1.0, 2.0], [0.0, 3.0]]),
)
def test_features_that_are_fine(make: Make, value: Any) -> None:
    replay, same = make_buffer(make()), make_buffer(make())
    replay.set_features([0, 1], value)
    same.set_features(np.arange(2), np.array(value, dtype=np.float64))
    assert contents(replay) == contents(same)


@each(BY_STATES)
@given(
    [[0], [1]],
    np.zeros((2, 3), dtype=np.int64),
    ["0", "1"],
    [0.0, 1.5],
    [0.0, 1.0],
    np.array([0.0, 1.0], dtype=np.float32),
    [True, False],
    [0, 1j],
    [0, None],
    np.ma.array([0, 1], mask=[True, False]),
    np.array([0, 1], dtype="m8[s]"),
    [[0, 1], [2]],
    [0, 10**400],
    [0, 2**64 - 1],
    0,
    None,
    [0],
    [0, 3],
    [-1, 0],
)
def test_states(make: Make, value: Any) -> None:
    replay = make_buffer(make())
    rejects(replay, lambda: replay.set_states([0, 1], value), "states", "Nothing was changed")


@each(BY_STATES)
@given([2, 0], (2, 0), np.array([2, 0], dtype=np.uint64), np.array([2, 0], dtype=np.int8))
def test_states_that_are_fine(make: Make, value: Any) -> None:
    replay, same = make_buffer(make()), make_buffer(make())
    replay.set_states([0, 1], value)
    replay.set_states([], [])
    same.set_states(np.arange(2), np.array([2, 0]))
    assert contents(replay) == contents(same)


NOT_NEED: list[Callable[[int], Any]] = [
    lambda _: "x",
    lambda length: "x" * length,
    lambda length: ["1"] * length,
    lambda length: [1j] * length,
    lambda length: np.ones(length, dtype=np.complex128),
    lambda length: np.ma.ones(length),
    lambda length: np.ones(length, dtype="m8[s]"),
    lambda _: RAGGED,
    lambda length: [10**400] * length,
    lambda length: [None] * length,
    lambda _: 1.0,
    lambda _: {},
    lambda length: np.ones((length, 1)),
    lambda length: np.ones(length + 1),
    lambda length: np.full(length, np.nan),
]


@each(BY_NEED)
@pytest.mark.parametrize("wrong", NOT_NEED)
def test_need(make: Make, wrong: Callable[[int], Any]) -> None:
    replay = make_buffer(make())
    need = wrong(need_for(replay))
    rejects(replay, lambda: replay.sample(3, need=need), "need", "Nothing was sampled")


@each(BY_NEED)
def test_no_need_at_all(make: Make) -> None:
    replay = make_buffer(make())
    rejects(replay, lambda: replay.sample(3), "need is missing")


@each(BY_GAIN)
@given("x", [1j], RAGGED, 1.0)
def test_need_that_a_sampler_by_priority_does_not_take(make: Make, value: Any) -> None:
    replay = make_buffer(make())
    rejects(replay, lambda: replay.sample(3, need=value), "takes no need")


def test_need_is_looked_at_even_where_it_does_not_count() -> None:
    replay = make_buffer(FeatureNeedSampler(2, need_alpha=0.0))
    rejects(replay, lambda: replay.sample(3, need="x"), "need")  # type: ignore[arg-type]
    assert len(replay.sample(3)) == len(replay.sample(3, need=np.ones(2))) == 3


@each(BY_NEED)
@pytest.mark.parametrize(
    "fine",
    [
        lambda length: [1] * length,
        lambda length: [True] * length,
        lambda length: np.ones(length, dtype=np.int8),
        lambda length: np.ones(length, dtype=np.float32),
        lambda length: np.ones(2 * length)[::2],
    ],
)
def test_need_that_is_fine(make: Make, fine: Callable[[int], Any]) -> None:
    replay, same = make_buffer(make()), make_buffer(make())
    length = need_for(replay)
    ids = replay.sample(3, need=fine(length)).ids
    np.testing.assert_array_equal(ids, same.sample(3, need=np.ones(length)).ids)
    assert contents(replay) == contents(same)


# Beta -------------------------------------------------------------------------------------------

not_beta = given(
    "x",
    "0.5",
    b"0",
    np.nan,
    np.float32(np.nan),
    np.inf,
    1.5,
    -0.1,
    0.5j,
    np.complex128(0.5),
    True,
    np.bool_(0),
    [],
    [0.5],
    np.array([0.5]),
    np.array("0.5"),
    np.datetime64("NaT", "s"),
    np.ma.masked,
    np.ma.array(0.5, mask=True),
    10**400,
    object(),
    len,
)
a_beta = given(0, 1, 0.5, np.float32(0.5), np.int64(1), np.array(0.5), Fraction(1, 2))


@not_beta
@each(BY_GAIN)
def test_beta_of_a_batch(make: Make, value: Any) -> None:
    replay = make_buffer(make())
    rejects(replay, lambda: replay.sample(3, beta=value), "beta", "from 0")


@not_beta
@pytest.mark.parametrize("name", ["start", "end"])
def test_beta_of_a_schedule(name: str, value: Any) -> None:
    with pytest.raises(NeedReplayError, match=f"(?s)^{name} is .* number from 0"):
        LinearBeta(**{name: value})


@not_beta
def test_beta_of_a_buffer(value: Any) -> None:
    with pytest.raises(NeedReplayError, match=r"(?s)^beta is .* number from 0"):
        make_buffer(ProportionalSampler(), beta=value)


def test_none_is_no_beta_of_a_buffer_or_a_schedule() -> None:
    with pytest.raises(NeedReplayError, match=r"^beta is None"):
        make_buffer(ProportionalSampler(), beta=None)
    with pytest.raises(NeedReplayError, match=r"^start is None"):
        LinearBeta(None)  # type: ignore[arg-type]


@given(0, -1, 1.5, np.nan, np.inf, "x", None, True, 1j)
def test_batches_of_a_schedule(value: Any) -> None:
    with pytest.raises(NeedReplayError, match=r"^batches is"):
        LinearBeta(batches=value)


def test_batches_as_a_float_that_is_whole() -> None:
    assert LinearBeta(batches=1e6) == LinearBeta(batches=1_000_000)  # type: ignore[arg-type]


@a_beta
def test_a_beta_that_is_fine(value: Any) -> None:
    number = float(value)
    weights = make_buffer(ProportionalSampler()).sample(3, beta=number).weights.tolist()
    assert make_buffer(ProportionalSampler()).sample(3, beta=value).weights.tolist() == weights
    assert make_buffer(ProportionalSampler(), beta=value).sample(3).weights.tolist() == weights
    schedule = LinearBeta(value, value, batches=1)
    assert (schedule.start, schedule.end) == (number, number)
    assert type(schedule.start) is type(schedule.end) is float
    assert make_buffer(ProportionalSampler(), beta=schedule).sample(3).weights.tolist() == weights


# Whose features are next ------------------------------------------------------------------------


@each(BY_FEATURES)
@given(-1, 1.5, 2.0, np.nan, True, np.bool_(1), "x", None, [1], np.array([1]), 1j, -(10**400))
def test_count_of_features_to_refresh(make: Make, value: Any) -> None:
    replay = make_buffer(make())
    rejects(replay, lambda: replay.next_to_refresh(value), "count is", "whole number")


@each({**BY_GAIN, **BY_STATES, **BY_NUMBER})
def test_refreshing_without_features(make: Make) -> None:
    replay = make_buffer(make())
    rejects(replay, lambda: replay.next_to_refresh(1), "features")


@each({name: make for name, make in {**BY_STATES, **BY_NUMBER}.items() if name != "grouped"})
def test_what_would_have_features_is_named(make: Make) -> None:
    replay = make_buffer(make())
    rejects(replay, lambda: replay.next_to_refresh(1), "make it with n_features")
