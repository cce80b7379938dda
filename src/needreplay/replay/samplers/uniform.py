"""The uniform draw: every occupied slot alike, whatever its gain."""

from __future__ import annotations

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.samplers.base import Sampled

_OLDEST, _COUNT = 0, 1


@jit
def _grow(window: IntArray, capacity: int, slots: IntArray) -> None:
    """Take slots that are not in the window into it; writes ``window``."""
    for i in range(len(slots)):
        if (slots[i] - window[_OLDEST]) % capacity >= window[_COUNT]:
            window[_COUNT] += 1


@jit
def _pick(window: IntArray, capacity: int, uniforms: FloatArray, slots: IntArray) -> None:
    """The ⌊u n⌋-th occupied slot in the order of slots, for each u; writes ``slots``.

    Occupied slots are a window that may run over the end of the memory and on from its start.
    """
    count = window[_COUNT]
    at_start = max(0, window[_OLDEST] + count - capacity)
    for i in range(len(uniforms)):
        place = np.int64(uniforms[i] * count)
        slots[i] = place if place < at_start else window[_OLDEST] + place - at_start


class UniformSampler:
    """Every occupied slot with probability 1 / n."""

    name = "uniform"

    def __init__(self) -> None:
        self.allocate(1)

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        self._capacity = capacity
        self._window: IntArray = np.zeros(2, dtype=np.int64)

    def set_priorities(self, slots: IntArray, gain: FloatArray) -> None:  # noqa: ARG002 - gain is ignored
        """``slots`` are occupied from now on; their gain does not matter."""
        if self._window[_COUNT] < self._capacity:
            _grow(self._window, self._capacity, slots)

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Sampled:
        """Sampler ``size`` slots with replacement."""
        if need is not None:
            raise NeedReplayError("The uniform draw takes no need; call sample without it.")
        slots = np.empty(size, dtype=np.int64)
        _pick(self._window, self._capacity, rng.random(size), slots)
        return Sampled(slots, np.full(size, 1.0 / self._window[_COUNT]))

    def clear(self, slots: IntArray) -> None:
        """The oldest occupied slots, ``slots`` (oldest first), are empty from now on."""
        if len(slots):
            self._window[_OLDEST] = (slots[-1] + 1) % self._capacity
            self._window[_COUNT] -= len(slots)

    def follow_smallest(self) -> None:
        """Nothing to do: all probabilities are the same."""

    def smallest_probability(self, size: int) -> float:  # noqa: ARG002 - the same for every size
        """1 / n."""
        return 1.0 / float(self._window[_COUNT])

    def check_valid(self) -> None:
        """Raise if more slots are occupied than there are."""
        oldest, count = self._window
        if not (0 <= oldest < self._capacity and 0 <= count <= self._capacity):
            raise NeedReplayError("The window of occupied slots is not within the memory.")

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        return {"window": self._window}
