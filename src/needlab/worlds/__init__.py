"""Worlds: a tabular world is one type, which compiled kernels walk and Gymnasium can, too.

Importing this package registers our environments with Gymnasium.
"""

from needlab.worlds.boards import BOARDS, DYNA_MAZE
from needlab.worlds.changes import tabular_schedule
from needlab.worlds.cliffwalk import cliffwalk_world
from needlab.worlds.continuous import ContinuousMazeEnv
from needlab.worlds.discrete import ZeroBased, as_discrete, require_discrete
from needlab.worlds.env import BlindCliffwalkEnv, MazeEnv, TabularEnv
from needlab.worlds.make import tabular_world, world_of_env
from needlab.worlds.registration import register_worlds
from needlab.worlds.tabular import (
    TabularWorld,
    distances_to,
    shortest_path_length,
    world_of_arrays,
)
from needlab.worlds.text import world_of_text

__all__ = [
    "BOARDS",
    "DYNA_MAZE",
    "BlindCliffwalkEnv",
    "ContinuousMazeEnv",
    "MazeEnv",
    "TabularEnv",
    "TabularWorld",
    "ZeroBased",
    "as_discrete",
    "cliffwalk_world",
    "distances_to",
    "register_worlds",
    "require_discrete",
    "shortest_path_length",
    "tabular_schedule",
    "tabular_world",
    "world_of_arrays",
    "world_of_env",
    "world_of_text",
]

register_worlds()
