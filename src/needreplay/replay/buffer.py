"""The replay buffer: stored transitions and a sampler, numpy in and numpy out.

``add`` stores, ``sample`` returns a batch, ``update_priorities`` sets what was learned from it. One
lock makes each call atomic, so an actor and a learner thread can share a buffer.
"""

from __future__ import annotations

import copy
import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike

from needreplay._core.checks import COUNT, check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.forks import fork_safe_lock
from needreplay._core.types import AnyArray, Columns, Device, Env, IntArray
from needreplay._core.uninterrupted import Uninterrupted
from needreplay.replay import validation
from needreplay.replay.batch import Batch, LinearBeta
from needreplay.replay.contents import Contents
from needreplay.replay.episodes import Autoreset, Episodes, facts_of
from needreplay.replay.folder import Closed, Folder
from needreplay.replay.hindsight import Hindsight
from needreplay.replay.options import Options, check_options
from needreplay.replay.prefetch import Prefetch, called, choose
from needreplay.replay.reading import as_steps, each_of, one_of, places_of
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.samplers.proportional import ProportionalSampler
from needreplay.replay.save import Source, load_contents, opened, save_contents
from needreplay.replay.sequences import Sequences
from needreplay.replay.storage import ColumnSpec, Memory, Ring, Writer, plain_columns
from needreplay.replay.transfer import load_rows

