"""Tabular agents to be used step by step, on any world with numbered states and actions.

agent = PrioritizedSweeping(n_states, n_actions, seed=0)
agent.begin(state)
action = agent.act(state)
agent.learn(state, action, reward, next_state, terminated)
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.rng import stream
from needreplay.core.types import FloatArray
from needreplay.tabular import dyna, sweeping
from needreplay.tabular.choose import epsilon_greedy
from needreplay.tabular.layout import UPDATES, Knowledge, new_knowledge, q_values
from needreplay.tabular.log import new_log
from needreplay.tabular.settings import PS_SR, DynaSettings, LearningSettings, SweepingSettings
from needreplay.tabular.trace import forget_trace


class TabularAgent(Protocol):
    """What ``play`` asks of an agent."""

    def begin(self, state: int) -> None:
        """An episode begins in ``state``."""
        ...

    def act(self, state: int) -> int:
        """The action to take."""
        ...

    def learn(
        self, state: int, action: int, reward: float, next_state: int, terminated: bool
    ) -> None:
        """What followed."""
        ...


class _Agent:
    """What all tabular agents share: Q, epsilon-greedy actions, checked arguments."""

    def __init__(self, knowledge: Knowledge, settings: LearningSettings, seed: int) -> None:
        self.settings = settings
        self.knowledge = knowledge
        self._n_states, self._n_actions = self.Q.shape
        self._rng = stream(seed, "agent")
        self._start = 0

    @property
    def Q(self) -> FloatArray:
        """[state, action]: the values as they are now (a view)."""
        return q_values(self.knowledge)

    @property
    def updates(self) -> int:
        """How many Q-updates were made so far."""
        return int(self.knowledge.counts[UPDATES])

    def begin(self, state: int) -> None:
        """An episode begins in ``state``."""
        self._start = self._checked("state", state, self._n_states)

    def act(self, state: int) -> int:
        """An epsilon-greedy action, ties broken at random."""
        state = self._checked("state", state, self._n_states)
        u = self._rng.random()
        value = float(self.knowledge.states["value"][state])
        epsilon = float(self.settings.epsilon)
        return int(epsilon_greedy(self.knowledge.pairs, self._n_actions, state, value, epsilon, u))

    def _transition(
        self, state: int, action: int, reward: float, next_state: int
    ) -> tuple[int, int, float, int]:
        if not math.isfinite(reward):
            raise NeedReplayError(f"reward is {reward}; it must be a finite number.")
        return (
            self._checked("state", state, self._n_states),
            self._checked("action", action, self._n_actions),
            float(reward),
            self._checked("next_state", next_state, self._n_states),
        )

    @staticmethod
    def _checked(name: str, value: int, limit: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise NeedReplayError(f"{name} is {value!r}; it must be a whole number.")
        if not 0 <= value < limit:
            raise NeedReplayError(f"{name} is {value}; it must be from 0 to {limit - 1}.")
        return int(value)


class DynaQ(_Agent):
    """Dyna-Q: each step is learned from, and so are n pairs drawn from the model.

    Args:
        n_states: how many states the world has.
        n_actions: how many actions each has.
        settings: step size, discount, epsilon, planning updates.
        seed: of the agent's own random numbers.
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        settings: DynaSettings | None = None,
        *,
        seed: int = 0,
    ) -> None:
        settings = DynaSettings() if settings is None else settings
        super().__init__(new_knowledge(*_sizes(n_states, n_actions)), settings, seed)
        self._rule = dyna.rule_of(settings)

    def learn(
        self, state: int, action: int, reward: float, next_state: int, terminated: bool
    ) -> None:
        """Learn from one step, and plan."""
        s, a, r, s2 = self._transition(state, action, reward, next_state)
        dyna.learn_from_step(self.knowledge, self._rule, s, a, r, s2, bool(terminated), self._rng)


class QLearning(DynaQ):
    """Q-learning: Dyna-Q without planning; the arguments are ``DynaQ``'s."""

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        settings: LearningSettings | None = None,
        *,
        seed: int = 0,
    ) -> None:
        base = LearningSettings() if settings is None else settings
        without_planning = DynaSettings(base.discount, base.step_size, base.epsilon, 0)
        super().__init__(n_states, n_actions, without_planning, seed=seed)


class PrioritizedSweeping(_Agent):
    """Prioritized sweeping by gain x need (PS-SR), the paper's Algorithm 1; PS with need "none".

    Args:
        n_states: how many states the world has.
        n_actions: how many actions each has.
        settings: a preset of ``tabular.settings.PS_SR`` or your own; default ``printed``.
        M: where need begins; default the identity, which knows nothing of the world. For a world
            with a table, ``tabular.trial.random_policy_successor`` is the paper's beginning.
            Settings without need that do not learn it either keep none.
        seed: of the agent's own random numbers.
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        settings: SweepingSettings | None = None,
        *,
        M: FloatArray | None = None,
        seed: int = 0,
    ) -> None:
        settings = PS_SR["printed"] if settings is None else settings
        n_states, n_actions = _sizes(n_states, n_actions)
        begins = _checked_successor(M, n_states) if settings.uses_successor else None
        super().__init__(new_knowledge(n_states, n_actions, begins), settings, seed)
        self._rule = sweeping.rule_of(settings)
        self._log = new_log(0)

    @property
    def M(self) -> FloatArray:
        """[state, state]: the successor matrix as it is now (a view); empty where there is none."""
        return self.knowledge.M

    def begin(self, state: int) -> None:
        """An episode begins in ``state``."""
        super().begin(state)
        if self._rule.reset_trace:
            forget_trace(self.knowledge)

    def learn(
        self, state: int, action: int, reward: float, next_state: int, terminated: bool
    ) -> None:
        """Learn M, record the model, and sweep.

        Where ``need_from`` is "next" and the episode terminated, need is read from the start of
        this episode, as the next one is not known yet.
        """
        s, a, r, s2 = self._transition(state, action, reward, next_state)
        arrival = self._start if terminated else s2
        sweeping.learn_from_step(
            self.knowledge, self._rule, s, a, r, s2, bool(terminated), arrival, 0, 0, self._log
        )


def _sizes(n_states: int, n_actions: int) -> tuple[int, int]:
    for name, value in (("n_states", n_states), ("n_actions", n_actions)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise NeedReplayError(f"{name} is {value!r}; it must be a whole number, 1 or more.")
    return int(n_states), int(n_actions)


def _checked_successor(M: FloatArray | None, n_states: int) -> FloatArray:
    if M is None:
        return np.eye(n_states)
    M = np.asarray(M, dtype=np.float64)
    if M.shape != (n_states, n_states):
        raise NeedReplayError(
            f"M has shape {M.shape}; it must be ({n_states}, {n_states}): one row and one column "
            "for each state."
        )
    if not np.isfinite(M).all():
        raise NeedReplayError("M has entries that are not finite; they must all be.")
    return M
