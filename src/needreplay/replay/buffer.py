"""The replay buffer: stored transitions and a sampler, numpy in and numpy out.

``add`` stores, ``sample`` returns a batch, ``update_priorities`` sets what was learned from it. One
lock makes each call atomic, so an actor and a learner thread can share a buffer.
"""

from __future__ import annotations

import copy
import inspect
import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import ArrayLike

from needreplay._core.checks import COUNT, check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.forks import fork_safe_lock
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, BoolArray, Device, FloatArray, IntArray
from needreplay._core.uninterrupted import Uninterrupted
from needreplay.replay import validation
from needreplay.replay._kernels.buffer import Core
from needreplay.replay.batch import Batch, LinearBeta
from needreplay.replay.episodes import Autoreset, Episodes, EpisodeWriter, facts_of
from needreplay.replay.folder import Closed, Folder
from needreplay.replay.hindsight import Hindsight
from needreplay.replay.options import entries_of, unknown_option
from needreplay.replay.prefetch import Prefetch, called, choose
from needreplay.replay.reading import each_of, one_of, places_of
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.samplers.proportional import ProportionalSampler
from needreplay.replay.save import Source, load_buffer, opened, sampler_settings, save_buffer
from needreplay.replay.sequences import Sequences
from needreplay.replay.storage import (
    NO_ID,
    Column,
    ColumnSpec,
    Memory,
    Ring,
    Writer,
    columns_of,
    flatten,
    plain_columns,
)
from needreplay.replay.transfer import load_rows
from needreplay.replay.validation import FIRST_PRIORITY
from needreplay.replay.watch import Watch

_MAX_SIZE = 2**31 - 1
_MOST_ROWS = 2**62
_BATCHES, _DROPPED = 0, 1
"""What is counted: batches, and updates that came too late."""

_OWNER: WeakKeyDictionary[Any, ref[ReplayBuffer]] = WeakKeyDictionary()
"""The buffer of each sampler."""


