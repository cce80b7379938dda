"""Rows that are gathered from several blocks, and stacks from their frames, against plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from needreplay.replay._kernels.blocks import gather, stack

from needreplay import Episodes, ReplayBuffer
from needreplay.replay.storage import Parts

RNG = np.random.default_rng(0)


def block_of(rows: int, frames: int) -> Parts:
    """Random bytes; three frames belong to a row."""
    return Parts(
        RNG.integers(0, 256, (rows, 16), np.uint8),
        RNG.integers(0, 256, (frames, 8), np.uint8),
        RNG.integers(0, frames, (rows, 3)),
    )


def test_gathered_rows_and_frames_are_those_of_their_blocks() -> None:
    blocks = [block_of(5, 4), block_of(7, 9), block_of(2, 3)]
    which, rows = RNG.integers(0, 3, 50), np.zeros(50, dtype=np.int64)
    for i, b in enumerate(which):
        rows[i] = RNG.integers(0, len(blocks[b].rows))
    found = Parts.gathered([blocks[b] for b in which], rows)
    assert found.frames is not None
    assert found.places is not None
    used = 0
    for i, b in enumerate(which):
        own = blocks[b]
        assert own.frames is not None
        assert own.places is not None
        np.testing.assert_array_equal(found.rows[i], own.rows[rows[i]])
        np.testing.assert_array_equal(
            found.frames[found.places[i]], own.frames[own.places[rows[i]]]
        )
        used += len(np.unique(own.places[rows[i]]))
    assert len(found.frames) == used, "each row's frames once"


def test_stacks_are_written_where_they_belong() -> None:
    first, second = block_of(3, 5), block_of(2, 4)
    at = [np.array([4, 0, 2]), np.array([1, 3])]
    out = np.zeros((5, 2, 8), np.uint8)
    stack([first, second], at, np.array([2, 0]), out)
    for own, places in ((first, at[0]), (second, at[1])):
        assert own.frames is not None
        assert own.places is not None
        for row, place in enumerate(places):
            np.testing.assert_array_equal(out[place], own.frames[own.places[row][[2, 0]]])


def test_what_is_not_there_is_no_memory_of_others() -> None:
    own = block_of(3, 5)
    with pytest.raises(IndexError, match="3 is not one of 3"):
        gather([own], np.array([3]))
    with pytest.raises(IndexError, match="5 is not one of 5"):
        gather([own._replace(places=np.full((3, 3), 5))], np.array([0]))
    with pytest.raises(IndexError, match="2 is not one of 2"):
        stack([own], [np.arange(3)], np.array([0]), np.zeros((2, 1, 8), np.uint8))
    with pytest.raises(TypeError, match="rows of 16"):
        gather([own, own._replace(rows=own.rows[:, :8])], np.array([0, 0]))


@pytest.mark.parametrize("n_step", [1, 3])
def test_rows_go_out_and_come_back(n_step: int) -> None:
    """From two places, in any order; stacks whose episodes begin there, too."""
    episodes = Episodes(frame_stack=4, n_step=n_step)
    columns = {"obs": (np.uint8, (4, 6, 6)), "action": np.int64}
    buffer = ReplayBuffer(100, columns, episodes=episodes)
    frames = RNG.integers(0, 256, (60, 6, 6), np.uint8)
    for i in range(40):
        at = i + 5 * (i // 7)  # episodes of 7 steps
        add(buffer, frames[at % 50 : at % 50 + 5], i % 7 == 6)
    ids = np.arange(buffer.oldest_id, buffer.next_id)
    order = RNG.permutation(len(ids))
    halves = np.array_split(np.arange(len(ids)), 2)
    placed = [(half, buffer._writer.parts(buffer._rows, ids[order][half])) for half in halves]
    found, expected = buffer._writer.columns_from(placed[::-1]), buffer.read(ids[order])
    assert found.keys() == expected.keys()
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column)
        assert found[name].dtype == column.dtype


def add(buffer: ReplayBuffer, frames: Any, ends: bool, **changes: Any) -> None:
    """A step whose stacks are these five frames."""
    step = {"obs": frames[:4].copy(), "next_obs": frames[1:].copy(), "action": 1, "reward": 0.5}
    buffer.add(**{**step, "terminated": ends, "truncated": False, **changes})


@pytest.mark.parametrize("n_step", [1, 3])
def test_plain_steps_with_stacks_are_stored_as_any_others(n_step: int) -> None:
    """Arrays as they are stored take a shorter way than others; it ends in the same place."""
    columns = {"obs": (np.uint8, (4, 6, 6)), "action": np.int64}
    episodes = Episodes(frame_stack=4, n_step=n_step)
    short, long = (ReplayBuffer(16, columns, episodes=episodes) for _ in range(2))
    frames = RNG.integers(0, 256, (90, 6, 6), np.uint8)
    for i in range(60):
        at = i + 5 * (i // 9)
        own = frames[at % 80 : at % 80 + 5]
        add(short, own, i % 9 == 8)
        add(long, own, i % 9 == 8, obs=np.asfortranarray(own[:4]))
    for (name, one), other in zip(short.arrays().items(), long.arrays().values(), strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
    short.check_valid()


def test_a_step_that_is_rejected_leaves_no_frames() -> None:
    columns = {"obs": (np.uint8, (4, 6, 6)), "action": np.int64}
    buffer = ReplayBuffer(16, columns, episodes=Episodes(frame_stack=4))
    frames = RNG.integers(0, 256, (6, 6, 6), np.uint8)
    add(buffer, frames[:5], False)
    before = buffer.arrays()["writer/numbers"].copy()
    for changes in ({"reward": np.nan}, {"action": "left"}, {"action": 0.5}):
        with pytest.raises(Exception, match=r"[Nn]othing was stored"):
            add(buffer, frames[1:], False, **changes)
        np.testing.assert_array_equal(buffer.arrays()["writer/numbers"], before)
    add(buffer, frames[1:], False)
    assert len(buffer) == 2
    assert buffer.arrays()["writer/numbers"][0] == before[0] + 1, "the stack goes on"
