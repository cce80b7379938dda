"""From steps of environments to transitions: n-step returns over several environments.

A termination makes the discount 0; a truncation bootstraps from the true last observation. Each of
``n_envs`` environments has its own episode, and a window never crosses the end of an episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from needreplay import equations
from needreplay._core.checks import AT_LEAST_ONE, COUNT, SHARE, check_number
from needreplay._core.errors import NeedReplayError, unknown
from needreplay._core.jit import jit
from needreplay._core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay.frames import FrameStore
from needreplay.replay.storage import (
    NO_ID,
    WORD,
    Bytes,
    Column,
    ColumnSpec,
    Ring,
    Writer,
    column_views,
    columns_of,
)
from needreplay.replay.validation import fill_columns, is_within

discounted = jit(equations.discounted)

Autoreset = Literal["same_step", "next_step"]

_OBS_FRAME, _NEXT_FRAME = "obs frame", "next obs frame"
_HEAD, _HELD, _LAST, _ENDED, _EPISODE, _TIME = range(6)
"""Of each environment: its oldest open step, how many are open, its last id, whether it ended, and
the episode and the step in it of its last transition."""


@dataclass(frozen=True)
class Episodes:
    """How steps of environments become transitions."""

    n_envs: int = 1
    """Environments that step together: each ``add`` is one step of all of them."""
    n_step: int = 1
    """Number of rewards that a return sums before it bootstraps."""
    discount: float = 0.99
    """γ. A transition's column ``discount`` is γ^n, or 0 where the episode terminated."""
    frame_stack: int = 0
    """Frames in a stack of images (the first axis of ``obs``), each stored once; 0: no stacks."""
    autoreset: Autoreset | None = None
    """``next_step``: the ``add`` after the end of an episode is Gymnasium's reset step, and is
    skipped. ``same_step``: no step is skipped; ``next_obs`` is the true last one of the episode.
    One environment that you reset yourself is ``same_step``; for several it has to be said."""

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {
            "n_envs": check_number("n_envs", self.n_envs, int, AT_LEAST_ONE),
            "n_step": check_number("n_step", self.n_step, int, AT_LEAST_ONE),
            "discount": check_number("discount", self.discount, float, SHARE),
            "frame_stack": check_number("frame_stack", self.frame_stack, int, COUNT),
        }
        if self.autoreset is None:
            if self.n_envs > 1:
                raise NeedReplayError(
                    f"n_envs is {self.n_envs}, so say when environments reset: autoreset="
                    "'next_step' (gymnasium.make_vec by default: the step after the end of an "
                    "episode only resets) or 'same_step'. ReplayBuffer.for_env reads it from the "
                    "environment."
                )
            plain["autoreset"] = "same_step"
        elif self.autoreset not in ("same_step", "next_step"):
            raise unknown("autoreset mode", self.autoreset, ("same_step", "next_step"))
        for name, value in plain.items():
            object.__setattr__(self, name, value)


_MODES: dict[str, Autoreset] = {
    "NextStep": "next_step",
    "SameStep": "same_step",
    "Disabled": "same_step",
}
"""Gymnasium's names; where nothing resets itself, no step is a reset step."""


def facts_of(env: Any) -> tuple[Any, Any, dict[str, Any]]:
    """The (single) spaces of ``env``, and what ``Episodes`` needs to know about it.

    ``env`` is an environment or a vector of them, of Gymnasium or Stable-Baselines3.
    """
    if not hasattr(env, "num_envs"):
        inner, resets = env, False
        while inner is not None and not resets:
            resets = type(inner).__name__ == "Autoreset"  # Gymnasium's wrapper, in next-step mode
            inner = getattr(inner, "env", None)
        mode: Autoreset = "next_step" if resets else "same_step"
        return env.observation_space, env.action_space, {"autoreset": mode}
    facts: dict[str, Any] = {"n_envs": int(env.num_envs)}
    if not hasattr(env, "single_observation_space"):  # Stable-Baselines3's reset in the same step
        return env.observation_space, env.action_space, {**facts, "autoreset": "same_step"}
    said = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    if known := _MODES.get(str(getattr(said, "value", said))):
        facts["autoreset"] = known
    return env.single_observation_space, env.single_action_space, facts


