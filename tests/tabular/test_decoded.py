"""Events in decoded states, worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from needlab.tabular.decoded import adjacency_of, detect_events
from needlab.worlds.boards import linear_track
from needreplay._core.errors import NeedReplayError

LINE = np.eye(12, k=1, dtype=bool)
"""State s leads to s + 1 only."""
BOTH_WAYS = LINE | LINE.T


def events(states: list[float], **options: Any) -> list[tuple[str, int, int]]:
    table = detect_events(states, **{"adjacency": LINE, **options})
    return list(
        zip(*(table[name].tolist() for name in ("direction", "first", "last")), strict=True)
    )


@pytest.mark.parametrize(
    ("states", "options", "expected"),
    [
        ([], {}, []),
        ([3], {}, []),
        ([1, 2, 3, 4, 5], {}, [("forward", 0, 4)]),
        ([5, 4, 3, 2, 1], {}, [("reverse", 0, 4)]),
        ([1, 2, 3, 4], {}, []),
        ([1, 2, 3, 4], {"shortest": 4}, [("forward", 0, 3)]),
        # Repeated bins count once; without ``stay`` they end the run.
        ([1, 1, 2, 3, 3, 3, 4, 5, 5], {}, [("forward", 0, 7)]),
        ([1, 1, 2, 3, 3, 4, 5, 6, 7, 8], {"stay": False}, [("forward", 4, 9)]),
        ([2, 2, 2, 2, 2], {}, []),
        # A skipped state needs skip=2; two skipped ones need 3.
        ([1, 3, 4, 6, 7], {}, []),
        ([1, 3, 4, 6, 7], {"skip": 2}, [("forward", 0, 4)]),
        ([1, 4, 5, 6, 7], {"skip": 2}, []),
        ([1, 4, 5, 6, 7], {"skip": 3}, [("forward", 0, 4)]),
        # Nothing decoded in a bin ends the run, as does a jump.
        ([1, 2, 3, -1, 4, 5], {}, []),
        # pandas writes whole numbers with gaps as floats.
        ([9.0, float("nan"), 1.0, 2.0, 3.0, 4.0, 5.0], {}, [("forward", 2, 6)]),
        ([9, 1, 2, 3, 4, 5, 0], {}, [("forward", 1, 5)]),
        # The turning point belongs to both events.
        ([1, 2, 3, 4, 5, 4, 3, 2, 1], {}, [("forward", 0, 4), ("reverse", 4, 8)]),
        # Where moves go both ways the direction is not known, unless an order says it.
        ([1, 2, 3, 4, 5], {"adjacency": BOTH_WAYS}, [("none", 0, 4)]),
        ([1, 2, 3, 4, 5], {"adjacency": BOTH_WAYS, "order": range(12)}, [("forward", 0, 4)]),
        ([5, 4, 3, 2, 1], {"adjacency": BOTH_WAYS, "order": range(12)}, [("reverse", 0, 4)]),
        ([1, 2, 3, 4, 5], {"adjacency": BOTH_WAYS, "order": np.arange(12.0)[::-1]},
         [("reverse", 0, 4)]),
        # Back and forth comes to two states only.
        ([3, 4, 3, 4, 3, 4], {"adjacency": BOTH_WAYS}, []),
        ([3, 4, 3, 4, 5, 6, 7, 8], {"adjacency": BOTH_WAYS}, [("none", 2, 7)]),
    ],
)  # fmt: skip
def test_by_hand(
    states: list[float], options: dict[str, Any], expected: list[tuple[str, int, int]]
) -> None:
    assert events(states, **options) == expected


def test_times_and_numbers_of_states() -> None:
    table = detect_events([0, 0, 1, 2, 4, 5, 3], np.arange(7) / 8, adjacency=LINE, skip=2)
    assert {name: table[name].tolist() for name in table.names} == {
        "event": [0], "direction": ["forward"], "first": [0], "last": [5], "states": [5],
        "start": [0.0], "stop": [0.625],
    }  # fmt: skip
    assert len(detect_events([], adjacency=LINE)) == 0


def test_adjacency_of_a_world_and_of_its_table() -> None:
    track = linear_track()
    found = adjacency_of(track)
    np.testing.assert_array_equal(found, adjacency_of(track.next_state))
    assert np.flatnonzero(found[4]).tolist() == [3, 4, 5], "up and down stay"
    unknown = adjacency_of(np.array([[1, -1], [1, 0]]))
    assert unknown.tolist() == [[False, True], [True, True]]


@pytest.mark.parametrize(
    ("states", "options", "message"),
    [
        ([0, 12], {}, "states must be from 0 to 11"),
        ([-2], {}, "states must be from 0"),
        ([0.5], {}, "row of whole numbers"),
        ([[0]], {}, "row of whole numbers"),
        ([float("inf")], {}, "row of whole numbers"),
        ([0, 1], {"times": [0.0]}, "times must be 2 finite numbers"),
        ([0, 1], {"times": [1.0, 1.0]}, "larger than the one before"),
        ([0, 1], {"times": [0.0, float("nan")]}, "finite"),
        ([0, 1], {"times": ["a", "b"]}, "times must be numbers"),
        ([0], {"skip": 0}, "skip is 0"),
        ([0], {"shortest": 1}, "shortest is 1"),
        ([0, []], {}, "states cannot be read as an array"),
        ([0], {"order": [[], 1.0]}, "order cannot be read"),
        ([0], {"order": [None] * 12}, "it was object of shape"),
        ([0], {"order": [float("nan")] * 12}, "one number per state"),
        ([0], {"adjacency": [[0], [1, 2]]}, "adjacency cannot be read"),
        ([0], {"order": [1.0]}, "one number per state, 12"),
        ([0], {"adjacency": LINE.astype(float)}, "square matrix of booleans"),
        ([0], {"adjacency": np.full((2, 2), 7)}, "must hold states, 0 to 1"),
    ],
)
def test_what_is_rejected(states: Any, options: Any, message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        detect_events(states, **{"adjacency": LINE, **options})