_MAX_SIZE = 2**31 - 1


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
        check_options(ReplayBuffer, unknown_options, sampler)
        if sampler is None:
            sampler = ProportionalSampler()
        if not isinstance(beta, LinearBeta):
            beta = validation.check_beta(beta)
        plain = plain_columns(columns)
        options = Options(capacity, plain, sampler, episodes, sequences, hindsight, beta)
        self._options, self._sampler, self._beta = options, sampler, beta
        self._is_lap = getattr(sampler, "priority_floor", 0.0) > 0.0
        self._lock = fork_safe_lock()
        self._folder = None if folder is None else Folder(folder)
        memory = None if self._folder is None else self._folder.rows
        try:
            self._writer = self._writer_of(options, memory)
            in_rows = None if self._writer.frame_stack else memory
            self._rows = Ring(capacity, self._writer.layout, in_rows)
            self._entries = options.entries(self._rows, self._writer)
            parts = self._rows, self._writer, self._entries
            self._contents = Contents(sampler, options.info, *parts, seed)
            self._ring = self._contents.ring
            if self._folder is not None:
                self._contents.method("clear")
                self._folder.load(self._contents)
        except BaseException:
            if self._folder is not None:
                self._folder.release()
            raise

    def _writer_of(self, options: Options, memory: Memory | None) -> Writer:
        return options.writer(memory)

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
        buffer._contents.watch.time_limit = time_limit
        return buffer

    @classmethod
    def for_env(cls, env: Env, *, capacity: int, **options: Any) -> Self:
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
        return self._contents.dropped

    @property
    def batches(self) -> int:
        """How many batches were sampled."""
        return self._contents.batches

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
            return self._contents.add(values, env)

    def cut(self, env: int | None = None) -> range:
        """End the episode of environment ``env``, or of all; returns the ids stored.

        Call it when you reset an environment in the middle of an episode. The open n-step windows
        are stored as if the last step had been truncated, and nothing is linked across the cut.
        """
        with self._lock, Uninterrupted():
            return self._contents.cut(env)

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
        contents = self._contents
        with self._lock:
            if type(size) is not int or not 1 <= size <= _MAX_SIZE:
                check_number("size", size, int, (1, _MAX_SIZE))
            if len(contents.ring) == 0:
                raise contents.nothing_to_sample()
            beta = self._beta_of(beta)
            if need is None:
                bits = contents.rng.bit_generator.capsule
                sampled = contents.core.sample(size, bits, beta)
                if sampled is not None:
                    ids, probabilities, weights, columns = sampled
                    return Batch(ids, probabilities, weights, contents.columns_of(columns))
            batch = contents.sample(contents.core, size, need, beta)
            batch.columns = contents.columns_of(batch.columns)
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

    # Reading -------------------------------------------------------------------------------------

    def read(self, ids: ArrayLike) -> Columns:
        """The columns of stored transitions, one row for each id; samples nothing."""
        with self._lock:
            contents = self._contents
            return contents.columns_of(contents.core.read(self._stored(ids)))

    def __getitem__(self, key: slice | ArrayLike) -> Columns:
        """The columns of the transition at place ``key``, 0 the oldest and -1 the newest.

        Of a slice or an array of places, with an axis of transitions.
        """
        with self._lock:
            places = places_of(key, len(self))
            columns = self.read(self._ring.oldest_id + places.reshape(-1))
            return columns if places.ndim else one_of(columns, 0)

    def __iter__(self) -> Iterator[Columns]:
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
            return self._writer.future(wanted, as_steps(steps, wanted.shape))

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
            self._contents.update(ids, priorities)

    def set_features(self, ids: ArrayLike, features: ArrayLike) -> None:
        """Set the feature vectors of transitions ``ids``, for a sampler by features."""
        rows = validation.as_features(features)
        with self._lock:
            self._contents.set_info("features", ids, rows)

    def features(self, ids: ArrayLike) -> AnyArray:
        """The vectors that are stored for transitions ``ids``, for a sampler by features.

        Zeros where none was set.
        """
        with self._lock:
            slots = self._stored(ids) % self._ring.capacity
            vectors: AnyArray = self._contents.method("features").vectors[slots]
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
        with self._lock:
            self._contents.set_info("states", ids, rows)

    def next_to_refresh(self, count: int) -> IntArray:
        """The ids of the next ``count`` transitions, in turn, whose features should be set again.

        With r of them at each update, all features are renewed every N / r updates.
        """
        check_number("count", count, int, COUNT)
        with self._lock:
            return self._ring.ids_of(self._contents.method("features").next_to_refresh(count))

    # Saving --------------------------------------------------------------------------------------

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""
        with self._lock:
            self._contents.check_valid()

    def save(self, target: Source) -> None:
        """Write the buffer to one file, atomically: an older file stays until then.

        Args:
            target: a path, or a file that is open for binary writing. Raises for a buffer that
                contradicts itself.
        """
        with self._lock:
            save_contents(self._contents, target)

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
                if strict:
                    load_contents(self._contents, file)
                else:
                    load_rows(self, file)
                self._contents.watch.forget()
            finally:
                self._write_folder()

    def flush(self) -> None:
        """Write to the folder what this buffer is now; a buffer that is made there has it again.

        The process may be killed at any time. What is found then is the buffer of the last
        ``flush``, without the transitions that newer ones have overwritten since.
        """
        with self._lock:
            self._in_folder("flush").write(self._contents)

    def close(self) -> None:
        """Flush, and let another buffer open the folder; this one cannot be used any more."""
        with self._lock:
            folder = self._in_folder("close")
            folder.write(self._contents)
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

    def _write_folder(self) -> None:
        if self._folder is not None:
            self._folder.write(self._contents)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles and copies go through ``save``: the same samples afterwards."""
        file = io.BytesIO()
        with self._lock:
            self.save(file)
            options = {**self._options._asdict(), "sampler": copy.deepcopy(self._sampler)}
            return _unpickled, (type(self), options, file.getvalue())

    def clear(self) -> None:
        """Remove every transition; settings, counts and the random state stay.

        Ids go on, so that an update for a removed transition is dropped.
        """
        with self._lock, Uninterrupted():
            self._contents.clear()
            self._write_folder()

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that is stored, live, by name."""
        return self._contents.arrays()


def _unpickled(cls: type[ReplayBuffer], options: dict[str, Any], saved: bytes) -> ReplayBuffer:
    buffer = cls(**options)
    buffer.load(io.BytesIO(saved))
    return buffer