@jit
def _copy_words(source: AnyArray, i: int, target: AnyArray, j: int, start: int, end: int) -> None:
    """target[j, start:end] = source[i, start:end]."""
    for k in range(start, end):
        target[j, k] = source[i, k]


@jit
def _window_return(
    rewards: FloatArray, env: int, head: int, held: int, discount: float
) -> tuple[float, float]:
    """Σ_{k < held} γ^k r_{head + k}, and γ^held, over a ring of n rewards of one environment."""
    n_step = rewards.shape[1] - 1
    total, power = 0.0, 1.0
    for k in range(head + held - 1, head - 1, -1):
        total = discounted(rewards[env, k if k < n_step else k - n_step], discount, total)
        power *= discount
    return total, power


@jit
def _accumulate(
    rows: Bytes,
    first_id: int,
    step: Bytes,
    pending: Bytes,
    rewards: FloatArray,
    flags: BoolArray,
    state: IntArray,
    slots: IntArray,
    previous: IntArray,
    sources: IntArray,
    following: IntArray,
    places: IntArray,
    layout: tuple[int, int, int, int],
    discount: float,
    cuts: bool,
) -> int:
    """One step of every environment; writes closed windows to ``rows`` from ``first_id`` on.

    ``step`` has a row for each environment, ``rewards[:, -1]`` its reward, ``flags`` whether it
    terminated, was truncated, and is to be skipped. ``pending`` and ``rewards`` hold up to n steps
    whose window is open. For each transition written, ``slots`` gets its slot, ``previous`` the id
    before it in its episode, ``sources`` its row of ``pending``. By slot, ``following`` has the id
    after each transition in its episode, and ``places`` the number of its episode, in the order in
    which episodes begin, and its step in it. ``layout`` is where the columns of a window's last
    step start and end in a row, and where reward and discount are, in bytes.
    Returns the number of transitions. Its twin in C is ``add_step`` in native/steps.c. With
    ``cuts`` there is no new step: episodes that are not skipped end with the last one.
    """
    next_from, next_to, reward_at, discount_at = layout
    words, floats = rows.view(np.uint64), rows.view(np.float32)
    step_words, pending_words = step.view(np.uint64), pending.view(np.uint64)
    n_step = rewards.shape[1] - 1
    stored = 0
    for e in range(len(step)):
        terminated, ended = flags[e, 0], flags[e, 0] or flags[e, 1]
        if flags[e, 2]:
            if not cuts:
                state[e, _ENDED] = 0
            continue
        head, held = state[e, _HEAD], state[e, _HELD]
        if not cuts:
            place = (head + held) % n_step
            _copy_words(step_words, e, pending_words, e * n_step + place, 0, next_from // WORD)
            rewards[e, place] = rewards[e, n_step]
            held += 1
        while held == n_step or (ended and held > 0):
            slot, source = (first_id + stored) % len(rows), e * n_step + head
            _copy_words(pending_words, source, words, slot, 0, next_from // WORD)
            _copy_words(step_words, e, words, slot, next_from // WORD, next_to // WORD)
            total, power = _window_return(rewards, e, head, held, discount)
            floats[slot, reward_at // 4] = total
            floats[slot, discount_at // 4] = 0.0 if terminated else power
            before, new = state[e, _LAST], first_id + stored
            following[slot] = NO_ID
            if before >= 0 and new - before < len(rows):
                following[before % len(rows)] = new
            if before == NO_ID:
                state[e, _EPISODE] = state[:, _EPISODE].max() + 1
                state[e, _TIME] = -1
            state[e, _TIME] += 1
            places[slot, 0], places[slot, 1] = state[e, _EPISODE], state[e, _TIME]
            slots[stored], previous[stored], sources[stored] = slot, before, source
            state[e, _LAST] = new
            stored += 1
            head = (head + 1) % n_step
            held -= 1
        state[e, _HEAD], state[e, _HELD], state[e, _ENDED] = head, held, ended and not cuts
        if ended:
            state[e, _LAST] = NO_ID
    return stored


@jit
def _follow(following: IntArray, ids: IntArray, steps: IntArray, out: IntArray) -> None:
    """out[i] = the id ``steps[i]`` after ``ids[i]`` in its episode, or -1."""
    for i in range(len(ids)):
        out[i] = ids[i]
        for _ in range(steps[i]):
            after = following[out[i] % len(following)]
            out[i] = after if after > out[i] else NO_ID
            if out[i] == NO_ID:
                break


class EpisodeWriter(Writer):
    """Stores n-step transitions.

    ``obs``, ``action`` and extra columns are those of a window's first step, ``reward`` is the
    discounted sum of its rewards, ``next_obs`` and ``discount`` are those of its last step.

    Args:
        columns: obs, action and whatever else belongs to a step.
        episodes: how steps become transitions.
        capacity: of the ring.
        info: what ``add`` takes for the sampler (features or a state); held until a window closes.
    """

    def __init__(
        self,
        columns: Mapping[str, ColumnSpec],
        episodes: Episodes,
        capacity: int,
        info: Mapping[str, Column],
    ) -> None:
        own = {"reward", "next_obs", "discount", "terminated", "truncated"} & columns.keys()
        if own or "obs" not in columns:
            raise NeedReplayError(
                "With episodes, columns are obs, action and whatever else belongs to a step; "
                "reward, next_obs and discount are made from the steps"
                + (f" (leave out {', '.join(sorted(own))})." if own else " (obs is missing).")
            )
        self.episodes = episodes
        obs = columns_of("obs", columns["obs"])
        rest = [c for n, spec in columns.items() if n != "obs" for c in columns_of(n, spec)]
        self._frames: FrameStore | None = None
        if episodes.frame_stack:
            self._frames = FrameStore(obs, episodes, capacity)
            self.native_adds = False
            self.bulk = "writer/frames"
            number = np.dtype(np.int64)
            first_step = [Column(_OBS_FRAME, number, ()), *rest]
            last_step = [Column(_NEXT_FRAME, number, ())]
        else:
            first_step = [*obs, *rest]
            last_step = [column._replace(name=f"next_{column.name}") for column in obs]
        returns = [Column(name, np.dtype(np.float32), ()) for name in ("reward", "discount")]
        super().__init__(first_step, last_step, returns)
        _, next_from, next_to = self.layout.groups
        reward_at, discount_at = self.layout.offsets[-2:]
        self._layout = next_from, next_to, reward_at, discount_at
        self._following: IntArray = np.full(capacity, NO_ID, dtype=np.int64)
        self._places: IntArray = np.full((capacity, 2), NO_ID, dtype=np.int64)
        self._allocate(info)

    def _allocate(self, info: Mapping[str, Column]) -> None:
        n_envs, n_step = self.episodes.n_envs, self.episodes.n_step
        self._step: Bytes = np.zeros((n_envs, self.layout.stride), dtype=np.uint8)
        self._pending: Bytes = np.zeros((n_envs * n_step, self.layout.stride), dtype=np.uint8)
        self._rewards: FloatArray = np.zeros((n_envs, n_step + 1))
        self._flags: BoolArray = np.zeros((n_envs, 3), dtype=np.bool_)
        self._state: IntArray = np.zeros((n_envs, 6), dtype=np.int64)
        self._slots: IntArray = np.zeros(n_envs * n_step, dtype=np.int64)
        self._previous: IntArray = np.zeros(n_envs * n_step, dtype=np.int64)
        self._sources: IntArray = np.zeros(n_envs * n_step, dtype=np.int64)
        arrays = self._step, self._pending, self._rewards, self._flags, self._state
        links = self._following, self._places
        self._windows = *arrays, self._slots, self._previous, self._sources, *links
        self._holds_nothing = False
        self.pending_info = {
            name: np.zeros((n_envs * n_step, *c.shape), c.dtype) for name, c in info.items()
        }
        self._targets = column_views(self._step, self.layout)
        del self._targets["discount"]
        if self._frames is not None:
            self._obs_frame = self._targets.pop(_OBS_FRAME)
            self._next_frame = self._targets.pop(_NEXT_FRAME)
        self._targets["reward"] = self._rewards[:, -1]
        self._targets["terminated"] = self._flags[:, 0]
        self._targets["truncated"] = self._flags[:, 1]
        self.clear()

    def native_steps(self) -> tuple[Any, ...] | None:
        """What the C extension needs to know about episodes; it does not store frames."""
        if not self.native_adds:
            return None
        skips_resets = self.episodes.autoreset == "next_step"
        rest = *self._layout, float(self.episodes.discount), skips_resets
        return self._targets, *self._windows, *rest

    def size_of(self, values: Mapping[str, Any]) -> int:  # noqa: ARG002 - always the same
        """One step of each environment."""
        return self.episodes.n_envs

    def write(self, ring: Ring, values: Mapping[str, Any]) -> int:
        """One step of every environment; writes the transitions whose windows it closes."""
        if self._frames is not None:
            self._store_frames(self._frames, dict(values))
        else:
            fill_columns(self._targets, self.episodes.n_envs, values)
            self._skip_reset_steps()
        return self._close_windows(ring, cuts=False)

    def cut(self, ring: Ring, env: int | None) -> int:
        """Write the open windows of ``env``, or of all, as if their last step was truncated."""
        n_envs = self.episodes.n_envs
        if env is not None:
            check_number("env", env, int, (0, n_envs - 1))
        others = np.arange(n_envs) != (np.arange(n_envs) if env is None else env)
        self._flags[:] = np.stack([np.zeros(n_envs, np.bool_), ~others, others], axis=1)
        count = self._close_windows(ring, cuts=True)
        self._flags[:] = False
        return count

    def _close_windows(self, ring: Ring, *, cuts: bool) -> int:
        return _accumulate(
            ring.rows, ring.next_id, *self._windows, self._layout, self.episodes.discount, cuts
        )

    def _skip_reset_steps(self) -> None:
        if self.episodes.autoreset == "next_step":
            self._flags[:, 2] = self._state[:, _ENDED] == 1

    def _store_frames(self, frames: FrameStore, values: dict[str, Any]) -> None:
        """Check everything, then store the frames and stage their numbers."""
        if "obs" not in values or "next_obs" not in values:
            raise NeedReplayError("add takes obs and next_obs; nothing was stored.")
        obs = frames.as_bytes("obs", values.pop("obs"))
        next_obs = frames.as_bytes("next_obs", values.pop("next_obs"))
        fill_columns(self._targets, self.episodes.n_envs, values)
        self._skip_reset_steps()
        frames.store(obs, next_obs, self._flags[:, 2], self._obs_frame, self._next_frame)

    def placed(self, ring: Ring, count: int) -> tuple[IntArray, IntArray]:  # noqa: ARG002
        """Slots of the transitions just written, and the id before each in its episode or -1."""
        return self._slots[:count], self._previous[:count]

    def future(self, ids: IntArray, steps: IntArray) -> IntArray:
        """The ids ``steps`` after ``ids`` in their episodes, -1 where there is none."""
        later = np.empty_like(ids)
        _follow(self._following, ids, steps, later)
        return later

    def places(self, ids: IntArray) -> IntArray:
        """The number of the episode of each of ``ids``, and its step in it."""
        found: IntArray = self._places[ids % len(self._places)]
        return found

    def hold(self, info: dict[str, AnyArray]) -> None:
        """Keep what belongs to the current step of each environment until its window closes."""
        n_envs, n_step = self.episodes.n_envs, self.episodes.n_step
        # With windows of one step nothing is held from one add to the next.
        self._holds_nothing = n_step == 1 and not info
        if self._holds_nothing:
            return
        place = (self._state[:, _HEAD] + self._state[:, _HELD]) % n_step
        for name, pending in self.pending_info.items():
            missing = np.nan if pending.dtype.kind == "f" else NO_ID
            pending[np.arange(n_envs) * n_step + place] = info.get(name, missing)

    def info_of(self, count: int) -> dict[str, AnyArray]:
        """What was held for the ``count`` transitions just written, one row each."""
        if self._holds_nothing:
            return {}
        sources = self._sources[:count]
        return {name: pending[sources] for name, pending in self.pending_info.items()}

    def columns(self, gathered: dict[str, AnyArray]) -> dict[str, Any]:
        """obs, action, ..., reward, next_obs, discount; stacks rebuilt, Dict spaces nested."""
        if self._frames is not None:
            obs, next_obs = gathered.pop(_OBS_FRAME), gathered.pop(_NEXT_FRAME)
            gathered["obs"], gathered["next_obs"] = self._frames.take(obs, next_obs)
        return super().columns(gathered)

    def count_incomplete(self, ring: Ring) -> int:
        """How many of the oldest transitions lost a frame to newer ones."""
        if self._frames is None or self._frames.limit <= 0:
            return 0
        next_frames = ring.columns[_NEXT_FRAME]
        return self._frames.count_incomplete(next_frames, ring.oldest_id, ring.next_id)

    def check_valid(self, ring: Ring) -> None:
        """Raise unless windows, links and frames are within their bounds."""
        head, held, last, ended, episode, time = self._state.T
        n_step, used = self.episodes.n_step, min(ring.next_id, ring.capacity)
        within = (
            is_within(head, 0, n_step)
            and is_within(held, 0, n_step)
            and is_within(last, NO_ID, ring.next_id)
            and is_within(ended, 0, 2)
            and is_within(episode, NO_ID, ring.next_id)
            and is_within(time, NO_ID, ring.next_id)
        )
        if not within or np.any((ended == 1) & ((held > 0) | (last != NO_ID))):
            raise NeedReplayError("An open window is not one of its episode.")
        if not is_within(self._following[:used], NO_ID, ring.next_id):
            raise NeedReplayError("A transition is followed by one that was never stored.")
        if not is_within(self._places[:used], 0, ring.next_id):
            raise NeedReplayError("A transition is of an episode that never began.")
        if self._frames is not None:
            self._check_frames(self._frames, ring, held)

    def _check_frames(self, frames: FrameStore, ring: Ring, held: IntArray) -> None:
        frames.check_valid()
        stored = np.arange(ring.oldest_id, ring.next_id) % ring.capacity
        pending = column_views(self._pending, self.layout)[_OBS_FRAME]
        open_steps = np.repeat(held > 0, self.episodes.n_step)
        numbers = [ring.columns[name][stored] for name in (_OBS_FRAME, _NEXT_FRAME)]
        numbers += [pending[open_steps], self._next_frame[held > 0]]
        if not all(is_within(part, 0, int(frames.numbers[0])) for part in numbers):
            raise NeedReplayError("A transition has a frame that was never stored.")

    def clear(self) -> None:
        """Close all windows and forget all frames."""
        self._state[:] = 0
        self._state[:, [_LAST, _EPISODE, _TIME]] = NO_ID
        if self._frames is not None:
            self._frames.clear()

    def arrays(self) -> dict[str, AnyArray]:
        """Open windows and frames."""
        windows: dict[str, AnyArray] = {
            "step": self._step,
            "pending": self._pending,
            "rewards": self._rewards,
            "episodes": self._state,
            "following": self._following,
            "places": self._places,
        }
        info = {f"pending {name}": pending for name, pending in self.pending_info.items()}
        return {**windows, **info, **(self._frames.arrays() if self._frames is not None else {})}

    def filled(self) -> dict[str, int]:
        """How many frames there are."""
        return self._frames.filled() if self._frames is not None else {}

    def settings(self) -> dict[str, Any]:
        """What a file must agree on."""
        return {**super().settings(), **asdict(self.episodes)}
