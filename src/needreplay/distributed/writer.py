"""A writer: turns steps into transitions where the environment is, and sends them to a shard."""

from __future__ import annotations

import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from needreplay._core.cluster import check_version, imported
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import FloatArray, IntArray
from needreplay.distributed.shard import News
from needreplay.replay.buffer import ReplayBuffer
from needreplay.replay.episodes import Episodes
from needreplay.replay.samplers import UniformSampler
from needreplay.replay.storage import ColumnSpec, Parts, flatten
from needreplay.replay.validation import as_priorities

UNANSWERED, UNTAKEN = 3, 16
"""Blocks that a shard has not answered, or the learner has not taken; then a writer waits."""
PATIENCE = 120.0
"""Seconds that a writer waits for a shard that does not answer."""
OLDEST_STEP = 1.0
"""Seconds after which a block is sent although it is not full."""
_PAUSE = 0.005
_MOST_PAUSE = 0.02


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


@dataclass(slots=True)
class _Sent:
    """A block that the learner may not have taken yet."""

    news: News
    parts: Parts
    answer: Any = None
    """to come"""
    is_stored: bool = False


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
        self._ray = imported("needreplay.distributed")
        self._collector = self._format.collector()
        self._sequence = 0
        self.sent = 0
        """transitions that were sent, answered or not"""
        self._kept: deque[_Sent] = deque()
        """what would be lost with its shard"""
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
            _, size, step = collector._writer.rows_of(flatten(values), values.get("env"))
            most = collector.capacity - self._format.block
            if self._format.episodes is not None and size > step:
                raise NeedReplayError("add takes one step at a time here, no trajectories.")
            if size > most:
                raise NeedReplayError(f"add takes at most {most} transitions at once here.")
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
        self._settle(0, 0)

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
            columns = writer.columns_from(parts)
            columns.pop("features", None)
            try:
                priorities = as_priorities(self.first_priorities(columns), ids)
            except NeedReplayError as error:
                raise self._error(f"first_priorities: {error}") from error
        previous, steps = self._links(ids)
        news = News(self.source, self._sequence, self.sent, previous, steps, priorities, features)
        self._sequence += 1
        self.sent += len(ids)
        self._sent_at = time.monotonic()
        self._kept.append(_Sent(news, parts))
        self._settle(UNANSWERED, UNTAKEN)

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

    def _submit(self, sent: _Sent) -> None:
        sent.answer = self._handle.add.remote(self._kept[0].news.sequence, sent.news, sent.parts)

    def _settle(self, unanswered: int, untaken: int) -> None:
        """Hear answers, and send again what the shard did not take or has lost.

        Waits until the shard has all but ``unanswered`` blocks, and the learner all but
        ``untaken``.
        """
        began, pause, silent = time.monotonic(), _PAUSE, None
        errors = self._ray.exceptions
        while True:
            try:
                self._hear()
                silent = None
            except errors.RayTaskError as error:
                raise self._error(f"shard {self._shard}: {error.cause}") from error
            except errors.RayError as error:
                # Killed, or not started again yet; it comes back under the same handle, empty.
                now = time.monotonic()
                silent = now if silent is None else silent
                if now - silent > PATIENCE:
                    raise self._gone(error) from error
            for sent in self._kept:
                if sent.answer is None and not sent.is_stored:
                    self._submit(sent)
            outside = sum(not sent.is_stored for sent in self._kept)
            if outside <= unanswered and len(self._kept) <= untaken:
                self.waited += time.monotonic() - began
                return
            if outside == 0 and self._kept[0].answer is None:
                self._submit(self._kept[0])  # the answer says what the learner has taken
            time.sleep(pause)
            pause = min(2 * pause, _MOST_PAUSE)

    def _hear(self) -> None:
        """Take the answers that are there: what is stored, and what the learner has taken."""
        asked = [sent for sent in self._kept if sent.answer is not None]
        if not asked:
            return
        ready, _ = self._ray.wait([s.answer for s in asked], num_returns=len(asked), timeout=0)
        last = taken = None
        for sent in asked:
            if sent.answer in ready:
                answer, sent.answer, sent.is_stored = sent.answer, None, False
                last, taken = self._ray.get(answer)
        if last is None or taken is None:
            return
        for sent in self._kept:
            sent.is_stored = sent.news.sequence <= last
        while self._kept and self._kept[0].news.sequence <= taken:
            self._kept.popleft()

    def _gone(self, error: Exception) -> NeedReplayError:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return self._error(
            f"shard {self._shard} has not answered for {PATIENCE:g} s ({reason}); is the learner "
            "still running?"
        )

    def _error(self, what: object) -> NeedReplayError:
        return NeedReplayError(f"Writer {self.number}: {what}")


def _are_finite(values: Any) -> bool:
    """Whether numbers are finite; what are no numbers, the collector refuses."""
    try:
        return bool(np.isfinite(values).all())
    except TypeError:
        return True
