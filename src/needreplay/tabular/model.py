"""The agent's model of its world: the last outcome of each pair, and who leads where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from needreplay.compiled import compiled
from needreplay.types import FloatArray, IntArray


class Model(NamedTuple):
    """What was last seen after each pair (s, a); pair number = s · actions + a."""

    next_state: IntArray
    """[pair]: −1 until the pair is experienced"""
    reward: FloatArray
    """[pair]: the last reward seen"""
    discount: FloatArray
    """[pair]: γ, or 0 where the episode terminated"""
    first: IntArray
    """[state]: the first pair of the chain of pairs that lead here, −1 where there is none"""
    last: IntArray
    """[state]: the last one of that chain"""
    after: IntArray
    """[pair]: the next pair in the same chain, −1 at its end"""
    before: IntArray
    """[pair]: the one before, −1 at its beginning"""
    seen: IntArray
    """the pairs experienced, in order, in the first ``seen_count[0]`` places"""
    seen_count: IntArray


def empty_model(n_states: int, n_actions: int) -> Model:
    """A model that has seen nothing."""
    pairs = n_states * n_actions
    return Model(
        next_state=np.full(pairs, -1, np.int64),
        reward=np.zeros(pairs),
        discount=np.zeros(pairs),
        first=np.full(n_states, -1, np.int64),
        last=np.full(n_states, -1, np.int64),
        after=np.full(pairs, -1, np.int64),
        before=np.full(pairs, -1, np.int64),
        seen=np.zeros(pairs, np.int64),
        seen_count=np.zeros(1, np.int64),
    )


@compiled
def record(model: Model, pair: int, reward: float, next_state: int, discount: float) -> None:
    """Model(s, a) ← r, s'. Writes ``model``; a pair that now leads elsewhere changes chains."""
    model.reward[pair] = reward
    model.discount[pair] = discount
    known = model.next_state[pair]
    if known == next_state:
        return
    if known < 0:
        model.seen[model.seen_count[0]] = pair
        model.seen_count[0] += 1
    else:
        _unlink(model, pair, known)
    model.next_state[pair] = next_state
    end = model.last[next_state]
    model.before[pair] = end
    model.after[pair] = -1
    if end < 0:
        model.first[next_state] = pair
    else:
        model.after[end] = pair
    model.last[next_state] = pair


@compiled
def _unlink(model: Model, pair: int, state: int) -> None:
    """Take ``pair`` out of the chain of those that lead to ``state``. Writes ``model``."""
    before, after = model.before[pair], model.after[pair]
    if before < 0:
        model.first[state] = after
    else:
        model.after[before] = after
    if after < 0:
        model.last[state] = before
    else:
        model.before[after] = before
