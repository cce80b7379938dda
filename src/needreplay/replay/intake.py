"""How what a caller adds becomes rows of the store: as it is, or by way of episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

import numpy as np

from needreplay.core.errors import NeedReplayError, unknown
from needreplay.core.types import AnyArray, BoolArray, IntArray
from needreplay.replay.accumulate import NONE, Windows, add_step
from needreplay.replay.frames import FrameStore, store
from needreplay.replay.ring import Bytes, Ring, planned, write_rows
from needreplay.replay.schema import (
    WORD,
    Column,
    ColumnSpec,
    RowLayout,
    columns_of,
    flattened,
    laid_out,
    nested,
)
from needreplay.replay.staging import Staging, shape_of

_MOST_SIZES = 8
_OBS_FRAME = "obs frame"
_NEXT_FRAME = "next obs frame"


class Intake(Protocol):
    """Turns values into rows, and rows into the columns of a batch."""

    layout: RowLayout
    slots: IntArray
    """Where each transition of the last ``write`` is."""
    previous: IntArray
    """The id before each of them in its episode, or -1."""

    def write(self, ring: Ring, values: Mapping[str, Any]) -> int:
        """Write whole transitions from ``ring.next_id`` on; answers how many. All or nothing."""
        ...

    def columns(self, taken: dict[str, AnyArray]) -> dict[str, Any]:
        """The public columns of a batch, from those of the ring."""
        ...

    def stale(self, ring: Ring) -> int:
        """How many of the oldest transitions are no longer whole."""
        ...

    def empty(self) -> None:
        """Forget open windows and frames."""
        ...

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        ...

    def filled(self) -> dict[str, int]:
        """How many rows of an array are in use, where not all are."""
        ...

    def settings(self) -> dict[str, Any]:
        """What a file has to agree on."""
        ...


class PlainIntake:
    """Stores columns as they are given, one transition or any number at a time."""

    def __init__(self, columns: Mapping[str, ColumnSpec]) -> None:
        self.layout = laid_out(
            [c for name, spec in columns.items() for c in columns_of(name, spec)]
        )
        self.slots: IntArray = np.zeros(1, dtype=np.int64)
        self.previous: IntArray = np.full(1, NONE, dtype=np.int64)
        self._nested = any("/" in column.name for column in self.layout.columns)
        self._first = self.layout.columns[0].name
        self._first_ndim = len(self.layout.columns[0].shape)
        self._staged: dict[int, tuple[Bytes, IntArray, Staging, IntArray, IntArray]] = {}

    def write(self, ring: Ring, values: Mapping[str, Any]) -> int:
        """Write one row, or as many as the columns have."""
        if self._nested:
            values = flattened(values)
        first = values.get(self._first)
        shape = first.shape if type(first) is np.ndarray else shape_of(first)
        size = shape[0] if len(shape) > self._first_ndim and shape[0] > 0 else 1
        if size not in self._staged:
            self._make_room(size)
        memory, starts, staging, self.slots, self.previous = self._staged[size]
        staging.fill(values)
        write_rows(ring.rows, ring.next_id, ring.spans, starts, memory, self.slots)
        return size

    def _make_room(self, size: int) -> None:
        """Room for ``size`` transitions at a time, kept for next time."""
        if len(self._staged) >= _MOST_SIZES:
            self._staged.clear()
        plan = planned(self.layout, size)
        memory: Bytes = np.zeros(plan.length, dtype=np.uint8)
        staging = Staging(plan.columns(memory), size)
        slots, previous = np.zeros(size, dtype=np.int64), np.full(size, NONE, dtype=np.int64)
        self._staged[size] = memory, plan.starts, staging, slots, previous

    def columns(self, taken: dict[str, AnyArray]) -> dict[str, Any]:
        """The columns of the ring, nested as they were given."""
        return nested(taken) if self._nested else taken

    def stale(self, ring: Ring) -> int:  # noqa: ARG002 - a plain row is always whole
        """None: a row is whole."""
        return 0

    def empty(self) -> None:
        """Nothing is kept beside the rows."""

    def arrays(self) -> dict[str, AnyArray]:
        """Nothing is kept beside the rows."""
        return {}

    def filled(self) -> dict[str, int]:
        """Nothing is kept beside the rows."""
        return {}

    def settings(self) -> dict[str, Any]:
        """What a file has to agree on."""
        return {"columns": [column.described for column in self.layout.columns]}


Autoreset = Literal["same_step", "next_step"]


@dataclass(frozen=True)
class Episodes:
    """How steps of environments become transitions."""

    n_envs: int = 1
    """Environments that step together: each ``add`` is one step of all of them."""
    n_step: int = 1
    """Steps a return runs over before it bootstraps."""
    discount: float = 0.99
    """γ. A transition's column ``discount`` is γ^n, or 0 where the episode terminated."""
    frame_stack: int = 0
    """Frames in a stack of images (the first axis of ``obs``), each stored once; 0: no stacks."""
    autoreset: Autoreset = "same_step"
    """``next_step``: the ``add`` after an episode's end is Gymnasium's reset step, and is no
    transition. ``same_step``: every ``add`` is one; ``next_obs`` is the episode's true last."""

    def __post_init__(self) -> None:
        if self.n_envs < 1 or self.n_step < 1 or self.frame_stack < 0:
            raise NeedReplayError(
                f"n_envs is {self.n_envs}, n_step {self.n_step}, frame_stack {self.frame_stack}; "
                "the first two have to be 1 or more, frame_stack 0 or more."
            )
        if not 0.0 <= self.discount <= 1.0:
            raise NeedReplayError(f"discount is {self.discount}; it has to be from 0 to 1.")
        if self.autoreset not in ("same_step", "next_step"):
            raise unknown("autoreset mode", self.autoreset, ("same_step", "next_step"))


