"""Worlds: each is a Gymnasium environment and a table that compiled kernels walk.

Importing this package registers them with Gymnasium.
"""

from needlab.worlds.cliffwalk import BlindCliffwalkEnv, cliffwalk_table
from needlab.worlds.discrete import ZeroBased, as_discrete, require_discrete
from needlab.worlds.layout import Layout, parse_layout, read_layout, to_layout
from needlab.worlds.maze import DYNA_MAZE, maze_table, shortest_path_length
from needlab.worlds.registration import register_worlds
from needlab.worlds.table_env import MazeEnv, TableEnv
from needlab.worlds.tables import make_table, table_of_env

__all__ = [
    "DYNA_MAZE",
    "BlindCliffwalkEnv",
    "Layout",
    "MazeEnv",
    "TableEnv",
    "ZeroBased",
    "as_discrete",
    "cliffwalk_table",
    "make_table",
    "maze_table",
    "parse_layout",
    "read_layout",
    "register_worlds",
    "require_discrete",
    "shortest_path_length",
    "table_of_env",
    "to_layout",
]

register_worlds()
