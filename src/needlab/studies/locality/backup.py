"""What is measured of one run: the value of every backup, and what predicts it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import rankdata

from needlab.studies.deep.exact_arms import ARMS, HORIZON, RECENT, Memory
from needlab.studies.deep.exact_tasks import ExactTask, exact_task
from needlab.studies.deep.exact_training import DISCOUNT, TableDQN, played
from needlab.studies.locality.classes import new_agent
from needlab.studies.locality.further import Parameters, adam_step, moments_of, trained_on
from needlab.studies.locality.value import (
    Function,
    PolicyValue,
    locality,
    near_states,
    softmax_policy,
    unit_directions,
)
from needlab.tabular.successor import transition_matrix
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray, IntArray
from needreplay.equations import closed_form
from needreplay.need import NeedForm, tabular_need
from needreplay.replay import Batch

STEPS, PERIOD, CHECKPOINTS = 12_000, 4, 4
TEMPERATURE, OTHER_TEMPERATURES = 0.02, (0.005, 0.1)
TRANSITIONS, SOME, FEW = 1_000, 64, 24
"""Transitions of the first-order effects; of locality and finite steps; of the later effects."""
PRESENT, EVERY = 8, 25
"""Present states, and the steps between two of them."""
SIZES = (0.1, 1.0)
"""Of finite steps: by how much of its TD error a transition's own value moves, on average."""
FURTHER = 200
MEAN_AGE = 1_000.0

NEEDS = ("need", "need .99", "M / p", "backward need", "recent need", "start need")
OTHERS = ("recency", "1 / p")
FACTORS = (
    "gain",
    *NEEDS,
    *OTHERS,
    *(f"gain x {name}" for name in (*NEEDS, *OTHERS)),
)
SEEN_FROM = ("present", "starts")
MORE = (
    *(f"temperature {value:g}" for value in OTHER_TEMPERATURES),
    *(f"step of {value:g}" for value in SIZES),
    "Adam's step",
    f"after {FURTHER} updates",
)
"""Effects that are measured in some runs, at every second checkpoint."""


class Case(NamedTuple):
    """One run, without its seed."""

    task: str
    function: str
    seed: int
    """of the first trial"""
    more: int
    """the number of trials in which ``MORE`` is measured"""


class Stored(NamedTuple):
    """Some stored transitions, with their TD errors."""

    batch: Batch
    error: FloatArray
    age: FloatArray

    def first(self, count: int) -> Stored:
        """The first so many; they are in random order."""
        columns = {name: value[:count] for name, value in self.batch.columns.items()}
        few = equal_batch(self.batch.ids[:count], columns)
        return Stored(few, self.error[:count], self.age[:count])


def equal_batch(ids: IntArray, columns: dict[str, AnyArray]) -> Batch:
    """A batch whose transitions have the same weight."""
    one = np.ones(len(ids))
    return Batch(ids=ids, probabilities=one, weights=one, columns=columns)


def measure(case: Case, trial: int) -> dict[str, AnyArray]:
    """Let an agent learn, and measure at each checkpoint. Arrays by name, [checkpoint, ...].

    ``more`` is of every second checkpoint.
    """
    seed, task = case.seed + trial, exact_task(case.task)
    rows: list[dict[str, AnyArray]] = []
    for agent, memory, present in checkpoints(case, seed):
        rng = stream(seed, "value of backup", "transitions", len(rows))
        more = trial < case.more and len(rows) % 2 == 1
        rows.append(Moment(task, agent, memory, present, rng).measured(more))
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return stacked | {"more": stacked["more"][1::2]}


