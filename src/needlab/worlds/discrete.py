"""Any Gymnasium environment with discrete states and actions, numbered from 0, for tables."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
from gymnasium import spaces

from needlab.core.types import Env, Info
from needreplay._core.errors import NeedReplayError


def require_discrete(env: Env) -> tuple[int, int]:
    """How many states and actions ``env`` has; raises unless both spaces are ``Discrete``."""
    if not isinstance(env, gymnasium.Env):
        raise NeedReplayError(
            "A tabular agent needs a gymnasium.Env, one environment and not a vector of them; "
            f"this is a {type(env).__name__}."
        )
    states = _discrete(env, "observation space", env.observation_space)
    actions = _discrete(env, "action space", env.action_space)
    return int(states.n), int(actions.n)


def as_discrete(env: Env) -> ZeroBased:
    """``env`` for a tabular agent, numbered from 0; raises if it is not discrete."""
    require_discrete(env)
    return ZeroBased(env)


class ZeroBased(gymnasium.Wrapper[Any, Any, Any, Any]):
    """States and actions as Python integers from 0, wherever the spaces start."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        states = _discrete(env, "observation space", env.observation_space)
        actions = _discrete(env, "action space", env.action_space)
        self.observation_space = spaces.Discrete(int(states.n))
        self.action_space = spaces.Discrete(int(actions.n))
        self._first_state, self._first_action = int(states.start), int(actions.start)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[int, Info]:
        """Begin an episode; the state counts from 0."""
        obs, info = self.env.reset(seed=seed, options=options)
        return int(obs) - self._first_state, info

    def step(self, action: int) -> tuple[int, SupportsFloat, bool, bool, Info]:
        """Take one step; the action and the state count from 0."""
        obs, reward, terminated, truncated, info = self.env.step(int(action) + self._first_action)
        return int(obs) - self._first_state, reward, terminated, truncated, info


def _discrete(env: Env, kind: str, space: spaces.Space[Any]) -> spaces.Discrete:
    if isinstance(space, spaces.Discrete):
        return space
    raise NeedReplayError(
        f"A tabular agent keeps one row per state and one column per action, so both must be "
        f"Discrete, but the {kind} of {_name(env)} is {space}. {_advice(kind, space)}"
    )


def _name(env: Env) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def _advice(kind: str, space: spaces.Space[Any]) -> str:
    wrapper = (
        "gymnasium.wrappers.TransformObservation"
        if kind == "observation space"
        else "gymnasium.wrappers.TransformAction"
    )
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        how = "number its combinations (numpy.ravel_multi_index and unravel_index)"
    elif isinstance(space, spaces.Box):
        how = "cut it into bins and number them (numpy.digitize)"
    else:
        how = "number its elements"
    return f"To run it all the same, {how} in a {wrapper} with a Discrete space."
