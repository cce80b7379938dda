"""The replay memory: a store of transitions and a draw, numpy in and numpy out.

``add`` stores, ``sample`` draws a batch, ``update`` tells what was learned of it. One lock makes
each of them whole, so that an actor's and a learner's thread can share a memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from needreplay.core.checks import COUNT, check_number
from needreplay.core.errors import NeedReplayError, unknown
from needreplay.core.rng import stream
from needreplay.core.types import AnyArray, FloatArray, IntArray
from needreplay.replay.batch import Batch, hand_out
from needreplay.replay.beta import LinearBeta
from needreplay.replay.intake import Autoreset, EpisodeIntake, Episodes, Intake, PlainIntake
from needreplay.replay.mintree import MinTree
from needreplay.replay.ring import Ring, slots_of, take_rows
from needreplay.replay.samplers.base import Sampler, knowing_smallest
from needreplay.replay.samplers.proportional import ProportionalSampler
from needreplay.replay.saving import load_memory, save_memory, settings_of_sampler
from needreplay.replay.schema import ColumnSpec
from needreplay.replay.validation import (
    as_features,
    as_ids,
    as_priorities,
    as_states,
    check_beta,
    current_slots,
)

_LARGEST_BATCH = 2**31 - 1
_COUNTERS = ("_batches", "_dropped", "_largest_seen")

FIRST_GAIN = 1.0
"""The gain of new transitions until a larger one is told."""


class ReplayBuffer:
    """A memory of the last ``capacity`` transitions.

    Args:
        capacity: how many transitions are kept.
        columns: a dtype, a pair (dtype, shape) or a Gymnasium space for each name.
        draw: how batches are drawn; proportional to gain unless said otherwise.
        episodes: how steps become transitions (n-step returns, several environments, frame
            stacks). Without it, ``add`` stores columns as they are given.
        beta: the exponent of importance weights, or its schedule.
        weight_norm: importance weights are divided by the maximum in the ``batch``, or over all
            transitions that can be drawn from the ``buffer``.
        initial_priority: what new transitions get: the largest gain ``seen`` so far, or the largest
            at ``present`` in the memory.
        seed: every draw follows from it.
    """

    def __init__(
        self,
        capacity: int,
        columns: Mapping[str, ColumnSpec],
        *,
        sampler: Sampler | None = None,
        episodes: Episodes | None = None,
        beta: float | LinearBeta = 0.4,
        weight_norm: Literal["batch", "buffer"] = "batch",
        initial_priority: Literal["seen", "present"] = "seen",
        seed: int = 0,
    ) -> None:
        if initial_priority not in ("seen", "present"):
            raise unknown("initial_priority", initial_priority, ("seen", "present"))
        if weight_norm not in ("batch", "buffer"):
            raise unknown("weight_norm", weight_norm, ("batch", "buffer"))
        self._intake: Intake = (
            PlainIntake(columns) if episodes is None else EpisodeIntake(columns, episodes, capacity)
        )
        self._ring = Ring(capacity, self._intake.layout)
        self._sampler: Sampler = ProportionalSampler() if sampler is None else sampler
        self._beta = beta if isinstance(beta, LinearBeta) else check_beta(beta)
        self._rng = stream(seed, "replay", "draws")
        self._lock = RLock()
        self._batches = 0
        self._dropped = 0
        self._largest_seen = FIRST_GAIN
        self._present = MinTree(self._ring.capacity) if initial_priority == "present" else None
        self._smallest: Callable[[int], float] | None = None
        if weight_norm == "buffer":
            knowing = knowing_smallest(self._sampler)
            knowing.follow_smallest()
            self._smallest = knowing.smallest_probability
        self._place = getattr(self._sampler, "place", None)
        self._may_go_stale = episodes is not None and episodes.frame_stack > 0
        if self._may_go_stale:
            self._sampler_method("clear")
        self._sampler.allocate(self._ring.capacity)
        self._set_gain: Callable[[IntArray, FloatArray], object] = self._set_and_note
        if self._present is None:
            self._set_gain = self._sampler.set_priorities
        self._new_gains = FIRST_GAIN, np.full(1, FIRST_GAIN)
        # The extension knows what ProportionalSampler itself does, not what is derived from it.
        self._plain = (
            self._sampler
            if type(self._sampler) is ProportionalSampler and self._present is None
            else None
        )
        self._plain_rows = self._plain if episodes is None else None

    @classmethod
    def for_spaces(
        cls,
        observation_space: Any,
        action_space: Any,
        *,
        capacity: int,
        n_envs: int = 1,
        n_step: int = 1,
        discount: float = 0.99,
        frame_stack: int = 0,
        autoreset: Autoreset = "same_step",
        extra_columns: Mapping[str, ColumnSpec] | None = None,
        **options: Any,
    ) -> ReplayBuffer:
        """A memory for an environment with these (single) spaces.

        Args:
            observation_space: Box, Discrete, MultiDiscrete or Dict; of one environment.
            action_space: the same.
            capacity: how many transitions are kept.
            n_envs: environments that step together, see ``Episodes`` for this and what follows.
            n_step: steps a return runs over before it bootstraps.
            discount: γ.
            frame_stack: frames in a stack of images, each stored once; 0: no stacks.
            autoreset: whether the step after an episode's end is a reset step.
            extra_columns: further columns that belong to a step.
            **options: ``sampler``, ``beta``, ``weight_norm``, ``initial_priority``, ``seed`` of
                ``ReplayBuffer``.
        """
        columns = {"obs": observation_space, "action": action_space, **(extra_columns or {})}
        episodes = Episodes(
            n_envs=n_envs,
            n_step=n_step,
            discount=discount,
            frame_stack=frame_stack,
            autoreset=autoreset,
        )
        return cls(capacity, columns, episodes=episodes, **options)

    def __len__(self) -> int:
        return len(self._ring)

    @property
    def capacity(self) -> int:
        """How many transitions are kept."""
        return self._ring.capacity

    @property
    def sampler(self) -> Sampler:
        """How batches are drawn."""
        return self._sampler

    @property
    def next_id(self) -> int:
        """The id of the next transition: how many were ever stored."""
        return self._ring.next_id

    @property
    def oldest_id(self) -> int:
        """The id of the oldest transition that is still kept."""
        return self._ring.oldest_id

    @property
    def dropped(self) -> int:
        """How many updates were for transitions that had been overwritten."""
        return self._dropped

    @property
    def batches(self) -> int:
        """How many batches were drawn."""
        return self._batches

    @property
    def nbytes(self) -> int:
        """Bytes of everything that is kept."""
        derived: int = getattr(self._sampler, "derived_nbytes", 0)
        return derived + sum(array.nbytes for array in self.arrays().values())

    def add(self, **values: Any) -> range:
        """Store one transition, or one step of all environments; answers with the ids stored.

        With episodes: ``obs``, ``action``, ``reward``, ``next_obs``, ``terminated``, ``truncated``
        and any extra column. The step is stored once its n-step window is closed, so that none,
        one or several transitions may be stored. Without: the columns, of one transition or with a
        leading axis of many.
        """
        with self._lock:
            ring, plain = self._ring, self._plain_rows
            first = ring.next_id
            if plain is not None and self._add_fast(plain, values):
                return range(first, first + 1)
            count = self._intake.write(ring, values)
            if count:
                ring.advance(count)
                self._occupy(count)
            if self._may_go_stale and (stale := self._intake.stale(ring)):
                self._forget(stale)
            return range(first, first + count)

    def _add_fast(self, plain: ProportionalSampler, values: dict[str, Any]) -> bool:
        """``add`` of one transition by the extension; False, and all is as before: declined.

        The id is taken first: whatever interrupts this, no slot without an id can be drawn.
        """
        ring, short = self._ring, plain.fast_path
        if short is None or ring.native is None:
            return False
        oldest_id, next_id = ring.oldest_id, ring.next_id
        ring.advance(1)
        slot = next_id % ring.capacity
        if short.add(ring.native, values, slot, self._largest_seen, plain.alpha):
            return True
        ring.oldest_id, ring.next_id = oldest_id, next_id
        return False

    def _occupy(self, count: int) -> None:
        """Tell the draw of the ``count`` newest transitions, if they are kept at all."""
        ring = self._ring
        slots, previous = self._intake.slots, self._intake.previous
        if count != len(slots) or count > ring.capacity:
            first = max(0, count - ring.capacity)
            slots, previous = slots[first:count], previous[first:count]
        gain = self._largest_seen if self._present is None else self._largest_present()
        gain_before, gains = self._new_gains
        if gain_before != gain or len(gains) != len(slots):
            gains = np.full(len(slots), gain)
            self._new_gains = gain, gains
        if self._place is not None:
            self._place(slots, slots_of(previous, ring.oldest_id, ring.capacity))
        self._set_gain(slots, gains)

    def _largest_present(self) -> float:
        assert self._present is not None
        smallest = self._present.smallest
        return FIRST_GAIN if smallest == np.inf else -smallest

    def _forget(self, count: int) -> None:
        """The ``count`` oldest transitions can be drawn no more."""
        ring = self._ring
        slots = np.arange(ring.oldest_id, ring.oldest_id + count) % ring.capacity
        self._sampler_method("clear")(slots)
        if self._present is not None:
            self._present.set(slots, np.full(count, np.inf))
        ring.oldest_id += count

    def sample(
        self, size: int, *, need: AnyArray | None = None, beta: float | None = None
    ) -> Batch:
        """Sampler ``size`` transitions with replacement.

        Args:
            size: how many.
            need: the present need, for a draw that takes it.
            beta: the exponent of importance weights for this batch alone.
        """
        with self._lock:
            ring = self._ring
            if type(size) is not int or not 1 <= size <= _LARGEST_BATCH:
                check_number("size", size, int, (1, _LARGEST_BATCH))
            if ring.next_id == ring.oldest_id:
                raise NeedReplayError("The memory is empty; add transitions before you sample.")
            if beta is None:
                scheduled = self._beta
                beta = scheduled(self._batches) if callable(scheduled) else scheduled
            else:
                beta = check_beta(beta)
            plain, rows = self._plain, ring.native
            short = None if plain is None or need is not None else plain.fast_path
            if plain is not None and short is not None and rows is not None:
                bits = self._rng.bit_generator.capsule
                drawn = short.sample(rows, size, bits, plain.stratified, beta, ring.next_id)
                if drawn is not None:
                    ids, probabilities, weights, columns = drawn
                    self._batches += 1
                    return Batch(ids, probabilities, weights, self._intake.columns(columns))
            return self._sample_at_length(size, need, beta)

    def _sample_at_length(self, size: int, need: AnyArray | None, beta: float) -> Batch:
        """``sample`` of any draw, when all is checked."""
        drawn = self._sampler.sample(size, self._rng, need)
        slots, probabilities, normalized, factors, corrected = drawn
        ids, weights, columns = hand_out(
            self._ring,
            slots,
            probabilities if corrected is None else corrected,
            0.0 if self._smallest is None else self._smallest(size),
            beta,
        )
        self._batches += 1
        return Batch(
            ids, probabilities, weights, self._intake.columns(columns), normalized, factors
        )

    def read(self, ids: ArrayLike) -> dict[str, Any]:
        """The columns of transitions that are kept, one row for each id; draws nothing."""
        with self._lock:
            ring = self._ring
            wanted = as_ids(ids)
            if len(wanted) and not ring.oldest_id <= wanted.min() <= wanted.max() < ring.next_id:
                raise NeedReplayError(
                    f"ids reach from {wanted.min()} to {wanted.max()}, but transitions "
                    f"{ring.oldest_id} to {ring.next_id - 1} are kept."
                )
            plan = ring.plan(len(wanted))
            out = np.empty(plan.length, dtype=np.uint8)
            take_rows(ring.rows, wanted % ring.capacity, ring.spans, plan.starts, out)
            return self._intake.columns(plan.columns(out))

    def next_to_refresh(self, count: int) -> IntArray:
        """The ids of the next ``count`` transitions, in turn, whose features are to be told anew.

        Asked for r at each update, the whole memory is renewed every N / r updates.
        """
        check_number("count", count, int, COUNT)
        with self._lock:
            ring = self._ring
            slots = self._sampler_method("features").next_to_refresh(count)
            ids: IntArray = ring.next_id - 1 - (ring.next_id - 1 - slots) % ring.capacity
            return ids

    def update_priorities(self, ids: ArrayLike, gain: ArrayLike) -> None:
        """The transitions ``ids`` have these raw gains from now on (absolute TD-errors, say).

        An id that was overwritten meanwhile is dropped and counted; of equal ids the last counts.
        A gain that is NaN, infinite or negative is refused together with all others.
        """
        with self._lock:
            oldest_id, next_id = self._ring.oldest_id, self._ring.next_id
            plain, taken = self._plain, None
            if plain is not None and plain.fast_path is not None:
                taken = plain.fast_path.take(ids, gain, oldest_id, next_id, plain.alpha)
            if taken is None:
                taken = self._take_gains(ids, gain)
            gone, largest = taken
            self._dropped += gone
            if largest > self._largest_seen:
                self._largest_seen = largest

    def _take_gains(self, ids: ArrayLike, gain: ArrayLike) -> tuple[int, float]:
        ring, ids = self._ring, as_ids(ids)
        gains = as_priorities(gain, ids)
        gone, keep, slots = current_slots(ids, ring.oldest_id, ring.next_id, ring.capacity)
        chosen: FloatArray = gains[keep].astype(np.float64) + 0.0  # 0 has no sign
        self._set_gain(slots, chosen)
        return gone, float(chosen.max(initial=0.0))

    def _set_and_note(self, slots: IntArray, gain: FloatArray) -> None:
        """Set priorities, and note what the sampler stores: PSER's may differ, and be more."""
        assert self._present is not None
        changed = self._sampler.set_priorities(slots, gain)
        if changed is not None:
            stored: FloatArray = self._sampler_method("priorities")
            slots, gain = changed, stored[changed]
        self._present.set(slots, -gain)

    def set_features(self, ids: ArrayLike, features: ArrayLike) -> None:
        """The transitions ``ids`` have these feature vectors from now on, for a draw by them."""
        self._tell("set_features", ids, "features", as_features(features))

    def set_states(self, ids: ArrayLike, states: ArrayLike) -> None:
        """The transitions ``ids`` began in these states (integers), for a draw by them."""
        self._tell("set_state", ids, "states", as_states(states))

    def _tell(self, method: str, ids: ArrayLike, name: str, rows: AnyArray) -> None:
        with self._lock:
            ring = self._ring
            tell = self._sampler_method(method)
            ids = as_ids(ids)
            if rows.ndim < 1 or len(rows) != len(ids):
                raise NeedReplayError(
                    f"{name} has shape {rows.shape} for {len(ids)} ids; give one for each id. "
                    "Nothing was changed."
                )
            gone, keep, slots = current_slots(ids, ring.oldest_id, ring.next_id, ring.capacity)
            tell(slots, rows if len(keep) == len(rows) else rows[keep])
            self._dropped += gone

    def _sampler_method(self, name: str) -> Any:
        """The draw's own ``name``; a draw that has none is refused in prose."""
        method = getattr(self._sampler, name, None)
        if method is None:
            raise NeedReplayError(
                f"The {self._sampler.name} draw cannot do this: it has no {name}."
            )
        return method

    def check_valid(self) -> None:
        """Raise if what is stored contradicts itself."""
        with self._lock:
            ring = self._ring
            if not 0 <= len(ring) <= ring.capacity:
                raise NeedReplayError("More transitions are kept than the capacity.")
            self._sampler.check_valid()
            if self._present is not None:
                self._present.check_valid()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole memory to one file, all at once: an older file stays until then."""
        with self._lock:
            state = {
                "counters": {name: getattr(self, name) for name in _COUNTERS},
                "ids": [self._ring.oldest_id, self._ring.next_id],
                "random": self._rng.bit_generator.state,
            }
            save_memory(path, self._settings(), state, self.arrays(), self._filled())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read back what ``save`` wrote, from a memory of the same settings.

        The next draws are the very draws that the saved memory would have made. A file that is
        damaged, or of a memory with other settings, is refused before anything changes. If reading
        fails after that (a disk that breaks just then), the memory is left empty, never half-read.
        """
        with self._lock:
            state = load_memory(path, self._settings(), self.arrays(), self._empty)
            for name, value in state["counters"].items():
                setattr(self, name, value)
            self._ring.oldest_id, self._ring.next_id = state["ids"]
            self._rng.bit_generator.state = state["random"]

    def _empty(self) -> None:
        """Forget every transition, as if none had ever been added; the random state stays."""
        self._ring.oldest_id = self._ring.next_id = 0
        self._intake.empty()
        self._sampler.allocate(self._ring.capacity)
        if self._present is not None:
            self._present = MinTree(self._ring.capacity)
        self._batches, self._dropped, self._largest_seen = 0, 0, FIRST_GAIN

    def _filled(self) -> dict[str, int]:
        """How many rows of an array are in use, where not all are."""
        filled = {"ring/rows": min(self._ring.next_id, self._ring.capacity)}
        return filled | {f"intake/{name}": n for name, n in self._intake.filled().items()}

    def _settings(self) -> dict[str, Any]:
        """What has to be the same for a file to be read back."""
        return {
            "capacity": self._ring.capacity,
            **settings_of_sampler(self._sampler),
            "weight_norm": "batch" if self._smallest is None else "buffer",
            "initial_priority": "seen" if self._present is None else "present",
            **self._intake.settings(),
        }

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that is kept, live, under a name."""
        parts: dict[str, dict[str, AnyArray]] = {
            "ring": {"rows": self._ring.rows},
            "intake": self._intake.arrays(),
            "draw": self._sampler.arrays(),
        }
        if self._present is not None:
            parts["present"] = {"gain": self._present.array}
        return {f"{part}/{name}": a for part, arrays in parts.items() for name, a in arrays.items()}
