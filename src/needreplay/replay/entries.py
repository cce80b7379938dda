"""What a sampler chooses from where it is not single rows: entries that point to rows.

The rows of a buffer are stored once, whatever is made of them. An entry has a number (the id that
``add`` returns and a batch has), a priority, and where its rows are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, Columns, IntArray
from needreplay.replay._kernels.sequences import count_expired, settle
from needreplay.replay.episodes import EpisodeWriter
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.storage import NO_ID, Column, Ring, lay_out

FIRST, BEFORE = "first", "before"
"""What every entry has: its first row, and the entry before it in its episode or -1."""


class Entries(ABC):
    """A ring of entries beside the ring of rows.

    An entry leaves when a row that it needs is overwritten, and a sampler's entries leave in the
    order in which they came: where one came late, those before it leave with it.

    Args:
        capacity: the most entries there can be.
        columns: what an entry is.
        rows: the ring of rows.
        writer: writes the rows.
    """

    name: str
    """What an entry is called, in messages."""
    advice: str
    """What to do where none is complete."""

    def __init__(
        self, capacity: int, columns: list[Column], rows: Ring, writer: EpisodeWriter
    ) -> None:
        self.ring = Ring(capacity, lay_out(columns))
        self.rows, self.writer = rows, writer
        self._expires: IntArray = np.zeros(capacity, dtype=np.int64)

    def expired(self) -> int:
        """How many of the oldest entries have lost a row since this was last asked."""
        ids = self.ring.ids.tolist()
        return int(count_expired(self._expires, *ids, self.rows.oldest_id))

    def follow(self, count: int, rng: np.random.Generator) -> tuple[IntArray, IntArray] | None:
        """Make entries of the ``count`` rows stored last, as far as they are complete.

        Returns the slots of the new entries, and of each the slot of the one before it, or -1.
        """
        ring, first = self.ring, self.ring.next_id
        self._follow(count, rng)
        if ring.next_id == first:
            return None
        slots = np.arange(first, ring.next_id) % ring.capacity
        self._expires[slots] = self.needed(slots)
        settle(self._expires, ring.oldest_id, first, ring.next_id)
        before = ring.columns[BEFORE][slots]
        return slots, np.where(before >= ring.oldest_id, before % ring.capacity, NO_ID)

    def needed(self, slots: IntArray) -> IntArray:
        """The oldest row that the entries in ``slots`` need."""
        rows: IntArray = self.ring.columns[FIRST][slots]
        return rows

    @abstractmethod
    def _follow(self, count: int, rng: np.random.Generator) -> None:
        """Add entries to the ring, with the number of the one before each, or -1."""

    @abstractmethod
    def columns(self, entries: dict[str, AnyArray]) -> Columns:
        """The public columns of entries, from those of their ring."""

    def priorities(self, ids: ArrayLike, priorities: ArrayLike) -> ArrayLike:  # noqa: ARG002 - one for each
        """One priority for each of the entries ``ids``."""
        return priorities

    def reject_info(self, values: Mapping[str, object], sampler: Sampler) -> None:
        """Raise if ``add`` got features or a state: entries are described, and rows are not."""
        described = ("features", "n_features", "set_features"), ("state", "n_states", "set_states")
        for name, taken, method in described:
            if name in values and name not in self.rows.columns and hasattr(sampler, taken):
                raise NeedReplayError(
                    f"add takes no {name} here, since what is sampled is a {self.name}; call "
                    f"{method} with the ids that add returns. Nothing was stored."
                )

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """What a file must agree on."""

    def clear(self) -> None:
        """Forget all entries."""
        self.rows.ids[:] = self.ring.ids[:] = 0

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""
        oldest, end = self.rows.ids.tolist()
        if not max(0, end - self.rows.capacity) <= oldest <= end:
            raise NeedReplayError(f"Rows {oldest} to {end} do not fit the capacity.")
        slots = np.arange(*self.ring.ids) % self.ring.capacity
        first, expires = self.needed(slots), self._expires[slots]
        least = np.minimum.accumulate(first[::-1])[::-1]
        if not np.array_equal(expires, least) or np.any((expires < oldest) | (first >= end)):
            raise NeedReplayError(f"A {self.name} has a row that is not stored.")

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint needs, live."""
        return {"entries": self.ring.rows, "row ids": self.rows.ids, "expires": self._expires}

    def filled(self) -> dict[str, int]:
        """How many rows of an array are in use."""
        used = min(self.ring.next_id, self.ring.capacity)
        return {"entries": used, "expires": used}
