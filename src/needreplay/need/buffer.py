"""``NeedBuffer``: a replay buffer by gain x need in which need keeps itself up to date."""

from __future__ import annotations

import copy
import io
import os
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Space
from numpy.typing import ArrayLike

from needreplay._core.checks import AT_LEAST_ONE, COUNT, check_number
from needreplay._core.errors import NeedReplayError, warn
from needreplay._core.files import open_to_read, replacing
from needreplay._core.types import Columns, Device, Env, FloatArray, IntArray, Observation
from needreplay.need.controls import ShuffledNeed
from needreplay.need.form import LEARN_EVERY, REFRESH, UNIFORM_MIX
from needreplay.need.model import NeedModel
from needreplay.need.protocol import Need
from needreplay.need.quality import NeedQuality
from needreplay.replay import Batch, ReplayBuffer
from needreplay.replay.episodes import facts_of
from needreplay.replay.prefetch import Chosen, Prefetch, called, choose
from needreplay.replay.samplers import FeatureNeedSampler
from needreplay.replay.storage import ColumnSpec
from needreplay.replay.validation import check_beta, flag

MOST_ROWS = 1024
"""Transitions whose vectors are computed in one pass."""
LOOKS, WAIT = 8, 64
"""Observations that ``Views`` takes, and how many transitions must be stored after the last."""

_MAGIC = b"needreplay need buffer 1\n"
_OF_SAMPLER = {"alpha": 0.6, "need_alpha": 1.0, "correct_for": "gain", "uniform_mix": UNIFORM_MIX}
"""The options of ``for_env`` and ``for_spaces`` that are the sampler's, and their defaults."""
_DEFAULTS = _OF_SAMPLER | {"learn_every": LEARN_EVERY, "refresh": REFRESH, "shuffle": False}


class Views:
    """Warns once if need is seen from observations that are never stored.

    The observation that the agent acts on next is the ``obs`` of a step to come, number by number.
    So of the observations of ``LOOKS`` batches, each of another time, some are stored once further
    steps have been added. If not one of them is, they are on another scale than what is stored,
    such as raw ones beside normalized ones. A run that passes what it stores is never warned.
    """

    def __init__(self) -> None:
        self._seen: list[Observation] = []
        self._first = self._last = -1
        self.is_done = False

    def see(self, buffer: ReplayBuffer, view: Observation) -> None:
        """Take one observation, or compare those taken with what is stored."""
        now = buffer.next_id
        if len(self._seen) < LOOKS:
            if now != self._last:
                self._first = now if self._first < 0 else self._first
                self._seen.append(copy.deepcopy(view))
                self._last = now
            return
        if now < self._last + WAIT:
            return
        self.is_done = True
        begin = max(buffer.oldest_id, self._first - WAIT)
        columns = buffer.read(np.arange(begin, min(now, begin + MOST_ROWS)))
        if buffer.oldest_id <= self._first and not any(
            _is_among(each, columns[name]) for each in self._seen for name in ("obs", "next_obs")
        ):
            warn(
                f"Of the observations passed to the first batches, {LOOKS} were compared with "
                "what was stored then, and none of them is stored. Pass to sample what the agent "
                "acts on next, exactly as you store it (both normalized, or both raw)."
            )
        self._seen = []


def _is_among(one: Observation, many: Observation) -> bool:
    """Whether an observation is one of those stored, in the dtype in which they are."""
    if isinstance(many, dict):
        return all(_is_among(one[key], part) for key, part in many.items())
    row = np.asarray(one).astype(many.dtype).reshape(-1)
    return bool((many.reshape(len(many), -1) == row).all(1).any())


