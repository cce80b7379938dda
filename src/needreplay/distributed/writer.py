"""A writer: turns steps into transitions where the environment is, and sends them to a shard."""

from __future__ import annotations

import math
import secrets
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from needreplay._core.cluster import check_version
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import FloatArray, IntArray
from needreplay._core.uninterrupted import Uninterrupted
from needreplay.distributed.sender import Sender
from needreplay.distributed.shard import News
from needreplay.replay.buffer import ReplayBuffer
from needreplay.replay.episodes import Episodes
from needreplay.replay.samplers import UniformSampler
from needreplay.replay.storage import ColumnSpec, flatten
from needreplay.replay.validation import as_priorities

OLDEST_STEP = 1.0
"""Seconds after which a block is sent although it is not full."""


@dataclass(frozen=True)
class Format:
    """What all writers of a buffer have in common."""

    version: str
    columns: Mapping[str, ColumnSpec]
    episodes: Episodes | None
    n_features: int
    block: int

    @property
    def most(self) -> int:
        """The most transitions that a block has."""
        each = 1 if self.episodes is None else self.episodes.n_envs * self.episodes.n_step
        return self.block + each

    def collector(self, capacity: int | None = None) -> ReplayBuffer:
        """A small buffer that makes transitions of steps."""
        columns = dict(self.columns)
        if self.n_features:
            columns["features"] = (np.float64, (self.n_features,))
        if capacity is None:
            frames = 0 if self.episodes is None else self.episodes.frame_stack
            capacity = (frames + 2) * (2 * self.most)
        return ReplayBuffer(capacity, columns, sampler=UniformSampler(), episodes=self.episodes)


