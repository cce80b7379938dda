"""A small Markov chain as observations, and batches that hold it in exact proportion."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from needlab.deep.dqn import Transitions
from needreplay._core.types import FloatArray
from needreplay.equations import closed_form

DISCOUNT = 0.9


class Chain(NamedTuple):
    """Each of ``len(T)`` states is seen as one row of ``obs``."""

    T: FloatArray
    M: FloatArray
    obs: Tensor
    batch: Transitions
    """Four transitions from each state: probabilities are multiples of a quarter."""


def ergodic_chain(n_states: int, n_inputs: int, *, seed: int = 0) -> Chain:
    """Every state leads to four, drawn with replacement, and nothing ever ends."""
    rng = np.random.default_rng(seed)
    following = rng.integers(n_states, size=(n_states, 4))
    T = np.zeros((n_states, n_states))
    for state, row in enumerate(following):
        for target in row:
            T[state, target] += 0.25
    obs = torch.eye(n_states, n_inputs)
    at = torch.arange(n_states).repeat_interleave(4)
    to = torch.from_numpy(following.reshape(-1))
    count = len(at)
    batch = Transitions(
        obs=obs[at],
        action=torch.zeros(count, dtype=torch.int64),
        reward=torch.zeros(count),
        next_obs=obs[to],
        discount=torch.full((count,), DISCOUNT),
        weight=torch.ones(count),
        next_action=None,
    )
    return Chain(T, closed_form(T, DISCOUNT), obs, batch)
