"""Hindsight: steps with a goal that was reached later, Andrychowicz et al. (2017).

A relabeled transition is an entry: a row, the row whose step reached its goal, and its reward. So
nothing is stored twice, each has a priority of its own, and rewards are computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from needreplay._core.checks import AT_LEAST_ONE, check_number
from needreplay._core.errors import NeedReplayError, unknown
from needreplay._core.types import AnyArray, Columns, Env, FloatArray, IntArray
from needreplay.replay._kernels.columns import Table
from needreplay.replay.entries import BEFORE, FIRST, Entries
from needreplay.replay.episodes import EpisodeWriter
from needreplay.replay.storage import NO_ID, Column, Ring
from needreplay.replay.validation import as_floats, is_within

GoalStrategy = Literal["future", "final", "episode"]
ComputeReward: TypeAlias = Callable[[AnyArray, AnyArray, Any], ArrayLike]
"""compute_reward(achieved_goals, desired_goals, infos): the reward of each row."""

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"
RELABELED = "relabeled"
_OBS = ("obs", "next_obs")
_GOAL, _REWARD = "goal", "reward"
_NUMBER = np.dtype(np.int64)
_ENTRY = [Column(name, _NUMBER, ()) for name in (FIRST, _GOAL, BEFORE)]
_LAST, _EPISODE = 2, 4
"""Of an environment's state in ``EpisodeWriter``."""


@dataclass(frozen=True)
class Hindsight:
    """Sample each step also with goals that its episode reached, for environments with goals.

    Observations are a Dict of ``observation``, ``achieved_goal`` and ``desired_goal``, as in
    gymnasium-robotics. The names are those of Stable-Baselines3's ``HerReplayBuffer``.
    """

    n_sampled_goal: int = 4
    """Relabeled transitions for each step."""
    goal_selection_strategy: GoalStrategy = "future"
    """Their goals are what was achieved by a step of the same episode: this or a later one
    ("future"), the last ("final"), or any ("episode")."""
    compute_reward: ComputeReward | None = field(default=None, compare=False)
    """The reward of rows: ``compute_reward(achieved_goal, desired_goal, infos)``, where each info
    is an empty dict. By default the environment's."""

    def __post_init__(self) -> None:
        count = check_number("n_sampled_goal", self.n_sampled_goal, int, AT_LEAST_ONE)
        strategy = self.goal_selection_strategy
        name = str(getattr(strategy, "name", strategy)).lower()  # also Stable-Baselines3's enum
        if name not in get_args(GoalStrategy):
            raise unknown("goal_selection_strategy", strategy, get_args(GoalStrategy))
        if self.compute_reward is not None and not callable(self.compute_reward):
            raise NeedReplayError(
                f"compute_reward is {self.compute_reward!r}; pass a function of achieved goals, "
                "desired goals and infos, such as env.unwrapped.compute_reward."
            )
        object.__setattr__(self, "n_sampled_goal", count)
        object.__setattr__(self, "goal_selection_strategy", name)

    def of(self, env: Env) -> Hindsight:
        """These settings with the ``compute_reward`` of ``env``, unless they have one."""
        if self.compute_reward is not None:
            return self
        one = getattr(env, "envs", [env])[0]
        found = getattr(getattr(one, "unwrapped", one), "compute_reward", None)
        return replace(self, compute_reward=found)


