"""Forward and reverse events in a list of replayed pairs, for any agent's log or recorded data.

Moves that stay (into a wall) are dropped. Step i of the rest is *reverse* if pair i + 1 leads to
state i, else *forward* if pair i leads to state i + 1, else neither. An event is a longest run of
equal steps that visits at least five different states. Mattar & Daw's (2018) published analysis
counts five pairs instead (``count="pairs"``): an agent that goes back and forth between two cells
passes that, and makes up most of such runs in prioritized sweeping (docs/replay_events.md).

``decoded`` finds events in states alone, as decoders give them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from needlab.core.jit import jit
from needlab.core.tables import Table
from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError, unknown
from needreplay._core.types import AnyArray, FloatArray, IntArray

Count: TypeAlias = Literal["states", "pairs", "pairs and stays"]

NONE, FORWARD, REVERSE = range(3)
DIRECTIONS = ("none", "forward", "reverse")
WHENS = ("before", "after", "during", "unknown")
"""When an agent replays: before a run, after it, during it."""
SHORTEST, PERMUTATIONS = 5, 500

EVENT = np.dtype(
    [
        ("first", np.int64),
        ("last", np.int64),
        ("states", np.int64),
        ("direction", np.int64),
        ("significant", np.bool_),
    ]
)
"""An event: the places of its first and last pair in the list, how many different states it visits,
``FORWARD`` or ``REVERSE``, and whether the permutation test finds it significant."""

REPLAY_COLUMNS = (
    "episode",
    "pause",
    "order",
    "when",
    "agent_state",
    "reward",
    "state",
    "action",
    "gain",
    "need",
    "chain_length",
    "direction",
    "event",
)
"""The columns of a replay table, one row per backup. ``when`` is one of ``WHENS``, ``agent_state``
where the agent is (-1: unknown), ``reward`` the last one that it received at a goal (nan: none
yet, or unknown), ``direction`` that of the event that the backup belongs to (forward, reverse,
none), ``event`` its number, from 0 (-1: in no event). A stay inside an event carries its number."""


def replay_events(
    states: npt.ArrayLike,
    actions: npt.ArrayLike,
    next_state: npt.ArrayLike,
    *,
    count: Count = "states",
    shortest: int = SHORTEST,
    permutations: int = PERMUTATIONS,
    level: float = 0.025,
    rng: np.random.Generator | None = None,
) -> AnyArray:
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
        count: what must be at least ``shortest``: different "states" of a run, or its "pairs" (the
            published rule), both without moves that stay; or "pairs and stays", with them.
        shortest: the fewest of these in an event.
        permutations: of the test; 0 calls every event significant.
        level: of each tail of the test.
        rng: draws the permutations; by default one with a fixed seed.
    """
    listed, taken = as_array("states", states), as_array("actions", actions)
    table = as_array("next_state", next_state)
    if count not in get_args(Count):
        raise unknown("count", count, get_args(Count))
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
    listed, taken = listed.astype(np.int64), taken.astype(np.int64)
    kept = np.arange(listed.size)
    if count != "pairs and stays" and listed.size:
        kept = np.flatnonzero(table[listed, taken] != listed)
    found: AnyArray = find_events(
        listed[kept],
        taken[kept],
        table.astype(np.int64),
        count == "states",
        shortest,
        permutations,
        lower,
        np.random.default_rng(0) if rng is None else rng,
    )
    for end in ("first", "last"):
        found[end] = kept[found[end]]
    return found


