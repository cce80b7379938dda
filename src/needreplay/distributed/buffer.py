"""``RayReplayBuffer``: a replay buffer whose rows are in shards, and whose writers are anywhere."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from needreplay._core.checks import AT_LEAST_ONE, COUNT, check_number
from needreplay._core.cluster import connect, imported
from needreplay._core.errors import NeedReplayError, counted
from needreplay._core.types import AnyArray, IntArray
from needreplay._version import __version__
from needreplay.distributed.index import Block, Links, Origin, features_of
from needreplay.distributed.limiter import Limiter
from needreplay.distributed.save import counter, load_blocks, save_blocks
from needreplay.distributed.sender import PATIENCE
from needreplay.distributed.shard import News
from needreplay.distributed.shards import PAUSE, Shards
from needreplay.distributed.writer import Format, Writer
from needreplay.replay import Batch, Episodes, ReplayBuffer
from needreplay.replay.options import Options
from needreplay.replay.samplers import Sampler
from needreplay.replay.save import Source
from needreplay.replay.storage import NO_ID, ColumnSpec, Memory, Placed, plain_columns
from needreplay.replay.storage import Writer as Rows
from needreplay.replay.validation import as_ids

Reads = list[tuple[int, IntArray, Any]]
"""What shards were asked for: shard, rows of the batch, answer."""


class _Request(NamedTuple):
    """A batch whose rows are on their way."""

    batch: Batch
    reads: Reads


class RayReplayBuffer(ReplayBuffer):
    """A ``ReplayBuffer`` for many processes: this one samples, others add through writers.

    Ids, priorities, samplers and need are here, in the learner's process, so that a batch is
    sampled from all transitions at once, exactly. Rows are in ``shards``, which are Ray actors.
    Batches are prefetched: a batch saw the priorities of ``prefetch`` batches before.

    Args:
        capacity: how many transitions are stored, in all shards together.
        columns: as in ``ReplayBuffer``.
        sampler: the same.
        episodes: the same; each writer has open episodes of its own.
        shards: how many. Writers are dealt out to them, so have at least as many writers.
        block: transitions that a writer sends at once.
        prefetch: batches that are on their way while the learner learns.
        min_size: transitions that ``sample`` waits for, once.
        samples_per_insert: how often a transition is sampled on average. ``sample`` waits for
            writers, and writers wait for ``sample``. None: nobody waits for a ratio.
        tolerance: how many samples the ratio may be ahead or behind; by default 10 blocks' worth.
        address: of a Ray cluster, "auto" for the one on this machine. By default the cluster that
            Ray is connected to, or else one that is started here.
        **options: ``beta`` and ``seed`` of ``ReplayBuffer``.
    """

    def __init__(
        self,
        capacity: int,
        columns: Mapping[str, ColumnSpec],
        *,
        sampler: Sampler | None = None,
        episodes: Episodes | None = None,
        shards: int = 1,
        block: int = 64,
        prefetch: int = 2,
        min_size: int = 1,
        samples_per_insert: float | None = None,
        tolerance: float | None = None,
        address: str | None = None,
        **options: Any,
    ) -> None:
        capacity = check_number("capacity", capacity, int, AT_LEAST_ONE)
        check_number("shards", shards, int, AT_LEAST_ONE)
        check_number("block", block, int, AT_LEAST_ONE)
        self._prefetch = check_number("prefetch", prefetch, int, COUNT)
        self._limiter = Limiter(min_size, samples_per_insert, tolerance, block)
        for name, least in (("block", block), ("min_size", min_size)):
            if least > capacity:
                raise NeedReplayError(f"{name} is {least:,}, above capacity {capacity:,}.")
        for name in ("sequences", "hindsight", "folder"):
            if options.get(name) is not None:
                raise NeedReplayError(
                    f"RayReplayBuffer takes no {name}: it samples transitions, and they are in the "
                    "memory of its shards."
                )
        if hasattr(sampler, "n_states"):
            raise NeedReplayError(
                f"RayReplayBuffer takes no {getattr(sampler, 'name', 'state')} sampler: it keeps "
                "no states. Use a sampler by features."
            )
        n_features = int(getattr(sampler, "n_features", None) or 0)
        self._format = Format(__version__, plain_columns(columns), episodes, n_features, block)
        self._example = self._format.collector(capacity=1)
        self._template: Rows = self._example._writer
        # What leaves the buffer while a batch is on its way can still be looked up.
        self._kept = (prefetch + 2) * (shards * self._format.most + capacity // 16)
        super().__init__(capacity + self._kept, {"block": np.int64}, sampler=sampler, **options)
        self._contents.method("clear")  # the oldest may leave before they are overwritten
        self._blocks: dict[int, Block] = {}
        self._keys: set[tuple[str, int]] = set()
        self._sources: dict[str, Origin] = {}
        self._n_blocks = self._n_writers = 0
        self.inserted = 0
        """Transitions that came, in all."""
        self.sampled = 0
        """Transitions that were sampled, in all."""
        self.lost = 0
        """Transitions that were lost with a shard, in all."""
        self.lost_with_learner = 0
        """Transitions that came after the last ``save``, and were lost with a learner, in all."""
        self._arrived: AnyArray = np.zeros(1, dtype=np.int64)
        self.waited = 0.0
        """Seconds that ``sample`` waited for data."""
        self.age = 0.0
        """Transitions that came since those of the last batch, on average."""
        self._requests: deque[_Request] = deque()
        self._ray = imported("RayReplayBuffer")
        self._starts_ray = not self._ray.is_initialized()
        if self._starts_ray:
            connect(self._ray, address)
        frames = getattr(self._template, "_frames", None)
        each = self._template.layout.stride + (0 if frames is None else frames.frames.shape[1])
        nbytes, calls = -(-self.capacity * each // shards), (self._enter_news, self._lose)
        try:
            self._shards = Shards(self._ray, shards, nbytes, self._room, *calls)
        except BaseException:
            if self._starts_ray:
                self._ray.shutdown()
            raise

    def _writer_of(self, options: Options, memory: Memory | None) -> Rows:  # noqa: ARG002
        rows = self._template.settings()
        return Links(options.capacity, {f"rows.{name}": value for name, value in rows.items()})

    def __repr__(self) -> str:
        return (
            f"<RayReplayBuffer: {len(self):,} of {self.capacity:,} transitions in "
            f"{counted(len(self._shards), 'shard')}, {self._sampler!r}>"
        )

    @property
    def capacity(self) -> int:
        """How many transitions can be stored."""
        return self._rows.capacity - self._kept

    def writer(self) -> Writer:
        """A new writer: pass it to a Ray task or actor that steps environments."""
        number = self._n_writers
        self._n_writers += 1
        shard = number % len(self._shards)
        return Writer(number, shard, self._shards[shard].handle, self._format)

    def add(self, **values: Any) -> range:  # noqa: ARG002
        """Refuse: transitions come through writers."""
        raise NeedReplayError("Transitions are added by writers: writer = buffer.writer().")

    def clear(self) -> None:
        """Refuse: writers are adding."""
        raise NeedReplayError("A buffer on Ray cannot be cleared; close it and make a new one.")

    def close(self) -> None:
        """End the shards; and Ray, if it was started here."""
        self._shards.kill()
        if self._starts_ray:
            self._ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def facts(self) -> dict[str, float]:
        """Numbers to log.

        ``samples_per_insert``: since sampling began. ``lost``: transitions that were lost with
        shards; ``lost_with_learner``: see ``count_in``. ``dropped``: updates for transitions that
        had left meanwhile. ``waited``: seconds that ``sample`` waited for data. ``age``: how many
        transitions came since those of the last batch, on average.
        """
        since = max(1, self.inserted - self._limiter.min_size)
        return {
            "inserted": self.inserted,
            "sampled": self.sampled,
            "samples_per_insert": self.sampled / since,
            "lost": self.lost,
            "lost_with_learner": self.lost_with_learner,
            "dropped": self.dropped,
            "age": self.age,
            "waited": self.waited,
        }

    # What comes from the shards ------------------------------------------------------------------

    def poll(self) -> None:
        """Take what writers have sent meanwhile; ``sample`` does this, too."""
        with self._lock:
            self._shards.poll()

    def _room(self) -> float:
        """How many more transitions may come until the next question."""
        return min(self.capacity / 16, self._limiter.room(self.inserted, self.sampled))

    def _may_sample(self, size: int) -> bool:
        return len(self) > 0 and self._limiter.may_sample(size, self.inserted, self.sampled)

    def _enter_news(self, k: int, position: int, news: News) -> None:
        """Put the transitions of a block into the index, once."""
        key = news.source, news.sequence
        if key in self._keys:
            self._shards[k].freed.append(position)
            return
        source = self._sources.setdefault(news.source, Origin())
        if news.first >= source.next:
            missing = news.first - source.next
            self.inserted += missing + news.count
            self.lost += missing
            source.next = news.first + news.count
        else:  # it was lost, and was sent again
            self.lost -= news.count
        self._arrived[0] = self.inserted + self.lost_with_learner
        first, number = self.next_id, self._n_blocks
        block = Block(first, news.count, k, position, *key, news.first)
        self._blocks[number] = block
        self._keys.add(key)
        self._n_blocks += 1
        source.recent.append(block)
        previous = [NO_ID if n < 0 else source.id_of(n) for n in news.previous.tolist()]
        self._append(
            np.full(news.count, number),
            np.array(previous),
            news.steps,
            priorities=news.priorities,
            features=news.features,
        )
        self._free()

    def _append(
        self,
        blocks: IntArray,
        previous: IntArray,
        steps: IntArray,
        numbers: IntArray | None = None,
        *,
        priorities: AnyArray | None = None,
        features: AnyArray | None = None,
    ) -> None:
        """Add transitions to the index."""
        assert isinstance(self._writer, Links)
        self._writer.expect(previous, steps, numbers)
        ids = super().add(block=blocks)
        if (more := len(self) - self.capacity) > 0:
            self._contents.remove_oldest(more)
        if features is not None and (known := ~np.isnan(features[:, 0])).any():
            super().set_features(np.array(ids)[known], features[known])
        if priorities is not None:
            super().update_priorities(np.array(ids), priorities)

    def _free(self) -> None:
        """Free the blocks of which no transition is in the index any more."""
        oldest = self.oldest_id
        while self._blocks:
            number = next(iter(self._blocks))
            block = self._blocks[number]
            if block.first_id + block.count > oldest:
                return
            del self._blocks[number]
            self._keys.discard((block.source, block.sequence))
            self._shards[block.shard].freed.append(block.position)

    def _lose(self, k: int) -> None:
        """Shard ``k`` lost its rows: the others are entered again, under new ids.

        So nothing of what is lost can be sampled, read or updated, and no id is used twice.
        Updates for batches that were sampled before are dropped and counted.
        """
        self._forget_requests()
        gone = [number for number, block in self._blocks.items() if block.shard == k]
        if not gone:
            return
        ids = np.arange(self.oldest_id, self.next_id)
        slots = ids % self._rows.capacity
        blocks = self._rows.columns["block"][slots]
        kept = ~np.isin(blocks, gone)
        self.lost += int(len(ids) - kept.sum())
        ids, slots, blocks = ids[kept], slots[kept], blocks[kept]
        first = self.next_id
        assert isinstance(self._writer, Links)
        numbers, steps = self._writer.steps[slots].T
        following = self._writer.following[slots]
        place = np.searchsorted(ids, following)
        linked = (following > ids) & (place < len(ids))
        linked[linked] = ids[place[linked]] == following[linked]
        previous = np.full(len(ids), NO_ID)
        previous[place[linked]] = first + np.flatnonzero(linked)
        priorities = getattr(self._sampler, "priorities", None)
        priorities = None if priorities is None else priorities[slots]
        known, vectors = features_of(self._sampler, slots)
        for number in gone:
            block = self._blocks.pop(number)
            self._keys.discard((block.source, block.sequence))
            block.count = 0  # its source does not find it any more
            self._shards[k].freed.append(block.position)  # if it comes back after all
        for number, at in zip(*np.unique(blocks, return_index=True), strict=True):
            self._blocks[int(number)].first_id += first + int(at) - int(ids[at])
        self._contents.remove_oldest(len(self))
        if len(ids):
            self._append(blocks, previous, steps.copy(), numbers.copy(), priorities=priorities)
            if vectors is not None and known.any():
                super().set_features(first + np.flatnonzero(known), vectors[known])

    # Sampling ------------------------------------------------------------------------------------

    def sample(
        self, size: int, *, need: AnyArray | None = None, beta: float | None = None
    ) -> Batch:
        """Sample ``size`` transitions with replacement; waits until enough have come.

        The batch was sampled ``prefetch`` calls before, with the arguments of that call, if its
        size is the same.

        Args:
            size: how many.
            need: as in ``ReplayBuffer``.
            beta: the same.
        """
        with self._lock:
            self.poll()
            check_number("size", size, int, AT_LEAST_ONE)
            if self._requests and len(self._requests[0].batch) != size:
                self._forget_requests()
            while True:
                self._fill(size, need, beta)
                request = self._requests.popleft()
                placed = self._received(request.reads)
                if placed is not None:
                    request.batch.columns = self._public(placed)
                    self.age = self.next_id - float(request.batch.ids.mean())
                    return request.batch

    def prefetch(self, size: int, **options: Any) -> Any:  # noqa: ARG002
        """Refuse: ``sample`` prefetches."""
        raise NeedReplayError("sample prefetches already: RayReplayBuffer(..., prefetch=2).")

    def _fill(self, size: int, need: AnyArray | None, beta: float | None) -> None:
        """Ask for batches until the one that is needed and those to prefetch are on their way."""
        while len(self._requests) <= self._prefetch:
            if not self._may_sample(size):
                if self._requests:
                    return
                self._wait(lambda: self._may_sample(size))
            batch = super().sample(size, need=need, beta=beta)
            self._requests.append(_Request(batch, self._reads(batch.ids, batch["block"])))
            self.sampled += size

    def is_ready(self, size: int) -> bool:
        """Whether ``sample(size)`` need not wait for writers."""
        return bool(self._requests) or self._may_sample(size)

    def _forget_requests(self) -> None:
        """Batches that are on their way are not wanted."""
        self.sampled -= sum(len(request.batch) for request in self._requests)
        self._requests.clear()

    def wait_for(self, count: int) -> None:
        """Wait until ``count`` transitions are stored."""
        check_number("count", count, int, (0, self.capacity))
        with self._lock:
            self._wait(lambda: len(self) >= count)

    def _wait(self, is_done: Any) -> None:
        began = moved = time.monotonic()
        seen = self.inserted
        while not is_done():
            self._shards.poll(0.1, PAUSE)
            now = time.monotonic()
            if self.inserted > seen:
                seen, moved = self.inserted, now
            elif now - moved > PATIENCE:
                raise NeedReplayError(
                    f"No transition has come for {PATIENCE:g} s, and {len(self):,} are stored; are "
                    "the writers at work, and do they flush at their end?"
                )
        self.waited += time.monotonic() - began

    def _reads(self, ids: IntArray, numbers: IntArray) -> Reads:
        """Ask the shards for the rows of ``ids``, which are in the blocks ``numbers``."""
        blocks = [self._blocks[number] for number in numbers.tolist()]
        where = np.array([(b.shard, b.position, b.first_id) for b in blocks]).reshape(-1, 3)
        reads: Reads = []
        for k in np.unique(where[:, 0]).tolist():
            own = np.flatnonzero(where[:, 0] == k)
            rows = ids[own] - where[own, 2]
            reads.append((k, own, self._shards.read(k, where[own, 1], rows)))
        return reads

    def _received(self, reads: Reads) -> Placed | None:
        """The rows that were asked for; None if some are lost."""
        began = time.monotonic()
        found = self._shards.answers([(k, answer) for k, _, answer in reads])
        if found is None:
            return None
        self.waited += time.monotonic() - began
        return [(own, parts) for (_, own, _), parts in zip(reads, found, strict=True)]

    def _public(self, placed: Placed) -> dict[str, Any]:
        columns = self._template.columns_from(placed)
        columns.pop("features", None)
        return columns

    def read(self, ids: ArrayLike) -> dict[str, Any]:
        """The columns of stored transitions, one row for each id; samples nothing."""
        with self._lock:
            while True:
                wanted = super()._stored(ids)
                numbers = self._rows.columns["block"][wanted % self._rows.capacity]
                placed = self._received(self._reads(wanted, numbers))
                if placed is not None:
                    return self._public(placed)

    def _stored(self, ids: ArrayLike) -> IntArray:
        """``ids``, checked: they are stored, or were when the present batch was sampled."""
        wanted = as_ids(ids)
        first = max(0, self.next_id - self._rows.capacity)
        if len(wanted) and wanted.min() >= first and wanted.max() < self.next_id:
            return wanted
        return super()._stored(wanted)

    # Saving --------------------------------------------------------------------------------------

    def save(self, target: Source) -> None:
        """Write all transitions and the index to one file, atomically.

        The rows of all shards pass through this process. Writers go on; what they send meanwhile
        comes after the file.
        """
        with self._lock:
            self._forget_requests()
            save_blocks(self, target, super().save)

    def load(self, source: Source, *, strict: bool = True) -> None:
        """Read a file that ``save`` of a buffer with the same settings wrote.

        Load before you make writers. The rows go to the shards that there are now; it is no matter
        how many there were.
        """
        if not strict:
            raise NeedReplayError(
                "A buffer on Ray loads files of its own settings; leave out strict."
            )
        with self._lock:
            load_blocks(self, source, super().load)

    def count_in(self, path: str | os.PathLike[str]) -> int:
        """Keep how many transitions have come in a small file, which outlives this process.

        Call it once, after ``load`` if you load. What an earlier learner with this file got after
        its last ``save`` was lost with it: returns how many, and adds them to
        ``lost_with_learner``.
        """
        with self._lock:
            self._arrived = counter(path)
            known = self.inserted + self.lost_with_learner
            lost = max(0, int(self._arrived[0]) - known)
            self.lost_with_learner += lost
            self._arrived[0] = known + lost
            return lost

    def __reduce__(self) -> tuple[Any, ...]:
        raise NeedReplayError(
            "A RayReplayBuffer stays in the learner's process; pass buffer.writer() to others."
        )