class Writer:
    """Adds transitions to a ``RayReplayBuffer``, from any process of the cluster.

    ``RayReplayBuffer.writer`` makes one; pass it to a Ray task or actor. A writer collects
    transitions, n-step returns included, and sends them in blocks. ``add`` waits where the learner
    is to come first (``samples_per_insert``) and where its shard is slow.
    """

    first_priorities: Callable[[dict[str, Any]], Any] | None = None
    """Returns the first priority of each transition, from the columns of a block (Ape-X). Without
    it, as in any buffer, new transitions have the largest priority so far."""

    def __init__(self, number: int, shard: int, handle: Any, form: Format) -> None:
        self.number = number
        self._shard, self._handle, self._format = shard, handle, form
        self._begin()

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process it is another source of transitions, with no open episode."""
        return type(self), (self.number, self._shard, self._handle, self._format)

    def __repr__(self) -> str:
        return f"<Writer {self.number} to shard {self._shard}: {self.sent:,} transitions sent>"

    def _begin(self) -> None:
        check_version(self._format.version, f"Writer {self.number}")
        self.source = f"{self.number}-{secrets.token_hex(4)}"
        self._sender = Sender(self._shard, self._handle)
        weakref.finalize(self, self._sender.close)
        self._collector = self._format.collector()
        self._first = "obs" if self._format.episodes else next(iter(self._format.columns))
        self._fits: Any = None
        """the last shape of the first column, and environment, that fits"""
        self._sequence = 0
        self.sent = 0
        """transitions that were sent, answered or not"""
        self._sent_at = time.monotonic()
        self.waited = 0.0
        """seconds that ``add`` waited for the shard or the learner"""

    # Adding --------------------------------------------------------------------------------------

    def add(self, **values: Any) -> int:
        """Add a step, as ``ReplayBuffer.add`` does; returns how many transitions it completed.

        ``features`` for a sampler by features are sent with the transition; they may be left out.
        """
        collector = self._collector
        reward = values.get("reward", 0.0)
        if not (math.isfinite(reward) if type(reward) is float else _are_finite(reward)):
            raise self._error(f"reward is {reward}; it must be finite. Nothing was stored.")
        try:
            shape = getattr(values.get(self._first), "shape", None), values.get("env")
            if shape[0] is None or shape != self._fits:
                self._check_size(values)
                self._fits = shape
            if self._format.n_features and "features" not in values:
                values["features"] = self._no_features(values)
            stored = collector.add(**values)
        except NeedReplayError as error:
            raise self._error(error) from error
        waiting = collector.next_id - self.sent
        now = time.monotonic()
        if waiting >= self._format.block or (waiting and now - self._sent_at > OLDEST_STEP):
            self._send()
        return len(stored)

    def _check_size(self, values: dict[str, Any]) -> None:
        """Raise for more rows than fit, which the shape of the first column says."""
        _, size, step = self._collector._writer.rows_of(flatten(values), values.get("env"))
        most = self._collector.capacity - self._format.block
        if self._format.episodes is not None and size > step:
            raise NeedReplayError("add takes one step at a time here, no trajectories.")
        if size > most:
            raise NeedReplayError(f"add takes at most {most} transitions at once here.")

    def _no_features(self, values: dict[str, Any]) -> FloatArray:
        """NaN, with a leading axis where the other values have one."""
        name, own = "reward", 0
        if self._format.episodes is None:
            name, _, shape = self._collector._writer.layout.columns[0]
            own = len(shape)
        shape = np.shape(values.get(name, 0.0))
        return np.full((*shape[: len(shape) - own], self._format.n_features), np.nan)

    def cut(self, env: int | None = None) -> int:
        """End the episode of environment ``env``, or of all, as ``ReplayBuffer.cut`` does."""
        stored = self._collector.cut(env)
        if self._collector.next_id - self.sent >= self._format.block:
            self._send()
        return len(stored)

    def flush(self) -> None:
        """Send what is complete, and wait until the learner has taken all of it."""
        if self._collector.next_id > self.sent:
            self._send()
        self._await(partial(self._sender.wait, unstored=0, untaken=0))

    # Sending -------------------------------------------------------------------------------------

    def _send(self) -> None:
        """Send all complete transitions as one block."""
        ids = np.arange(self.sent, self._collector.next_id)
        ring, writer = self._collector._rows, self._collector._writer
        parts = writer.parts(ring, ids)
        features = (
            ring.columns["features"][ids % ring.capacity] if self._format.n_features else None
        )
        priorities = None
        if self.first_priorities is not None:
            columns = writer.columns_from([(np.arange(len(ids)), parts)])
            columns.pop("features", None)
            try:
                priorities = as_priorities(self.first_priorities(columns), ids)
            except NeedReplayError as error:
                raise self._error(f"first_priorities: {error}") from error
        previous, steps = self._links(ids)
        news = News(self.source, self._sequence, self.sent, previous, steps, priorities, features)
        with Uninterrupted():
            self._sequence += 1
            self.sent += len(ids)
            self._sender.keep(news, parts)
        self._sent_at = time.monotonic()
        self._await(self._sender.wait)

    def _await(self, wait: Callable[[], None]) -> None:
        """Wait for the shard or the learner."""
        began = time.monotonic()
        try:
            wait()
        except NeedReplayError as error:
            raise self._error(error) from error
        finally:
            self.waited += time.monotonic() - began

    def _links(self, ids: IntArray) -> tuple[IntArray, IntArray]:
        """Of each transition: the one before it in its episode or -1, and its step."""
        if self._format.episodes is None:
            return np.full(len(ids), -1), np.zeros(len(ids), dtype=np.int64)
        collector, previous = self._collector, np.full(len(ids), -1)
        known = np.arange(collector.oldest_id, collector.next_id)
        following = collector.future(known, 1)
        new = following >= ids[0]
        previous[following[new] - ids[0]] = known[new]
        return previous, collector.episodes(ids)[1]

    def _error(self, what: object) -> NeedReplayError:
        return NeedReplayError(f"Writer {self.number}: {what}")


def _are_finite(values: Any) -> bool:
    """Whether numbers are finite; what are no numbers, the collector refuses."""
    try:
        return bool(np.isfinite(values).all())
    except TypeError:
        return True
