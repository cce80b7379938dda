"""The interface of samplers, and what most of them share: priorities and a uniform share.

A sampler is a distribution over the occupied slots of a buffer. It owns no transition and no random
state.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from needreplay import equations
from needreplay._core.checks import SHARE, as_made, check_number
from needreplay._core.errors import NeedReplayError, unknown, warn
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay._kernels.kernel import Kernel, powers_of
from needreplay.replay.validation import MAX_PRIORITY, MIN_PRIORITY, is_within

P = TypeVar("P", float, FloatArray)
A = TypeVar("A", bound=AnyArray)

EMPTY = -1.0
"""The priority of an empty slot."""
_OLDEST, _COUNT = 0, 1


class Sampled(NamedTuple):
    """What ``sample`` returns.

    ``probabilities`` sum to 1 over the buffer if ``normalized``; otherwise they are right up to one
    constant, which cancels in weights that are divided by the batch's maximum. Of a batch with a
    query for each row, each is that of its own row, and NaN where the sampler does not know it.
    ``corrected`` are the probabilities that importance weights correct for, where these are not the
    same.
    """

    slots: IntArray
    probabilities: FloatArray
    normalized: bool = True
    corrected: FloatArray | None = None


class Sampler(Protocol):
    """What a buffer calls, with arguments that it has checked.

    Slots are distinct, and occupied unless they become so; they fill in ring order, and the oldest
    are cleared first. Priorities are finite and not negative. The first random numbers of a batch
    are ``rng.random(size)``, so that samplers with the same distribution return the same slots.

    A buffer also calls these methods and attributes where a sampler has them:

    - ``place(slots, previous)``, before ``set_priorities``: new transitions are in ``slots``;
      ``previous`` are the slots of the transitions before them in the same episode, -1 for none.
    - ``clear(slots)``: the oldest slots are empty from now on. Frame stacks require it.
    - ``set_state(slots, states)`` or ``set_features(slots, features)``, one for each slot, and
      ``features``, the ``FeatureStore`` that knows which of them to refresh.
    - ``occupied``, which slots are not empty, and ``priorities``, raw, by slot: a buffer checks
      that they agree with its own.
    - ``derived_nbytes``: bytes of arrays that no checkpoint has to store.
    - ``restore()``, after a file was read into ``arrays``: derive from them what they do not hold;
      raise if that is impossible.
    """

    name: str

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        ...

    def set_priorities(self, slots: IntArray, priorities: FloatArray) -> None:
        """Set raw priorities; empty slots become occupied."""
        ...

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Sampled:
        """Sample ``size`` slots with replacement.

        ``need`` is the query, if it takes one: for all slots, or with two axes one for each.
        """
        ...

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself (for tests, after every mutation)."""
        ...

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to store, live (not copies): loading writes into them.

        Everything a sampler knows has to follow from these (a count is an array of one number).
        """
        ...


class BaseSampler(ABC):
    """A sampler with a uniform share: P(j) = (1 - mix) P_sampler(j) + mix / N.

    A subclass implements ``_sample`` without the share and ``_at``, the probabilities of given
    slots in the batch that was just sampled. ``_window`` holds the oldest occupied slot and how
    many are occupied; it is up to date only where ``_follows_window``.

    The attributes have the names of the constructor's arguments. Copies and pickles of a sampler
    have its settings and are empty: what is stored is saved by the buffer.

    Args:
        uniform_mix: the share of the probability that is uniform, from 0 to 1.
    """

    name: str
    _compiled: ClassVar[bool] = False
    """Whether a buffer calls the kernel instead of these methods; a derived class has its own."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            cls.__init__ = _checking_names(cls.__init__)  # type: ignore[method-assign]

    def __init__(self, uniform_mix: float = 0.0) -> None:
        self.uniform_mix = check_number("uniform_mix", uniform_mix, float, SHARE)
        self._follows_window = self.uniform_mix > 0.0
        self.allocate(1)

    def _arguments(self) -> dict[str, object]:
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def __reduce__(self) -> tuple[object, ...]:
        return _made, (type(self), self._arguments())

    def __repr__(self) -> str:
        return as_made(self)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        self._capacity = capacity
        self._stored: dict[str, AnyArray] = {}
        self._window: IntArray = np.zeros(2, dtype=np.int64)
        if self._follows_window:
            self._keep("window", self._window)
        self._kernel = Kernel(self._bound, capacity, self._follows_window)

    @property
    def _bound(self) -> dict[str, AnyArray]:
        """What a kernel is bound to."""
        return {"window": self._window, **self._stored}

    @property
    def compiled(self) -> Kernel | None:
        """The kernel that does all that this sampler's methods do; None for a class of your own."""
        return self._kernel if vars(type(self)).get("_compiled") else None

    def __setattr__(self, name: str, value: object) -> None:
        """Settings that change later are those of the kernel, too."""
        object.__setattr__(self, name, value)
        if name[0] != "_" and hasattr(kernel := self.__dict__.get("_kernel"), name):
            setattr(kernel, name, value)

    def _keep(self, name: str, array: A) -> A:
        """``array``, which is one of ``arrays`` from now on."""
        self._stored[name] = array
        return array

    def set_priorities(self, slots: IntArray, priorities: FloatArray) -> None:
        """Set raw priorities; empty slots become occupied."""
        self._kernel.set_priorities(slots, priorities)

    def place(self, slots: IntArray, previous: IntArray) -> None:
        """New transitions are in ``slots``; ``previous`` are those before them, or -1."""
        self._kernel.place(slots, previous)

    def clear(self, slots: IntArray) -> None:
        """Empty the oldest occupied slots, ``slots`` (oldest first)."""
        self._kernel.clear(slots)

    def sample(self, size: int, rng: np.random.Generator, need: AnyArray | None = None) -> Sampled:
        """Sample ``size`` slots with replacement."""
        return self._mixed(self._sample(size, rng, need), rng)

    def _reject_need(self, need: AnyArray | None) -> None:
        """For a sampler that takes none."""
        if need is not None:
            raise NeedReplayError(
                f"The {self.name} sampler takes no need; call sample without it, or choose a "
                "sampler by need."
            )

    @abstractmethod
    def _sample(self, size: int, rng: np.random.Generator, need: AnyArray | None) -> Sampled:
        """Sample ``size`` slots, none of them from the uniform share."""

    @abstractmethod
    def _at(self, slots: IntArray, size: int) -> Sampled:
        """``slots`` with their probabilities in the batch of ``size`` that was just sampled."""

    def _mixed(self, sampled: Sampled, rng: np.random.Generator) -> Sampled:
        """Replace each slot with probability ``uniform_mix`` by one from the uniform share."""
        if self.uniform_mix == 0.0:
            return sampled
        slots = sampled.slots
        self._replace_some(slots, rng)
        at = self._at(slots, len(slots))
        corrected = None if at.corrected is None else self._with_share(at.corrected)
        return at._replace(probabilities=self._with_share(at.probabilities), corrected=corrected)

    def _replace_some(self, slots: IntArray, rng: np.random.Generator) -> None:
        """Replace each of ``slots`` with probability ``uniform_mix`` by any occupied one."""
        coins, uniforms = rng.random((2, len(slots)))
        replaced = np.flatnonzero(coins < self.uniform_mix)
        slots[replaced] = self._pick(uniforms[replaced])

    def _with_share(self, probability: P) -> P:
        """``probability``, one or many, mixed with the uniform share."""
        if self.uniform_mix == 0.0:
            return probability
        count = int(self._window[_COUNT])
        return equations.mixed_probability(probability, self.uniform_mix, count)  # type: ignore[arg-type,return-value]

    def _pick(self, uniforms: FloatArray) -> IntArray:
        """One of the occupied slots for each uniform number, all equally likely."""
        slots: IntArray = self._kernel.pick(uniforms)
        return slots

    @property
    def occupied(self) -> BoolArray:
        """Which slots are not empty. O(N)."""
        places = (np.arange(self._capacity) - self._window[_OLDEST]) % max(1, self._capacity)
        occupied: BoolArray = places < self._window[_COUNT]
        return occupied

    def check_valid(self) -> None:
        """Raise unless the window holds just the occupied slots."""
        oldest, count = self._window
        if not (0 <= oldest < max(1, self._capacity) and 0 <= count <= self._capacity):
            raise NeedReplayError("The window of occupied slots is not within the buffer.")
        window = BaseSampler.occupied.fget(self)  # type: ignore[attr-defined]
        if self._follows_window and not np.array_equal(window, self.occupied):
            raise NeedReplayError("The window is not that of the slots with a priority.")

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to store, live."""
        return dict(self._stored)


def _checking_names(init: Callable[..., None]) -> Callable[..., None]:
    """``init``, which says in one sentence that there is no option of a name."""
    known = inspect.signature(init).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in known.values())

    @wraps(init)
    def checked(self: Any, *args: Any, **options: Any) -> None:
        name = next((n for n in options if n not in known and not takes_any), None)
        if name == "priority_floor":
            raise NeedReplayError(
                f"{type(self).__name__} has no priority_floor; LAP is "
                "ProportionalSampler(alpha=0.4, priority_floor=1.0) alone."
            )
        if name is not None:
            others = [*known][1:] or ["none"]
            raise unknown(f"option of {type(self).__name__}", name, others)
        init(self, *args, **options)

    return checked


def _made(sampler: type[BaseSampler], arguments: dict[str, Any]) -> BaseSampler:
    return sampler(**arguments)


class PrioritySampler(BaseSampler):
    """A sampler that stores a raw priority for each slot and uses priority^alpha.

    Args:
        alpha: the exponent of priorities: 0 is uniform, 1 fully proportional.
        uniform_mix: see ``BaseSampler``.
    """

    def __init__(self, alpha: float, uniform_mix: float = 0.0) -> None:
        self.alpha = check_number("alpha", alpha, float, SHARE)
        super().__init__(uniform_mix)

    def allocate(self, capacity: int) -> None:
        """Prepare ``capacity`` slots, all empty."""
        super().allocate(capacity)
        self._priorities = self._keep("priorities", np.full(capacity, EMPTY))
        self._warned = False

    @property
    def priorities(self) -> FloatArray:
        """The raw priority of each slot, -1 where it is empty; ``set_priorities`` sets them."""
        return self._priorities

    @property
    def occupied(self) -> BoolArray:
        """Which slots are not empty. O(N)."""
        occupied: BoolArray = self._priorities != EMPTY
        return occupied

    def _sample_uniformly(self, uniforms: FloatArray) -> Sampled:
        """Where every priority is 0: one of the occupied slots for each uniform number. O(N)."""
        if not self._warned:
            self._warned = True
            warn(
                f"Every priority in this buffer is 0, so the {self.name} sampler samples uniformly "
                "until one is not (shown once; the sampler's fallbacks counts how often)."
            )
        members = np.flatnonzero(self.occupied)
        places = np.minimum((uniforms * len(members)).astype(np.int64), len(members) - 1)
        return Sampled(members[places], np.full(len(uniforms), 1.0 / len(members)))

    def _check_powers(self, powers: FloatArray) -> None:
        """Raise unless ``powers`` are priority^alpha of all slots, 0 where empty."""
        expected, occupied = np.zeros(len(powers)), self.occupied
        floor = getattr(self, "priority_floor", 0.0)
        raised = np.maximum(self._priorities[occupied], floor)
        expected[occupied] = powers_of(raised, self.alpha)
        # A tolerance, because a file may come from a processor with another power.
        if not (np.isfinite(powers).all() and np.allclose(powers, expected, 1e-13, 0.0)):
            raise NeedReplayError("A slot's power is not its priority to the power of alpha.")

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""
        super().check_valid()
        check_priorities(self._priorities, EMPTY)


def check_priorities(priorities: FloatArray, empty: float) -> None:
    """Raise unless each is ``empty``, 0 or within the range of priorities."""
    known = (priorities == empty) | (priorities == 0.0)
    if not np.all(known | ((priorities >= MIN_PRIORITY) & (priorities <= MAX_PRIORITY))):
        raise NeedReplayError("A priority is out of range.")


def check_counts(counts: IntArray) -> None:
    """Raise unless these can have been counted."""
    if not is_within(counts, 0, 2**62):
        raise NeedReplayError("A count is negative, or beyond what can be counted.")
