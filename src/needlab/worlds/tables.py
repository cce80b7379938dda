"""Any tabular world by name, as the table that kernels walk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from needlab.core.imports import find_module
from needlab.worlds.cliffwalk import cliffwalk_table
from needlab.worlds.discrete import as_discrete, require_discrete
from needlab.worlds.layout import Layout, to_layout
from needlab.worlds.maze import DYNA_MAZE, maze_table
from needlab.worlds.table_env import check_table
from needlab.worlds.task import TransitionTable
from needreplay._core.errors import NeedReplayError

World = str | Path | Layout | TransitionTable | gymnasium.Env[Any, Any]


def make_table(world: World, **options: Any) -> TransitionTable:
    r"""The table of a world.

    >>> make_table("dyna-maze", resolution=2).n_states
    216
    >>> make_table("cliffwalk", n=8, fall="teleports").n_states
    9
    >>> make_table("S..\n.#.\n..G").n_actions
    4
    >>> make_table("FrozenLake-v1", is_slippery=False).n_states
    16

    Args:
        world: ``"dyna-maze"``; ``"cliffwalk"``; a maze (its text, the path of a ``.txt`` file, or a
            ``Layout``); a Gymnasium id (``"module:Id-v0"`` too) or environment that is
            deterministic and has a table ``P`` (FrozenLake, CliffWalking) or is one of ours;
            or a table, which is checked.
        options: of a maze ``resolution`` and ``reward_std``; of the cliffwalk the arguments of
            ``cliffwalk_table``; of an id, those of ``gymnasium.make``.
    """
    if isinstance(world, TransitionTable):
        check_table(world)
        return _made(world, options, lambda: world)
    if isinstance(world, gymnasium.Env):
        env = world
        return _made(world, options, lambda: table_of_env(env))
    if world == "dyna-maze":
        return _made(world, options, _maze, DYNA_MAZE)
    if world == "cliffwalk":
        return _made(world, {"n": 10, **options}, cliffwalk_table)
    if isinstance(world, str) and _is_id(world):
        if ":" in world:
            find_module(world)
        try:
            made = gymnasium.make(world, **options)
        except (gymnasium.error.Error, ImportError, TypeError) as error:
            raise NeedReplayError(
                f"world is {world!r}, which is not dyna-maze, cliffwalk or a maze, and Gymnasium "
                f"cannot make it: {str(error).rstrip('.')}."
            ) from error
        try:
            return table_of_env(made)
        finally:
            made.close()
    return _made(world, options, _maze, world)


def table_of_env(env: gymnasium.Env[Any, Any]) -> TransitionTable:
    """The table of a deterministic Gymnasium environment with discrete states and actions.

    It is read from ``env.unwrapped.table`` or from ``env.unwrapped.P``, the format of Gymnasium's
    toy-text environments: ``P[state][action]`` lists (probability, next state, reward, terminated).
    A time limit is not part of a table.
    """
    n_states, n_actions = require_discrete(env)
    inner: Any = env.unwrapped
    name = env.spec.id if env.spec is not None else type(inner).__name__
    if isinstance(getattr(inner, "table", None), TransitionTable):
        table: TransitionTable = inner.table
        return table
    if not hasattr(inner, "P"):
        raise NeedReplayError(
            f"{name} has no table of transitions (P), so its table cannot be made. A step-by-step "
            "agent can play it: needreplay.play(agent, as_discrete(env), episodes)."
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
                    f"{len(outcomes)} outcomes, and a table holds one. A step-by-step agent can "
                    "play it: needreplay.play(agent, as_discrete(env), episodes)."
                )
            next_state[state, action], reward[state, action], ends[state, action] = outcomes.pop()
    starts = {as_discrete(env).reset(seed=seed)[0] for seed in range(20)}
    if len(starts) > 1:
        raise NeedReplayError(
            f"{name} begins in different states ({', '.join(map(str, sorted(starts)[:5]))}, ...), "
            "and a table has one start. A step-by-step agent can play it."
        )
    table = TransitionTable(next_state, reward, np.zeros(shape), ends, starts.pop())
    check_table(table)
    return table


def _maze(
    world: str | Path | Layout, resolution: int = 1, reward_std: float = 0.1
) -> TransitionTable:
    return maze_table(to_layout(world).magnified(resolution), reward_std)


def _is_id(world: str) -> bool:
    """Whether a string is a Gymnasium id, not a maze's text or the path of a file."""
    text = "\n" in world or set(world) <= set("#SG. ")
    return not text and not world.endswith(".txt") and not Path(world).is_file()


def _made(
    world: object, options: dict[str, Any], make: Callable[..., TransitionTable], *args: Any
) -> TransitionTable:
    try:
        return make(*args, **options)
    except TypeError as error:
        raise NeedReplayError(
            f"The world {str(world)[:40]!r} cannot be made with the options {options}: {error}."
        ) from error
