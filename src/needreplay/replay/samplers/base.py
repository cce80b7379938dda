"""What every draw does: it is told gains (and need), and answers with slots and probabilities."""

from __future__ import annotations

from typing import NamedTuple, Protocol, cast

import numpy as np

from needreplay.core.errors import NeedReplayError
from needreplay.core.types import AnyArray, FloatArray, IntArray


class Sampled(NamedTuple):
    """What a draw answers.

    ``probabilities`` sum to 1 over the memory where ``normalised``; otherwise they are right up to
    one constant, which weights divided by the batch's maximum do not need (of ``ResampledSampler``
    they are those that it approximates). ``factors`` is the need of each slot where the sampler
    leaves it to the learner to scale its update; else ``None``.
    ``corrected`` are the probabilities that importance weights shall correct for, where they are
    others than those drawn by (gain's alone, say).
    """

    slots: IntArray
    probabilities: FloatArray
    normalised: bool = True
    factors: FloatArray | None = None
    corrected: FloatArray | None = None


class Sampler(Protocol):
    """A distribution over the occupied slots of a memory.

    The memory calls these with arguments it has already checked: slots are occupied and distinct,
    gains are finite and not negative. A draw owns no transition and no random state. One batch
    takes its first uniform numbers by ``rng.random(size)``, so that draws whose distributions are
    equal make equal draws.

    A draw may have more methods, which the memory calls if they are there: see ``Places``,
    ``KeepsDerived``, ``Clears``, ``KnowsSmallest`` and ``TakesFeatures`` below.
    """

    name: str

    def allocate(self, capacity: int) -> None:
        """Make room for ``capacity`` slots, all empty."""
        ...

    def set_priorities(self, slots: IntArray, gain: FloatArray) -> None:
        """Occupied slots ``slots`` now have raw gain ``gain``; an empty slot becomes occupied."""
        ...

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Sampled:
        """Sample ``size`` slots with replacement; ``need`` is the query, if it takes one."""
        ...

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself (for tests, after every mutation)."""
        ...

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live (not copies): loading writes into them.

        All that a draw knows has to follow from these (a count is an array of one number).
        """
        ...


class Places(Protocol):
    """A draw that wants to know when a slot gets a new occupant, or what came before it."""

    def place(self, slots: IntArray, previous: IntArray) -> None:
        """New transitions are in ``slots``, in place of older ones. ``set_priorities`` follows.

        ``previous[i]`` is the slot of the transition before ``slots[i]`` in the same episode, or
        -1 where there is none (any more).
        """
        ...


class KeepsDerived(Protocol):
    """A draw that keeps arrays that no checkpoint has to hold: they follow from other things."""

    @property
    def derived_nbytes(self) -> int:
        """Their bytes."""
        ...


class Clears(Protocol):
    """A draw that can do with fewer slots again; a memory of frame stacks needs that."""

    def clear(self, slots: IntArray) -> None:
        """The oldest occupied slots, ``slots`` (oldest first), are empty from now on."""
        ...


class KnowsSmallest(Protocol):
    """A draw that can say the smallest probability: for weights divided by the memory's maximum."""

    def follow_smallest(self) -> None:
        """``smallest_probability`` will be asked for; called once, before ``allocate``."""
        ...

    def smallest_probability(self, size: int) -> float:
        """The smallest positive probability of any slot in a batch of ``size``."""
        ...


def knowing_smallest(sampler: Sampler) -> KnowsSmallest:
    """``draw``, if it can say its smallest probability; any other is refused in prose."""
    wanted = "follow_smallest", "smallest_probability"
    if any(getattr(sampler, name, None) is None for name in wanted):
        raise NeedReplayError(
            f"The {sampler.name} draw cannot say the smallest probability over the whole memory: "
            'where need counts it changes with every need. Give weight_norm="batch", which goes by '
            "the batch alone."
        )
    return cast("KnowsSmallest", sampler)


class TakesFeatures(Protocol):
    """A draw that is told a vector per slot, to be held against the query.

    Its attribute ``features`` is the ``FeatureStore`` that knows which are to be told anew.
    """

    def set_features(self, slots: IntArray, features: AnyArray) -> None:
        """``slots`` (occupied, distinct) have ``features`` from now on, one row each."""
        ...


class TakesStates(Protocol):
    """A draw that is told a state per slot, which the query is a row over."""

    def set_state(self, slots: IntArray, states: IntArray) -> None:
        """``slots`` (occupied, distinct) are of ``states`` from now on."""
        ...
