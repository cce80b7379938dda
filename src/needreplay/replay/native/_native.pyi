"""The C type behind ``needreplay.replay.native``."""

from typing import Any

from needreplay._core.types import AnyArray, FloatArray, IntArray

source: str
"""The digest of the C files that this was built from."""

class FastPath:
    """Bound to the arrays of a buffer. A method that returns None has changed nothing."""

    def __init__(
        self,
        columns: dict[str, AnyArray],
        rows: AnyArray,
        ids: IntArray,
        counts: IntArray,
        max_seen: FloatArray,
        priorities: FloatArray | None,
        tree: FloatArray | None,
        min_priority: float,
        max_priority: float,
        steps: tuple[Any, ...] | None,
        adds: bool,
        /,
    ) -> None: ...
    def add(self, values: dict[str, Any], alpha: float) -> int | None:
        """Store ``values`` and advance the ids; returns how many transitions were stored."""

    def update(self, ids: Any, priorities: Any, alpha: float) -> bool | None:
        """Set priorities, count ids that were overwritten, and note the largest of the others."""

    def sample(
        self, size: int, random_bits: Any, stratified: bool, beta: float
    ) -> tuple[IntArray, FloatArray, FloatArray, dict[str, AnyArray]] | None:
        """Ids, probabilities, weights and columns of ``size`` transitions.

        ``random_bits`` is the capsule of a numpy bit generator; the random numbers are those of
        ``rng.random(size)``.
        """

    def gather(
        self, slots: IntArray, probabilities: FloatArray, beta: float
    ) -> tuple[IntArray, FloatArray, dict[str, AnyArray]] | None:
        """Ids, weights and columns of ``slots``."""
