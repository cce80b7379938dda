"""From steps of environments to transitions: n-step returns, termination and truncation apart.

A termination makes the discount 0; a truncation bootstraps from the true last observation. Each of
``n_envs`` environments has its own episode; a window never reaches across an episode's end.
"""

from __future__ import annotations

import numpy as np

from needreplay.core.jit import jit
from needreplay.core.types import AnyArray, BoolArray, FloatArray, IntArray
from needreplay.replay.ring import Bytes, copy_row, following, put_rows
from needreplay.rules import returns as rules

discounted = jit(rules.discounted)

NONE = -1
_HEAD, _HELD, _LAST, _ENDED = 0, 1, 2, 3


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
def accumulate(
    rows: Bytes,
    first_id: int,
    step: Bytes,
    pending: Bytes,
    rewards: FloatArray,
    flags: BoolArray,
    state: IntArray,
    slots: IntArray,
    previous: IntArray,
    layout: tuple[int, int, int, int],
    discount: float,
) -> int:
    """One step of every environment; writes finished transitions to ``rows`` from ``first_id`` on.

    ``step`` has a row of it for each environment, ``rewards[:, -1]`` its reward, ``flags`` whether
    it terminated, was truncated, and is to be passed over. ``pending`` and ``rewards`` hold up to n
    steps whose window is still open. ``slots`` become those written to, ``previous`` the id before
    each transition in its episode. ``layout`` is where the columns of a window's last step begin
    and end in a row (in words), and where reward and discount are (in floats). Answers with the
    number of transitions.
    """
    next_from, next_to, reward_at, discount_at = layout
    words, floats = rows.view(np.uint64), rows.view(np.float32)
    step_words, pending_words = step.view(np.uint64), pending.view(np.uint64)
    n_step = rewards.shape[1] - 1
    stored, slot = 0, first_id % len(rows)
    for e in range(len(step)):
        terminated, truncated, passed_over = flags[e, 0], flags[e, 1], flags[e, 2]
        if passed_over:
            state[e, _ENDED] = 0
            continue
        head, held = state[e, _HEAD], state[e, _HELD]
        place = head + held if head + held < n_step else head + held - n_step
        if n_step > 1:
            copy_row(step_words, e, pending_words, e * n_step + place, 0, next_from)
        rewards[e, place] = rewards[e, n_step]
        held += 1
        ended = terminated or truncated
        while held == n_step or (ended and held > 0):
            if n_step > 1:
                copy_row(pending_words, e * n_step + head, words, slot, 0, next_from)
                copy_row(step_words, e, words, slot, next_from, next_to)
            else:
                copy_row(step_words, e, words, slot, 0, next_to)
            total, power = _window_return(rewards, e, head, held, discount)
            floats[slot, reward_at] = total
            floats[slot, discount_at] = 0.0 if terminated else power
            slots[stored] = slot
            previous[stored] = state[e, _LAST]
            state[e, _LAST] = first_id + stored
            stored += 1
            slot = following(slot, len(rows))
            head = following(head, n_step)
            held -= 1
        state[e, _HEAD], state[e, _HELD] = head, held
        if ended:
            state[e, _LAST] = NONE
        state[e, _ENDED] = ended
    return stored


@jit
def add_step(
    rows: Bytes,
    first_id: int,
    spans: IntArray,
    starts: IntArray,
    staged: Bytes,
    step: Bytes,
    pending: Bytes,
    rewards: FloatArray,
    flags: BoolArray,
    state: IntArray,
    slots: IntArray,
    previous: IntArray,
    layout: tuple[int, int, int, int],
    discount: float,
) -> int:
    """Make rows of the staged columns, and ``accumulate`` them."""
    put_rows(step, 0, spans, starts, staged, 0, len(step))
    return accumulate(
        rows, first_id, step, pending, rewards, flags, state, slots, previous, layout, discount
    )


class Windows:
    """The open windows of ``n_envs`` environments, and what is known of their episodes."""

    def __init__(self, n_envs: int, n_step: int, stride: int) -> None:
        self.step: Bytes = np.zeros((n_envs, stride), dtype=np.uint8)
        self.pending: Bytes = np.zeros((n_envs * n_step, stride), dtype=np.uint8)
        self.rewards: FloatArray = np.zeros((n_envs, n_step + 1))
        self.state: IntArray = np.empty((n_envs, 4), dtype=np.int64)
        self.empty()

    def empty(self) -> None:
        """No window is open, and no episode has begun."""
        self.state[:] = 0
        self.state[:, _LAST] = NONE

    @property
    def ended(self) -> BoolArray:
        """Which environments' last step ended an episode."""
        ended: BoolArray = self.state[:, _ENDED] == 1
        return ended

    def arrays(self) -> dict[str, AnyArray]:
        """Every array that a checkpoint has to hold, live."""
        return {"pending": self.pending, "rewards": self.rewards, "episodes": self.state}
