"""What every draw does: it is told gains (and need), and answers with slots and probabilities."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from needreplay.types import AnyArray, FloatArray, IntArray


class Drawn(NamedTuple):
    """What a draw answers.

    ``probabilities`` sum to 1 over the memory where ``normalised``; otherwise they are right up to
    one constant, which weights divided by the batch's maximum do not need. ``factors`` is the need
    of each slot where the draw leaves it to the learner to scale its update; else ``None``.
    """

    slots: IntArray
    probabilities: FloatArray
    normalised: bool = True
    factors: FloatArray | None = None


class Draw(Protocol):
    """A distribution over the occupied slots of a memory.

    The memory calls these with arguments it has already checked: slots are occupied and distinct,
    gains are finite and not negative. A draw owns no transition and no random state.
    """

    name: str

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        ...

    def set_gain(self, slots: IntArray, gain: FloatArray) -> None:
        """Occupied slots ``slots`` now have raw gain ``gain``; an empty slot becomes occupied."""
        ...

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Drawn:
        """Draw ``size`` slots with replacement; ``need`` is the present query, if the draw has one."""
        ...

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself (for tests, after every mutation)."""
        ...

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live (not copies): loading writes into them."""
        ...
