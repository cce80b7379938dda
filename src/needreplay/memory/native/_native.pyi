"""Two C types for the calls of every training step; see ``needreplay.memory.native``."""

from typing import Any

import numpy as np

from needreplay.types import AnyArray, FloatArray, IntArray

class Gains:
    """The raw gains of a proportional draw and their sum tree, which stay the draw's own."""

    def __init__(
        self,
        gain: FloatArray,
        tree: FloatArray,
        exponent: float,
        stratified: bool,
        largest_gain: float,
    ) -> None: ...
    def set(self, slots: IntArray, gain: FloatArray) -> bool:
        """As ``proportional._set_gain``; False: declined."""

    def take(self, ids: Any, gain: Any, oldest_id: int, next_id: int) -> tuple[int, float] | None:
        """As ``proportional._take_gains``: how many ids are gone and the largest gain of the rest.

        None: declined, and nothing was changed.
        """

    def draw(self, size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray] | None:
        """As ``proportional._draw`` with ``rng.random(size)``; None: declined, no number drawn.

        ``rng`` is not to be used by another thread meanwhile.
        """

    def add(self, columns: Columns, values: Any, slot: int, gain: float) -> bool:
        """``columns.put(values, slot)``, then ``set`` of that slot; False: declined."""

    def sample(
        self, columns: Columns, size: int, rng: np.random.Generator, beta: float, next_id: int
    ) -> tuple[IntArray, FloatArray, FloatArray, dict[str, AnyArray]] | None:
        """``draw``, then ``columns.hand_out``: ids, probabilities, weights and columns."""

class Columns:
    """Named arrays with the same leading axis (rows), of which each row is in one piece."""

    def __init__(self, arrays: dict[str, AnyArray]) -> None: ...
    def put(self, values: Any, row: int) -> bool:
        """One value for each column goes to ``row``; False: declined, and nothing was written."""

    def put_all(self, values: Any) -> bool:
        """Values for all rows at once; False: declined, and nothing was written."""

    def hand_out(
        self,
        slots: IntArray,
        probabilities: FloatArray,
        smallest: float,
        beta: float,
        next_id: int,
    ) -> tuple[IntArray, FloatArray, dict[str, AnyArray]] | None:
        """As ``batch.hand_out``: ids, weights and columns; None: declined."""