class HindsightEntries(Entries):
    """Every step of an episode, as it was and with other goals, from the episode's end on.

    They are in the order of steps, each step first as it was. So the oldest are those of the oldest
    step.
    """

    name = "hindsight transition"
    advice = "an episode can be sampled when it has ended."

    def __init__(self, hindsight: Hindsight, rows: Ring, writer: EpisodeWriter) -> None:
        columns = [*_ENTRY, Column(_REWARD, np.dtype(np.float32), ())]
        super().__init__(rows.capacity * (1 + hindsight.n_sampled_goal), columns, rows, writer)
        self.hindsight, stored = hindsight, rows.columns
        names = [f"{obs}/{goal}" for obs in _OBS for goal in (ACHIEVED, DESIRED)]
        shapes = {stored[name].shape if name in stored else None for name in names}
        if len(shapes) > 1 or None in shapes:
            raise NeedReplayError(
                f"hindsight needs a Dict observation with {ACHIEVED} and {DESIRED}, both of one "
                f"shape; the columns are {', '.join(stored)}."
            )
        if RELABELED in {name.split("/")[0] for name in stored}:
            raise NeedReplayError(
                f"columns has {RELABELED!r}, but a batch with hindsight has a column of that name; "
                "give yours another."
            )
        if hindsight.compute_reward is None:
            raise NeedReplayError(
                "hindsight does not know the rewards of other goals: make the buffer with "
                "ReplayBuffer.for_env and an environment that has compute_reward, or pass "
                "Hindsight(compute_reward=env.unwrapped.compute_reward)."
            )
        self._table = Table(stored)
        episodes: dict[str, AnyArray] = writer.windows.arrays
        self._state, self._sources = episodes["episodes"], episodes["sources"]
        self._places, self._following = episodes["places"], episodes["following"]
        self._begun: IntArray = np.full(writer.episodes.n_envs, NO_ID, dtype=np.int64)
        """By environment, the first row of its episode, or -1."""

    def needed(self, slots: IntArray) -> IntArray:
        """The older of the two rows: the step's own, and that of its goal."""
        first, goal = self.ring.columns[FIRST][slots], self.ring.columns[_GOAL][slots]
        return np.where(goal == NO_ID, first, np.minimum(first, goal))

    def _follow(self, count: int, rng: np.random.Generator) -> None:
        envs = self._sources[:count] // self.writer.episodes.n_step
        new = np.flatnonzero(self._begun[envs] == NO_ID)[::-1]  # of several the first counts
        self._begun[envs[new]] = self.rows.next_id - count + new
        ended = (self._state[:, _LAST] == NO_ID) & (self._begun != NO_ID)
        for env in np.flatnonzero(ended).tolist():
            ids = np.arange(max(self._begun[env], self.rows.oldest_id), self.rows.next_id)
            self._begun[env] = NO_ID
            places = self._places[ids % self.rows.capacity]
            self._add_episode(ids[places[:, 0] == self._state[env, _EPISODE]], rng)

    def _add_episode(self, ids: IntArray, rng: np.random.Generator) -> None:
        """Add the entries of an episode whose rows are ``ids``, as far as they are stored."""
        if not len(ids):
            return
        length, copies = len(ids), self.hindsight.n_sampled_goal
        chosen = chosen_steps(self.hindsight.goal_selection_strategy, length, copies, rng)
        rewards = np.empty((length, 1 + copies), dtype=np.float32)
        rewards[:, 0] = self.rows.columns[_REWARD][ids % self.rows.capacity]
        rewards[:, 1:] = self._rewards(self._achieved(ids), chosen)
        goals = np.full((length, 1 + copies), NO_ID, dtype=np.int64)
        goals[:, 1:] = ids[chosen]
        entries = self.ring.next_id + np.arange(length * (1 + copies)).reshape(length, -1)
        before = np.full_like(goals, NO_ID)
        before[1:] = np.where(goals[1:] == goals[:-1], entries[:-1], NO_ID)
        slots = entries.ravel() % self.ring.capacity
        columns = self.ring.columns
        columns[FIRST][slots] = np.repeat(ids, 1 + copies)
        columns[_GOAL][slots], columns[BEFORE][slots] = goals.ravel(), before.ravel()
        columns[_REWARD][slots] = rewards.ravel()
        self.ring.ids[1] += len(slots)

    def _achieved(self, ids: IntArray) -> AnyArray:
        """The goals that the steps of rows ``ids`` achieved, of episodes that have ended.

        That is what the next row saw; of the last row, whose window is one step, where it led.
        """
        columns, capacity = self.rows.columns, self.rows.capacity
        after = self._following[ids % capacity]
        achieved: AnyArray = columns[f"obs/{ACHIEVED}"][after % capacity]
        last = np.flatnonzero(after == NO_ID)
        achieved[last] = columns[f"next_obs/{ACHIEVED}"][ids[last] % capacity]
        return achieved

    def _rewards(self, achieved: AnyArray, chosen: IntArray) -> FloatArray:
        """The n-step returns of an episode's rows with the goals of its steps ``chosen``."""
        episodes, (length, copies) = self.writer.episodes, chosen.shape
        total: FloatArray = np.zeros((length, copies))
        for k in range(min(episodes.n_step, length)):
            reached = np.repeat(achieved[k:], copies, axis=0)
            wanted = achieved[chosen[: length - k].ravel()]
            rewards = self._computed(reached, wanted).reshape(-1, copies)
            total[: length - k] += episodes.discount**k * rewards
        return total

    def _computed(self, achieved: AnyArray, desired: AnyArray) -> FloatArray:
        assert self.hindsight.compute_reward is not None
        given = self.hindsight.compute_reward(achieved, desired, [{} for _ in achieved])
        unused = "The steps of this episode are stored, and are not sampled."
        rewards = as_floats("the result of compute_reward", given, unused)
        limit = self.writer.windows.reward_limit
        if rewards.shape != (len(achieved),) or not (np.abs(rewards) < limit).all():
            raise NeedReplayError(
                f"compute_reward returned shape {rewards.shape} for {len(achieved)} rows, or "
                f"numbers that are not finite or not below {limit:.2g}; it must return such a "
                f"reward for each. {unused}"
            )
        return rewards

    def columns(self, entries: dict[str, AnyArray]) -> Columns:
        """The rows of entries with their goals and rewards, and which of them are relabeled."""
        gathered = self._table.rows_at(entries[FIRST] % self.rows.capacity)
        relabeled = entries[_GOAL] != NO_ID
        goals = self._achieved(entries[_GOAL][relabeled])
        for obs in _OBS:
            gathered[f"{obs}/{DESIRED}"][relabeled] = goals
        gathered[_REWARD] = entries[_REWARD]
        return {**self.writer.columns(gathered), RELABELED: relabeled}

    def clear(self) -> None:
        """Forget all entries."""
        super().clear()
        self._begun[:] = NO_ID

    def check_valid(self) -> None:
        """Raise unless rows and goals are of one episode that has ended."""
        super().check_valid()
        columns, capacity = self.ring.columns, self.rows.capacity
        slots = np.arange(*self.ring.ids) % self.ring.capacity
        first, goal, before = (columns[name][slots] for name in (FIRST, _GOAL, BEFORE))
        goal = np.where(goal == NO_ID, first, goal)
        if not (
            is_within(self._begun, NO_ID, self.rows.next_id)
            and is_within(goal, self.rows.oldest_id, self.rows.next_id)
            and np.array_equal(*(self._places[ids % capacity, 0] for ids in (first, goal)))
            and is_within(before, NO_ID, self.ring.next_id)
            and is_within(columns[_REWARD][slots], -np.inf, np.inf)
        ):
            raise NeedReplayError("A hindsight transition has a goal that its episode did not see.")

    def settings(self) -> dict[str, object]:
        """What a file must agree on."""
        names = ("n_sampled_goal", "goal_selection_strategy")
        return {f"hindsight.{name}": getattr(self.hindsight, name) for name in names}

    def arrays(self) -> dict[str, AnyArray]:
        """Entries, and where open episodes began."""
        return super().arrays() | {"begun": self._begun}


def chosen_steps(
    strategy: GoalStrategy, length: int, copies: int, rng: np.random.Generator
) -> IntArray:
    """For each step of an episode and each copy, the step that achieves the copy's goal."""
    least = np.arange(length)[:, None] if strategy == "future" else np.zeros((length, 1), np.int64)
    if strategy == "final":
        least = least + length - 1
    steps: IntArray = rng.integers(least, length, size=(length, copies))
    return steps
