"""Rows outside of the learner: a shard is a Ray actor that holds blocks of them.

A block is some transitions in a row of one writer. A shard knows neither ids nor priorities. It
announces each block to the learner, keeps it until the learner frees it, and returns rows.
"""

from __future__ import annotations

import os
import secrets
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

from needreplay._core.cluster import check_version, imported
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.storage import Parts, memory


@dataclass(frozen=True, slots=True)
class News:
    """What the learner learns of a block: everything but its rows."""

    source: str
    """the writer, another text in each process that has it"""
    sequence: int
    """blocks of this source before it"""
    first: int
    """transitions of this source before it"""
    previous: IntArray
    """of each transition, the number of the one before it in its episode, or -1"""
    steps: IntArray
    """of each transition, its step in its episode"""
    priorities: FloatArray | None
    features: AnyArray | None

    @property
    def count(self) -> int:
        """How many transitions."""
        return len(self.steps)


class Told(NamedTuple):
    """What a shard answers when the learner asks for news."""

    incarnation: str
    """another text after the shard was started again, empty"""
    first: int
    """the number of the first of ``news``"""
    news: list[tuple[int, News]]
    """positions of blocks, and what is known of each"""


class State(NamedTuple):
    """What a shard answers to a writer."""

    stored: int
    """the last block of this source that is stored here; -1: none"""
    taken: int
    """the last one that the learner has taken; -1: none"""
    has_room: bool
    """whether it takes another block now"""


class Shard:
    """Blocks of rows."""

    def __init__(self) -> None:
        self.incarnation = secrets.token_hex(8)
        self._blocks: dict[int, Parts] = {}
        self._positions = 0
        self._last: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        self._news: deque[tuple[int, News]] = deque()
        self._acknowledged = 0
        self._waiting = 0
        self._room = 1.0  # until the learner says how much there is: one block

    def begin(self, version: str, number: int, nbytes: int) -> str:
        """Refuse what cannot work on this machine; returns which incarnation this is.

        Args:
            version: of needreplay, in the learner's process.
            number: of this shard, for messages.
            nbytes: how much it will hold.
        """
        check_version(version, f"Shard {number}")
        if nbytes > memory():
            raise NeedReplayError(
                f"Shard {number} will hold {nbytes / 2**30:.1f} GiB, and its machine has "
                f"{memory() / 2**30:.1f} GiB; make capacity smaller, or take more shards on more "
                "machines."
            )
        return self.incarnation

    def add(self, oldest: int, news: News, parts: Parts) -> State:
        """Store a block and announce it, if it is its turn; returns ``state``.

        Blocks of a source are stored in order, each once: ``oldest`` is the first that the learner
        has not taken, as far as the writer knows. The learner takes what it is told in its own
        time, and a shard does not store more than the learner has room for.
        """
        source, sequence = news.source, news.sequence
        last = self._last.get(source, -1)
        if sequence == max(last + 1, oldest) and self._has_room():
            self._last[source] = sequence
            self._news.append((self.put(parts), news))
            self._waiting += news.count
        return self.state(source)

    def state(self, source: str) -> State:
        """What is here of this source."""
        stored, taken = self._last.get(source, -1), self._taken.get(source, -1)
        return State(stored, taken, self._has_room())

    def _has_room(self) -> bool:
        return self._waiting < self._room

    def put(self, parts: Parts) -> int:
        """Store a block without a word; returns its position."""
        # Copied, since what Ray passes lies in its object store for as long as it is used.
        self._blocks[self._positions] = parts.copied()
        self._positions += 1
        return self._positions - 1

    def poll(self, incarnation: str, acknowledged: int, freed: list[int], room: float) -> Told:
        """What is new since the learner took ``acknowledged`` announcements.

        Args:
            incarnation: which one the learner knows.
            acknowledged: how many announcements of it the learner has.
            freed: positions of blocks that nothing refers to any more.
            room: how many rows the learner will take beyond these.
        """
        if incarnation == self.incarnation:
            while self._acknowledged < acknowledged:
                _, news = self._news.popleft()
                self._taken[news.source] = news.sequence
                self._waiting -= news.count
                self._acknowledged += 1
            for position in freed:
                self._blocks.pop(position, None)
        self._room = room
        return Told(self.incarnation, self._acknowledged, list(self._news))

    def read(self, incarnation: str, positions: IntArray, rows: IntArray) -> Parts | None:
        """Row ``rows[i]`` of the block at ``positions[i]``, each; None if they are lost."""
        if incarnation != self.incarnation:
            return None
        return Parts.gathered([self._blocks[p] for p in positions.tolist()], rows)

    def block(self, incarnation: str, position: int) -> Parts | None:
        """A whole block; None if it is lost."""
        return self._blocks[position] if incarnation == self.incarnation else None

    def facts(self) -> dict[str, Any]:
        """Where it is, and how much it holds."""
        ray = imported("A shard")
        return {
            "node": ray.get_runtime_context().get_node_id(),
            "process": os.getpid(),
            "blocks": len(self._blocks),
            "rows": sum(len(parts.rows) for parts in self._blocks.values()),
            "bytes": sum(parts.nbytes for parts in self._blocks.values()),
        }
