"""Sources of transitions that say who they are, in processes of their own on a Ray cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from needreplay.distributed import RayReplayBuffer, Writer

COLUMNS = {"who": np.int64, "number": np.int64, "x": (np.float32, (3,))}


def rows(who: int, first: int, count: int) -> dict[str, Any]:
    """Transitions that say who wrote them, and their number."""
    numbers = np.arange(first, first + count)
    return {
        "who": np.full(count, who),
        "number": numbers,
        "x": np.stack([numbers, numbers + 1, numbers + 2], axis=1).astype(np.float32),
    }


class Source:
    """Writes on demand, in a process of its own."""

    def __init__(self, writer: Writer, who: int) -> None:
        self.writer, self.who, self.next = writer, who, 0

    def first_priorities(self, named: str) -> None:
        """Let first priorities be a function of a transition."""
        self.writer.first_priorities = globals()[named]

    def write(self, count: int, each: int = 10) -> int:
        """Add ``count`` transitions, and return when the learner has them."""
        for _ in range(0, count, each):
            self.writer.add(**rows(self.who, self.next, each))
            self.next += each
        self.writer.flush()
        return self.next


def started(buffer: RayReplayBuffer, count: int, **options: Any) -> list[Any]:
    """Sources in other processes."""
    import ray

    actor = ray.remote(**{"num_cpus": 0, **options})(Source)
    return [actor.remote(buffer.writer(), who) for who in range(count)]


def finished(buffer: RayReplayBuffer, answers: list[Any]) -> list[Any]:
    """The answers of sources, while the learner takes what they write."""
    import ray

    while len(ray.wait(answers, num_returns=len(answers), timeout=0.01)[0]) < len(answers):
        buffer.poll()
    return list(ray.get(answers))


def stored(buffer: RayReplayBuffer) -> dict[int, list[int]]:
    """The numbers of all that is stored, by who wrote it, in the order of their ids."""
    found: dict[int, list[int]] = {}
    columns = buffer.read(np.arange(buffer.oldest_id, buffer.next_id))
    for who, number in zip(columns["who"].tolist(), columns["number"].tolist(), strict=True):
        found.setdefault(who, []).append(number)
    return found


def first_priority(columns: dict[str, Any]) -> Any:
    """A priority that nearly every transition has for itself."""
    return 0.1 + (columns["number"] * 7919 + columns["who"] * 104729) % 10_007 / 10_007


class EpisodeSource:
    """Plays episodes of given length; an observation is the episode and the step in it."""

    def __init__(self, writer: Writer, who: int) -> None:
        self.writer, self.episode = writer, 1_000 * who

    def play(self, episodes: int, length: int) -> None:
        """Write them, and return when the learner has them."""
        for _ in range(episodes):
            for step in range(length):
                self.writer.add(
                    obs=np.array([self.episode, step], np.float32),
                    action=0,
                    reward=1.0,
                    next_obs=np.array([self.episode, step + 1], np.float32),
                    terminated=step == length - 1,
                    truncated=False,
                )
            self.episode += 1
        self.writer.flush()


class Big:
    """Writes large rows."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def write(self, count: int) -> None:
        """Add ``count`` transitions, and return when the learner has them."""
        for number in range(count):
            big = np.full(40_000, number % 251, np.uint8)
            self.writer.add(who=0, number=number, x=np.full(3, number, np.float32), big=big)
        self.writer.flush()