class ReplayBuffer:
    """A buffer of the last ``capacity`` transitions.

    Args:
        capacity: how many transitions are stored.
        columns: a dtype, a pair (dtype, shape) or a Gymnasium space for each name.
        sampler: how batches are sampled; by default in proportion to priorities.
        episodes: how steps become transitions (n-step returns, several environments, frame
            stacks). Without it, ``add`` stores columns as they are passed.
        sequences: sample sequences of an environment's steps, for recurrent learners, instead of
            transitions. Ids, priorities and ``len`` are then those of sequences.
        hindsight: sample transitions also with goals that were reached later, for environments with
            goals. Ids, priorities and ``len`` are then those of the relabeled ones, too.
        beta: the exponent of importance weights, or its schedule.
        seed: determines everything that is sampled.
        folder: where rows are on disk, so that they may be larger than memory. If a buffer is there
            already, this one has what it had at its last ``flush``.
    """

    _tells_kernel = True
    """Whether ``add`` tells the sampler's kernel of rows; otherwise Python tells the sampler."""

    def __init__(
        self,
        capacity: int,
        columns: Mapping[str, ColumnSpec],
        *,
        sampler: Sampler | None = None,
        episodes: Episodes | None = None,
        sequences: Sequences | None = None,
        hindsight: Hindsight | None = None,
        beta: float | LinearBeta = 0.4,
        seed: int = 0,
        folder: str | os.PathLike[str] | None = None,
        **unknown_options: Any,
    ) -> None:
        if unknown_options:
            known = [*inspect.signature(ReplayBuffer).parameters][:-1]
            raise unknown_option(next(iter(unknown_options)), known)
        if sampler is not None and (isinstance(sampler, type) or not hasattr(sampler, "allocate")):
            raise NeedReplayError(
                f"sampler is {sampler!r}; pass an object, such as ProportionalSampler(alpha=0.6) "
                "(prioritized replay), UniformSampler() or FeatureNeedSampler(n_features=64)."
            )
        self._sampler: Sampler = ProportionalSampler() if sampler is None else sampler
        self._folder = None if folder is None else Folder(folder)
        try:
            self._make(capacity, columns, episodes, sequences, hindsight, beta, seed)
        except BaseException:
            if self._folder is not None:
                self._folder.release()
            raise

    def _make(
        self,
        capacity: int,
        columns: Mapping[str, ColumnSpec],
        episodes: Episodes | None,
        sequences: Sequences | None,
        hindsight: Hindsight | None,
        beta: float | LinearBeta,
        seed: int,
    ) -> None:
        memory = None if self._folder is None else self._folder.rows
        self._stack = 0 if episodes is None else episodes.frame_stack
        self._is_lap = getattr(self._sampler, "priority_floor", 0.0) > 0.0
        self._has_frames = self._stack > 0
        of_rows = sequences is None and hindsight is None
        self._info = _info_columns(self._sampler, columns) if of_rows else {}
        self._writer = self._writer_of(columns, episodes, capacity, memory)
        self._rows = Ring(capacity, self._writer.layout, None if self._has_frames else memory)
        self._entries = entries_of(sequences, hindsight, self._rows, self._writer)
        self._ring = self._rows if self._entries is None else self._entries.ring
        self._columns_of = (self._writer if self._entries is None else self._entries).columns
        self._beta = beta if isinstance(beta, LinearBeta) else validation.check_beta(beta)
        self._rng = stream(seed, "replay", "draws")
        self._lock = fork_safe_lock()
        # In arrays, because kernels change them too.
        self._counts: IntArray = np.zeros(2, dtype=np.int64)
        self._max_seen: FloatArray = np.full(1, FIRST_PRIORITY)
        self._options = {
            "capacity": self._rows.capacity,
            "columns": plain_columns(columns),
            "sampler": self._sampler,
            "episodes": episodes,
            "sequences": sequences,
            "hindsight": hindsight,
            "beta": self._beta,
        }
        if self._has_frames or self._entries is not None or self._folder is not None:
            self._sampler_method("clear")
        self._guards: list[Callable[[int], object]] = []
        """Called with an id before the rows of older ones are overwritten."""
        self._claim_sampler()
        self._watch = Watch(self._ring, self._writer, self._sampler, self._max_seen)
        self._allocate()
        if self._folder is not None:
            self._folder.load(self)

    def _writer_of(
        self,
        columns: Mapping[str, ColumnSpec],
        episodes: Episodes | None,
        capacity: int,
        memory: Memory | None,
    ) -> Writer:
        """What turns the values of ``add`` into rows."""
        if episodes is None:
            return Writer([c for name, spec in columns.items() for c in columns_of(name, spec)])
        return EpisodeWriter(columns, episodes, capacity, self._info, memory)

    def _claim_sampler(self) -> None:
        """Raise for a sampler that another buffer has: they would share arrays."""
        sampler = self._sampler
        with suppress(TypeError):  # a sampler of the user's own that cannot be a key
            if _OWNER.setdefault(sampler, ref(self))() not in (self, None):
                raise NeedReplayError(
                    f"This {sampler.name} sampler belongs to another buffer already; make one for "
                    "each (copy.deepcopy of a sampler is a new one with its settings)."
                )
            _OWNER[sampler] = ref(self)

    def _allocate(self) -> None:
        """Empty the sampler, and bind the kernels to all arrays."""
        self._sampler.allocate(self._ring.capacity)
        rows, ring, of_entries = self._rows, self._ring, self._entries is not None
        windows, state = self._writer.windows, (self._counts, self._max_seen)
        self._info_rows = self._writer.info_rows(self._info)
        kernel = getattr(self._sampler, "compiled", None)
        apart = of_entries or not self._tells_kernel
        self._kernel = None if apart else kernel
        """What ``add`` tells the sampler through."""
        self._takes_plain = not self._has_frames
        self._whole = self._takes_plain and self._kernel is not None
        info, bound, watch = self._info_rows, (rows.rows, rows.ids, *state), self._watch
        self._store = Core(rows.columns, *bound, windows, info, self._kernel, watch)
        """Adds rows."""
        self._core = self._store
        """Samples and updates."""
        if apart:
            of_ring = ring.columns, ring.rows, ring.ids
            self._core = Core(*of_ring, *state, None, {}, kernel, watch)
        self._chooser = self._core if of_entries else Core({}, *bound, None, {}, kernel, watch)
        """Samples without the rows."""

    @classmethod
    def for_spaces(
        cls,
        observation_space: ColumnSpec,
        action_space: ColumnSpec,
        *,
        capacity: int,
        n_envs: int = 1,
        n_step: int = 1,
        discount: float = 0.99,
        frame_stack: int = 0,
        autoreset: Autoreset | None = None,
        time_limit: int | None = None,
        extra_columns: Mapping[str, ColumnSpec] | None = None,
        **options: Any,
    ) -> Self:
        """A buffer for an environment with these (single) spaces.

        Args:
            observation_space: Box, Discrete, MultiDiscrete, MultiBinary or Dict; of one
                environment.
            action_space: the same.
            capacity: how many transitions are stored.
            n_envs: environments that step together; see ``Episodes`` for this and what follows.
            n_step: number of rewards that a return sums before it bootstraps.
            discount: γ.
            frame_stack: frames in a stack of images, each stored once; 0: no stacks.
            autoreset: whether the step after the end of an episode is a reset step
                (``"next_step"``, the default of ``gymnasium.make_vec``) or not (``"same_step"``);
                with one environment ``"same_step"``.
            time_limit: steps after which the environment ends an episode. A longer one is a
                mistake that is noticed: flags were not passed.
            extra_columns: further columns that belong to a step.
            **options: ``sampler``, ``sequences``, ``hindsight``, ``beta``, ``seed`` and ``folder``
                of ``ReplayBuffer``.
        """
        columns = {"obs": observation_space, "action": action_space, **(extra_columns or {})}
        episodes = Episodes(
            n_envs=n_envs,
            n_step=n_step,
            discount=discount,
            frame_stack=frame_stack,
            autoreset=autoreset,
        )
        buffer = cls(capacity, columns, episodes=episodes, **options)
        buffer._watch.time_limit = time_limit
        return buffer

    @classmethod
    def for_env(cls, env: Any, *, capacity: int, **options: Any) -> Self:
        """A buffer for ``env``: reads its spaces, ``num_envs`` and when it resets.

        Args:
            env: an environment, or a vector of them (``gymnasium.make_vec``).
            capacity: how many transitions are stored.
            **options: see ``for_spaces``.
        """
        if isinstance(hindsight := options.get("hindsight"), Hindsight):
            options["hindsight"] = hindsight.of(env)
        return cls.for_spaces(capacity=capacity, **{**facts_of(env), **options})

    def __len__(self) -> int:
        return len(self._ring)

    def __repr__(self) -> str:
        made = "" if self._entries is None else f"{len(self)} {self._entries.name}s, "
        return (
            f"<ReplayBuffer: {len(self._rows)} of {self.capacity} transitions, {made}"
            f"{self._sampler!r}, {self.nbytes:,} bytes>"
        )

    @property
    def capacity(self) -> int:
        """How many transitions can be stored."""
        return self._rows.capacity

    @property
    def unit(self) -> str:
        """What is sampled: "transition", "sequence" or "hindsight transition"."""
        return "transition" if self._entries is None else self._entries.name

    @property
    def folder(self) -> Path | None:
        """Where rows are on disk; None: they are in memory."""
        return None if self._folder is None else self._folder.path

    @property
    def sampler(self) -> Sampler:
        """How batches are sampled."""
        return self._sampler

    @property
    def next_id(self) -> int:
        """The id of the next transition: how many were ever stored."""
        return self._ring.next_id

    @property
    def oldest_id(self) -> int:
        """The id of the oldest transition in the buffer."""
        return self._ring.oldest_id

    @property
    def dropped(self) -> int:
        """How many updates were for transitions that had been overwritten."""
        return self._counts.item(_DROPPED)

    @property
    def batches(self) -> int:
        """How many batches were sampled."""
        return self._counts.item(_BATCHES)

    @property
    def nbytes(self) -> int:
        """Bytes of everything that is stored."""
        derived: int = getattr(self._sampler, "derived_nbytes", 0)
        return derived + sum(array.nbytes for array in self.arrays().values())

    # Adding --------------------------------------------------------------------------------------

    def add(self, *, env: Any = None, **values: Any) -> range:
        """Store one transition, or one step of all environments; returns the ids stored.

        With episodes: ``obs``, ``action``, ``reward``, ``next_obs``, ``terminated``, ``truncated``
        and the extra columns. A step is stored when its n-step window closes, so none, one or
        several ids are returned. A leading axis of time stores many steps, as if one by one: whole
        trajectories. Without episodes: the columns, of one transition or with a leading axis of
        many.

        For a sampler by features, ``features`` are those of this step's ``obs``, and for one by
        state ``state`` is its state. They are set when the step's transition is stored.

        Args:
            env: whose step it is, without the axis of environments; by default of all.
            **values: the columns.
        """
        with self._lock:
            if env is not None:
                if self._writer.windows is None:  # a column
                    values["env"], env = env, None
                else:
                    env = self._writer.check_env(env)
            if self._writer.is_nested:
                values = flatten(values)
            if self._guards:
                self._before_writing(self._writer.most_rows(values, env))
            place = -1 if env is None else env
            stored: range | None = self._store.add(values, False, place) if self._whole else None
            if stored is None:
                with Uninterrupted():
                    stored = self._add_converted(values, env)
            return stored

    def _add_converted(self, values: dict[str, Any], env: int | None) -> range:
        """``add`` with any sampler and values of any kind; returns the ids stored."""
        first, place = self._ring.next_id, -1 if env is None else env
        if self._entries is not None:
            self._entries.reject_info(values, self._sampler)
        given = {name: values.pop(name) for name in self._info if name in values}
        rows, size, step = self._writer.rows_of({**values, **given}, env)
        info = self._checked_info({name: rows.pop(name) for name in given}, size) if given else {}
        if self._takes_plain and not given and (self._whole or size == step):
            stored = self._store.add(rows, False, place, True)
            if stored is not None:
                self._follow_write(len(stored), {})
                return range(first, self._ring.next_id)
        columns = self._writer.converted(rows, size)
        many = size if self._whole else step
        for begin in range(0, size, many):
            some, known = (
                {name: a[begin : begin + many] for name, a in part.items()}
                for part in (columns, info)
            )
            try:
                some = self._writer.with_frames(some, env)
                count = len(self._store.add({**some, **known}, True, place, True))
                self._follow_write(count, known)
            except NeedReplayError as error:
                if begin == 0:
                    raise
                raise NeedReplayError(
                    f"{error} That is step {begin // step} of this call, from 0 on; those before "
                    "it are stored."
                ) from error
        return range(first, self._ring.next_id)

    def cut(self, env: int | None = None) -> range:
        """End the episode of environment ``env``, or of all; returns the ids stored.

        Call it when you reset an environment in the middle of an episode. The open n-step windows
        are stored as if the last step had been truncated, and nothing is linked across the cut.
        """
        with self._lock, Uninterrupted():
            self._before_writing(self._writer.most_rows({}, None))
            first = self._ring.next_id
            self._writer.choose_cut(env)
            self._watch.forget(env)
            count = self._store.cut()
            self._follow_write(count, {})
            return range(first, self._ring.next_id)

    def _before_writing(self, most: int) -> None:
        """Tell whom it concerns which ids may be overwritten by ``most`` rows."""
        rows = self._rows
        oldest = rows.next_id + most - rows.capacity
        if self._has_frames:  # each row that leaves makes room for a frame, at least
            oldest = max(oldest, rows.oldest_id + most * (self._stack + 1))
        for guard in tuple(self._guards):
            guard(min(oldest, _MOST_ROWS))

    def _follow_write(self, count: int, info: dict[str, AnyArray]) -> None:
        """Bring a sampler that has no kernel in line with the ``count`` newest transitions."""
        if self._entries is not None:
            if self._has_frames:
                self._rows.ids[0] += self._writer.count_incomplete(self._rows)
            if expired := self._entries.expired():
                self._remove_oldest(expired)
            if (new := self._entries.follow(count, self._rng)) is not None:
                self._enter(*new)
            return
        if count and self._kernel is None:
            self._place(count, info if self._writer.windows is None else self._info_rows)
        if self._has_frames and (incomplete := self._writer.count_incomplete(self._ring)):
            self._remove_oldest(incomplete)

    def _checked_info(self, given: dict[str, Any], size: int) -> dict[str, AnyArray]:
        """Features or states of ``size`` steps, which the sampler will take."""
        info = {}
        for name, value in given.items():
            column = self._info[name]
            rows = validation.as_step_rows(name, value, size, column.shape, column.dtype)
            self._check_info(name, rows)
            info[name] = rows
        return info

    def _check_info(self, name: str, rows: AnyArray) -> None:
        """Raise unless the sampler will take these states or features."""
        if name == "state":
            validation.check_states(rows, self._sampler.n_states)  # type: ignore[attr-defined]
        else:
            self._sampler_method("features").checked(rows)

    def _place(self, count: int, info: dict[str, AnyArray]) -> None:
        """Tell the sampler about the ``count`` newest transitions, as far as they are stored."""
        ring = self._ring
        slots, previous = self._writer.placed(ring, count)
        rows = {name: held[self._writer.sources(count)] for name, held in info.items()}
        if count > ring.capacity:
            slots, previous = slots[-ring.capacity :], previous[-ring.capacity :]
            rows = {name: held[-ring.capacity :] for name, held in rows.items()}
        self._enter(slots, np.where(previous >= ring.oldest_id, previous % ring.capacity, -1))
        for name, held in rows.items():
            if (known := _is_known(held)).any():
                method = self._sampler_method("set_state" if name == "state" else "set_features")
                method(slots[known], held[known])

    def _enter(self, slots: IntArray, previous: IntArray) -> None:
        """Tell the sampler what is new in ``slots``, and the slot before each or -1."""
        place = getattr(self._sampler, "place", None)
        if place is not None:
            place(slots, previous)
        self._sampler.set_priorities(slots, np.full(len(slots), self._max_seen[0]))

    def _lose_rows(self, oldest: int) -> None:
        """The rows before ``oldest`` are gone, and what had them with them."""
        rows = self._rows
        lost = min(oldest, rows.next_id) - rows.oldest_id
        if lost <= 0:
            return
        if self._entries is not None:
            rows.ids[0] += lost
            lost = self._entries.expired()
        self._remove_oldest(lost)

    def _remove_oldest(self, count: int) -> None:
        """The ``count`` oldest transitions can no longer be sampled."""
        ring = self._ring
        slots = np.arange(ring.oldest_id, ring.oldest_id + count) % ring.capacity
        self._sampler_method("clear")(slots)
        ring.ids[0] += count

    # Sampling ------------------------------------------------------------------------------------

    def sample(
        self, size: int, *, need: AnyArray | None = None, beta: float | None = None
    ) -> Batch:
        """Sample ``size`` transitions with replacement.

        Args:
            size: how many.
            need: the need query, for a sampler that takes one; or ``size`` queries, one for each
                row of the batch, in this order. A row is then sampled by its own query.
            beta: the exponent of importance weights for this batch alone.
        """
        with self._lock:
            if type(size) is not int or not 1 <= size <= _MAX_SIZE:
                check_number("size", size, int, (1, _MAX_SIZE))
            if len(self._ring) == 0:
                raise NeedReplayError(self._why_empty())
            beta = self._beta_of(beta)
            if need is None:
                sampled = self._core.sample(size, self._rng.bit_generator.capsule, beta)
                if sampled is not None:
                    ids, probabilities, weights, columns = sampled
                    return Batch(ids, probabilities, weights, self._columns_of(columns))
            batch = self._sampled(self._core, size, need, beta)
            batch.columns = self._columns_of(batch.columns)
            return batch

    def _beta_of(self, beta: float | None) -> float:
        """That of the next batch, if it is ``beta`` or, for None, what the schedule says."""
        if beta is not None:
            beta = validation.check_beta(beta)
        elif isinstance(self._beta, float):
            beta = self._beta
        else:
            beta = self._beta(self.batches)
        return 0.0 if self._is_lap else beta

    def _sampled(self, core: Core, size: int, need: AnyArray | None, beta: float) -> Batch:
        """A batch by any sampler, after all checks, with the columns that ``core`` has."""
        sampled = self._sampler.sample(size, self._rng, need)
        slots, probabilities, normalized, corrected = sampled
        if corrected is None:
            corrected = probabilities
        ids, weights, columns = core.gather(slots, corrected, beta)
        return Batch(ids, probabilities, weights, columns, normalized)

    def prefetch(
        self,
        size: int,
        *,
        depth: int = 2,
        device: Device | None = None,
        need: Callable[[], AnyArray] | None = None,
        beta: float | None = None,
    ) -> Prefetch:
        """Batches without end, each gathered in a thread while the learner computes.

            for batch in buffer.prefetch(256, device="cuda"):
                ...

        A batch is chosen when the one ``depth`` before it is handed out. So it knows of all that
        was added and updated until then, and priorities are late by ``depth`` batches, always.

        Args:
            size: how many transitions a batch has.
            depth: how many batches are chosen ahead; with 0 every batch is that of ``sample``.
            device: where torch tensors are wanted; None: numpy arrays.
            need: for a sampler that takes a need query: a function that returns it now.
            beta: see ``sample``.
        """
        size, query = check_number("size", size, int, (1, _MAX_SIZE)), called("need", need)
        beta = beta if beta is None else validation.check_beta(beta)
        return Prefetch(self, lambda: choose(self, size, query(), beta), depth, device)

    def _why_empty(self) -> str:
        if len(self._rows) == 0 or self._entries is None:
            return "The buffer is empty; add transitions before you sample."
        return (
            f"No {self._entries.name} is complete yet, though {len(self._rows)} transitions are "
            f"stored; {self._entries.advice}"
        )

    def read(self, ids: ArrayLike) -> dict[str, Any]:
        """The columns of stored transitions, one row for each id; samples nothing."""
        with self._lock:
            wanted = self._stored(ids)
            return self._columns_of(self._core.read(wanted))

    def __getitem__(self, key: Any) -> dict[str, Any]:
        """The columns of the transition at place ``key``, 0 the oldest and -1 the newest.

        Of a slice or an array of places, with an axis of transitions.
        """
        with self._lock:
            places = places_of(key, len(self))
            columns = self.read(self._ring.oldest_id + places.reshape(-1))
            return columns if places.ndim else one_of(columns, 0)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """All transitions, from the oldest to what is the newest now."""
        return each_of(self.read, *self._ring.ids.tolist())

    def future(self, ids: ArrayLike, steps: ArrayLike) -> IntArray:
        """The ids of the transitions that start ``steps`` steps later in the same episodes.

        -1 where there is none: the episode ended before, or has not come that far. ``steps`` is a
        number, or one for each id; with n-step returns it counts single steps. A buffer without
        episodes raises.
        """
        with self._lock:
            self._reject_entries("future")
            wanted = self._stored(ids)
            try:
                counts = np.broadcast_to(np.asarray(steps), wanted.shape).astype(
                    np.int64, "C", "safe"
                )
            except (TypeError, ValueError):
                counts = np.full(1, -1)
            if counts.min(initial=0) < 0:
                raise NeedReplayError(
                    f"steps is {steps!r}; pass an integer from 0 on, or one for each id."
                )
            return self._writer.future(wanted, counts)

    def episodes(self, ids: ArrayLike) -> tuple[IntArray, IntArray]:
        """The number of the episode that each of ``ids`` belongs to, and its step in it from 0 on.

        Episodes are numbered from 0 in the order in which they begin, over all environments. A
        buffer without episodes raises.
        """
        with self._lock:
            self._reject_entries("episodes")
            number, step = self._writer.places(self._stored(ids)).T
            return number, step

    def _reject_entries(self, method: str) -> None:
        if self._entries is not None:
            raise NeedReplayError(
                f"{method} takes ids of transitions, but those of this buffer are of "
                f"{self._entries.name}s."
            )

    def _stored(self, ids: ArrayLike) -> IntArray:
        """``ids``, checked: all of them are stored."""
        ring, wanted = self._ring, validation.as_ids(ids)
        if len(wanted) and not ring.oldest_id <= wanted.min() <= wanted.max() < ring.next_id:
            raise NeedReplayError(
                f"ids are from {wanted.min()} to {wanted.max()}, but transitions "
                f"{ring.oldest_id} to {ring.next_id - 1} are stored."
            )
        return wanted

    # Updating ------------------------------------------------------------------------------------

    def update_priorities(self, ids: ArrayLike, priorities: ArrayLike) -> None:
        """Set the raw priorities of transitions ``ids`` (absolute TD errors, for example).

        An id that was overwritten meanwhile is dropped and counted; of equal ids the last counts.
        If one priority is neither 0 nor from 1e-100 to 1e100, all are rejected. Of sequences,
        ``priorities`` may have a row for each: see ``Sequences.eta``.
        """
        with self._lock:
            if self._entries is not None:
                priorities = self._entries.priorities(ids, priorities)
            if self._core.update(ids, priorities):
                return
            ids = validation.as_ids(ids)
            checked = validation.as_priorities(priorities, ids)
            dropped, chosen, slots = self._current(ids)
            stored: FloatArray = checked[chosen] + 0.0  # no negative zero
            with Uninterrupted():
                self._sampler.set_priorities(slots, stored)
                self._counts[_DROPPED] += dropped
                self._max_seen[0] = stored.max(initial=self._max_seen[0])

    def _current(self, ids: IntArray) -> tuple[int, IntArray, IntArray]:
        ring = self._ring
        return validation.current_slots(ids, ring.oldest_id, ring.next_id, ring.capacity)

    def set_features(self, ids: ArrayLike, features: ArrayLike) -> None:
        """Set the feature vectors of transitions ``ids``, for a sampler by features."""
        self._set_info("set_features", ids, "features", validation.as_features(features))

    def features(self, ids: ArrayLike) -> AnyArray:
        """The vectors that are stored for transitions ``ids``, for a sampler by features.

        Zeros where none was set.
        """
        with self._lock:
            slots = self._stored(ids) % self._ring.capacity
            vectors: AnyArray = self._sampler_method("features").vectors[slots]
            return vectors

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A block in which no other thread uses this buffer: several calls as one."""
        with self._lock:
            yield

    def set_states(self, ids: ArrayLike, states: ArrayLike) -> None:
        """Set the states (integers) in which transitions ``ids`` start, for a sampler by state."""
        advice = "pass a vector of integers, one per id. Nothing was changed."
        rows = validation.as_integers("states", states, advice)
        self._set_info("set_state", ids, "states", rows)

    def _set_info(self, method: str, ids: ArrayLike, name: str, rows: AnyArray) -> None:
        with self._lock:
            set_info = self._sampler_method(method)
            ids = validation.as_ids(ids)
            if rows.ndim < 1 or len(rows) != len(ids):
                raise NeedReplayError(
                    f"{name} has shape {rows.shape} for {len(ids)} ids; pass one per id. "
                    "Nothing was changed."
                )
            dropped, chosen, slots = self._current(ids)
            with Uninterrupted():
                set_info(slots, rows if len(chosen) == len(rows) else rows[chosen])
                self._counts[_DROPPED] += dropped

    def next_to_refresh(self, count: int) -> IntArray:
        """The ids of the next ``count`` transitions, in turn, whose features should be set again.

        With r of them at each update, all features are renewed every N / r updates.
        """
        check_number("count", count, int, COUNT)
        with self._lock:
            return self._ring.ids_of(self._sampler_method("features").next_to_refresh(count))

    def _sampler_method(self, name: str) -> Any:
        """The sampler's own ``name``; raises for a sampler without it."""
        method = getattr(self._sampler, name, None)
        if method is None:
            raise NeedReplayError(
                f"The {self._sampler.name} sampler cannot do this: it has no {name}."
            )
        return method

    # Saving --------------------------------------------------------------------------------------

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""
        with self._lock:
            ring, capacity = self._ring, self._ring.capacity
            oldest_id, next_id = ring.ids.tolist()
            fewest = max(0, next_id - capacity)
            if not fewest <= oldest_id <= next_id:
                raise NeedReplayError(f"Ids {oldest_id} to {next_id} do not fit the capacity.")
            self._writer.check_valid(self._rows)
            if self._entries is not None:
                self._entries.check_valid()
            for name, rows in self._info_rows.items():
                self._check_info(name, rows[:-1][_is_known(rows[:-1])])
            self._sampler.check_valid()
            stored = np.zeros(capacity, dtype=np.bool_)
            stored[np.arange(oldest_id, next_id) % capacity] = True
            occupied = getattr(self._sampler, "occupied", stored)
            if not np.array_equal(occupied, stored):
                raise NeedReplayError("The sampler knows other slots than those in use.")
            if "features" in self._info and self._sampler_method("features").known[~stored].any():
                raise NeedReplayError("A slot that is not in use has features.")
            priorities = getattr(self._sampler, "priorities", None)
            if priorities is not None and priorities.max(initial=0.0) > self._max_seen[0]:
                raise NeedReplayError("A priority is above the largest that was seen.")

    def save(self, target: Source) -> None:
        """Write the buffer to one file, atomically: an older file stays until then.

        Args:
            target: a path, or a file that is open for binary writing. Raises for a buffer that
                contradicts itself.
        """
        with self._lock:
            save_buffer(self, target)

    def load(self, source: Source, *, strict: bool = True) -> None:
        """Read a file that ``save`` wrote, of a buffer with the same settings.

        It then samples exactly what the saved buffer would have sampled. A file that is damaged, of
        a buffer with other settings, or that contradicts itself is rejected, and the buffer stays
        as it was. If reading fails after all checks (a disk error), the buffer is left empty.

        Args:
            source: a path, or a seekable file that is open for binary reading, which is read from
                where it stands to its end.
            strict: False: another capacity and another sampler are fine. The newest transitions
                that there is space for are loaded with their priorities, under new ids; without
                features, states and the random state. It takes memory for both buffers.
        """
        with self._lock, opened(source) as file:
            try:
                (load_buffer if strict else load_rows)(self, file)
                self._watch.forget()
            finally:
                if self._folder is not None:
                    self._folder.write(self)

    def flush(self) -> None:
        """Write to the folder what this buffer is now; a buffer that is made there has it again.

        The process may be killed at any time. What is found then is the buffer of the last
        ``flush``, without the transitions that newer ones have overwritten since.
        """
        with self._lock:
            self._in_folder("flush").write(self)

    def close(self) -> None:
        """Flush, and let another buffer open the folder; this one cannot be used any more."""
        with self._lock:
            folder = self._in_folder("close")
            folder.write(self)
            folder.release()
            self._lock = Closed(folder.path)

    def __enter__(self) -> Self:
        self._in_folder("with")
        return self

    def __exit__(self, *_: object) -> None:
        if not isinstance(self._lock, Closed):
            self.close()

    def _in_folder(self, what: str) -> Folder:
        if self._folder is None:
            raise NeedReplayError(
                f"{what} is for a buffer in a folder (folder=...), and this one is in memory; "
                "save(path) writes it to a file."
            )
        return self._folder

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and copies go through ``save``: the same samples afterwards."""
        file = io.BytesIO()
        with self._lock:
            self.save(file)
            options = {**self._options, "sampler": copy.deepcopy(self._sampler)}
            return _unpickled, (type(self), options, file.getvalue())

    def clear(self) -> None:
        """Remove every transition; settings, counts and the random state stay.

        Ids go on, so that an update for a removed transition is dropped.
        """
        with self._lock, Uninterrupted():
            counts = self._counts.copy()
            rings = self._rows, self._ring
            ends = [-(-ring.next_id // ring.capacity) * ring.capacity for ring in rings]
            self._clear()
            for ring, end in zip(rings, ends, strict=True):
                ring.ids[:] = end
            self._counts[:] = counts
            self._watch.forget()
            if self._folder is not None:
                self._folder.write(self)

    def _clear(self) -> None:
        """Remove every transition, as if none had been added; the random state stays."""
        self._before_writing(_MOST_ROWS)
        self._rows.ids[:] = 0
        self._writer.clear()
        if self._entries is not None:
            self._entries.clear()
        self._allocate()
        self._counts[:] = 0
        self._max_seen[:] = FIRST_PRIORITY

    def _settings(self) -> dict[str, Any]:
        """What must be the same for a file to be loaded."""
        return {
            "capacity": self._rows.capacity,
            **sampler_settings(self._sampler),
            **self._writer.settings(),
            **({} if self._entries is None else self._entries.settings()),
        }

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that is stored, live, by name."""
        parts: dict[str, dict[str, AnyArray]] = {
            "ring": {"rows": self._rows.rows},
            "writer": self._writer.arrays(),
            "entries": {} if self._entries is None else self._entries.arrays(),
            "sampler": self._sampler.arrays(),
        }
        return {f"{part}/{name}": a for part, arrays in parts.items() for name, a in arrays.items()}


def _unpickled(cls: Any, options: dict[str, Any], saved: bytes) -> Any:
    buffer = cls(**options)
    buffer.load(io.BytesIO(saved))
    return buffer


def _is_known(rows: AnyArray) -> BoolArray:
    """Which of the states or features that were held were passed to ``add``."""
    known: BoolArray = rows != NO_ID if rows.ndim == 1 else ~np.isnan(rows[:, 0])
    return known


def _info_columns(sampler: Sampler, columns: Mapping[str, ColumnSpec]) -> dict[str, Column]:
    """What ``add`` takes for ``sampler``, beside the columns of a transition."""
    info = {}
    if n_features := getattr(sampler, "n_features", None):
        info["features"] = Column("features", np.dtype(np.float64), (n_features,))
    if getattr(sampler, "n_states", None):
        info["state"] = Column("state", np.dtype(np.int64), ())
    if clash := info.keys() & columns.keys():
        name = min(clash)
        raise NeedReplayError(
            f"columns has {name!r}, but add takes {name} for the {sampler.name} sampler; give the "
            "column another name."
        )
    return info
