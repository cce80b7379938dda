"""Array types and the table form of a world, shared by the packages above."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]


class TransitionTable(NamedTuple):
    """A deterministic tabular world that a compiled kernel can walk.

    Action ``a`` in state ``s`` leads to ``next_state[s, a]`` with a reward drawn from
    N(``reward_mean[s, a]``, ``reward_std[s, a]``), and terminates the episode where ``ends[s, a]``.
    Every episode begins in ``start``.
    """

    next_state: IntArray
    reward_mean: FloatArray
    reward_std: FloatArray
    ends: BoolArray
    start: int

    @property
    def n_states(self) -> int:
        """How many states there are, walls and goals included."""
        return int(self.next_state.shape[0])

    @property
    def n_actions(self) -> int:
        """How many actions each state has."""
        return int(self.next_state.shape[1])
