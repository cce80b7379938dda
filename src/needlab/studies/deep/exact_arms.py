"""The arms of the exact-need study, the blocks of runs that compare them, and how an arm replays.

Need is computed from the known table of the world and the agent's present policy, not learned.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import shortest_path

from needlab.studies.deep.exact_tasks import ExactTask
from needlab.tabular.successor import transition_matrix
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray, IntArray
from needreplay.equations import closed_form
from needreplay.need import NeedForm, ShuffledNeed, tabular_need
from needreplay.replay import Batch, ProportionalSampler, ReplayBuffer, UniformSampler
from needreplay.replay.samplers import Sampler, StateNeedSampler

HORIZON = 0.9
"""γ of need"""
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
    shuffled: bool = False
    """each transition has the need of another one (``ShuffledNeed``)"""


ARMS: dict[str, Arm] = {
    "uniform": Arm("nothing"),
    "PER": Arm("gain"),
    "PER, .25 uniform": Arm("gain", 0.25),
    "exact need": Arm("gain x need"),
    "exact need, .25 uniform": Arm("gain x need", 0.25),
    "exact need, .5 uniform": Arm("gain x need", 0.5),
    "shuffled need, .25 uniform": Arm("gain x need", 0.25, shuffled=True),
    "backward need, .25 uniform": Arm("gain x need", 0.25, NeedForm(direction="backward")),
    "0.5^distance, .25 uniform": Arm("gain x need", 0.25, table="0.5^distance"),
    "relative need, .25 uniform": Arm("gain x need", 0.25, NeedForm()),
    "relative need shuffled, .25 uniform": Arm("gain x need", 0.25, NeedForm(), shuffled=True),
    "recent need, .25 uniform": Arm("gain x need", 0.25, NeedForm("recent")),
    "recent need shuffled, .25 uniform": Arm(
        "gain x need", 0.25, NeedForm("recent"), shuffled=True
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


def distance_kernel(task: ExactTask) -> FloatArray:
    """[state, state]: 0.5^d with d the steps of a shortest path; 0 where there is none."""
    anywhere = np.ones(task.world.next_state.shape)
    kernel: FloatArray = 0.5 ** shortest_path(
        transition_matrix(task.world.next_state, task.world.ends, anywhere), unweighted=True
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
    """The need of all states, seen from one.

    Args:
        task: the known world.
        arm: has the form of need, and what it is read from.
    """

    def __init__(self, task: ExactTask, arm: Arm) -> None:
        self._world, self._form = task.world, arm.form
        self._follows = arm.table == "M"
        self._M = np.eye(task.world.n_states) if self._follows else distance_kernel(task)

    def follow(self, policy: FloatArray) -> None:
        """M is that of ``policy``, [state, action], from now on."""
        if self._follows:
            T = transition_matrix(self._world.next_state, self._world.ends, policy)
            self._M = np.maximum(closed_form(T, HORIZON), 0.0)  # a 0 may come out as -1e-18

    def seen_from(self, state: int, p: FloatArray) -> FloatArray:
        """Need, [state]; ``p`` is how often each state is stored."""
        return tabular_need(self._M, p, state, self._form)


class Memory:
    """What an arm stores and how it is sampled.

    Args:
        task: the known world.
        arm: how to sample.
        seed: decides what is sampled, seen from where, and the cycle of shuffled need.
    """

    def __init__(self, task: ExactTask, arm: Arm, seed: int) -> None:
        n_states = len(task.world.next_state)
        self._arm = arm
        columns: dict[str, Any] = dict.fromkeys(("s", "action", "next_s"), np.int64)
        columns |= dict.fromkeys(("reward", "discount"), np.float32)
        self.buffer = ReplayBuffer(CAPACITY, columns, sampler=_sampler(arm, n_states), seed=seed)
        self.by_need = arm.by == "gain x need"
        self._need = ExactNeed(task, arm) if self.by_need else None
        self._stored = StateRing(CAPACITY, n_states)
        self._queries = stream(seed, "exact need", "queries")
        self._cycle = ShuffledNeed(self.buffer, seed) if arm.shuffled else None

    def add(self, state: int, **columns: npt.ArrayLike) -> None:
        """Store a transition."""
        if not self.by_need:
            self.buffer.add(s=state, **columns)
            return
        self._stored.add(state)
        ids = self.buffer.add(s=state, state=state, **columns)
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


def _sampler(arm: Arm, n_states: int) -> Sampler:
    if arm.by == "nothing":
        return UniformSampler()
    if arm.by == "gain":
        return ProportionalSampler(alpha=0.6, stratified=False, uniform_mix=arm.uniform_mix)
    return StateNeedSampler(
        n_states, alpha=0.6, need_alpha=1.0, correct_for="gain", uniform_mix=arm.uniform_mix
    )