class NeedBuffer:
    """A replay buffer that samples by gain x need and keeps need up to date by itself.

        buffer = NeedBuffer.for_env(env, capacity=100_000)
        buffer.add(obs=obs, action=action, ...)      # as in a ReplayBuffer
        batch = buffer.sample(32, obs, beta=0.4)     # gain x need, seen from the present obs
        buffer.update_priorities(batch.ids, np.abs(td_error))

    ``sample`` does what else need takes: it computes the vectors of transitions that are new, asks
    for need where the agent is, lets the need model learn at every ``learn_every``-th batch, and
    renews the vectors of that batch and of others in turn.

    Args:
        buffer: the transitions; its sampler is ``model.sampler(...)``.
        model: the need, such as a ``NeedModel``.
        learn_every: batches between two updates of ``model``.
        refresh: stored vectors that are renewed for each batch, beside those of the batch.
        shuffle: a control: every transition has the need of another one. What is lost by it is
            what need is worth.
        seed: decides how need is shuffled.
    """

    def __init__(
        self,
        buffer: ReplayBuffer,
        model: Need,
        *,
        learn_every: int = LEARN_EVERY,
        refresh: int = REFRESH,
        shuffle: bool = False,
        seed: int = 0,
    ) -> None:
        if not isinstance(buffer.sampler, FeatureNeedSampler):
            raise NeedReplayError(
                f"buffer has a {buffer.sampler.name} sampler; make it with "
                "sampler=model.sampler(), or use NeedBuffer.for_env."
            )
        if buffer.unit != "transition":
            raise NeedReplayError(
                f"buffer samples {buffer.unit}s, and NeedBuffer computes vectors of transitions. "
                "Use the ReplayBuffer itself: set_features with the ids that add returns, and "
                "sample(size, need=...)."
            )
        if buffer.folder is not None:
            raise NeedReplayError(
                "buffer is in a folder, and a NeedBuffer's model would not be; leave folder out, "
                "and save(path) writes both. A ReplayBuffer with a sampler by need can be in one."
            )
        self.buffer, self.model = buffer, model
        self.learn_every = check_number("learn_every", learn_every, int, AT_LEAST_ONE)
        self.refresh = check_number("refresh", refresh, int, COUNT)
        self.shuffled = ShuffledNeed(buffer, seed) if flag("shuffle", shuffle) else None
        self._next_new = buffer.oldest_id
        """the first transition whose vector was not computed yet"""
        self._views = Views()
        self.query: FloatArray | None = None
        """The query of the last batch, or one for each of its rows."""

    @classmethod
    def for_spaces(
        cls,
        observation_space: Space[Observation],
        action_space: ColumnSpec,
        *,
        capacity: int,
        model: Need | None = None,
        learn_every: int = LEARN_EVERY,
        refresh: int = REFRESH,
        shuffle: bool = False,
        seed: int = 0,
        **options: Any,
    ) -> NeedBuffer:
        """A buffer for an environment with these (single) spaces.

        Args:
            observation_space: of one environment.
            action_space: of one environment.
            capacity: how many transitions are stored.
            model: the need; by default a ``NeedModel`` of the observations.
            learn_every: see ``NeedBuffer`` for this and the next two.
            refresh: see above.
            shuffle: see above.
            seed: decides what is sampled, how the model begins and how need is shuffled.
            **options: ``alpha``, ``need_alpha``, ``correct_for`` and ``uniform_mix`` of the
                sampler, and what ``ReplayBuffer.for_spaces`` takes.
        """
        if "sampler" in options:
            raise NeedReplayError(
                "NeedBuffer has no option 'sampler'; it samples by gain x need. Pass alpha=, "
                "need_alpha=, correct_for= or uniform_mix=, or use ReplayBuffer."
            )
        of_sampler = {name: options.pop(name, value) for name, value in _OF_SAMPLER.items()}
        need = NeedModel(observation_space, seed=seed) if model is None else model
        buffer = ReplayBuffer.for_spaces(
            observation_space,
            action_space,
            capacity=capacity,
            sampler=need.sampler(**of_sampler),
            seed=seed,
            **options,
        )
        return cls(
            buffer, need, learn_every=learn_every, refresh=refresh, shuffle=shuffle, seed=seed
        )

    @classmethod
    def for_env(cls, env: Env, *, capacity: int, **options: Any) -> NeedBuffer:
        """A buffer for ``env``: reads its spaces, ``num_envs`` and when it resets.

        Args:
            env: an environment, or a vector of them (``gymnasium.make_vec``).
            capacity: how many transitions are stored.
            **options: see ``for_spaces``.
        """
        return cls.for_spaces(capacity=capacity, **{**facts_of(env), **options})

    def __len__(self) -> int:
        return len(self.buffer)

    def __repr__(self) -> str:
        sampler: Any = self.buffer.sampler
        own = {name: getattr(sampler, name) for name in _OF_SAMPLER}
        usual: Any = self.model.sampler(**_OF_SAMPLER)  # type: ignore[arg-type]
        own["need_alpha"] /= usual.need_alpha  # beyond the power that the model's need is
        own |= {"learn_every": self.learn_every, "refresh": self.refresh}
        own["shuffle"] = self.shuffled is not None
        said = "".join(f"{n}={value!r}, " for n, value in own.items() if value != _DEFAULTS[n])
        return (
            f"<NeedBuffer: {len(self)} of {self.buffer.capacity} transitions, {self.model!r}, "
            f"{said}{self.buffer.nbytes:,} bytes>"
        )

    # Using ---------------------------------------------------------------------------------------

    def add(self, **step: Any) -> range:
        """Store a step, as ``ReplayBuffer.add`` does; returns the ids stored."""
        return self.buffer.add(**step)

    def cut(self, env: int | None = None) -> range:
        """End the episode of environment ``env``, or of all, as ``ReplayBuffer.cut`` does."""
        return self.buffer.cut(env)

    def sample(self, size: int, obs: Observation = None, *, beta: float | None = None) -> Batch:
        """Sample ``size`` transitions by gain x need.

        Args:
            size: how many.
            obs: where the agent is: the present observation, or those of all environments. It may
                be left out if need is seen from recent states or from starts.
            beta: the exponent of importance weights for this batch alone.
        """
        query = self._query(size, obs)
        batch = self.buffer.sample(size, need=query, beta=beta)
        self._learn(batch.ids)
        return batch

    def prefetch(
        self,
        size: int,
        obs: Callable[[], Observation] | None = None,
        *,
        depth: int = 2,
        device: Device | None = None,
        beta: float | None = None,
    ) -> Prefetch:
        """Batches without end, gathered in a thread, as ``ReplayBuffer.prefetch`` makes them.

        Need is seen from where the agent is when a batch is chosen, ``depth`` batches ahead.

        Args:
            size: how many transitions a batch has.
            obs: a function that returns where the agent is now, such as ``lambda: obs``. It may be
                left out if need is seen from recent states or from starts.
            depth: how many batches are chosen ahead.
            device: where torch tensors are wanted; None: numpy arrays.
            beta: see ``sample``.
        """
        size, now = check_number("size", size, int, AT_LEAST_ONE), called("obs", obs)
        beta = beta if beta is None else check_beta(beta)

        def choose_next() -> Chosen:
            chosen = choose(self.buffer, size, self._query(size, now()), beta)
            self._learn(chosen.batch.ids)
            return chosen

        return Prefetch(self.buffer, choose_next, depth, device)

    def _query(self, size: int, obs: Observation) -> FloatArray:
        """The need query of the next batch."""
        self.query = self.look(size, obs)
        return self.query

    def _learn(self, ids: IntArray) -> None:
        """What need does after every batch, or after every ``learn_every``-th."""
        if self.buffer.batches % self.learn_every == 0:
            self.model.learn(self.buffer)
            self.renew(ids, self.refresh * self.learn_every)

    def look(self, size: int, obs: Observation = None) -> FloatArray:
        """The need query of a batch now; gives new transitions their vectors first.

        ``sample`` calls this. One query, or with need seen from recent states or starts one for
        each of ``size`` rows.
        """
        views = self.model.views(self.buffer, size, obs)
        if obs is not None and not self._views.is_done:
            self._views.see(self.buffer, views)
        *older, newest = self._new_ids()
        for some in older:
            self._set_vectors(some)
        ids, columns = self._source_of(newest)
        if not len(ids):
            return self.model.queries(views)
        vectors, queries = self.model.vectors_and_queries(columns, views)
        self.buffer.set_features(ids, vectors)
        return queries

    def renew(self, ids: IntArray, count: int = 0) -> None:
        """Compute the vectors of ``ids`` again, and of the ``count`` next transitions in turn."""
        self._set_vectors(np.concatenate([ids, self.buffer.next_to_refresh(count)]))

    def update_priorities(self, ids: ArrayLike, priorities: ArrayLike) -> None:
        """Set the priorities of ``ids`` (absolute TD errors, for example)."""
        self.buffer.update_priorities(ids, priorities)

    def facts(self, *, quality: bool = False) -> dict[str, float]:
        """Numbers to log: how need is sampled, and with ``quality`` how accurate it is.

        ``acceptance``: the share of candidates that the sampler accepted. ``oldest_vector``: in
        batches, how old the oldest stored vector is. ``without_vector``: the share of stored
        transitions that have none yet. ``auc`` and ``auc_baseline``: see ``NeedQuality``.
        """
        sampler: Any = self.buffer.sampler
        without = 1.0 - float(sampler.features.known.sum()) / max(1, len(self.buffer))
        found = {
            "acceptance": float(sampler.acceptance_rate),
            "oldest_vector": float(sampler.features.oldest_age),
            "without_vector": without,
        }
        if quality and isinstance(self.model, NeedModel):
            measured = self.quality()
            found |= {"auc": measured.auc, "auc_baseline": measured.best_baseline()}
        return found

    def quality(self, *, queries: int = 32, seed: int | np.random.Generator = 0) -> NeedQuality:
        """How accurate the need is that this buffer samples by; see ``NeedQuality``.

        It is that of the stored vectors, on episodes that the model never learns from. With
        ``shuffle`` it is the model's own need, since stored vectors are other transitions'.
        """
        for ids in self._new_ids():
            self._set_vectors(ids)
        stored = self._stored_needs if self.shuffled is None else None
        return self.model.quality(self.buffer, queries=queries, seed=seed, needs_of=stored)

    def _stored_needs(self, obs: Observation, columns: Columns) -> FloatArray:
        vectors = self.buffer.features(columns["ids"])
        return self.model.need_of(self.model.queries(obs) @ vectors.T)

    # Vectors of transitions ----------------------------------------------------------------------

    def _new_ids(self) -> list[IntArray]:
        """Transitions without a vector, in parts for one pass each; at least one part."""
        first = max(self._next_new, self.buffer.oldest_id)
        self._next_new = self.buffer.next_id
        ids = np.arange(first, self._next_new)
        if self.shuffled is not None and len(ids):
            ids = self.shuffled.affected(ids)
        return [ids[i : i + MOST_ROWS] for i in range(0, len(ids), MOST_ROWS)] or [ids]

    def _source_of(self, ids: IntArray) -> tuple[IntArray, Columns]:
        """Those of ``ids`` that are still stored, and the columns that their vectors come from."""
        with self.buffer.locked():
            ids = ids[ids >= self.buffer.oldest_id]
            donors = ids if self.shuffled is None else self.shuffled.donors(ids)
            return ids, self.buffer.read(donors)

    def _set_vectors(self, ids: IntArray) -> None:
        ids, columns = self._source_of(ids)
        if len(ids):
            self.buffer.set_features(ids, self.model.vectors(columns))

    # Saving --------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write transitions, priorities, vectors and the model to one file, atomically."""
        state = io.BytesIO()
        torch.save({"model": self.model.state_dict(), "next_new": self._next_new}, state)
        size = len(state.getbuffer())
        with replacing(path) as file:
            file.write(_MAGIC + struct.pack("<Q", size) + state.getvalue())
            self.buffer.save(file)

    def load(self, path: str | os.PathLike[str], *, strict: bool = True) -> None:
        """Read what ``save`` of a buffer with the same settings wrote; runs no code of the file.

        It then samples exactly what the saved one would have sampled. A file that is damaged or of
        other settings raises, and nothing is changed.

        Args:
            path: the file.
            strict: False: another capacity and other settings of the sampler are fine, as for
                ``ReplayBuffer.load``; the model computes all vectors again.
        """
        try:
            with open_to_read(path) as file:
                if file.read(len(_MAGIC)) != _MAGIC:
                    raise ValueError("it does not begin as one")
                (size,) = struct.unpack("<Q", file.read(8))
                if size > os.fstat(file.fileno()).st_size:
                    raise ValueError("it is cut short")
                saved = torch.load(io.BytesIO(file.read(size)), weights_only=True)
                before = copy.deepcopy(self.model.state_dict())
                self.model.load_state_dict(saved["model"])
                try:
                    self.buffer.load(file, strict=strict)
                except BaseException:
                    self.model.load_state_dict(before)
                    raise
                self._next_new = int(saved["next_new"]) if strict else self.buffer.oldest_id
        except (NeedReplayError, OSError):
            raise
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise NeedReplayError(
                f"{os.fspath(path)!r} is not what save of a NeedBuffer with these settings wrote: "
                f"{reason}"
            ) from error
