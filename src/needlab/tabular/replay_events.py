"""Forward and reverse events in a list of replayed pairs, for any agent's log or recorded data.

Step i of a list is *reverse* if pair i + 1 leads to state i, else *forward* if pair i leads to
state i + 1, else neither. An event is a longest run of equal steps that visits at least five
states. These are the rules of Mattar & Daw's (2018) published analysis.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from needlab.core.jit import jit
from needlab.core.tables import Table, read_table, write_table
from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import FloatArray, IntArray

Records: TypeAlias = npt.NDArray[Any]

NONE, FORWARD, REVERSE = range(3)
DIRECTIONS = ("none", "forward", "reverse")

EVENT = np.dtype(
    [("first", np.int64), ("last", np.int64), ("direction", np.int64), ("significant", np.bool_)]
)
"""An event: the places of its first and last pair in the list, ``FORWARD`` or ``REVERSE``, and
whether the permutation test finds it significant."""

REPLAY_COLUMNS = (
    "episode",
    "pause",
    "order",
    "state",
    "action",
    "gain",
    "need",
    "chain_length",
    "direction",
    "event",
)
"""The columns of a replay table, one row per backup. ``direction`` is that of the event that the
backup belongs to (forward, reverse, none), ``event`` its number, from 0 (-1: in no event)."""


def replay_events(
    states: npt.ArrayLike,
    actions: npt.ArrayLike,
    next_state: npt.ArrayLike,
    *,
    shortest: int = 5,
    permutations: int = 500,
    level: float = 0.025,
    rng: np.random.Generator | None = None,
) -> Records:
    """The events in one replay: a list of pairs (state, action) in the order of replay.

    >>> corridor = [[max(s - 1, 0), min(s + 1, 9)] for s in range(10)]  # actions: left, right
    >>> found = replay_events([8, 7, 6, 5, 4, 0], [1, 1, 1, 1, 1, 1], corridor)
    >>> [(DIRECTIONS[event["direction"]], event["first"], event["last"]) for event in found]
    [('reverse', np.int64(0), np.int64(4))]

    The permutation test shuffles the pairs of a run. The score of an order is the share of forward
    steps minus that of reverse ones. With 500 permutations and level 0.025, an event is significant
    if its score is strictly below the 12th or strictly above the 488th of the sorted scores. On the
    published worlds nearly every run of five passes: the length decides.

    Args:
        states: [i], the states of the list.
        actions: [i], the actions.
        next_state: [state, action], where an action leads; -1 if that is not known.
        shortest: the fewest states of an event.
        permutations: of the test; 0 calls every event significant.
        level: of each tail of the test.
        rng: draws the permutations; by default one with a fixed seed.
    """
    listed, taken, table = np.asarray(states), np.asarray(actions), np.asarray(next_state)
    check_number("shortest", shortest, int, (2, float("inf")))
    check_number("permutations", permutations, int, (0, float("inf")))
    check_number("level", level, float, (0.001, 0.5))
    if table.ndim != 2 or (table.size and table.dtype.kind not in "iu"):
        raise NeedReplayError(
            f"next_state must be a matrix of integers, [state, action]; it was {table.ndim}-"
            f"dimensional {table.dtype}."
        )
    if listed.ndim != 1 or listed.shape != taken.shape:
        raise NeedReplayError(
            f"states and actions must be two lists of one length; their shapes are {listed.shape} "
            f"and {taken.shape}."
        )
    check_indices("states", listed, len(table), "the size of next_state")
    check_indices("actions", taken, table.shape[1], "the size of next_state")
    lower = int(permutations * level)
    if permutations and lower < 1:
        raise NeedReplayError(
            f"permutations is {permutations}; at level {level} the test needs at least "
            f"{int(np.ceil(1.0 / level))}, or 0 for no test."
        )
    found: Records = find_events(
        listed.astype(np.int64),
        taken.astype(np.int64),
        table.astype(np.int64),
        shortest,
        permutations,
        lower,
        np.random.default_rng(0) if rng is None else rng,
    )
    return found


def check_indices(name: str, values: IntArray, count: int, why: str) -> None:
    """Refuse ``values`` that are not integers below ``count``."""
    if values.size and (values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= count):
        raise NeedReplayError(f"{name} must be integers from 0 to {count - 1}, {why}.")


@jit
def step_label(s: int, a: int, next_s: int, next_a: int, table: IntArray) -> int:
    """What the step from one pair to the next is; reverse wins where both hold."""
    if table[next_s, next_a] == s:
        return REVERSE
    return FORWARD if table[s, a] == next_s else NONE


@jit
def order_score(states: IntArray, actions: IntArray, order: IntArray, table: IntArray) -> float:
    """Share of forward steps minus share of reverse steps, if pairs are taken in ``order``."""
    total = 0
    for i in range(order.size - 1):
        here, after = order[i], order[i + 1]
        label = step_label(states[here], actions[here], states[after], actions[after], table)
        total += (label == FORWARD) - (label == REVERSE)
    return total / (order.size - 1)


@jit
def is_significant(
    states: IntArray,
    actions: IntArray,
    table: IntArray,
    permutations: int,
    lower: int,
    rng: np.random.Generator,
) -> bool:
    """Whether the score of the given order is rare among shuffled ones."""
    if permutations == 0:
        return True
    order = np.arange(states.size)
    score = order_score(states, actions, order, table)
    below, above = 0, 0
    for _ in range(permutations):
        for i in range(order.size - 1, 0, -1):
            j = int(rng.random() * (i + 1))
            order[i], order[j] = order[j], order[i]
        shuffled = order_score(states, actions, order, table)
        below += shuffled < score
        above += shuffled > score
    return below >= permutations - lower or above > permutations - lower


@jit
def find_events(
    states: IntArray,
    actions: IntArray,
    table: IntArray,
    shortest: int,
    permutations: int,
    lower: int,
    rng: np.random.Generator,
) -> Records:
    """The events of one list; see ``replay_events``."""
    events, count, first = np.empty(states.size, EVENT), 0, 0
    while first < states.size - 1:
        label = step_label(
            states[first], actions[first], states[first + 1], actions[first + 1], table
        )
        last = first + 1
        while (
            last < states.size - 1
            and step_label(states[last], actions[last], states[last + 1], actions[last + 1], table)
            == label
        ):
            last += 1
        if label != NONE and last - first + 1 >= shortest:
            run = slice(first, last + 1)
            events[count]["first"], events[count]["last"] = first, last
            events[count]["direction"] = label
            events[count]["significant"] = is_significant(
                states[run], actions[run], table, permutations, lower, rng
            )
            count += 1
        first = last
    return events[:count]


def replay_table(
    episode: IntArray,
    pause: IntArray,
    states: IntArray,
    actions: IntArray,
    next_state: IntArray,
    *,
    gain: FloatArray | None = None,
    need: FloatArray | None = None,
    chain_length: IntArray | None = None,
    rng: np.random.Generator | None = None,
) -> Table:
    """The tidy table of a log: one row per backup, with the significant event that it belongs to.

    Args:
        episode: [backup].
        pause: [backup], the number of the replay; backups of one replay stand together, in order.
        states: [backup].
        actions: [backup].
        next_state: [state, action].
        gain: [backup], if known.
        need: [backup], if known.
        chain_length: [backup]; 1 if not given.
        rng: draws the permutations of the test.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    count = len(states)
    order, event = np.zeros(count, np.int64), np.full(count, -1, np.int64)
    direction = np.full(count, NONE)
    found = 0
    borders = np.flatnonzero(np.r_[True, np.diff(pause) != 0, True]) if count else np.zeros(1, int)
    for begin, end in pairwise(borders):
        order[begin:end] = np.arange(end - begin)
        events = replay_events(states[begin:end], actions[begin:end], next_state, rng=rng)
        for entry in events[events["significant"]]:
            # Neighboring events may share a pair; it belongs to the first.
            rows = np.arange(begin + entry["first"], begin + entry["last"] + 1)
            rows = rows[event[rows] < 0]
            event[rows], direction[rows] = found, entry["direction"]
            found += 1
    unknown = np.full(count, np.nan)
    return Table(
        {
            "episode": episode,
            "pause": pause,
            "order": order,
            "state": states,
            "action": actions,
            "gain": unknown if gain is None else gain,
            "need": unknown if need is None else need,
            "chain_length": np.ones(count, np.int64) if chain_length is None else chain_length,
            "direction": np.array(DIRECTIONS)[direction],
            "event": event,
        }
    )


def write_replay(path: str | Path, table: Table) -> None:
    """Write a replay table as CSV."""
    write_table(path, _checked(table, "The table"))


def read_replay(path: str | Path) -> Table:
    """Read a replay table from CSV; the columns may be in any order, and others may be there."""
    return _checked(read_table(path), str(path))


def _checked(table: Table, name: str) -> Table:
    missing = [column for column in REPLAY_COLUMNS if column not in table.names]
    if missing:
        raise NeedReplayError(
            f"{name} is no replay table: it lacks {', '.join(missing)}; the columns are "
            f"{', '.join(REPLAY_COLUMNS)}."
        )
    return table
