"""From steps of environments to transitions: n-step returns over several environments.

A termination makes the discount 0; a truncation bootstraps from the true last observation. Each of
``n_envs`` environments has its own episode, and a window never crosses the end of an episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from needreplay._core.checks import AT_LEAST_ONE, COUNT, SHARE, check_number
from needreplay._core.errors import NeedReplayError, counted, unknown
from needreplay._core.types import AnyArray, BoolArray, Columns, Env, FloatArray, IntArray
from needreplay.replay._kernels.columns import Table
from needreplay.replay._kernels.steps import Windows, follow
from needreplay.replay.frames import FrameStore
from needreplay.replay.storage import (
    BLOCK,
    NO_ID,
    Bytes,
    Column,
    ColumnSpec,
    Framed,
    Memory,
    Parts,
    Placed,
    Ring,
    Writer,
    column_views,
    columns_of,
    nest,
)
from needreplay.replay.validation import as_columns, is_within, shape_of

Autoreset = Literal["same_step", "next_step"]

_OBS_FRAME, _NEXT_FRAME = "obs frame", "next obs frame"
_STACKS = ("obs", "next_obs")
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
    One environment that you reset yourself is ``same_step``; for several it has to be passed."""

    def __post_init__(self) -> None:
        plain: dict[str, object] = {
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


def facts_of(env: Env) -> dict[str, Any]:
    """The (single) spaces of ``env`` and what ``Episodes`` needs to know, for ``for_spaces``.

    ``env`` is an environment or a vector of them, of Gymnasium or Stable-Baselines3.
    """
    if not hasattr(env, "observation_space"):
        made = f"gymnasium.make({env!r})" if isinstance(env, str) else "one of gymnasium.make"
        raise NeedReplayError(f"env is {env!r}; pass the environment itself: {made}.")
    prefix = "single_" if hasattr(env, "single_observation_space") else ""
    facts = {name: getattr(env, prefix + name) for name in ("observation_space", "action_space")}
    one = env if getattr(env, "spec", None) else next(iter(getattr(env, "envs", ())), None)
    limit = getattr(getattr(one, "spec", None), "max_episode_steps", None) or 0
    facts["time_limit"] = limit if limit > 0 else None
    if not hasattr(env, "num_envs"):
        inner, resets = env, False
        while inner is not None and not resets:
            resets = type(inner).__name__ == "Autoreset"  # Gymnasium's wrapper, in next-step mode
            inner = getattr(inner, "env", None)
        return {**facts, "autoreset": "next_step" if resets else "same_step"}
    facts["n_envs"] = int(env.num_envs)
    if not prefix:  # Stable-Baselines3's reset in the same step
        return {**facts, "autoreset": "same_step"}
    said = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    if known := _MODES.get(str(getattr(said, "value", said))):
        facts["autoreset"] = known
    return facts


class EpisodeWriter(Writer):
    """Stores n-step transitions.

    ``obs``, ``action`` and extra columns are those of a window's first step, ``reward`` is the
    discounted sum of its rewards, ``next_obs`` and ``discount`` are those of its last step.

    Args:
        columns: obs, action and whatever else belongs to a step.
        episodes: how steps become transitions.
        capacity: of the ring.
        info: what ``add`` takes for the sampler (features or a state); held until a window closes.
        memory: makes the rows of frames.
    """

    def __init__(
        self,
        columns: Mapping[str, ColumnSpec],
        episodes: Episodes,
        capacity: int,
        info: Mapping[str, Column],
        memory: Memory | None = None,
    ) -> None:
        own = {"reward", "next_obs", "discount", "terminated", "truncated", "env"} & columns.keys()
        if own or "obs" not in columns:
            raise NeedReplayError(
                "With episodes, columns are obs, action and whatever else belongs to a step; "
                "reward, next_obs and discount are made from the steps, and env says whose they are"
                + (f" (leave out {', '.join(sorted(own))})." if own else " (obs is missing).")
            )
        self.episodes = episodes
        obs = columns_of("obs", columns["obs"])
        rest = [c for n, spec in columns.items() if n != "obs" for c in columns_of(n, spec)]
        self._frames: FrameStore | None = None
        if episodes.frame_stack:
            self._frames = FrameStore(obs, episodes, capacity, memory)
            self.bulk = "writer/frames"
            number = np.dtype(np.int64)
            first_step = [Column(_OBS_FRAME, number, ()), *rest]
            last_step = [Column(_NEXT_FRAME, number, ())]
        else:
            first_step = [*obs, *rest]
            last_step = [column._replace(name=f"next_{column.name}") for column in obs]
        returns = [Column(name, np.dtype(np.float32), ()) for name in ("reward", "discount")]
        super().__init__(first_step, last_step, returns)
        self.obs_pairs = [(a.name, b.name) for a, b in zip(first_step, last_step, strict=False)]
        """The columns of ``obs``, each with that of ``next_obs``."""
        self.frame_stack = episodes.frame_stack
        _, next_from, next_to = self.layout.groups
        reward_at, discount_at = self.layout.offsets[-2:]
        self._layout = next_from, next_to, reward_at, discount_at
        self._allocate(capacity, info)

    def _allocate(self, capacity: int, info: Mapping[str, Column]) -> None:
        n_envs, n_step = self.episodes.n_envs, self.episodes.n_step
        pairs, stride = n_envs * n_step, self.layout.stride
        self._step: Bytes = np.zeros((n_envs, stride), dtype=np.uint8)
        self._pending: Bytes = np.zeros((pairs, stride), dtype=np.uint8)
        self._rewards: FloatArray = np.zeros((n_envs, n_step + 1))
        self._flags: BoolArray = np.zeros((n_envs, 3), dtype=np.bool_)
        self._state: IntArray = np.zeros((n_envs, 6), dtype=np.int64)
        self._following: IntArray = np.full(capacity, NO_ID, dtype=np.int64)
        self._places: IntArray = np.full((capacity, 2), NO_ID, dtype=np.int64)
        most = pairs + max(n_envs, min(BLOCK, capacity))
        self._slots, self._previous, self._sources = np.zeros((3, most), dtype=np.int64)
        self._info = {n: np.zeros((pairs + most, *c.shape), c.dtype) for n, c in info.items()}
        self._targets = column_views(self._step, self.layout)
        del self._targets["discount"]
        self._targets["reward"] = self._rewards[:, -1]
        self._targets["terminated"] = self._flags[:, 0]
        self._targets["truncated"] = self._flags[:, 1]
        temporary = {
            "flags": self._flags,
            "slots": self._slots,
            "previous": self._previous,
            "sources": self._sources,
        }
        self.windows = Windows(
            Table(self._targets),
            Table(self._info) if info else None,
            self._windows() | temporary,
            self._layout,
            stride,
            self.episodes.discount,
            self.episodes.autoreset == "next_step",
        )
        self.clear()

    def info_rows(self, info: Mapping[str, Column]) -> dict[str, AnyArray]:  # noqa: ARG002
        """A row for each open step, and one for each transition just written."""
        return self._info

    def rows_of(self, values: Columns, env: int | None) -> tuple[Columns, int, int]:
        """``values`` with one axis of rows; how many rows these are, and how many a step has."""
        envs = self.episodes.n_envs if env is None else 1
        first = self.layout.columns[0]
        name, axes = first.name, len(first.shape)
        if self._frames is not None:
            name, axes = "obs", len(self._frames.stack_shape)
        shape = shape_of(values.get(name))
        leading = shape[: len(shape) - axes]
        if len(leading) == 2 and leading[1] == envs and leading[0] > 0:
            values = {
                name: np.reshape(value, (-1, *np.shape(value)[2:]))
                if shape_of(value)[:2] == leading
                else value
                for name, value in values.items()
            }
            return values, leading[0] * envs, envs
        return values, max(1, leading[0]) if len(leading) == envs == 1 else envs, envs

    def most_rows(self, values: Columns, env: int | None) -> int:
        """All open windows may close, and those of new steps."""
        return self.episodes.n_envs * (self.episodes.n_step - 1) + self.rows_of(values, env)[1]

    def converted(self, values: Mapping[str, Any], size: int, step: int) -> dict[str, AnyArray]:
        """``values``, checked, as arrays; stacks as the bytes of their frames."""
        lead: tuple[int, ...] = (size,)
        axes = ": an axis of time comes first, or none with one step"
        if step > 1:
            lead = (size,) if size == step else (size // step, step)
            axes = f": first an axis of time, or none with one step, then the {step} environments"
        if self._frames is None:
            return self._with_rewards(as_columns(self._targets, size, values, lead, axes))
        if "obs" not in values or "next_obs" not in values:
            raise NeedReplayError("add takes obs and next_obs; nothing was stored.")
        stacks = {name: self._frames.as_bytes(name, values[name], size) for name in _STACKS}
        rest = {name: value for name, value in values.items() if name not in stacks}
        others = {n: a for n, a in self._targets.items() if n not in (_OBS_FRAME, _NEXT_FRAME)}
        return self._with_rewards(as_columns(others, size, rest, lead, axes)) | stacks

    def with_frames(self, step: dict[str, AnyArray], env: int | None) -> dict[str, AnyArray]:
        """Store the frames of one step; their numbers take the place of its stacks."""
        if self._frames is None:
            return step
        n_envs = self.episodes.n_envs
        of = slice(None) if env is None else slice(env, env + 1)
        skipped = np.ones(n_envs, dtype=np.bool_)
        resets = (self._state[:, _ENDED] == 1) & (self.episodes.autoreset == "next_step")
        skipped[of] = resets[of]
        stacks = []
        for name in _STACKS:
            part = step.pop(name)
            stacks.append(np.zeros((n_envs, *part.shape[1:]), part.dtype))
            stacks[-1][of] = part
        numbers: IntArray = np.zeros((2, n_envs), dtype=np.int64)
        self._frames.store(stacks[0], stacks[1], skipped, numbers[0], numbers[1])
        return step | {_OBS_FRAME: numbers[0, of].copy(), _NEXT_FRAME: numbers[1, of].copy()}

    def framed(self, values: Columns) -> Framed | None:
        """One plain step of one environment with its frames stored; None: it is not one."""
        if self._frames is None or self.episodes.n_envs > 1 or self._state.item(0, _ENDED):
            return None
        numbers = self._frames.store_plain(values.get("obs"), values.get("next_obs"))
        if numbers is None:
            return None
        step = {name: value for name, value in values.items() if name not in _STACKS}
        step[_OBS_FRAME], step[_NEXT_FRAME], before = numbers
        return step, partial(self._frames.forget, before)

    def check_env(self, env: object) -> int:
        """``env``, if it is the number of an environment."""
        return check_number("env", env, int, (0, self.episodes.n_envs - 1))

    def steps_of_episodes(self) -> IntArray:
        """How many steps the episode of each environment has so far, if it has not ended."""
        return np.where(self._state[:, _LAST] == NO_ID, 0, self._state[:, _TIME] + 1)

    def _with_rewards(self, columns: dict[str, AnyArray]) -> dict[str, AnyArray]:
        """``columns``, whose rewards sum to finite returns: one that is not would be lost."""
        limit = self.windows.reward_limit
        if not (fine := np.abs(columns["reward"]) < limit).all():
            row = int(np.argmin(fine))
            raise NeedReplayError(
                f"reward of row {row} is {columns['reward'][row]}; pass finite numbers below "
                f"{limit:.2g}: a return of {counted(self.episodes.n_step, 'reward')} is a float32. "
                "Nothing was stored."
            )
        return columns

    def choose_cut(self, env: int | None) -> None:
        """Choose whose open windows are to be written, as if their last step was truncated."""
        n_envs = self.episodes.n_envs
        if env is not None:
            self.check_env(env)
        others = np.arange(n_envs) != (np.arange(n_envs) if env is None else env)
        self._flags[:] = np.stack([np.zeros(n_envs, np.bool_), ~others, others], axis=1)

    def placed(self, ring: Ring, count: int) -> tuple[IntArray, IntArray]:  # noqa: ARG002
        """Slots of the transitions just written, and the id before each in its episode or -1."""
        return self._slots[:count], self._previous[:count]

    def future(self, ids: IntArray, steps: IntArray) -> IntArray:
        """The ids ``steps`` after ``ids`` in their episodes, -1 where there is none."""
        later: IntArray = follow(self._following, np.ascontiguousarray(ids), steps)
        return later

    def places(self, ids: IntArray) -> IntArray:
        """The number of the episode of each of ``ids``, and its step in it."""
        found: IntArray = self._places[ids % len(self._places)]
        return found

    def told(self, count: int) -> slice:
        """Which of ``info_rows`` are those of the ``count`` transitions just written."""
        return slice(len(self._pending), len(self._pending) + count)

    def columns(self, gathered: dict[str, AnyArray]) -> Columns:
        """obs, action, ..., reward, next_obs, discount; stacks rebuilt, Dict spaces nested."""
        if self._frames is not None:
            obs, next_obs = gathered.pop(_OBS_FRAME), gathered.pop(_NEXT_FRAME)
            gathered["obs"], gathered["next_obs"] = self._frames.take(obs, next_obs)
        return super().columns(gathered)

    def parts(self, ring: Ring, ids: IntArray) -> Parts:
        """The rows of ``ids`` with all that they refer to, copied."""
        own = super().parts(ring, ids)
        if self._frames is None:
            return own
        slots = ids % ring.capacity
        newest = [ring.columns[name][slots] for name in (_OBS_FRAME, _NEXT_FRAME)]
        frames, places = self._frames.cut_out(np.stack(newest, axis=1))
        return Parts(own.rows, frames, places.reshape(len(ids), 2 * places.shape[-1]))

    def columns_from(self, placed: Placed) -> Columns:
        """The public columns of rows that ``parts`` returned, here or elsewhere."""
        columns = self._plain_from(placed)
        if self._frames is not None:
            del columns[_OBS_FRAME], columns[_NEXT_FRAME]
            columns["obs"], columns["next_obs"] = self._frames.put_together(placed)
        return nest(columns)

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
        numbers += [pending[open_steps], self._targets[_NEXT_FRAME][held > 0]]
        if not all(is_within(part, 0, int(frames.numbers[0])) for part in numbers):
            raise NeedReplayError("A transition has a frame that was never stored.")

    def clear(self) -> None:
        """Close all windows and forget all frames."""
        self._state[:] = 0
        self._state[:, [_LAST, _EPISODE, _TIME]] = NO_ID
        self._following[:], self._places[:] = NO_ID, 0
        if self._frames is not None:
            self._frames.clear()

    def arrays(self) -> dict[str, AnyArray]:
        """Open windows and frames."""
        info = {f"pending {name}": rows for name, rows in self.pending_info().items()}
        return {**self._windows(), **info, **(self._frames.arrays() if self._frames else {})}

    def _windows(self) -> dict[str, AnyArray]:
        return {
            "step": self._step,
            "pending": self._pending,
            "rewards": self._rewards,
            "episodes": self._state,
            "following": self._following,
            "places": self._places,
        }

    def take(self, other: EpisodeWriter, first: int, count: int, shift: int) -> None:
        """Links, open windows and frames of another writer; see ``Writer``."""
        slots = np.arange(first, first + count) % len(other._places)
        after, last = other._following[slots], other._state[:, _LAST]
        self._following[:count] = np.where(after >= first, after + shift, NO_ID)
        self._places[:count] = other._places[slots]
        self._state[:] = other._state
        self._state[:, _LAST] = np.where(last >= first, last + shift, NO_ID)
        self._step[:], self._pending[:] = other._step, other._pending
        self._rewards[:] = other._rewards
        for rows in self._info.values():
            rows.view(np.uint8)[...] = 0xFF  # no state or features yet
        if self._frames is not None and other._frames is not None:
            self._frames.take_newest(other._frames)

    def pending_info(self) -> dict[str, AnyArray]:
        """States or features of open steps."""
        return {name: rows[: len(self._pending)] for name, rows in self._info.items()}

    def links(self, count: int) -> IntArray:
        """The id after each of the first ``count`` slots in its episode, or -1."""
        return self._following[:count]

    def filled(self) -> dict[str, int]:
        """How many frames there are."""
        return self._frames.filled() if self._frames is not None else {}

    def settings(self) -> dict[str, object]:
        """What a file must agree on."""
        return {**super().settings(), **asdict(self.episodes)}
