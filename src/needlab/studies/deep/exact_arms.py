"""The arms of the exact-need study, the blocks of runs that compare them, and how an arm replays.

Need is computed from the known table of the world and the agent's present policy, not learned.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse.csgraph import shortest_path

from needlab.core.jit import jit
from needlab.studies.deep.exact_tasks import ExactTask
from needlab.tabular.successor import transition_matrix
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray, IntArray
from needreplay.need import NeedForm, ShuffledNeed, tabular_need
from needreplay.replay import Batch, ProportionalSampler, ReplayBuffer, UniformSampler
from needreplay.replay.samplers import StateNeedSampler

HORIZON = 0.9
"""γ of need"""
TERMS = 60
"""of the sum (γ T)^k"""
BATCH, CAPACITY = 32, 10_000
RECENT = 2_000
"""A recent state is that of one of so many newest transitions."""


class Arm(NamedTuple):
    """How transitions are sampled."""

    by: Literal["nothing", "gain", "gain x need"]
    uniform_mix: float = 0.0
    """the share of the probability that is uniform"""
    form: NeedForm = NeedForm(relative=False)
    table: Literal["M", "0.5^distance"] = "M"
    """what need is read from"""
    shuffled: Literal["no", "drawn", "permuted"] = "no"
    """each transition has the need of another one: of one that was drawn when it was stored (one
    may serve many), or of the next along a cycle of all slots (each serves one)"""


ARMS: dict[str, Arm] = {
    "uniform": Arm("nothing"),
    "PER": Arm("gain"),
    "PER, .25 uniform": Arm("gain", 0.25),
    "exact need": Arm("gain x need"),
    "exact need, .25 uniform": Arm("gain x need", 0.25),
    "exact need, .5 uniform": Arm("gain x need", 0.5),
    "shuffled need, .25 uniform": Arm("gain x need", 0.25, shuffled="drawn"),
    "backward need, .25 uniform": Arm("gain x need", 0.25, NeedForm(direction="backward")),
    "0.5^distance, .25 uniform": Arm("gain x need", 0.25, table="0.5^distance"),
    "relative need, .25 uniform": Arm("gain x need", 0.25, NeedForm()),
    "relative need shuffled, .25 uniform": Arm(
        "gain x need", 0.25, NeedForm(), shuffled="permuted"
    ),
    "recent need, .25 uniform": Arm("gain x need", 0.25, NeedForm("recent")),
    "recent need shuffled, .25 uniform": Arm(
        "gain x need", 0.25, NeedForm("recent"), shuffled="permuted"
    ),
    "start need, .25 uniform": Arm("gain x need", 0.25, NeedForm("start")),
}
"""Exact need is the present state's row of M. Backward need is the present state's column, which is
need relative to p. Relative, recent and start need are M / p, seen from the three queries."""

FIRST_ARMS = (
    "uniform",
    "PER",
    "exact need",
    "exact need, .25 uniform",
    "exact need, .5 uniform",
    "shuffled need, .25 uniform",
    "backward need, .25 uniform",
    "0.5^distance, .25 uniform",
)
FIRST_TESTS = (
    ("exact need, .25 uniform", "shuffled need, .25 uniform"),
    ("exact need", "uniform"),
    ("exact need, .25 uniform", "uniform"),
    ("exact need, .5 uniform", "uniform"),
    ("exact need, .25 uniform", "PER"),
    ("exact need, .25 uniform", "0.5^distance, .25 uniform"),
    ("exact need, .25 uniform", "backward need, .25 uniform"),
    ("PER", "uniform"),
)
FORM_TESTS = (
    ("relative need, .25 uniform", "relative need shuffled, .25 uniform"),
    ("recent need, .25 uniform", "recent need shuffled, .25 uniform"),
    ("relative need, .25 uniform", "PER, .25 uniform"),
    ("recent need, .25 uniform", "PER, .25 uniform"),
    ("start need, .25 uniform", "PER, .25 uniform"),
    ("backward need, .25 uniform", "PER, .25 uniform"),
    ("PER, .25 uniform", "PER"),
    ("PER, .25 uniform", "uniform"),
)


class Block(NamedTuple):
    """Runs that are made together, and the comparisons that were planned for them."""

    tasks: tuple[tuple[str, int], ...]
    """each with the steps between updates"""
    arms: tuple[str, ...] = FIRST_ARMS
    steps: int = 12_000
    tests: tuple[tuple[str, str], ...] = FIRST_TESTS
    """an arm and its rival; those whose arms are here"""


BLOCKS = {
    "small": Block((("MultiRoom", 4), ("deep sea", 4), ("moving goal", 4), ("twelve mazes", 4))),
    "large": Block(
        (
            ("FourRooms", 4),
            ("DistShift", 4),
            ("Taxi", 4),
            ("FourRooms", 16),
            ("twelve mazes", 16),
        )
    ),
    "long": Block(
        (("MultiRoom", 4), ("moving goal", 4), ("twelve mazes", 4), ("FourRooms", 4)),
        ("uniform", "PER", "exact need, .25 uniform", "shuffled need, .25 uniform"),
        48_000,
    ),
    "forms": Block(
        (("MultiRoom", 4), ("moving goal", 4), ("twelve mazes", 4), ("FourRooms", 4)),
        (
            "uniform",
            "PER",
            "PER, .25 uniform",
            "relative need, .25 uniform",
            "relative need shuffled, .25 uniform",
            "recent need, .25 uniform",
            "recent need shuffled, .25 uniform",
            "start need, .25 uniform",
            "backward need, .25 uniform",
        ),
        tests=FORM_TESTS,
    ),
}
"""Presets."""

QUICK = Block(
    (("moving goal", 4),),
    ("uniform", "exact need, .25 uniform", "shuffled need, .25 uniform"),
    4_000,
)
QUICK_BLOCKS = dict.fromkeys(BLOCKS, QUICK) | {
    "forms": BLOCKS["forms"]._replace(tasks=(("moving goal", 4),), steps=1_500)
}
"""What the quick size runs for each preset."""


@jit
def visits(next_state: Any, flows: Any, state: int, terms: int, backward: bool) -> Any:
    """Σ_k (γ T)^k from ``state``, a row of M, or ``backward`` to it, a column.

    ``flows`` is π(a | s), 0 where the step ends.
    """
    n_states, n_actions = next_state.shape
    now, total = np.zeros(n_states), np.zeros(n_states)
    now[state] = total[state] = 1.0
    for _ in range(terms):
        following = np.zeros(n_states)
        for s in range(n_states):
            for a in range(n_actions):
                if backward:
                    following[s] += HORIZON * flows[s, a] * now[next_state[s, a]]
                elif now[s] != 0.0:
                    following[next_state[s, a]] += HORIZON * flows[s, a] * now[s]
        now = following
        total += now
    return total


def distance_kernel(task: ExactTask) -> FloatArray:
    """[state, state]: 0.5^d with d the steps of a shortest path; 0 where there is none."""
    anywhere = np.ones(task.reward.shape)
    kernel: FloatArray = 0.5 ** shortest_path(
        transition_matrix(task.next_state, task.ends, anywhere), unweighted=True
    )
    return kernel


class StateRing:
    """The states in which the stored transitions began, slot by slot, and how often each is there.

    Args:
        capacity: how many slots there are.
        n_states: how many states there are.
    """

    def __init__(self, capacity: int, n_states: int) -> None:
        self._states = np.zeros(capacity, np.int64)
        self._counts = np.zeros(n_states, np.int64)
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, len(self._states))

    def __getitem__(self, slot: int) -> int:
        return int(self._states[slot])

    def add(self, state: int) -> None:
        """A transition from ``state`` takes the next slot, and the place of the oldest if full."""
        slot = self._added % len(self._states)
        if self._added >= len(self._states):
            self._counts[self._states[slot]] -= 1
        self._states[slot] = state
        self._counts[state] += 1
        self._added += 1

    @property
    def shares(self) -> FloatArray:
        """p(s), [state]: the share of the stored transitions that began there."""
        shares: FloatArray = self._counts / max(1, len(self))
        return shares

    def recent(self, size: int, rng: np.random.Generator) -> IntArray:
        """``size`` states of the newest transitions, each drawn by itself."""
        ages = rng.integers(min(len(self), RECENT), size=size)
        states: IntArray = self._states[(self._added - 1 - ages) % len(self._states)]
        return states


class ExactNeed:
    """The need of all states, seen from one. Rows of M are computed when they are first asked for.

    Args:
        task: the known world.
        arm: has the form of need, and what it is read from.
    """

    def __init__(self, task: ExactTask, arm: Arm) -> None:
        self._task, self._form = task, arm.form
        self._fixed = arm.table != "M"
        n_states = len(task.next_state)
        self._M = distance_kernel(task) if self._fixed else np.zeros((n_states, n_states))
        self._flows = np.zeros(task.reward.shape)
        self._known = np.full(n_states, self._fixed)

    def follow(self, policy: FloatArray) -> None:
        """M is that of ``policy``, [state, action], from now on."""
        self._flows = np.where(self._task.ends, 0.0, policy)
        self._known[:] = self._fixed

    def seen_from(self, state: int, p: FloatArray) -> FloatArray:
        """Need, [state]; ``p`` is how often each state is stored."""
        if not self._known[state]:
            backward = self._form.direction == "backward"
            column = (slice(None), state) if backward else state
            self._M[column] = visits(self._task.next_state, self._flows, state, TERMS, backward)
            self._known[state] = True
        return tabular_need(self._M, p, state, self._form)


class Memory:
    """What an arm stores and how it is sampled.

    Args:
        task: the known world.
        arm: how to sample.
        seed: decides what is sampled, seen from where, and the cycle of shuffled need.
    """

    def __init__(self, task: ExactTask, arm: Arm, seed: int) -> None:
        n_states = len(task.next_state)
        self._arm = arm
        columns: dict[str, Any] = dict.fromkeys(("s", "action", "next_s"), np.int64)
        columns |= dict.fromkeys(("reward", "discount"), np.float32)
        self.buffer = ReplayBuffer(CAPACITY, columns, sampler=_sampler(arm, n_states), seed=seed)
        self.by_need = arm.by == "gain x need"
        self._need = ExactNeed(task, arm) if self.by_need else None
        self._stored = StateRing(CAPACITY, n_states)
        self._queries = stream(seed, "exact need", "queries")
        self._cycle = ShuffledNeed(self.buffer, seed) if arm.shuffled == "permuted" else None

    def add(self, state: int, rng: np.random.Generator, **columns: Any) -> None:
        """Store a transition; arms by need draw one number, so that they share all others."""
        if not self.by_need:
            self.buffer.add(s=state, **columns)
            return
        self._stored.add(state)
        donor = self._stored[int(rng.integers(len(self._stored)))]
        has_need_of = donor if self._arm.shuffled == "drawn" else state
        ids = self.buffer.add(s=state, state=has_need_of, **columns)
        if self._cycle is not None:
            changed = self._cycle.affected(np.array(ids))
            self.buffer.set_states(changed, self.buffer.read(self._cycle.donors(changed))["s"])

    def update_priorities(self, ids: IntArray, priorities: FloatArray) -> None:
        """Set the priorities of transitions, if the arm samples by them."""
        if self._arm.by != "nothing":
            self.buffer.update_priorities(ids, priorities)

    def follow(self, policy: FloatArray) -> None:
        """Need is that of ``policy`` from now on."""
        if self._need is not None:
            self._need.follow(policy)

    def sample(self, present: int, starts: IntArray, beta: float) -> Batch:
        """A batch, with need seen from the query of the arm's form.

        Args:
            present: the state that the agent is in.
            starts: where an episode could begin now.
            beta: the exponent of importance weights.
        """
        if self._need is None:
            return self.buffer.sample(BATCH, beta=beta)
        p, query = self._stored.shares, self._arm.form.query
        if query == "present":
            need = self._need.seen_from(present, p)
        else:
            states = self._queries.choice(starts, size=BATCH)
            if query == "recent":
                states = self._stored.recent(BATCH, self._queries)
            need = np.stack([self._need.seen_from(int(state), p) for state in states])
        return self.buffer.sample(BATCH, need=need, beta=beta)


def _sampler(arm: Arm, n_states: int) -> Any:
    if arm.by == "nothing":
        return UniformSampler()
    if arm.by == "gain":
        return ProportionalSampler(alpha=0.6, stratified=False, uniform_mix=arm.uniform_mix)
    return StateNeedSampler(
        n_states, alpha=0.6, need_alpha=1.0, correct_for="gain", uniform_mix=arm.uniform_mix
    )