class EpisodeIntake:
    """Stores n-step transitions.

    ``obs``, ``action`` and more are of a window's first step, ``reward`` is the sum of its rewards,
    and ``next_obs`` and ``discount`` are of its last.
    """

    def __init__(
        self, columns: Mapping[str, ColumnSpec], episodes: Episodes, capacity: int
    ) -> None:
        own = {"reward", "next_obs", "discount", "terminated", "truncated"} & columns.keys()
        if own or "obs" not in columns:
            raise NeedReplayError(
                "With episodes, columns are obs, action and whatever else belongs to a step; "
                "reward, next_obs and discount are made from them"
                + (f" (leave out {', '.join(sorted(own))})." if own else " (obs is missing).")
            )
        self.episodes = episodes
        obs = columns_of("obs", columns["obs"])
        rest = [c for n, spec in columns.items() if n != "obs" for c in columns_of(n, spec)]
        self._frames: FrameStore | None = None
        if episodes.frame_stack:
            self._frames = _frame_store(obs, episodes, capacity)
            number = np.dtype(np.int64)
            at_first = [Column(_OBS_FRAME, number, ()), *rest]
            at_last = [Column(_NEXT_FRAME, number, ())]
        else:
            at_first = [*obs, *rest]
            at_last = [column._replace(name=f"next_{column.name}") for column in obs]
        made = [Column(name, np.dtype(np.float32), ()) for name in ("reward", "discount")]
        self.layout = laid_out(at_first, at_last, made)
        self._nested = any("/" in column.name for column in self.layout.columns)
        self._stage()

    def _stage(self) -> None:
        episodes, layout = self.episodes, self.layout
        n_envs = episodes.n_envs
        self.slots: IntArray = np.zeros(n_envs * episodes.n_step, dtype=np.int64)
        self.previous: IntArray = np.full(n_envs * episodes.n_step, NONE, dtype=np.int64)
        self._windows = Windows(n_envs, episodes.n_step, layout.stride)
        self._plan = planned(layout, n_envs)
        self._memory: Bytes = np.zeros(self._plan.length, dtype=np.uint8)
        self._flags: BoolArray = np.zeros((n_envs, 3), dtype=np.bool_)
        views = self._plan.columns(self._memory)
        del views["discount"]
        if self._frames is not None:
            self._obs_frame = views.pop(_OBS_FRAME)
            self._next_frame = views.pop(_NEXT_FRAME)
        views["reward"] = self._windows.rewards[:, -1]
        views["terminated"], views["truncated"] = self._flags[:, 0], self._flags[:, 1]
        self._staging = Staging(views, n_envs)
        offsets = layout.offsets
        _, last_step, made = layout.groups
        self._places = (last_step // WORD, made // WORD, offsets[-2] // 4, offsets[-1] // 4)

    def write(self, ring: Ring, values: Mapping[str, Any]) -> int:
        """One step of every environment; writes the transitions whose windows it closes."""
        if self._frames is not None:
            values = dict(values)
            self._split_frames(self._frames, values)
        else:
            self._staging.fill(values)
            self._mark_reset_steps()
        windows = self._windows
        return add_step(
            ring.rows,
            ring.next_id,
            ring.spans,
            self._plan.starts,
            self._memory,
            windows.step,
            windows.pending,
            windows.rewards,
            self._flags,
            windows.state,
            self.slots,
            self.previous,
            self._places,
            self.episodes.discount,
        )

    def _mark_reset_steps(self) -> None:
        if self.episodes.autoreset == "next_step":
            self._flags[:, 2] = self._windows.ended

    def _split_frames(self, frames: FrameStore, values: dict[str, Any]) -> None:
        """Check all, then store the frames and stage their numbers."""
        if "obs" not in values or "next_obs" not in values:
            raise NeedReplayError("add takes obs and next_obs; nothing was stored.")
        obs = frames.as_bytes("obs", values.pop("obs"))
        next_obs = frames.as_bytes("next_obs", values.pop("next_obs"))
        self._staging.fill(values)
        self._mark_reset_steps()
        passed_over = self._flags[:, 2]
        frames.check(obs, next_obs, passed_over)
        store(
            frames.frames,
            frames.back,
            frames.numbers,
            obs,
            next_obs,
            passed_over,
            self._obs_frame,
            self._next_frame,
        )

    def columns(self, taken: dict[str, AnyArray]) -> dict[str, Any]:
        """obs, action, ..., reward, next_obs, discount; stacks rebuilt, Dict spaces nested."""
        if self._frames is not None:
            obs, next_obs = taken.pop(_OBS_FRAME), taken.pop(_NEXT_FRAME)
            taken["obs"], taken["next_obs"] = self._frames.take(obs, next_obs)
        return nested(taken) if self._nested else taken

    def stale(self, ring: Ring) -> int:
        """How many of the oldest transitions have lost a frame to newer ones."""
        if self._frames is None or self._frames.limit <= 0:
            return 0
        return self._frames.stale(ring.column(_NEXT_FRAME), ring.oldest_id, ring.next_id)

    def empty(self) -> None:
        """Forget open windows and frames."""
        self._windows.empty()
        if self._frames is not None:
            self._frames.empty()

    def arrays(self) -> dict[str, AnyArray]:
        """Open windows and frames."""
        frames = self._frames.arrays() if self._frames is not None else {}
        return {**self._windows.arrays(), **frames}

    def filled(self) -> dict[str, int]:
        """How many frames there are."""
        return self._frames.filled() if self._frames is not None else {}

    def settings(self) -> dict[str, Any]:
        """What a file has to agree on."""
        columns = [column.described for column in self.layout.columns]
        return {"columns": columns, **asdict(self.episodes)}


def _frame_store(obs: list[Column], episodes: Episodes, capacity: int) -> FrameStore:
    if len(obs) != 1 or len(obs[0].shape) < 1 or obs[0].shape[0] != episodes.frame_stack:
        raise NeedReplayError(
            f"frame_stack is {episodes.frame_stack}, so obs has to be one array whose first axis "
            f"has that length, as Gymnasium's FrameStackObservation makes it; it is "
            f"{', '.join(f'{c.name} {c.shape}' for c in obs)}."
        )
    return FrameStore(
        capacity,
        obs[0].shape,
        obs[0].dtype,
        n_envs=episodes.n_envs,
        n_step=episodes.n_step,
    )
