"""Sequences of an environment's steps, for recurrent learners: R2D2, Kapturowski et al. (2019)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from needreplay._core.checks import AT_LEAST_ONE, COUNT, SHARE, check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, BoolArray, Columns, FloatArray, IntArray
from needreplay.replay import validation
from needreplay.replay._kernels.columns import Table
from needreplay.replay._kernels.sequences import Cutter, slots_of
from needreplay.replay._kernels.steps import follow
from needreplay.replay.entries import BEFORE, FIRST, Entries
from needreplay.replay.episodes import EpisodeWriter
from needreplay.replay.storage import NO_ID, Column, Ring, nest
from needreplay.replay.validation import MIN_PRIORITY, is_within

_NUMBER = np.dtype(np.int64)
_ENTRY = (FIRST, "rows", "begin", BEFORE)
"""First row, number of rows, the first of these that is trained, the sequence before."""
_PLACE, _HELD, _NEWEST, _ROW = range(4)
_EPISODE_STEP = 1


@dataclass(frozen=True)
class Sequences:
    """What a batch is made of, instead of single transitions.

    A batch has columns of shape (size, length, ...), and ``mask``: which rows are to be trained.
    These are the rows after the burn-in; of a sequence that begins an episode, whose recurrent
    state is known, all. A sequence that the end of its episode cuts short is filled up with zeros.
    """

    length: int
    """Rows of a sequence, burn-in included."""
    burn_in: int = 0
    """Rows before the trained ones, that only warm the recurrent state up."""
    stride: int | None = None
    """A sequence begins at so many rows after the one before; by default length - burn_in, and each
    row of an episode is then trained by one sequence."""
    eta: float = 0.9
    """The priority of a sequence is eta max + (1 - eta) mean of the priorities of its trained
    rows."""
    state: str | tuple[str, ...] = ()
    """Columns of which a batch has the first row of each sequence alone: the recurrent state."""
    across_episodes: bool = False
    """Continue where an episode ends. A batch then has ``begins``: which rows begin an episode."""

    def __post_init__(self) -> None:
        length = check_number("length", self.length, int, AT_LEAST_ONE)
        burn_in = check_number("burn_in", self.burn_in, int, COUNT)
        if burn_in >= length:
            raise NeedReplayError(
                f"burn_in is {burn_in} and length {length}; a sequence needs rows after its "
                "burn-in, so make length larger."
            )
        stride = length - burn_in if self.stride is None else self.stride
        names = (self.state,) if isinstance(self.state, str) else tuple(self.state)
        plain = {
            "length": length,
            "burn_in": burn_in,
            "stride": check_number("stride", stride, int, (1, length)),
            "eta": check_number("eta", self.eta, float, SHARE),
            "state": names,
            "across_episodes": validation.flag("across_episodes", self.across_episodes),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)


class SequenceEntries(Entries):
    """Sequences whose rows are all stored; a sequence is added when its last row is."""

    name = "sequence"
    advice = "one is when it has all its rows, or its episode has ended."

    def __init__(self, sequences: Sequences, rows: Ring, writer: EpisodeWriter) -> None:
        super().__init__(rows.capacity, [Column(n, _NUMBER, ()) for n in _ENTRY], rows, writer)
        self.sequences, (n_envs, length) = sequences, (writer.episodes.n_envs, sequences.length)
        assert sequences.stride is not None
        if rows.capacity < length:
            raise NeedReplayError(
                f"capacity is {rows.capacity}, below the length {length} of a sequence; make the "
                "buffer larger."
            )
        most = -(-length // sequences.stride)
        self._tracks: IntArray = np.zeros((n_envs, 4), dtype=np.int64)
        self._open: IntArray = np.zeros((n_envs, most, 2), dtype=np.int64)
        episodes: dict[str, AnyArray] = writer.windows.arrays
        self._places, self._after = episodes["places"], episodes["following"]
        if sequences.across_episodes:
            self._after = np.full(rows.capacity, NO_ID, dtype=np.int64)
        self._kernel = Cutter(
            self.ring.rows.view(np.int64),
            self.ring.ids,
            self._tracks,
            self._open,
            episodes,
            self._after,
            (length, sequences.burn_in, sequences.stride),
            sequences.across_episodes,
        )
        stored, added = rows.columns, {"mask", "begins"}
        of_state = {
            name: [n for n in stored if n == name or n.startswith(f"{name}/")]
            for name in sequences.state
        }
        for name, found in of_state.items():
            if not found or name in ("obs", "next_obs", "reward", "discount"):
                raise NeedReplayError(
                    f"state is {name!r}, which is no column of the recurrent state; declare one "
                    "with extra_columns, and pass it to add with each step."
                )
        if clash := added & {name.split("/")[0] for name in stored}:
            raise NeedReplayError(
                f"columns has {min(clash)!r}, but a batch of sequences has a column of that name; "
                "give yours another."
            )
        states = {name for found in of_state.values() for name in found}
        self._states = Table({n: a for n, a in stored.items() if n in states})
        self._steps = Table({n: a for n, a in stored.items() if n not in states})
        self.clear()

    def _follow(self, count: int, rng: np.random.Generator) -> None:  # noqa: ARG002
        self._kernel.follow(self.rows.next_id, count, self.rows.oldest_id)

    def _mask(self, entries: Mapping[str, AnyArray]) -> BoolArray:
        """Which rows of sequences are trained."""
        t = np.arange(self.sequences.length)
        mask: BoolArray = (t >= entries["begin"][:, None]) & (t < entries["rows"][:, None])
        return mask

    def columns(self, entries: dict[str, AnyArray]) -> Columns:
        """Every column by sequence and row, the states of first rows, and which rows to train."""
        first, rows, length = entries[FIRST], entries["rows"], self.sequences.length
        slots = slots_of(self._after, first, rows, length)
        beyond = (
            np.flatnonzero(np.arange(length) >= rows[:, None])
            if rows.min(initial=length) < length
            else None
        )
        gathered = self.writer.columns(self._steps.rows_at(slots))
        shape = len(first), length

        def by_sequence(array: AnyArray) -> AnyArray:
            if beyond is not None:
                array[beyond] = 0
            return array.reshape(*shape, *array.shape[1:])

        columns = _each(gathered, by_sequence)
        columns |= nest(self._states.rows_at(slots[::length].copy()))
        if self.sequences.across_episodes:
            begins = self._places[slots, _EPISODE_STEP] == 0
            columns["begins"] = by_sequence(begins)
        return {**columns, "mask": self._mask(entries)}

    def priorities(self, ids: ArrayLike, priorities: ArrayLike) -> ArrayLike:
        """eta max + (1 - eta) mean of the trained rows, or ``priorities`` if these are one each."""
        if np.ndim(priorities) != 2:
            return priorities
        length, ids = self.sequences.length, validation.as_ids(ids)
        each = validation.as_floats("priorities", priorities, "pass real numbers.")
        if each.shape != (len(ids), length):
            raise NeedReplayError(
                f"priorities has shape {each.shape}; pass one for each of {len(ids)} ids, or one "
                f"for each of their rows, {(len(ids), length)}. Nothing was changed."
            )
        ring = self.ring
        stored = (ids >= ring.oldest_id) & (ids < ring.next_id)
        slots = np.where(stored, ids, 0) % ring.capacity
        mask = self._mask({name: ring.columns[name][slots] for name in ("begin", "rows")})
        mask[~stored] = False  # what is overwritten, or never was, is not set
        trained = np.where(mask, each, 0.0)
        wrong = np.argwhere(~((trained >= 0.0) & (trained <= validation.MAX_PRIORITY)))
        if len(wrong):
            i, t = wrong[0].tolist()
            raise NeedReplayError(
                f"priorities[{i}, {t}] is {each[i, t]}; pass absolute TD errors, from 0 to "
                f"{validation.MAX_PRIORITY:g}. Nothing was changed."
            )
        eta = self.sequences.eta
        mean = trained.sum(1) / mask.sum(1).clip(1)
        mixed: FloatArray = eta * trained.max(1) + (1.0 - eta) * mean
        return np.where(mixed < MIN_PRIORITY, 0.0, mixed)

    def clear(self) -> None:
        """Forget all sequences."""
        super().clear()
        self._tracks[:] = NO_ID
        self._tracks[:, _HELD] = 0

    def check_valid(self) -> None:
        """Raise unless all rows of all sequences are stored, and open ones can be continued."""
        super().check_valid()
        settings, end = self.sequences, self.rows.next_id
        place, held, newest, last = self._tracks.T
        most = self._open.shape[1]
        used = np.arange(most) < held[:, None]
        first, begun = self._open[..., 0], self._open[..., 1]
        if not (
            is_within(held, 0, most + 1)
            and is_within(place, NO_ID, 2**62)
            and is_within(newest, NO_ID, self.ring.next_id)
            and is_within(last, NO_ID, end)
            and is_within(first[used], 0, end)
            and np.all((begun[used] >= 0) & (begun <= place[:, None])[used])
            and np.all((place[:, None] - begun < settings.length - 1)[used])
        ):
            raise NeedReplayError("An open sequence is not one of its environment.")
        if not is_within(self._after[: min(end, self.rows.capacity)], NO_ID, end):
            raise NeedReplayError("A row is followed by one that was never stored.")
        slots = np.arange(*self.ring.ids) % self.ring.capacity
        starts, rows, begin, before = (self.ring.columns[n][slots] for n in _ENTRY)
        if not (
            is_within(rows, 1, settings.length + 1)
            and np.all((begin == 0) | (begin == settings.burn_in))
            and np.all(begin < rows)
            and is_within(before, NO_ID, self.ring.next_id)
        ):
            raise NeedReplayError("A sequence has no rows, or too many.")
        if np.any(follow(self._after, starts.copy(), rows - 1) == NO_ID):
            raise NeedReplayError("A sequence has rows that do not follow each other.")

    def settings(self) -> dict[str, object]:
        """What a file must agree on."""
        settings = {f"sequences.{name}": value for name, value in asdict(self.sequences).items()}
        return {**settings, "sequences.state": list(self.sequences.state)}

    def arrays(self) -> dict[str, AnyArray]:
        """Sequences, and those that are open."""
        own = {"tracks": self._tracks, "open": self._open}
        if self.sequences.across_episodes:
            own["after"] = self._after
        return super().arrays() | own


def _each(columns: Columns, change: Callable[[AnyArray], AnyArray]) -> Columns:
    return {
        name: _each(column, change) if isinstance(column, dict) else change(column)
        for name, column in columns.items()
    }