def checkpoints(case: Case, seed: int) -> Iterator[tuple[TableDQN, Memory, IntArray]]:
    """The agent, its memory and its last present states, at each checkpoint of a run."""
    task = exact_task(case.task)
    rng = stream(seed, "value of backup", case.task, case.function)
    agent = new_agent(task, case.task, case.function, int(rng.integers(2**62)))
    memory = Memory(task, ARMS["uniform"], seed)
    visited: list[int] = []
    for step, state in played(task, agent, memory, rng, STEPS, PERIOD):
        visited.append(state)
        if (step + 1) % (STEPS // CHECKPOINTS) == 0:
            yield agent, memory, np.array(visited[: -PRESENT * EVERY : -EVERY])


class Moment:
    """An agent at a checkpoint.

    Args:
        task: the known world.
        agent: the agent; nothing here changes it.
        memory: what it has stored.
        present: the last states that it was in, every so many steps.
        rng: chooses transitions.
    """

    def __init__(
        self,
        task: ExactTask,
        agent: TableDQN,
        memory: Memory,
        present: IntArray,
        rng: np.random.Generator,
    ) -> None:
        self._task, self._agent, self._present, self._rng = task, agent, present, rng
        self._buffer = memory.buffer
        self._function = Function(agent.network, agent.obs)
        self._values = self._function.values()
        self._policy = softmax_policy(self._values, TEMPERATURE)
        stored = self._buffer.read(np.arange(self._buffer.oldest_id, self._buffer.next_id))["s"]
        self._p = np.bincount(stored, minlength=task.world.n_states) / len(stored)
        self._recent = stored[-RECENT:]
        self._views = np.zeros((PRESENT + 1, task.world.n_states))
        self._views[np.arange(PRESENT), present] = 1.0
        starts = np.unique(np.concatenate(task.starts))
        self._views[-1, starts] = 1.0 / len(starts)

    def measured(self, more: bool) -> dict[str, AnyArray]:
        """All that is measured here; ``more``: also ``MORE``, which is NaN otherwise."""
        stored = self._stored(TRANSITIONS)
        factors = self._factors(stored)
        moves = np.clip(stored.error, -1.0, 1.0)  # the gradient of the Huber loss
        some = stored.first(SOME)
        states, actions = some.batch["s"], some.batch["action"]
        spread = self._function.spread(unit_directions(states, actions, self._values.shape))
        own = spread[np.arange(SOME), states, actions]
        found = {
            "correlation": correlations(self._first_order(stored, TEMPERATURE) * moves, factors),
            "locality": locality(spread, states, near_states(self._task.world), self._p > 0.0),
            "value": self._V(self._policy)[-1],
            "more": np.full((len(MORE), len(SEEN_FROM), len(FACTORS), 2), np.nan, np.float32),
        }
        if more:
            effects = [self._first_order(stored, value) * moves for value in OTHER_TEMPERATURES]
            effects += self._finite(some, 1.0 / own.mean())
            parts = [factors[..., : one.shape[1]] for one in effects]
            found["more"] = np.stack(
                [correlations(one, part) for one, part in zip(effects, parts, strict=True)]
            )
        return found

    def _stored(self, count: int) -> Stored:
        ids = self._rng.choice(
            np.arange(self._buffer.oldest_id, self._buffer.next_id), count, replace=False
        )
        batch = equal_batch(ids, self._buffer.read(ids))
        with torch.no_grad():
            error = self._agent.td_errors(batch).double().numpy()
        return Stored(batch, error, (self._buffer.next_id - 1 - ids).astype(np.float64))

    def _factors(self, stored: Stored) -> FloatArray:
        """What each factor predicts, [factor, view, transition]."""
        world, n_views = self._task.world, len(self._views)
        T = transition_matrix(world.next_state, world.ends, self._policy)
        M = closed_form(T, HORIZON)
        forms = {"M / p": NeedForm(), "backward need": NeedForm(direction="backward")}
        needs: dict[str, FloatArray] = {
            "need": self._views @ M,
            "need .99": self._views @ closed_form(T, DISCOUNT),
            "recent need": np.tile(M[self._recent].mean(axis=0), (n_views, 1)),
            "start need": np.tile(self._views[-1] @ M, (n_views, 1)),
        }
        each = {
            name: np.stack([tabular_need(M, self._p, s, form) for s in range(world.n_states)])
            for name, form in forms.items()
        }
        needs |= {name: self._views @ table for name, table in each.items()}
        states = stored.batch["s"]
        found = {name: needs[name][:, states] for name in NEEDS}
        found["recency"] = np.tile(np.exp(-stored.age / MEAN_AGE), (n_views, 1))
        found["1 / p"] = np.tile(1.0 / self._p[states], (n_views, 1))
        gain = np.tile(np.abs(stored.error), (n_views, 1))
        return np.stack([gain, *found.values(), *(gain * each for each in found.values())])

    def _first_order(self, stored: Stored, temperature: float) -> FloatArray:
        """[view, transition]: the change of V by an update that moves Q up, for a step of 1."""
        exact = PolicyValue(self._task.world, softmax_policy(self._values, temperature), DISCOUNT)
        directions = np.stack([exact.gradient(view, temperature) for view in self._views])
        moved = self._function.spread(directions)
        effects: FloatArray = moved[:, stored.batch["s"], stored.batch["action"]]
        return effects

    def _V(self, policy: FloatArray) -> FloatArray:
        """V of a policy, from each view."""
        found: FloatArray = self._views @ PolicyValue(self._task.world, policy, DISCOUNT).V
        return found

    def _V_after(self, parameters: Parameters) -> FloatArray:
        with torch.no_grad():
            return self._V(softmax_policy(self._function(parameters).numpy(), TEMPERATURE))

    def _finite(self, some: Stored, step: float) -> list[FloatArray]:
        """The exact effects of ``MORE``'s steps, each [view, transition].

        ``step`` is the step size that moves a transition's own value by its error, on average.
        """
        parameters = self._function.parameters
        moments = moments_of(self._agent)
        rate = self._agent.optimizer.param_groups[0]["lr"]
        nothing = {name: torch.zeros_like(value) for name, value in parameters.items()}
        now = self._V(self._policy)
        resting = self._V_after(adam_step(parameters, nothing, moments, rate)[0])
        effects: dict[float | str, list[FloatArray]] = {size: [] for size in (*SIZES, "Adam")}
        copies = [parameters]
        pairs = zip(some.batch["s"], some.batch["action"], some.error, strict=True)
        for number, (state, action, error) in enumerate(pairs):
            gradient = self._function.gradient_of(int(state), int(action))
            descent = {n: -float(np.clip(error, -1.0, 1.0)) * g for n, g in gradient.items()}
            for size in SIZES:
                moved = {n: v - size * step * descent[n] for n, v in parameters.items()}
                effects[size].append(self._V_after(moved) - now)
            if number < FEW:
                copies.append(moved)
            own = adam_step(parameters, descent, moments, rate)[0]
            effects["Adam"].append(self._V_after(own) - resting)
        return [np.stack(each, axis=1) for each in effects.values()] + [self._later(copies)]

    def _later(self, copies: list[Parameters]) -> FloatArray:
        """[view, transition]: what each copy is ahead of the first after ``FURTHER`` updates."""
        batches = [self._uniform() for _ in range(FURTHER)]
        stacked = {n: torch.stack([one[n] for one in copies]).float() for n in copies[0]}
        period = max(1, self._agent.target_period // PERIOD)
        after = trained_on(self._agent, stacked, batches, period)
        values = np.stack(
            [
                self._V_after({name: value[i].double() for name, value in after.items()})
                for i in range(len(copies))
            ],
            axis=1,
        )
        return values[:, 1:] - values[:, :1]

    def _uniform(self) -> Batch:
        ids = self._rng.integers(self._buffer.oldest_id, self._buffer.next_id, 32)
        return equal_batch(ids, self._buffer.read(ids))


def correlations(effects: FloatArray, factors: FloatArray) -> FloatArray:
    """[seen from, factor, size or sign]: Spearman's correlations, averaged over present states.

    A factor that is the same everywhere predicts nothing: 0.

    Args:
        effects: [view, transition].
        factors: [factor, view, transition].
    """
    found = np.zeros((len(effects), len(factors), 2), np.float32)
    ranked = _standardized(factors)
    for column, effect in enumerate((np.abs(effects), effects)):
        found[..., column] = np.einsum("fvt,vt->vf", ranked, _standardized(effect))
    return np.stack([found[:-1].mean(axis=0), found[-1]])


def _standardized(values: FloatArray) -> FloatArray:
    """Ranks along the last axis, with mean 0 and length 1; 0 where all are equal."""
    ranks = rankdata(values, axis=-1)
    ranks -= ranks.mean(axis=-1, keepdims=True)
    length = np.sqrt((ranks**2).sum(axis=-1, keepdims=True))
    found: FloatArray = np.divide(ranks, length, out=np.zeros_like(ranks), where=length > 0.0)
    return found
