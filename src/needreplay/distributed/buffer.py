"""``RayReplayBuffer``: a replay buffer whose rows are in shards, and whose writers are anywhere."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from needreplay._core.checks import AT_LEAST_ONE, COUNT, check_number
from needreplay._core.cluster import connect, imported
from needreplay._core.errors import NeedReplayError, counted
from needreplay._core.files import replacing
from needreplay._core.types import AnyArray, IntArray
from needreplay._core.uninterrupted import Uninterrupted
from needreplay._version import __version__
from needreplay.distributed.index import Block, Links, Origin
from needreplay.distributed.save import Saved, read_blocks, read_header, write_blocks
from needreplay.distributed.shard import News, Shard, Told
from needreplay.distributed.writer import PATIENCE, Format, Writer
from needreplay.replay import Batch, Episodes, ReplayBuffer
from needreplay.replay.options import Options
from needreplay.replay.samplers import Sampler
from needreplay.replay.save import Source
from needreplay.replay.storage import NO_ID, ColumnSpec, Memory, Parts, plain_columns
from needreplay.replay.storage import Writer as Rows
from needreplay.replay.validation import as_ids

POLL_PERIOD = 0.005
"""Seconds between two questions to a shard."""
GRACE = 10.0
"""Seconds after which a shard that Ray cannot reach is lost."""
START = 120.0
"""Seconds that the shards may take to start."""
_PAUSE = 0.002


@dataclass
class _Shard:
    """What the learner knows of a shard."""

    handle: Any
    incarnation: str = ""
    taken: int = 0
    """announcements of this incarnation that are in the index"""
    freed: list[int] = field(default_factory=list)
    asked: Any = None
    """the answer to come, if the shard was asked"""
    freeing: list[int] = field(default_factory=list)
    asked_at: float = 0.0
    silent_since: float | None = None


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
        self._block_size = check_number("block", block, int, AT_LEAST_ONE)
        self._prefetch = check_number("prefetch", prefetch, int, COUNT)
        self._min_size = check_number("min_size", min_size, int, AT_LEAST_ONE)
        if samples_per_insert is not None:
            check_number("samples_per_insert", samples_per_insert, float, (1e-6, 1e9))
            if tolerance is None:
                tolerance = 10 * block * samples_per_insert
            check_number("tolerance", tolerance, float, (0.0, 1e18))
        self._ratio, self._tolerance = samples_per_insert, tolerance
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
        self._most_at_once = shards * self._format.most + capacity // 16
        self._kept = (prefetch + 2) * self._most_at_once
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
        self.waited = 0.0
        """Seconds that ``sample`` waited for data."""
        self.age = 0.0
        """Transitions that came since those of the last batch, on average."""
        self._requests: deque[_Request] = deque()
        self._ray = imported("RayReplayBuffer")
        self._starts_ray = not self._ray.is_initialized()
        if self._starts_ray:
            connect(self._ray, address)
        self._shards = self._started(shards)

    def _started(self, count: int) -> list[_Shard]:
        # Ray starts a lost shard again, empty; no call is repeated by itself. Shards are idle most
        # of the time, so they reserve no CPU.
        options = {
            "num_cpus": 0,
            "max_restarts": -1,
            "max_task_retries": 0,
        }
        actor = self._ray.remote(**options)(Shard)
        shards = [_Shard(actor.options(**self._node_of(k)).remote()) for k in range(count)]
        frames = getattr(self._template, "_frames", None)
        each = self._template.layout.stride + (0 if frames is None else frames.frames.shape[1])
        nbytes = -(-self.capacity * each // count)
        try:
            begun = [s.handle.begin.remote(__version__, k, nbytes) for k, s in enumerate(shards)]
            for shard, incarnation in zip(shards, self._ray.get(begun, timeout=START), strict=True):
                shard.incarnation = incarnation
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, NeedReplayError):
                raise cause from error
            raise NeedReplayError(
                f"The shards do not start ({type(error).__name__}: "
                f"{str(error).strip().splitlines()[0]}); is needreplay installed on every node?"
            ) from error
        return shards

    def _node_of(self, k: int) -> dict[str, Any]:
        """Shards are dealt out to the nodes, this one first; a lost node's shards go elsewhere."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = self._ray.get_runtime_context().get_node_id()
        alive = [node["NodeID"] for node in self._ray.nodes() if node["Alive"]]
        nodes = [here, *sorted(set(alive) - {here})]
        node = nodes[k % len(nodes)]
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=True)}

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
        for shard in self._shards:
            self._ray.kill(shard.handle)
        if self._starts_ray:
            self._ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def facts(self) -> dict[str, float]:
        """Numbers to log.

        ``samples_per_insert``: since sampling began. ``lost``: transitions that were lost with
        shards. ``dropped``: updates for transitions that had left meanwhile. ``waited``: seconds
        that ``sample`` waited for data. ``age``: how many transitions came since those of the last
        batch, on average.
        """
        since = max(1, self.inserted - self._min_size)
        return {
            "inserted": self.inserted,
            "sampled": self.sampled,
            "samples_per_insert": self.sampled / since,
            "lost": self.lost,
            "dropped": self.dropped,
            "age": self.age,
            "waited": self.waited,
        }

    # What comes from the shards ------------------------------------------------------------------

    def poll(self) -> None:
        """Take what writers have sent meanwhile; ``sample`` does this, too."""
        with self._lock:
            now = time.monotonic()
            for k, shard in enumerate(self._shards):
                if shard.asked is None and now - shard.asked_at >= POLL_PERIOD:
                    self._ask_news(k, now)
            self._take_news(0.0)

    def _ask_news(self, k: int, now: float) -> None:
        shard = self._shards[k]
        shard.freeing, shard.freed, shard.asked_at = shard.freed, [], now
        shard.asked = shard.handle.poll.remote(
            shard.incarnation, shard.taken, shard.freeing, self._room() / len(self._shards)
        )

    def _room(self) -> float:
        """How many more transitions may come until the next question."""
        if self._ratio is None:
            return self.capacity / 16
        assert self._tolerance is not None
        allowed = self._min_size + (self.sampled + self._tolerance) / self._ratio
        return min(self.capacity / 16, max(0.0, allowed - self.inserted))

    def _may_sample(self, size: int) -> bool:
        if len(self) == 0 or self.inserted < self._min_size:
            return False
        if self._ratio is None:
            return True
        assert self._tolerance is not None
        if size > self._tolerance:
            raise NeedReplayError(
                f"size is {size}, above tolerance {self._tolerance:g}: a batch would never be "
                "within it. Make tolerance several batches wide."
            )
        expected = (self.inserted - self._min_size) * self._ratio
        return self.sampled + size <= expected + self._tolerance

    def _take_news(self, seconds: float) -> bool:
        """Take the answers that are there, or come within ``seconds``; whether any did."""
        asked = {shard.asked: k for k, shard in enumerate(self._shards) if shard.asked is not None}
        if not asked:
            time.sleep(min(seconds, _PAUSE))
            return False
        ready, _ = self._ray.wait(
            list(asked), num_returns=1 if seconds else len(asked), timeout=seconds
        )
        for answer in ready:
            k = asked[answer]
            shard = self._shards[k]
            shard.asked = None
            try:
                told: Told = self._ray.get(answer)
            except self._ray.exceptions.RayError as error:
                shard.freed = shard.freeing + shard.freed
                self._silent(k, error)
                continue
            shard.silent_since = None
            with Uninterrupted():
                self._told(k, told)
        return bool(ready)

    def _told(self, k: int, told: Told) -> None:
        shard = self._shards[k]
        if told.incarnation != shard.incarnation:
            self._lose(k)
            shard.incarnation, shard.taken, shard.freed = told.incarnation, 0, []
        for number, (position, news) in enumerate(told.news, told.first):
            if number >= shard.taken:
                self._enter_news(k, position, news)
                shard.taken = number + 1

    def _silent(self, k: int, error: Exception) -> None:
        """Ray cannot reach a shard: it died, or it may come back."""
        shard, now = self._shards[k], time.monotonic()
        if isinstance(error, self._ray.exceptions.RayTaskError):
            raise NeedReplayError(f"Shard {k}: {error.cause}") from error
        if shard.silent_since is None:
            shard.silent_since = now
        died = isinstance(error, self._ray.exceptions.ActorDiedError)
        if died or now - shard.silent_since > GRACE:
            with Uninterrupted():
                self._lose(k)

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
        known, vectors = self._features_of(slots)
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

    def _features_of(self, slots: IntArray) -> tuple[AnyArray, AnyArray | None]:
        """Which slots have features, and the features as they were passed."""
        store = getattr(self._sampler, "features", None)
        if store is None:
            return np.zeros(len(slots), dtype=np.bool_), None
        vectors = store.vectors[slots].astype(np.float64)
        if not (store.backward or store.raw):  # v = x / |x|^2, so x = v / |v|^2
            squares = np.sum(vectors**2, axis=1, keepdims=True)
            vectors = np.divide(vectors, squares, out=np.zeros_like(vectors), where=squares > 0.0)
        return store.known[slots], vectors

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
                parts = self._received(request.reads)
                if parts is not None:
                    request.batch.columns = self._public(parts)
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
            now = time.monotonic()
            for k, shard in enumerate(self._shards):
                if shard.asked is None and now - shard.asked_at >= _PAUSE:
                    self._ask_news(k, now)
            self._take_news(0.1)
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
            shard, rows = self._shards[k], ids[own] - where[own, 2]
            reads.append((k, own, shard.handle.read.remote(shard.incarnation, where[own, 1], rows)))
        return reads

    def _received(self, reads: Reads) -> Parts | None:
        """The rows that were asked for, in order; None if some are lost."""
        began, found = time.monotonic(), []
        for k, _, answer in reads:
            parts = self._answered(k, answer)
            if parts is None:
                return None
            found.append(parts)
        self.waited += time.monotonic() - began
        if len(found) == 1:
            return found[0]
        joined = Parts.joined(found)
        order = np.argsort(np.concatenate([own for _, own, _ in reads]))
        places = None if joined.places is None else joined.places[order]
        return Parts(joined.rows[order], joined.frames, places)

    def _answered(self, k: int, answer: Any) -> Parts | None:
        """The answer of a shard; None if it has lost what it was asked for."""
        try:
            parts: Parts | None = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            parts = None
            self._silent(k, error)
        if parts is None:
            # What a shard says next shows whether its rows are lost; then others are sampled.
            time.sleep(_PAUSE)
            self._ask_again(k)
        return parts

    def _ask_again(self, k: int) -> None:
        now = time.monotonic()
        if self._shards[k].asked is None:
            self._ask_news(k, now)
        self._take_news(0.1)

    def _public(self, parts: Parts) -> dict[str, Any]:
        columns = self._template.columns_from(parts)
        columns.pop("features", None)
        return columns

    def read(self, ids: ArrayLike) -> dict[str, Any]:
        """The columns of stored transitions, one row for each id; samples nothing."""
        with self._lock:
            while True:
                wanted = super()._stored(ids)
                if not len(wanted):
                    return self._public(self._template.parts(self._example._rows, wanted))
                numbers = self._rows.columns["block"][wanted % self._rows.capacity]
                reads = self._reads(wanted, numbers)
                if (parts := self._received(reads)) is not None:
                    return self._public(parts)

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
            parts = self._all_parts()
            counts = {
                "inserted": self.inserted,
                "sampled": self.sampled,
                "lost": self.lost,
                "n_blocks": self._n_blocks,
                "n_writers": self._n_writers,
            }
            with (
                replacing(target)
                if isinstance(target, str | os.PathLike)
                else nullcontext(target) as file
            ):
                write_blocks(file, counts, self._blocks, parts)
                super().save(file)

    def _all_parts(self) -> list[Parts]:
        """The rows of every block, in order."""
        while True:
            answers = [
                (b.shard, self._shards[b.shard].handle.block.remote(incarnation, b.position))
                for b in self._blocks.values()
                for incarnation in [self._shards[b.shard].incarnation]
            ]
            found = [self._answered(k, answer) for k, answer in answers]
            complete = [parts for parts in found if parts is not None]
            if len(complete) == len(found):
                return complete

    def load(self, source: Source, *, strict: bool = True) -> None:
        """Read a file that ``save`` of a buffer with the same settings wrote.

        Load before you make writers. The rows go to the shards that there are now; it is no matter
        how many there were.
        """
        if not strict:
            raise NeedReplayError(
                "A buffer on Ray loads files of its own settings; leave out strict."
            )
        if isinstance(source, str | os.PathLike):
            with Path(source).open("rb") as file:
                self._load(file, os.fspath(source))
        else:
            self._load(source, "The file")

    def _load(self, file: BinaryIO, name: str) -> None:
        with self._lock:
            start = file.tell()
            if self.next_id:
                raise NeedReplayError(f"This buffer is not empty; load {name} into a new one.")
            saved = read_header(file, name)
            empty = self._template.parts(self._example._rows, np.zeros(0, dtype=np.int64))
            puts = list(read_blocks(file, start, name, saved, empty, self._put))
            super().load(file)
            try:
                self._check_blocks(saved)
            except NeedReplayError as error:
                self._contents.reset()
                raise NeedReplayError(f"{name} contradicts itself: {error}") from error
            pairs = zip(saved.blocks.items(), puts, strict=True)
            for (number, (block, _)), (k, answer) in pairs:
                block.shard, block.position = k, self._ray.get(answer)
                self._blocks[number] = block
            for each in ("inserted", "sampled", "lost"):
                setattr(self, each, saved.counts[each])
            self._n_blocks, self._n_writers = saved.counts["n_blocks"], saved.counts["n_writers"]

    def _put(self, parts: Parts) -> tuple[int, Any]:
        """Give a block to the next shard."""
        self._n_blocks += 1
        k = self._n_blocks % len(self._shards)
        return k, self._shards[k].handle.put.remote(parts)

    def _check_blocks(self, saved: Saved) -> None:
        """Raise unless each transition in the index is a row of its block."""
        ids = np.arange(self.oldest_id, self.next_id)
        numbers = self._rows.columns["block"][ids % self._rows.capacity]
        for number in np.unique(numbers).tolist():
            if number not in saved.blocks or number >= saved.counts["n_blocks"]:
                raise NeedReplayError(f"block {number} is missing")
        first = np.array([saved.blocks[n][0].first_id for n in numbers.tolist()])
        count = np.array([saved.blocks[n][0].count for n in numbers.tolist()])
        if np.any((ids < first) | (ids >= first + count)):
            raise NeedReplayError("a block does not have the rows of its ids")

    def __reduce__(self) -> tuple[Any, ...]:
        raise NeedReplayError(
            "A RayReplayBuffer stays in the learner's process; pass buffer.writer() to others."
        )
