"""Tabular agents used step by step, on any world with numbered states and actions.

>>> agent = PrioritizedSweeping(n_states=3, n_actions=2, seed=0)
>>> agent.begin(0)
>>> action = agent.act(0)
>>> agent.learn(0, action, reward=1.0, next_state=2, terminated=True)

``play`` does this in a Gymnasium environment; ``trial.run_trials`` is faster where there is a
table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from needlab.core.types import Info
from needlab.tabular.arrays import AgentArrays, new_arrays
from needlab.tabular.dyna import dyna_step, epsilon_greedy
from needlab.tabular.settings import (
    PS_SR,
    DynaSettings,
    LearningSettings,
    SweepingSettings,
    parameters_of,
)
from needlab.tabular.sweeping import EVENT, clear_trace, sweeping_step
from needreplay._core.checks import AT_LEAST_ONE, check_number
from needreplay._core.errors import NeedReplayError
from needreplay._core.rng import stream
from needreplay._core.types import BoolArray, FloatArray, IntArray


class TabularAgent(Protocol):
    """What ``play`` needs of an agent; ``state`` is what the environment returns."""

    def begin(self, state: Any) -> None:
        """An episode begins in ``state``."""
        ...

    def act(self, state: Any) -> int:
        """Choose the action to take."""
        ...

    def learn(
        self, state: Any, action: int, reward: float, next_state: Any, terminated: bool
    ) -> None:
        """Learn from what followed the action."""
        ...


class _Agent:
    """What all tabular agents share: Q, epsilon-greedy actions, checked arguments."""

    def __init__(self, arrays: AgentArrays, settings: LearningSettings, seed: int) -> None:
        self.settings = settings
        self.arrays = arrays
        self._parameters = parameters_of(settings)
        self._n_states, self._n_actions = arrays.Q.shape
        self.rng = stream(seed, "agent")
        self._start = 0

    @property
    def Q(self) -> FloatArray:
        """[state, action]: the current values (a view)."""
        return self.arrays.Q

    @property
    def updates(self) -> int:
        """How many Q-updates were made so far."""
        return self.arrays.updates

    def begin(self, state: int) -> None:
        """An episode begins in ``state``."""
        self._start = self._checked("state", state, self._n_states)

    def act(self, state: int) -> int:
        """An epsilon-greedy action, ties broken at random."""
        state = self._checked("state", state, self._n_states)
        u = self.rng.random()
        value = float(self.arrays.states["value"][state])
        epsilon = float(self.settings.epsilon)
        return int(epsilon_greedy(self.arrays.pairs, self._n_actions, state, value, epsilon, u))

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
    """Dyna-Q: learns from each step, and from n random pairs of the model.

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
        super().__init__(new_arrays(*_sizes(n_states, n_actions)), settings, seed)

    def learn(
        self, state: int, action: int, reward: float, next_state: int, terminated: bool
    ) -> None:
        """Learn from one step, and plan."""
        s, a, r, s2 = self._transition(state, action, reward, next_state)
        dyna_step(self.arrays, self._parameters, s, a, r, s2, bool(terminated), self.rng)


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
        M: the initial successor matrix; default the identity. For a world with a table, the
            paper's is ``tabular.trial.random_policy_successor``. Not used by settings that neither
            use nor learn need.
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
        initial = _checked_successor(M, n_states) if settings.uses_successor else None
        super().__init__(new_arrays(n_states, n_actions, initial), settings, seed)
        self.log = np.zeros(0, EVENT)
        """``learn`` writes the pairs that it replays here (``sweeping.EVENT``), as far as they
        fit."""

    @property
    def M(self) -> FloatArray:
        """[state, state]: the current successor matrix (a view); empty where there is none."""
        return self.arrays.M

    def begin(self, state: int) -> None:
        """An episode begins in ``state``."""
        super().begin(state)
        if self._parameters.reset_trace:
            clear_trace(self.arrays.trace, self.arrays.active)

    def learn(
        self, state: int, action: int, reward: float, next_state: int, terminated: bool
    ) -> None:
        """Learn M, update the model, and plan.

        Where ``need_from`` is "next" and the episode terminated, need is read from the start of
        this episode, as the next one is not known yet.
        """
        s, a, r, s2 = self._transition(state, action, reward, next_state)
        arrival = self._start if terminated else s2
        sweeping_step(
            self.arrays, self._parameters, s, a, r, s2, bool(terminated), arrival, 0, 0, self.log
        )


def _sizes(n_states: int, n_actions: int) -> tuple[int, int]:
    check_number("n_states", n_states, int, AT_LEAST_ONE)
    check_number("n_actions", n_actions, int, AT_LEAST_ONE)
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


class Environment(Protocol):
    """The part of Gymnasium's interface that ``play`` uses."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, Info]:
        """Begin an episode."""
        ...

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Take an action."""
        ...


@dataclass(frozen=True)
class Played:
    """What ``play`` returns: one entry for each episode."""

    steps: IntArray
    returns: FloatArray
    terminated: BoolArray
    """false where the environment truncated the episode"""


def play(agent: TabularAgent, env: Environment, episodes: int, *, seed: int | None = 0) -> Played:
    """Play ``episodes`` episodes, learning from each step.

    An episode ends where the environment terminates or truncates it; only a termination is passed
    to the agent. The first reset is seeded, those after it follow from it.

    Args:
        agent: any agent of this module, or a linear one.
        env: for a tabular agent, an environment whose observations and actions are whole numbers
            from 0 (``worlds.as_discrete`` makes sure of that, or says why it cannot be).
        episodes: how many.
        seed: of the environment; None leaves its random numbers as they are.
    """
    if episodes < 1:
        raise NeedReplayError(f"episodes is {episodes}; it must be at least 1.")
    steps, returns = np.zeros(episodes, np.int64), np.zeros(episodes)
    ended = np.zeros(episodes, np.bool_)
    for episode in range(episodes):
        state, _ = env.reset(seed=seed) if episode == 0 else env.reset()
        agent.begin(state)
        terminated = truncated = False
        while not (terminated or truncated):
            action = agent.act(state)
            next_state, reward, terminated, truncated, _ = env.step(action)
            agent.learn(state, action, reward, next_state, terminated)
            state = next_state
            steps[episode] += 1
            returns[episode] += reward
        ended[episode] = terminated
    return Played(steps, returns, ended)
