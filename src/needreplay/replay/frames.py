"""Image frames, each stored once: a stack is rebuilt from its newest frame when it is sampled.

Each frame has the distance to its predecessor. A stack that does not continue the one before it (a
new episode, whatever its padding) starts a new chain, so a rebuilt stack is exactly what was passed
to ``add``, and no stack crosses the border of an episode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from needreplay._core.errors import NeedReplayError
from needreplay._core.jit import jit
from needreplay._core.types import AnyArray, BoolArray, IntArray
from needreplay.replay.storage import Bytes, Column, aligned_rows
from needreplay.replay.validation import is_within

if TYPE_CHECKING:
    from needreplay.replay.episodes import Episodes

_EPISODE_LENGTH = 200
"""The store has one extra frame (the last of an episode) for each so many transitions."""

_NEXT = 0


@jit
def _equal(left: Bytes, right: Bytes) -> bool:
    """Whether two frames are the same, byte by byte."""
    difference = np.uint8(0)
    for k in range(len(left)):
        difference |= left[k] ^ right[k]
    return bool(difference == 0)


@jit
def _first_not_shifted(obs: Bytes, next_obs: Bytes, skipped: BoolArray) -> int:
    """The first environment whose next stack is not its stack shifted by one frame, or -1."""
    for e in range(len(obs)):
        for k in range(obs.shape[1] - 1):
            if not skipped[e] and not _equal(obs[e, k + 1], next_obs[e, k]):
                return e
    return -1


@jit
def _continues(frames: Bytes, back: AnyArray, newest: int, stack: Bytes) -> bool:
    """Whether ``stack`` is the one whose newest frame is ``newest``."""
    number = newest
    for k in range(len(stack) - 1, -1, -1):
        place = number % len(frames)
        if not _equal(frames[place], stack[k]):
            return False
        number -= back[place]
    return True


@jit
def _write(frames: Bytes, back: AnyArray, numbers: IntArray, frame: Bytes, distance: int) -> int:
    """Store one frame, ``distance`` after its predecessor (0: it has none); returns its number."""
    number: int = numbers[_NEXT]
    place = number % len(frames)
    for k in range(len(frame)):
        frames[place, k] = frame[k]
    back[place] = distance
    numbers[_NEXT] = number + 1
    return number


@jit
def _store(
    frames: Bytes,
    back: AnyArray,
    numbers: IntArray,
    obs: Bytes,
    next_obs: Bytes,
    skipped: BoolArray,
    obs_frame: IntArray,
    next_frame: IntArray,
) -> None:
    """Store the new frames of one step; writes the numbers of the newest frame of each stack.

    ``numbers`` is the number of the next frame, then the newest of each environment. A chain leaves
    out the repeated frames that a stack starts with: rebuilding repeats its first frame.
    """
    for e in range(len(obs)):
        if skipped[e]:
            continue
        newest = numbers[1 + e]
        if newest < 0 or not _continues(frames, back, newest, obs[e]):
            first = 0
            while first + 1 < obs.shape[1] and _equal(obs[e, first], obs[e, first + 1]):
                first += 1
            for k in range(first, obs.shape[1]):
                newest = _write(frames, back, numbers, obs[e, k], 0 if k == first else 1)
        obs_frame[e] = newest
        distance = numbers[_NEXT] - newest
        next_frame[e] = _write(frames, back, numbers, next_obs[e, -1], distance)
        numbers[1 + e] = next_frame[e]


@jit
def _take_stack(frames: Bytes, back: AnyArray, newest: int, out: Bytes, i: int) -> None:
    """Rebuild the stack whose newest frame is ``newest``; writes ``out[i]``."""
    number = newest
    for k in range(out.shape[1] - 1, -1, -1):
        place = number % len(frames)
        for b in range(frames.shape[1]):
            out[i, k, b] = frames[place, b]
        number -= back[place]


@jit
def _take_stacks(
    frames: Bytes,
    back: AnyArray,
    obs_frame: IntArray,
    next_frame: IntArray,
    obs: Bytes,
    next_obs: Bytes,
) -> None:
    """Rebuild both stacks of each transition; writes the last two (stacks, frames, bytes).

    One transition after the other: its stacks share most frames, which are then in the cache.
    """
    for i in range(len(obs_frame)):
        _take_stack(frames, back, obs_frame[i], obs, i)
        _take_stack(frames, back, next_frame[i], next_obs, i)


@jit
def _count_below(next_frames: IntArray, first_id: int, end_id: int, limit: int) -> int:
    """How many transitions from ``first_id`` on have a next frame numbered below ``limit``."""
    count = 0
    while first_id + count < end_id and next_frames[(first_id + count) % len(next_frames)] < limit:
        count += 1
    return count


class FrameStore:
    """A ring of the frames of the stacks in column ``obs`` (first axis: oldest to newest).

    It has space for ``capacity`` transitions if episodes have 200 steps or more on average. With
    shorter episodes fewer fit: a transition whose next frame is numbered below ``limit`` may have
    lost frames.
    """

    def __init__(self, obs: list[Column], episodes: Episodes, capacity: int) -> None:
        if len(obs) != 1 or len(obs[0].shape) < 1 or obs[0].shape[0] != episodes.frame_stack:
            raise NeedReplayError(
                f"frame_stack is {episodes.frame_stack}, so obs must be one array whose first axis "
                f"has that length, as Gymnasium's FrameStackObservation makes it; it is "
                f"{', '.join(f'{c.name} {c.shape}' for c in obs)}."
            )
        _, self.dtype, self.stack_shape = obs[0]
        stack, n_envs = self.stack_shape[0], episodes.n_envs
        most_per_step = n_envs * (stack + 1)
        self._reach = most_per_step * (episodes.n_step + stack + 2)
        self._frame_bytes = obs[0].nbytes // stack
        spare = capacity // _EPISODE_LENGTH + self._reach + most_per_step
        self.frames = aligned_rows(capacity + spare, self._frame_bytes)
        self.back = np.zeros(len(self.frames), dtype=np.int32)
        self.numbers = np.empty(1 + n_envs, dtype=np.int64)
        self.clear()

    def clear(self) -> None:
        """Forget all frames."""
        self.numbers[:] = -1
        self.numbers[_NEXT] = 0

    @property
    def limit(self) -> int:
        """A transition is complete if the number of its next frame is at least this.

        All frames it needs were stored within the last ``_reach`` before its next frame.
        """
        return int(self.numbers[_NEXT]) - len(self.frames) + self._reach

    def as_bytes(self, name: str, stacks: AnyArray) -> Bytes:
        """(n_envs, stack, bytes of a frame) of what was passed as ``name``."""
        n_envs = len(self.numbers) - 1
        array = np.asarray(stacks)
        if array.shape != (n_envs, *self.stack_shape) and (
            n_envs > 1 or array.shape != self.stack_shape
        ):
            raise NeedReplayError(
                f"{name} has shape {array.shape}, but stacks of {self.stack_shape} are stored, "
                f"one for each of {n_envs} environments; nothing was stored."
            )
        if not np.can_cast(array.dtype, self.dtype, casting="same_kind"):
            raise NeedReplayError(
                f"{name} is {array.dtype}, but frames are {self.dtype}; nothing was stored."
            )
        contiguous = np.ascontiguousarray(array, dtype=self.dtype).view(np.uint8)
        return contiguous.reshape(n_envs, self.stack_shape[0], self._frame_bytes)

    def store(
        self,
        obs: Bytes,
        next_obs: Bytes,
        skipped: BoolArray,
        obs_frame: IntArray,
        next_frame: IntArray,
    ) -> None:
        """Store what is new in the stacks of one step; writes the last two.

        Refuses a next stack that is not its stack shifted by one frame.
        """
        wrong = _first_not_shifted(obs, next_obs, skipped)
        if wrong >= 0:
            raise NeedReplayError(
                f"next_obs of environment {wrong} is not obs shifted by one frame, so its frames "
                "cannot be stored once; nothing was stored. At the end of an episode pass the true "
                "last observation (Gymnasium's info['final_obs']), not the first of the next one."
            )
        _store(self.frames, self.back, self.numbers, obs, next_obs, skipped, obs_frame, next_frame)

    def take(self, obs_frame: IntArray, next_frame: IntArray) -> tuple[AnyArray, AnyArray]:
        """The stacks whose newest frames have these numbers, copied."""
        size = len(obs_frame)
        stacks = np.empty((2, size, *self.stack_shape), dtype=self.dtype)
        flat = stacks.view(np.uint8).reshape(2, size, self.stack_shape[0], self._frame_bytes)
        _take_stacks(self.frames, self.back, obs_frame, next_frame, flat[0], flat[1])
        return stacks[0], stacks[1]

    def count_incomplete(self, next_frames: IntArray, oldest_id: int, next_id: int) -> int:
        """How many transitions from the oldest on may have lost a frame."""
        return _count_below(next_frames, oldest_id, next_id, self.limit)

    def check_valid(self) -> None:
        """Raise unless numbers and distances are those of frames."""
        following, newest = int(self.numbers[_NEXT]), self.numbers[1:]
        used = self.back[: min(following, len(self.frames))]
        if not (
            0 <= following < 2**62
            and is_within(newest, -1, following)
            and is_within(used, 0, len(self.frames) + 1)
        ):
            raise NeedReplayError("A frame's number or predecessor is not that of a frame.")

    def filled(self) -> dict[str, int]:
        """How many rows of an array are in use."""
        count = min(int(self.numbers[_NEXT]), len(self.frames))
        return {"frames": count, "back": count}

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint needs, live."""
        return {"frames": self.frames, "back": self.back, "numbers": self.numbers}
