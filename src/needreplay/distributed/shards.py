"""The shards as the learner knows them: starts them, asks them, notices that one is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from needreplay._core.errors import NeedReplayError
from needreplay._core.types import IntArray
from needreplay._core.uninterrupted import Uninterrupted
from needreplay._version import __version__
from needreplay.distributed.shard import News, Shard, Told
from needreplay.replay.storage import Parts

POLL_PERIOD, LONGEST_PERIOD = 0.005, 0.02
"""Seconds between two questions to a shard: at first, and of one that has nothing new."""
GRACE = 10.0
"""Seconds after which a shard that Ray cannot reach is lost."""
START = 120.0
"""Seconds that the shards may take to start."""
PAUSE = 0.002


@dataclass
class _Known:
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
    period: float = POLL_PERIOD
    silent_since: float | None = None


class Shards:
    """Ray actors that hold rows, and what they have announced.

    Args:
        ray: the module.
        count: how many.
        nbytes: that each will hold.
        room: how many more transitions may come now.
        enter: called with shard, position and news of each block, once.
        lose: called with a shard that lost its rows.
    """

    def __init__(
        self,
        ray: Any,
        count: int,
        nbytes: int,
        room: Callable[[], float],
        enter: Callable[[int, int, News], object],
        lose: Callable[[int], object],
    ) -> None:
        self._ray, self._errors = ray, ray.exceptions
        self._room, self._enter, self._lose = room, enter, lose
        # Ray starts a lost shard again, empty; no call is repeated by itself. Shards are idle most
        # of the time, so they reserve no CPU.
        actor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0)(Shard)
        self._known = [_Known(actor.options(**self._node_of(k)).remote()) for k in range(count)]
        try:
            begun = [s.handle.begin.remote(__version__, k, nbytes) for k, s in enumerate(self)]
            for shard, incarnation in zip(self, ray.get(begun, timeout=START), strict=True):
                shard.incarnation = incarnation
        except self._errors.RayError as error:
            self.kill()
            cause = getattr(error, "cause", None)
            if isinstance(cause, NeedReplayError):
                raise cause from error
            raise NeedReplayError(
                f"The shards do not start ({type(error).__name__}: "
                f"{str(error).strip().splitlines()[0]}); is needreplay installed on every node?"
            ) from error

    def _node_of(self, k: int) -> dict[str, Any]:
        """Shards are dealt out to the nodes, this one first; a lost node's shards go elsewhere."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = self._ray.get_runtime_context().get_node_id()
        alive = [node["NodeID"] for node in self._ray.nodes() if node["Alive"]]
        nodes = [here, *sorted(set(alive) - {here})]
        node = nodes[k % len(nodes)]
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=True)}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[_Known]:
        return iter(self._known)

    def __getitem__(self, k: int) -> _Known:
        return self._known[k]

    def kill(self) -> None:
        """End all of them."""
        for shard in self:
            self._ray.kill(shard.handle)

    # News ----------------------------------------------------------------------------------------

    def poll(self, seconds: float = 0.0, period: float | None = None) -> None:
        """Take what was announced, and ask those that were not asked for ``period`` seconds.

        Args:
            seconds: how long to wait for an answer.
            period: by default each shard's own.
        """
        now = time.monotonic()
        for k, shard in enumerate(self):
            if now - shard.asked_at >= (shard.period if period is None else period):
                self._ask(k)
        self._take(seconds)

    def _ask(self, k: int) -> None:
        shard = self[k]
        if shard.asked is not None:
            return
        shard.freeing, shard.freed, shard.asked_at = shard.freed, [], time.monotonic()
        shard.asked = shard.handle.poll.remote(
            shard.incarnation, shard.taken, shard.freeing, self._room() / len(self)
        )

    def _take(self, seconds: float) -> None:
        """Take the answers that are there, or come within ``seconds``."""
        asked = {shard.asked: k for k, shard in enumerate(self) if shard.asked is not None}
        if not asked:
            time.sleep(min(seconds, PAUSE))
            return
        ready, _ = self._ray.wait(
            list(asked), num_returns=1 if seconds else len(asked), timeout=seconds
        )
        for answer in ready:
            k = asked[answer]
            shard = self[k]
            shard.asked = None
            try:
                told: Told = self._ray.get(answer)
            except self._errors.RayError as error:
                shard.freed = shard.freeing + shard.freed
                self._is_silent(k, error)
                continue
            shard.silent_since = None
            shard.period = POLL_PERIOD if told.news else min(2 * shard.period, LONGEST_PERIOD)
            with Uninterrupted():
                self._told(k, told)

    def _told(self, k: int, told: Told) -> None:
        shard = self[k]
        if told.incarnation != shard.incarnation:
            self._lose(k)
            shard.incarnation, shard.taken, shard.freed = told.incarnation, 0, []
        for number, (position, news) in enumerate(told.news, told.first):
            if number >= shard.taken:
                self._enter(k, position, news)
                shard.taken = number + 1

    def _is_silent(self, k: int, error: Exception) -> None:
        """Ray cannot reach a shard: it died, or it may come back."""
        shard, now = self[k], time.monotonic()
        if isinstance(error, self._errors.RayTaskError):
            raise NeedReplayError(f"Shard {k}: {error.cause}") from error
        if shard.silent_since is None:
            shard.silent_since = now
        died = isinstance(error, self._errors.ActorDiedError)
        if died or now - shard.silent_since > GRACE:
            with Uninterrupted():
                self._lose(k)

    # Rows ----------------------------------------------------------------------------------------

    def read(self, k: int, positions: IntArray, rows: IntArray) -> Any:
        """Ask for a row of each of these blocks."""
        return self[k].handle.read.remote(self[k].incarnation, positions, rows)

    def block(self, k: int, position: int) -> Any:
        """Ask for a whole block."""
        return self[k].handle.block.remote(self[k].incarnation, position)

    def put(self, k: int, parts: Parts) -> Any:
        """Store a block; the answer is its position."""
        return self[k].handle.put.remote(parts)

    def answers(self, asked: list[tuple[int, Any]]) -> list[Parts] | None:
        """What was asked for, each of a shard; None if one has lost it."""
        try:
            found: list[Parts | None] = self._ray.get([answer for _, answer in asked])
        except self._errors.RayError:
            found = [self._answer(k, answer) for k, answer in asked]
        complete = [parts for parts in found if parts is not None]
        if len(complete) == len(found):
            return complete
        # What a shard says next shows whether its rows are lost; then others are sampled.
        time.sleep(PAUSE)
        for (k, _), parts in zip(asked, found, strict=True):
            if parts is None:
                self._ask(k)
        self._take(0.1)
        return None

    def _answer(self, k: int, answer: Any) -> Parts | None:
        try:
            parts: Parts | None = self._ray.get(answer)
        except self._errors.RayError as error:
            self._is_silent(k, error)
            return None
        return parts
