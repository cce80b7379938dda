"""Named streams: the same for the same names, different for any others."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needreplay._core.rng import stream

NAMES = st.lists(st.one_of(st.text(max_size=4), st.sampled_from(["/", "a/b", "int:1"]),
                           st.integers(-3, 3)), max_size=4)  # fmt: skip


@given(seed=st.integers(0, 2**64), names=NAMES)
@settings(max_examples=50, deadline=None)
def test_the_same_names_give_the_same_numbers(seed: int, names: list[str | int]) -> None:
    assert stream(seed, *names).random(3).tolist() == stream(seed, *names).random(3).tolist()


@given(first=NAMES, second=NAMES)
@settings(max_examples=200, deadline=None)
def test_other_names_give_other_numbers(first: list[str | int], second: list[str | int]) -> None:
    equal = [(type(n), n) for n in first] == [(type(n), n) for n in second]
    assert (stream(0, *first).random() == stream(0, *second).random()) == equal


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("a", "b"), ("b", "a")), ((1,), ("1",)), ((1, 2), (12,)), (("a", "b"), ("ab",)),
        (("a", "b"), ("a/str:b",)), ((), ("",)), (("a/",), ("a//",)), (("a/", "b"), ("a", "/b")),
    ],
)  # fmt: skip
def test_names_that_look_alike(first: tuple[str | int, ...], second: tuple[str | int, ...]) -> None:
    assert stream(0, *first).random() != stream(0, *second).random()


def test_another_seed_gives_other_numbers() -> None:
    drawn = {float(stream(seed, "a").random()) for seed in range(100)}
    assert len(drawn) == 100


def test_a_numpy_integer_names_the_same_stream_as_a_python_one() -> None:
    assert stream(0, np.int64(3)).random() == stream(0, 3).random()  # type: ignore[arg-type]


def test_streams_of_neighbors_are_not_correlated() -> None:
    draws = np.array([stream(0, "trial", trial).random(2000) for trial in range(8)])
    correlations = np.corrcoef(draws) - np.eye(8)
    assert np.abs(correlations).max() < 4 / np.sqrt(2000)


def test_the_numbers_are_the_same_in_every_process_and_version() -> None:
    code = "from needreplay._core.rng import stream; print(stream(42, 'trial', 7).random())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == stream(42, "trial", 7).random() == 0.6899942722207696
