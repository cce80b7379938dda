"""Columns from dtypes, shapes and Gymnasium spaces."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from needreplay._core.errors import NeedReplayError
from needreplay.replay.storage import Column, columns_of, flatten, lay_out, nest


@pytest.mark.parametrize(
    ("spec", "dtype", "shape"),
    [
        (np.float32, np.float32, ()),
        ("uint8", np.uint8, ()),
        (np.dtype(np.complex128), np.complex128, ()),
        ((np.float32, 4), np.float32, (4,)),
        ((np.int16, (2, 3)), np.int16, (2, 3)),
        ((bool, ()), np.bool_, ()),
        (gym.spaces.Box(0, 255, (84, 84, 3), np.uint8), np.uint8, (84, 84, 3)),
        (gym.spaces.Discrete(5, start=2), np.int64, ()),
        (gym.spaces.MultiDiscrete([2, 3, 4]), np.int64, (3,)),
        (gym.spaces.MultiBinary(6), np.int8, (6,)),
    ],
)
def test_one_column(spec: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    assert columns_of("x", spec) == [Column("x", np.dtype(dtype), shape)]


def test_a_dict_space_is_several_columns() -> None:
    space = gym.spaces.Dict(
        {
            "arm": gym.spaces.Dict({"angle": gym.spaces.Box(-1, 1, (2,))}),
            "mode": gym.spaces.Discrete(3),
        }
    )
    assert [column.name for column in columns_of("obs", space)] == ["obs/arm/angle", "obs/mode"]


@pytest.mark.parametrize(
    "spec",
    [
        object,
        None,
        "no such dtype",
        (np.float32, (0,)),
        (np.float32, (-1, 3)),
        gym.spaces.Text(5),
        gym.spaces.Tuple([gym.spaces.Discrete(2)]),
        gym.spaces.Sequence(gym.spaces.Discrete(2)),
        gym.spaces.Dict({}),
        "S0",
    ],
)
def test_what_cannot_be_stored_is_rejected(spec: Any) -> None:
    with pytest.raises(NeedReplayError, match="'x'"):
        columns_of("x", spec)


@pytest.mark.parametrize("name", ["", "a/b"])
def test_names_that_would_be_ambiguous_are_rejected(name: str) -> None:
    with pytest.raises(NeedReplayError, match="named"):
        columns_of(name, np.float32)


def test_layout_keeps_dtypes_aligned_and_rows_and_groups_on_words() -> None:
    a, b, c = (Column(n, np.dtype(d), ()) for n, d in (("a", "i1"), ("b", "f8"), ("c", "u1")))
    layout = lay_out([a, b], [c])
    assert layout.offsets == (8, 0, 16)
    assert layout.groups == (0, 16)
    assert layout.stride == 24
    assert layout.record.fields is not None
    assert [layout.record.fields[n][1] for n in "abc"] == [8, 0, 16]


def test_layout_rejects_no_columns_and_doubled_ones() -> None:
    column = Column("a", np.dtype("i1"), ())
    with pytest.raises(NeedReplayError, match="empty"):
        lay_out([])
    with pytest.raises(NeedReplayError, match="twice"):
        lay_out([column, column])


def test_flattened_and_nested_are_opposites() -> None:
    tree = {"obs": {"arm": {"angle": 1}, "mode": 2}, "action": 3}
    flat = {"obs/arm/angle": 1, "obs/mode": 2, "action": 3}
    assert flatten(tree) == flat
    assert nest(flat) == tree
