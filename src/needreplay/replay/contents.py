"""What a buffer contains: rows, what is sampled of them, and a sampler in step with both.

Everything that a saved buffer has is here. Calls, locks, schedules and files are the buffer's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import ArrayLike

from needreplay._core.errors import NeedReplayError
from needreplay._core.forks import renew_in_child
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, BoolArray, Columns, FloatArray, IntArray
from needreplay._core.uninterrupted import Uninterrupted
from needreplay.replay import validation
from needreplay.replay._kernels.buffer import Core
from needreplay.replay.batch import Batch
from needreplay.replay.entries import Entries
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.storage import MOST_IDS, NO_ID, Column, Ring, Writer, flatten
from needreplay.replay.validation import FIRST_PRIORITY
from needreplay.replay.watch import Watch

_BATCHES, _DROPPED = 0, 1
"""What is counted: batches, and updates that came too late."""

_OWNER: WeakKeyDictionary[Sampler, ref[Contents]] = WeakKeyDictionary()
"""Where each sampler is."""


class Contents:
    """Rows and a sampler that change together. Whoever calls holds the buffer's lock.

    Args:
        sampler: how batches are sampled.
        info: what ``add`` takes for the sampler, beside the columns of a transition.
        rows: where transitions are.
        writer: turns what ``add`` gets into rows.
        entries: what is sampled instead of single rows, if anything.
        seed: determines everything that is sampled.
    """

    def __init__(
        self,
        sampler: Sampler,
        info: Mapping[str, Column],
        rows: Ring,
        writer: Writer,
        entries: Entries | None,
        seed: int,
    ) -> None:
        self.sampler, self.info = sampler, info
        self.rows, self.writer, self.entries = rows, writer, entries
        self.ring = rows if entries is None else entries.ring
        """What is sampled: the rows, or entries."""
        self.columns_of = (writer if entries is None else entries).columns
        """The columns of a batch, from those of ``ring``."""
        self.rng = stream(seed, "replay", "draws")
        renew_in_child(self.rng.bit_generator.lock)
        # In arrays, because kernels change them too.
        self.counts: IntArray = np.zeros(2, dtype=np.int64)
        self.max_seen: FloatArray = np.full(1, FIRST_PRIORITY)
        self.guards: list[Callable[[int], object]] = []
        """Called with an id before the rows of older ones are overwritten."""
        self.watch = Watch(self.ring, writer, sampler, self.max_seen)
        self._is_nested = writer.is_nested
        self._tells_kernel = writer.tells_kernel and entries is None
        if writer.frame_stack or entries is not None:
            self.method("clear")
        self._claim_sampler()
        self._bind()

    def _claim_sampler(self) -> None:
        """Raise for a sampler that another buffer has: they would share arrays."""
        sampler = self.sampler
        with suppress(TypeError):  # a sampler of the user's own that cannot be a key
            if _OWNER.setdefault(sampler, ref(self))() not in (self, None):
                raise NeedReplayError(
                    f"This {sampler.name} sampler belongs to another buffer already; make one for "
                    "each (copy.deepcopy of a sampler is a new one with its settings)."
                )
            _OWNER[sampler] = ref(self)

    def _bind(self) -> None:
        """Empty the sampler, and bind the kernels to all arrays."""
        self.sampler.allocate(self.ring.capacity)
        kernel = getattr(self.sampler, "compiled", None)
        told = kernel if self._tells_kernel else None
        ring, windows = self.ring, self.writer.windows
        self._info_rows = self.writer.info_rows(self.info)
        self._store = self._core(self.rows, self.rows.columns, windows, self._info_rows, told)
        """Adds rows."""
        self._is_told = told is not None
        """Whether ``_store`` tells the sampler of what it adds."""
        self._takes_plain = not self.writer.frame_stack
        """Whether rows are the values that are passed."""
        self._stores_all = self._is_told and self._takes_plain
        """Whether ``_store`` does all that adding takes."""
        alone: tuple[object, ...] = None, {}, kernel
        own = self._store if self._tells_kernel else self._core(ring, ring.columns, *alone)
        self.core = own
        """Samples and updates."""
        self.chooser = self._core(ring, {}, *alone) if self.entries is None else own
        """Samples without the rows."""

    def _core(self, ring: Ring, columns: Mapping[str, AnyArray], *bound: object) -> Core:
        state = ring.rows, ring.ids, self.counts, self.max_seen
        return Core(columns, *state, *bound, self.watch)

    @property
    def dropped(self) -> int:
        """How many updates were for transitions that had been overwritten."""
        return self.counts.item(_DROPPED)

    @property
    def batches(self) -> int:
        """How many batches were sampled."""
        return self.counts.item(_BATCHES)

    def method(self, name: str) -> Any:
        """The sampler's own ``name``; raises for a sampler without it."""
        method = getattr(self.sampler, name, None)
        if method is None:
            raise NeedReplayError(
                f"The {self.sampler.name} sampler cannot do this: it has no {name}."
            )
        return method

    # Adding --------------------------------------------------------------------------------------

    def add(self, values: Columns, env: int | None) -> range:
        """Store one transition or step, or many; returns the ids stored."""
        place = -1
        if env is not None:
            if self.writer.windows is None:  # a column
                values["env"], env = env, None
            else:
                place = env = self.writer.check_env(env)
        if self._is_nested:
            values = flatten(values)
        if self.guards:
            self.before_writing(self.writer.most_rows(values, env))
        if self._stores_all:
            stored: range | None = self._store.add(values, False, place)
            if stored is not None:
                return stored
        with Uninterrupted():
            return self._add_converted(values, env)

    def _add_converted(self, values: Columns, env: int | None) -> range:
        """``add`` with any sampler and values of any kind; returns the ids stored."""
        first, place = self.ring.next_id, -1 if env is None else env
        if self._is_told and (stored := self._add_framed(values)) is not None:
            return stored
        if self.entries is not None:
            self.entries.reject_info(values, self.sampler)
        given = {name: values.pop(name) for name in self.info if name in values}
        rows, size, step = self.writer.rows_of({**values, **given}, env)
        info = self._checked_info({name: rows.pop(name) for name in given}, size) if given else {}
        if self._takes_plain and not given and (self._stores_all or size == step):
            stored = self._store.add(rows, False, place, True)
            if stored is not None:
                self.follow(len(stored), {})
                return range(first, self.ring.next_id)
        columns = self.writer.converted(rows, size, step)
        many = size if self._stores_all else step
        if self._takes_plain and self.entries is None and self.writer.windows is not None:
            many = step * self.writer.windows.block(step)
        for begin in range(0, size, many):
            some, known = (
                {name: a[begin : begin + many] for name, a in part.items()}
                for part in (columns, info)
            )
            try:
                some = self.writer.with_frames(some, env)
                count = len(self._store.add({**some, **known}, True, place, True))
                self.follow(count, known)
            except NeedReplayError as error:
                if begin == 0:
                    raise
                raise NeedReplayError(
                    f"{error} That is step {begin // step} of this call, from 0 on; those before "
                    "it are stored."
                ) from error
        return range(first, self.ring.next_id)

    def _add_framed(self, values: Columns) -> range | None:
        """``add`` of one plain step of one environment with stacks; None: it is not one."""
        if (framed := self.writer.framed(values)) is None:
            return None
        step, forget = framed
        stored: range | None = self._store.add(step)
        if stored is None:
            forget()
        else:
            self.follow(len(stored), {})
        return stored

    def _checked_info(self, given: Columns, size: int) -> dict[str, AnyArray]:
        """Features or states of ``size`` steps, which the sampler will take."""
        info = {}
        for name, value in given.items():
            column = self.info[name]
            rows = validation.as_step_rows(name, value, size, column.shape, column.dtype)
            self._check_info(name, rows)
            info[name] = rows
        return info

    def _check_info(self, name: str, rows: AnyArray) -> None:
        """Raise unless the sampler will take these states or features."""
        if name == "state":
            validation.check_states(rows, self.method("n_states"))
        else:
            self.method("features").checked(rows)

    def cut(self, env: int | None) -> range:
        """Write the open windows of ``env``, or of all; returns the ids stored."""
        self.before_writing(self.writer.most_rows({}, None))
        first = self.ring.next_id
        self.writer.choose_cut(env)
        self.watch.forget(env)
        self.follow(self._store.cut(), {})
        return range(first, self.ring.next_id)

    def before_writing(self, most: int) -> None:
        """Tell whom it concerns which ids may be overwritten by ``most`` rows."""
        rows = self.rows
        oldest = rows.next_id + most - rows.capacity
        if stack := self.writer.frame_stack:  # each row that leaves makes room for a frame or more
            oldest = max(oldest, rows.oldest_id + most * (stack + 1))
        for guard in tuple(self.guards):
            guard(min(oldest, MOST_IDS))

    # In step -------------------------------------------------------------------------------------

    def follow(self, count: int, info: dict[str, AnyArray]) -> None:
        """Bring entries, and a sampler that was not told, in line with the ``count`` newest rows.

        Args:
            count: how many were written since this was last called.
            info: what was passed for the sampler.
        """
        if self.entries is not None:
            self.rows.ids[0] += self.writer.count_incomplete(self.rows)
            if expired := self.entries.expired():
                self.remove_oldest(expired)
            if (new := self.entries.follow(count, self.rng)) is not None:
                self.enter(*new)
            return
        if count and not self._is_told:
            self._place(count, info if self.writer.windows is None else self._info_rows)
        if incomplete := self.writer.count_incomplete(self.rows):
            self.remove_oldest(incomplete)

    def _place(self, count: int, info: dict[str, AnyArray]) -> None:
        """Tell the sampler about the ``count`` newest transitions, as far as they are stored."""
        ring = self.ring
        slots, previous = self.writer.placed(ring, count)
        rows = {name: held[self.writer.told(count)] for name, held in info.items()}
        if count > ring.capacity:
            slots, previous = slots[-ring.capacity :], previous[-ring.capacity :]
            rows = {name: held[-ring.capacity :] for name, held in rows.items()}
        self.enter(slots, np.where(previous >= ring.oldest_id, previous % ring.capacity, -1))
        for name, held in rows.items():
            if (known := _is_known(held)).any():
                method = self.method("set_state" if name == "state" else "set_features")
                method(slots[known], held[known])

    def enter(
        self, slots: IntArray, previous: IntArray, priorities: FloatArray | None = None
    ) -> None:
        """Tell the sampler what is new.

        Args:
            slots: where it is.
            previous: the slot of the one before each in its episode, or -1.
            priorities: by default the largest so far.
        """
        place = getattr(self.sampler, "place", None)
        if place is not None:
            place(slots, previous)
        if priorities is None:
            priorities = np.full(len(slots), self.max_seen[0])
        self.sampler.set_priorities(slots, priorities)

    def lose_rows(self, oldest: int) -> None:
        """The rows before ``oldest`` are gone, and what had them with them."""
        lost = min(oldest, self.rows.next_id) - self.rows.oldest_id
        if lost <= 0:
            return
        if self.entries is not None:
            self.rows.ids[0] += lost
            lost = self.entries.expired()
        self.remove_oldest(lost)

    def remove_oldest(self, count: int) -> None:
        """The ``count`` oldest transitions can no longer be sampled."""
        ring = self.ring
        slots = np.arange(ring.oldest_id, ring.oldest_id + count) % ring.capacity
        self.method("clear")(slots)
        ring.ids[0] += count

    def clear(self) -> None:
        """Remove every transition. Ids go on; counts and the random state stay."""
        counts, rings = self.counts.copy(), (self.rows, self.ring)
        ends = [-(-ring.next_id // ring.capacity) * ring.capacity for ring in rings]
        self.reset()
        for ring, end in zip(rings, ends, strict=True):
            ring.ids[:] = end
        self.counts[:] = counts
        self.watch.forget()

    def reset(self) -> None:
        """Remove every transition, as if none had been added; the random state stays."""
        self.before_writing(MOST_IDS)
        self.rows.ids[:] = 0
        self.writer.clear()
        if self.entries is not None:
            self.entries.clear()
        self._bind()
        self.counts[:] = 0
        self.max_seen[:] = FIRST_PRIORITY

    # Sampling and updating -----------------------------------------------------------------------

    def nothing_to_sample(self) -> NeedReplayError:
        """The error where ``ring`` is empty."""
        if len(self.rows) == 0 or self.entries is None:
            return NeedReplayError("The buffer is empty; add transitions before you sample.")
        return NeedReplayError(
            f"No {self.entries.name} is complete yet, though {len(self.rows)} transitions are "
            f"stored; {self.entries.advice}"
        )

    def sample(self, core: Core, size: int, need: AnyArray | None, beta: float) -> Batch:
        """A batch by any sampler, after all checks, with the columns that ``core`` has."""
        sampled = self.sampler.sample(size, self.rng, need)
        slots, probabilities, normalized, corrected = sampled
        if corrected is None:
            corrected = probabilities
        ids, weights, columns = core.gather(slots, corrected, beta)
        return Batch(ids, probabilities, weights, columns, normalized)

    def update(self, ids: ArrayLike, priorities: ArrayLike) -> None:
        """Set priorities; what was overwritten is counted."""
        self.watch.is_updated = True
        if self.entries is not None:
            priorities = self.entries.priorities(ids, priorities)
        if self.core.update(ids, priorities):
            return
        ids = validation.as_ids(ids)
        checked = validation.as_priorities(priorities, ids)
        dropped, chosen, slots = self._current(ids)
        stored: FloatArray = checked[chosen] + 0.0  # no negative zero
        with Uninterrupted():
            self.sampler.set_priorities(slots, stored)
            self.counts[_DROPPED] += dropped
            self.max_seen[0] = stored.max(initial=self.max_seen[0])

    def set_info(self, name: str, ids: ArrayLike, rows: AnyArray) -> None:
        """Set the states or features of ``ids``; what was overwritten is counted."""
        set_info = self.method("set_state" if name == "states" else "set_features")
        ids = validation.as_ids(ids)
        if rows.ndim < 1 or len(rows) != len(ids):
            raise NeedReplayError(
                f"{name} has shape {rows.shape} for {len(ids)} ids; pass one per id. "
                "Nothing was changed."
            )
        dropped, chosen, slots = self._current(ids)
        with Uninterrupted():
            set_info(slots, rows if len(chosen) == len(rows) else rows[chosen])
            self.counts[_DROPPED] += dropped

    def _current(self, ids: IntArray) -> tuple[int, IntArray, IntArray]:
        ring = self.ring
        return validation.current_slots(ids, ring.oldest_id, ring.next_id, ring.capacity)

    # What a file has -----------------------------------------------------------------------------

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that is stored, live, by name."""
        parts: dict[str, dict[str, AnyArray]] = {
            "ring": {"rows": self.rows.rows},
            "writer": self.writer.arrays(),
            "entries": {} if self.entries is None else self.entries.arrays(),
            "sampler": self.sampler.arrays(),
        }
        return {f"{part}/{name}": a for part, arrays in parts.items() for name, a in arrays.items()}

    def filled(self) -> dict[str, int]:
        """How many rows of an array are in use, where not all are."""
        used = min(self.rows.next_id, self.rows.capacity)
        by_slot = {"following", "places"} & self.writer.arrays().keys()
        filled = {"ring/rows": used, **{f"writer/{name}": used for name in by_slot}}
        filled |= {f"writer/{name}": n for name, n in self.writer.filled().items()}
        entries = {} if self.entries is None else self.entries.filled()
        return filled | {f"entries/{name}": n for name, n in entries.items()}

    def settings(self) -> dict[str, object]:
        """What must be the same for a file to be loaded."""
        return {
            "capacity": self.rows.capacity,
            **_settings_of(self.sampler),
            **self.writer.settings(),
            **({} if self.entries is None else self.entries.settings()),
        }

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""
        ring, capacity = self.ring, self.ring.capacity
        oldest_id, next_id = ring.ids.tolist()
        fewest = max(0, next_id - capacity)
        if not fewest <= oldest_id <= next_id:
            raise NeedReplayError(f"Ids {oldest_id} to {next_id} do not fit the capacity.")
        self.writer.check_valid(self.rows)
        if self.entries is not None:
            self.entries.check_valid()
        for name, rows in self.writer.pending_info().items():
            self._check_info(name, rows[_is_known(rows)])
        self.sampler.check_valid()
        stored = np.zeros(capacity, dtype=np.bool_)
        stored[np.arange(oldest_id, next_id) % capacity] = True
        occupied = getattr(self.sampler, "occupied", stored)
        if not np.array_equal(occupied, stored):
            raise NeedReplayError("The sampler knows other slots than those in use.")
        has_features = getattr(self.sampler, "n_features", None) is not None
        if has_features and self.method("features").known[~stored].any():
            raise NeedReplayError("A slot that is not in use has features.")
        priorities = getattr(self.sampler, "priorities", None)
        if priorities is not None and priorities.max(initial=0.0) > self.max_seen[0]:
            raise NeedReplayError("A priority is above the largest that was seen.")


def _is_known(rows: AnyArray) -> BoolArray:
    """Which of the states or features that were held were passed to ``add``."""
    known: BoolArray = rows != NO_ID if rows.ndim == 1 else ~np.isnan(rows[:, 0])
    return known


def _settings_of(sampler: Sampler) -> Columns:
    """The name and plain public attributes of a sampler."""
    settings: Columns = {"sampler": sampler.name}
    for name, value in vars(sampler).items():
        plain = value.item() if isinstance(value, np.generic) else value
        if name[0] != "_" and isinstance(plain, bool | int | float | str):
            settings[f"sampler.{name}"] = plain
    return settings
