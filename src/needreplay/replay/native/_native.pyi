"""Two C types for the calls of every training step; see ``needreplay.replay.native``."""

from typing import Any

from needreplay.core.types import AnyArray, FloatArray, IntArray

source: str
"""The digest of the C files that this was built from."""

class Gains:
    """The raw gains of a proportional draw and their sum tree, which stay the draw's own."""

    def __init__(self, gain: FloatArray, tree: FloatArray, largest_priority: float) -> None: ...
    def set(self, slots: IntArray, gain: FloatArray, exponent: float) -> bool:
        """As ``proportional._set_gain``; False: declined."""

    def take(
        self, ids: Any, gain: Any, oldest_id: int, next_id: int, exponent: float
    ) -> tuple[int, float] | None:
        """As ``admit.take_gains`` with ``set``: how many are gone, and the largest of the rest.

        None: declined, and nothing was changed.
        """

    def add(self, columns: Columns, values: Any, slot: int, gain: float, exponent: float) -> bool:
        """``columns.put(values, slot)``, then ``set`` of that slot; False: declined."""

    def sample(
        self, columns: Columns, size: int, bits: Any, stratified: bool, beta: float, next_id: int
    ) -> tuple[IntArray, FloatArray, FloatArray, dict[str, AnyArray]] | None:
        """As ``proportional._sampler``, then ``columns.hand_out``.

        ``bits`` is the capsule of a numpy bit generator; its numbers are those of ``random(size)``.
        Answers ids, probabilities, weights and columns; None: declined, and no number was drawn.
        """

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
