"""Classes of functions for Q, from a table to networks, in the order in which updates spread.

Tiles and radial features are of the position alone; all else that a state has must be equal, so
that a direction or an open door is never mixed with another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from needlab.deep.networks import QNetwork
from needlab.linear.encodings import (
    CellCodes,
    Encoding,
    Grid,
    RadialCodes,
    TileCodes,
    feature_matrix,
)
from needlab.studies.deep.exact_tasks import ExactTask
from needlab.studies.deep.exact_training import TARGET_PERIOD, TableDQN
from needreplay._core.types import FloatArray

NOISE = 0.01
"""Standard deviation of linear weights at first, so that the first greedy action is random."""
RATE = 0.001
"""Of Adam."""


class FunctionClass(NamedTuple):
    """What Q can be."""

    code: Callable[[Grid], Encoding] | None = None
    """of positions, for a Q that is linear; None: the task's own observations"""
    hidden: int = 0
    """units in each of two layers; 0: Q is linear"""
    target_period: int = TARGET_PERIOD


CLASSES: dict[str, FunctionClass] = {
    "table": FunctionClass(CellCodes),
    "tile codes": FunctionClass(partial(TileCodes, width=4)),
    "radial 0.7": FunctionClass(partial(RadialCodes, width=0.7)),
    "radial 1.5": FunctionClass(partial(RadialCodes, width=1.5)),
    "radial 3": FunctionClass(partial(RadialCodes, width=3)),
    "radial 6": FunctionClass(partial(RadialCodes, width=6)),
    "network 16": FunctionClass(hidden=16),
    "network 64": FunctionClass(hidden=64),
    "network 256": FunctionClass(hidden=256),
    "network 64, no target": FunctionClass(hidden=64, target_period=1),
}
POSITIONS = {"moving goal": (1, 2), "twelve mazes": (1, 2)}
"""The parts of a task's states that are a position; of all others, the first two."""


class ClassNetwork(QNetwork):
    """Q of a function class: linear, or two layers below the head.

    Args:
        n_inputs: features of a state.
        hidden: units in each layer; 0: linear.
        n_actions: of the task.
    """

    def __init__(self, n_inputs: int, hidden: int, n_actions: int) -> None:
        nn.Module.__init__(self)
        self.input_scale = 1.0
        self.body, self.n_hidden = nn.Sequential(), hidden or n_inputs
        if hidden:
            self.body = nn.Sequential(
                nn.Linear(n_inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
            )
        self.head = nn.Linear(self.n_hidden, n_actions, bias=hidden > 0)
        if not hidden:
            nn.init.normal_(self.head.weight, std=NOISE)

    def hidden(self, obs: Tensor) -> Tensor:
        """The features below the head, in the precision of ``obs``."""
        features: Tensor = self.body(obs)
        return features


def features_of(task: ExactTask, name: str, place: tuple[int, int] = (0, 1)) -> FloatArray:
    """[state, feature]: what a class sees of the states of ``task``, whose position is ``place``.

    Positions have a code of their own for each value of all else that the states have.
    """
    code = CLASSES[name].code
    if code is None:
        return task.obs
    position = task.keys[:, place] - task.keys[:, place].min(axis=0)
    cells = position.max(axis=0) + 1
    coded = feature_matrix(code(Grid([0.0, 0.0], cells, cells.tolist())), position + 0.5)
    _, other = np.unique(np.delete(task.keys, place, axis=1), axis=0, return_inverse=True)
    alike = np.eye(other.max() + 1)[other.reshape(-1)]
    features = (alike[:, :, None] * coded[:, None, :]).reshape(len(coded), -1)
    used: FloatArray = features[:, features.any(axis=0)].astype(np.float32)
    return used


def new_agent(task: ExactTask, task_name: str, name: str, seed: int) -> TableDQN:
    """An agent with a Q of the class ``name``."""
    features = features_of(task, name, POSITIONS.get(task_name, (0, 1)))
    of, n_actions = CLASSES[name], task.world.n_actions
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = ClassNetwork(features.shape[1], of.hidden, n_actions)
    return TableDQN(features, network, RATE, of.target_period)
