"""Any tabular world by name, from text, from a file or from a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from needlab.core.imports import find_module
from needlab.core.types import Env
from needlab.worlds.boards import BOARDS
from needlab.worlds.cliffwalk import cliffwalk_world
from needlab.worlds.discrete import as_discrete, require_discrete
from needlab.worlds.tabular import TabularWorld, check_world, world_of_arrays
from needlab.worlds.text import is_text, read_text, world_of_text
from needreplay._core.errors import NeedReplayError

Source: TypeAlias = "str | Path | TabularWorld | Env"


def tabular_world(source: Source, **options: Any) -> TabularWorld:
    r"""Make a tabular world from a name, text, a file or a Gymnasium environment.

    >>> tabular_world("dyna-maze", resolution=2).n_states
    216
    >>> tabular_world("cliffwalk", n=8, fall="teleports").n_states
    9
    >>> tabular_world("S..\n.#.\n..G").n_actions
    4
    >>> tabular_world("FrozenLake-v1", is_slippery=False).n_states
    16

    Args:
        source: the name of a board (dyna-maze, linear-track, open-field, t-maze, shock-track);
            "cliffwalk"; a world as text or the path of a ``.txt`` file (see ``worlds.text``); a
            Gymnasium id ("module:Id-v0" too) or environment that is deterministic and has a table
            ``P`` (FrozenLake, CliffWalking, Taxi) or is one of ours; or a world, which is checked.
        options: of a board ``resolution`` and ``reward_std``; of the cliffwalk the arguments of
            ``cliffwalk_world``; of an id those of ``gymnasium.make``.
    """
    if isinstance(source, TabularWorld):
        check_world(source)
        return _made(source, options, lambda: source)
    if isinstance(source, gymnasium.Env):
        env = source
        return _made(source, options, lambda: world_of_env(env))
    if not isinstance(source, str | Path):
        raise NeedReplayError(
            "A world is a name, a text, the path of a file, an environment or a TabularWorld; it "
            f"was of type {type(source).__name__}."
        )
    if source == "cliffwalk":
        return _made(source, {"n": 10, **options}, cliffwalk_world)
    if source in BOARDS:
        return _made(source, options, world_of_text, BOARDS[str(source)], f"The {source}")
    if isinstance(source, str) and is_text(source):
        return _made(source, options, world_of_text, source)
    if isinstance(source, Path) or source.endswith(".txt") or Path(source).is_file():
        return _made(source, options, world_of_text, read_text(source), str(source))
    if ":" in source:
        find_module(source)
    try:
        made = gymnasium.make(source, **options)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        names = ", ".join((*BOARDS, "cliffwalk"))
        raise NeedReplayError(
            f"world is {source!r}, which is not one of {names}, nor a text or a file, and "
            f"Gymnasium cannot make it: {str(error).rstrip('.')}."
        ) from error
    try:
        return world_of_env(made)
    finally:
        made.close()


def world_of_env(env: Env) -> TabularWorld:
    """The world of a deterministic Gymnasium environment with discrete states and actions.

    It is read from ``env.unwrapped.world``, or from ``env.unwrapped.P``, the format of Gymnasium's
    toy-text environments: ``P[state][action]`` lists (probability, next state, reward, terminated).
    The starts are those of ``initial_state_distrib`` where it is uniform. A time limit is not part
    of a world.
    """
    n_states, n_actions = require_discrete(env)
    inner: Any = env.unwrapped
    name = env.spec.id if env.spec is not None else type(inner).__name__
    if isinstance(getattr(inner, "world", None), TabularWorld):
        world: TabularWorld = inner.world
        return world
    instead = "A step-by-step agent can play it: needlab.play(agent, as_discrete(env), episodes)."
    if not hasattr(inner, "P"):
        raise NeedReplayError(
            f"{name} has no table of transitions (P), so its table cannot be made. {instead}"
        )
    shape = (n_states, n_actions)
    next_state, reward = np.zeros(shape, np.int64), np.zeros(shape)
    ends = np.zeros(shape, np.bool_)
    for state in range(n_states):
        for action in range(n_actions):
            outcomes = {tuple(outcome[1:]) for outcome in inner.P[state][action] if outcome[0] > 0}
            if len(outcomes) != 1:
                raise NeedReplayError(
                    f"{name} is not deterministic: action {action} in state {state} has "
                    f"{len(outcomes)} outcomes, and a table holds one. {instead}"
                )
            next_state[state, action], reward[state, action], ends[state, action] = outcomes.pop()
    columns = getattr(inner, "ncol", 0) or (getattr(inner, "shape", None) or (0, 0))[1]
    starts = _starts_of(env, name)
    return world_of_arrays(
        next_state,
        starts,
        ends=ends,
        reward_mean=reward,
        start_rule="at random" if len(starts) > 1 else "in turn",
        columns=int(columns),
    )


def _starts_of(env: Env, name: str) -> list[int]:
    """Where episodes begin, each with the same chance."""
    chances = getattr(env.unwrapped, "initial_state_distrib", None)
    if chances is None:
        starts = {as_discrete(env).reset(seed=seed)[0] for seed in range(20)}
        if len(starts) > 1:
            raise NeedReplayError(
                f"{name} begins in different states and does not say where "
                "(initial_state_distrib). A step-by-step agent can play it."
            )
        return list(starts)
    begins = np.flatnonzero(chances)
    if not np.allclose(np.asarray(chances)[begins], 1.0 / begins.size):
        raise NeedReplayError(
            f"{name} begins in some states more often than in others, and a table has starts of "
            "equal chance. A step-by-step agent can play it."
        )
    return begins.tolist()


def _made(
    source: object, options: dict[str, Any], make: Callable[..., TabularWorld], *args: Any
) -> TabularWorld:
    try:
        return make(*args, **options)
    except TypeError as error:
        raise NeedReplayError(
            f"The world {str(source)[:40]!r} cannot be made with the options {options}: {error}."
        ) from error
