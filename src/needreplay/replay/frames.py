"""Image frames, each stored once: a stack is rebuilt from its newest frame when it is sampled.

Each frame has the distance to its predecessor. A stack that does not continue the one before it (a
new episode, whatever its padding) starts a new chain, so a rebuilt stack is exactly what was passed
to ``add``, and no stack crosses the border of an episode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, BoolArray, IntArray
from needreplay.replay._kernels.blocks import stack
from needreplay.replay._kernels.frames import Frames
from needreplay.replay.storage import Bytes, Column, Memory, Placed, aligned_rows, check_memory
from needreplay.replay.validation import is_within

if TYPE_CHECKING:
    from needreplay.replay.episodes import Episodes

_EPISODE_LENGTH = 200
"""The store has one extra frame (the last of an episode) for each so many transitions."""

_NEXT = 0


class FrameStore:
    """A ring of the frames of the stacks in column ``obs`` (first axis: oldest to newest).

    It has space for ``capacity`` transitions if episodes have 200 steps or more on average. With
    shorter episodes fewer fit: a transition whose next frame is numbered below ``limit`` may have
    lost frames.
    """

    def __init__(
        self, obs: list[Column], episodes: Episodes, capacity: int, memory: Memory | None = None
    ) -> None:
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
        frame = Column("a frame", self.dtype, self.stack_shape[1:])
        if memory is None:
            check_memory("capacity", capacity, [frame], "Images take least as uint8.")
        self.frames = (memory or aligned_rows)(capacity + spare, self._frame_bytes)
        self.back = np.zeros(len(self.frames), dtype=np.int32)
        self.numbers = np.empty(1 + n_envs, dtype=np.int64)
        self._newest: IntArray = np.zeros((2, n_envs), dtype=np.int64)
        self._kernel = Frames(self.frames, self.back, self.numbers)
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

    def as_bytes(self, name: str, stacks: AnyArray, size: int) -> Bytes:
        """(size, stack, bytes of a frame) of what was passed as ``name``."""
        array = np.asarray(stacks)
        if array.shape != (size, *self.stack_shape) and (
            size > 1 or array.shape != self.stack_shape
        ):
            raise NeedReplayError(
                f"{name} has shape {array.shape}, but stacks of {self.stack_shape} are stored, "
                f"{size} here; nothing was stored."
            )
        if not np.can_cast(array.dtype, self.dtype, casting="same_kind"):
            raise NeedReplayError(
                f"{name} is {array.dtype}, but frames are {self.dtype}; nothing was stored."
            )
        contiguous = np.ascontiguousarray(array, dtype=self.dtype).view(np.uint8)
        return contiguous.reshape(size, self.stack_shape[0], self._frame_bytes)

    def store(
        self,
        obs: Bytes,
        next_obs: Bytes,
        skipped: BoolArray,
        obs_frame: IntArray,
        next_frame: IntArray,
    ) -> None:
        """Store what is new in the stacks of one step; writes the last two.

        Raises for a next stack that is not its stack shifted by one frame.
        """
        wrong = self._kernel.first_not_shifted(obs, next_obs, skipped)
        if wrong >= 0:
            raise NeedReplayError(
                f"next_obs of environment {wrong} is not obs shifted by one frame, so its frames "
                "cannot be stored once; nothing was stored. At the end of an episode pass the true "
                "last observation (Gymnasium's info['final_obs']), not the first of the next one."
            )
        self._kernel.store(obs, next_obs, skipped, obs_frame, next_frame)

    def store_plain(self, obs: Any, next_obs: Any) -> tuple[int, int, list[int]] | None:
        """Store the stacks of one environment's step, if they are arrays as they are stored.

        Returns the numbers of their newest frames, and what ``forget`` takes.
        """
        for given in (obs, next_obs):
            plain = type(given) is np.ndarray and given.dtype == self.dtype
            if not plain or given.shape != self.stack_shape or not given.flags.c_contiguous:
                return None
        before, shape = self.numbers.tolist(), (1, len(obs), self._frame_bytes)
        stack, following = (given.view(np.uint8).reshape(shape) for given in (obs, next_obs))
        newest, following_newest = self._newest
        self.store(stack, following, np.zeros(1, dtype=np.bool_), newest, following_newest)
        return newest.item(), following_newest.item(), before

    def forget(self, numbers: list[int]) -> None:
        """Forget what was stored since there were ``numbers``."""
        self.numbers[:] = numbers

    def take(self, obs_frame: IntArray, next_frame: IntArray) -> tuple[AnyArray, AnyArray]:
        """The stacks whose newest frames have these numbers, copied.

        Where each next stack is its stack shifted by one frame, which it is without n-step returns,
        both are views of one window of frames: one frame more than a stack.
        """
        length = self.stack_shape[0]
        if self._kernel.follow_each_other(obs_frame, next_frame):
            window = self._taken(next_frame, length + 1)
            return window[:, :-1], window[:, 1:]
        return self._taken(obs_frame, length), self._taken(next_frame, length)

    def cut_out(self, newest: IntArray) -> tuple[Bytes, IntArray]:
        """The frames of the stacks that end with ``newest``, each once, and where they are."""
        numbers = np.empty((*newest.shape, self.stack_shape[0]), dtype=np.int64)
        at = newest
        for k in range(self.stack_shape[0] - 1, -1, -1):
            numbers[..., k] = at
            at = at - self.back[at % len(self.back)]
        wanted, places = np.unique(numbers, return_inverse=True)
        return self.frames[wanted % len(self.frames)], places.reshape(numbers.shape)

    def put_together(self, placed: Placed) -> tuple[AnyArray, AnyArray]:
        """The stacks that ``cut_out`` took apart, and their next ones: see ``take``."""
        length, count = self.stack_shape[0], sum(len(at) for at, _ in placed)
        several, at = [tuple(parts) for _, parts in placed], [at for at, _ in placed]

        def stacks(*columns: int) -> AnyArray:
            out = np.empty((count, len(columns), self._frame_bytes), dtype=np.uint8)
            stack(several, at, np.array(columns), out)
            return out.view(self.dtype).reshape(count, len(columns), *self.stack_shape[1:])

        old, new = range(length), range(length, 2 * length)
        if all(_is_shifted(parts.places, length) for _, parts in placed):
            window = stacks(0, *new)
            return window[:, :-1], window[:, 1:]
        return stacks(*old), stacks(*new)

    def _taken(self, newest: IntArray, length: int) -> AnyArray:
        """The ``length`` frames that end with each of ``newest``."""
        shape = len(newest), length, *self.stack_shape[1:]
        stacks = np.empty(shape, dtype=self.dtype)
        self._kernel.take(
            newest, stacks.view(np.uint8).reshape(len(newest), length, self._frame_bytes)
        )
        return stacks

    def count_incomplete(self, next_frames: IntArray, oldest_id: int, next_id: int) -> int:
        """How many transitions from the oldest on may have lost a frame."""
        lost = 0
        while oldest_id + lost < next_id and (
            next_frames[(oldest_id + lost) % len(next_frames)] < self.limit
        ):
            lost += 1
        return lost

    def take_newest(self, other: FrameStore) -> None:
        """The newest frames of ``other``, with their numbers, as many as there is space for."""
        end = int(other.numbers[_NEXT])
        numbers = np.arange(end - min(end, len(self.frames), len(other.frames)), end)
        here, there = numbers % len(self.frames), numbers % len(other.frames)
        self.frames[here], self.back[here] = other.frames[there], other.back[there]
        self.numbers[:] = other.numbers

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


def _is_shifted(places: IntArray | None, length: int) -> bool:
    """Whether each next stack has the frames of its stack, shifted by one."""
    assert places is not None
    return np.array_equal(places[:, 1:length], places[:, length:-1])
