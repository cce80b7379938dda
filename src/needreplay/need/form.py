"""Which need is meant, and when a learned need is accurate enough to conclude anything from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from needreplay._core.checks import as_made, check_fields
from needreplay._core.types import FloatArray

Query: TypeAlias = Literal["present", "recent", "start"]
"""The state that need is seen from."""
Direction: TypeAlias = Literal["forward", "backward"]
"""Which way need looks along a trajectory."""

UNIFORM_MIX = 0.25
"""The share of the probability that is uniform by default, if need is part of it: need alone seldom
visits most of the buffer."""
LOWEST_AUC = 0.8
"""Below this AUC nothing can be concluded about a learned need."""
LEARN_EVERY = 4
"""Batches between two updates of the need model."""
REFRESH = 16
"""Stored vectors that are renewed for each batch, beside those of the batch."""
MARGIN = 0.1
"""By so much the AUC has to be above that of trivial scores."""


@dataclass(frozen=True)
class NeedForm:
    """Which need is meant, of a need model or of an exact table.

    Args:
        query: the state that need is seen from. "present": the state the agent is in. "recent": one
            of the newest stored states, another one for each sampled row; this is stationary need,
            how often the agent comes to a state at all, with its policy of late. "start": the start
            of an episode, another one for each sampled row (Mattar & Daw's offline need).
        direction: "forward": how much the query leads to a state. "backward": how much a state
            leads to the query.
        relative: True: M / p, relative to how often a state is stored, so that a state does not
            count once more for each time that it is stored. False: M, the paper's.
    """

    query: Query = "present"
    direction: Direction = "forward"
    relative: bool = True

    def __post_init__(self) -> None:
        check_fields(self, {})

    def __repr__(self) -> str:
        return as_made(self)


def tabular_need(M: FloatArray, p: FloatArray, state: int, form: NeedForm) -> FloatArray:
    """The need of every state s', seen from s = ``state``, whichever query that is.

    Forward, M[s, s'] are the expected visits of s' from s:

        need(s') = M[s, s'],  relative: M[s, s'] / p(s'), and 0 where p(s') = 0

    Backward, p(s') M[s', s] / p(s) is how much of the past of s was s' (M of reversed time). The
    factor 1 / p(s) is the same for all s' and is left out:

        need(s') = p(s') M[s', s],  relative: M[s', s]

    A buffer that holds s' with probability p(s') and samples by relative need draws s' with a
    probability in proportion to p(s') · M[s, s'] / p(s') = M[s, s'].

    Args:
        M: [state, state], the successor representation.
        p: [state], the share of stored transitions that begin in each state.
        state: s.
        form: direction, and whether need is relative to p.
    """
    if form.direction == "backward":
        leads: FloatArray = M[:, state].copy()
        return leads if form.relative else p * leads
    visits: FloatArray = M[state].copy()
    if not form.relative:
        return visits
    return np.divide(visits, p, out=np.zeros_like(visits), where=p > 0.0)


def accurate_need(auc: float, baseline: float) -> bool:
    """Whether conclusions can be drawn about a learned need with this AUC.

    ``baseline`` is the highest AUC of the scores that know nothing of the future. Need has to be
    above it by ``MARGIN``, or by half of what is left to 1. False where either is not known.
    """
    return auc >= LOWEST_AUC and auc - baseline >= min(MARGIN, 0.5 * (1.0 - baseline))