def as_array(name: str, values: Any) -> AnyArray:
    """``values`` as an array, or raise for lists of unequal length."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise NeedReplayError(f"{name} cannot be read as an array: {error}.") from error


def check_indices(name: str, values: IntArray, count: int, why: str) -> None:
    """Raise unless ``values`` are integers from 0 and below ``count``."""
    if values.size and (values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= count):
        raise NeedReplayError(f"{name} must be integers from 0 to {count - 1}, {why}.")


@jit
def step_label(s: int, a: int, next_s: int, next_a: int, table: IntArray) -> int:
    """What the step from one pair to the next is; reverse wins where both hold."""
    if table[next_s, next_a] == s:
        return REVERSE
    return FORWARD if table[s, a] == next_s else NONE


@jit
def order_score(labels: IntArray, order: IntArray) -> float:
    """Share of forward steps minus share of reverse steps, if pairs are taken in ``order``.

    ``labels`` is [pair, pair]: what the step from one to the other is.
    """
    total = 0
    for i in range(order.size - 1):
        label = labels[order[i], order[i + 1]]
        total += int(label == FORWARD) - int(label == REVERSE)
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
    labels = np.empty((states.size, states.size), np.int64)
    for i in range(states.size):
        for j in range(states.size):
            labels[i, j] = step_label(states[i], actions[i], states[j], actions[j], table)
    order = np.arange(states.size)
    score = order_score(labels, order)
    below, above = 0, 0
    for _ in range(permutations):
        for i in range(order.size - 1, 0, -1):
            j = int(rng.random() * (i + 1))
            order[i], order[j] = order[j], order[i]
        shuffled = order_score(labels, order)
        below += shuffled < score
        above += shuffled > score
    return below >= permutations - lower or above > permutations - lower


@jit
def find_events(
    states: IntArray,
    actions: IntArray,
    table: IntArray,
    by_states: bool,
    shortest: int,
    permutations: int,
    lower: int,
    rng: np.random.Generator,
) -> AnyArray:
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
        run = slice(first, last + 1)
        long = label != NONE and last - first + 1 >= shortest
        different = np.unique(states[run]).size if long else 0
        if long and (different >= shortest or not by_states):
            events[count]["first"], events[count]["last"] = first, last
            events[count]["states"] = different
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
    when: AnyArray | None = None,
    agent_state: IntArray | None = None,
    reward: FloatArray | None = None,
    gain: FloatArray | None = None,
    need: FloatArray | None = None,
    chain_length: IntArray | None = None,
    count: Count = "states",
    shortest: int = SHORTEST,
    permutations: int = PERMUTATIONS,
    rng: np.random.Generator | None = None,
) -> Table:
    """The tidy table of a log: one row per backup, with the significant event that it belongs to.

    Args:
        episode: [backup].
        pause: [backup], the number of the replay; backups of one replay stand together, in order.
        states: [backup].
        actions: [backup].
        next_state: [state, action].
        when: [backup], of ``WHENS``; "unknown" if not given.
        agent_state: [backup], where the agent is; -1 if not given.
        reward: [backup], the last reward at a goal; nan if not given.
        gain: [backup]; nan if not given.
        need: [backup]; nan if not given.
        chain_length: [backup]; 1 if not given.
        count: what makes an event long enough; see ``replay_events``.
        shortest: the fewest of these.
        permutations: of the test; 0 calls every event significant.
        rng: draws the permutations of the test.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    backups = len(states)
    order, event = np.zeros(backups, np.int64), np.full(backups, -1, np.int64)
    direction = np.full(backups, NONE)
    found = 0
    for begin, end in pairwise(pause_borders(pause)):
        order[begin:end] = np.arange(end - begin)
        events = replay_events(
            states[begin:end],
            actions[begin:end],
            next_state,
            count=count,
            shortest=shortest,
            permutations=permutations,
            rng=rng,
        )
        for entry in events[events["significant"]]:
            # Neighboring events may share a pair; it belongs to the first.
            rows = np.arange(begin + entry["first"], begin + entry["last"] + 1)
            rows = rows[event[rows] < 0]
            event[rows], direction[rows] = found, entry["direction"]
            found += 1
    unknown_number = np.full(backups, np.nan)
    return Table(
        {
            "episode": episode,
            "pause": pause,
            "order": order,
            "when": np.full(backups, WHENS[-1]) if when is None else when,
            "agent_state": np.full(backups, -1) if agent_state is None else agent_state,
            "reward": unknown_number if reward is None else reward,
            "state": states,
            "action": actions,
            "gain": unknown_number if gain is None else gain,
            "need": unknown_number if need is None else need,
            "chain_length": np.ones(backups, np.int64) if chain_length is None else chain_length,
            "direction": np.array(DIRECTIONS)[direction],
            "event": event,
        }
    )


def pause_borders(
    pause: IntArray, name: str = "pause", where: str = "", first_row: int = 1
) -> list[int]:
    """Where each pause begins, and the end; raises if one goes on after another began."""
    numbers = np.asarray(pause)
    if not numbers.size:
        return [0]
    starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
    seen, first = np.unique(numbers[starts], return_index=True)
    if seen.size < starts.size:
        again = int(np.setdiff1d(np.arange(starts.size), first)[0])
        raise NeedReplayError(
            f"{where}{name} {numbers[starts[again]]} goes on in row {starts[again] + first_row} "
            f"after another one began; sort the rows by {name}, and give every {name} a number of "
            "its own."
        )
    return [*starts.tolist(), numbers.size]
