"""Options of a buffer: what other libraries call them, and those that decide what is sampled."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from needreplay._core.errors import NeedReplayError
from needreplay.replay.batch import LinearBeta
from needreplay.replay.entries import Entries
from needreplay.replay.episodes import Episodes, EpisodeWriter
from needreplay.replay.hindsight import Hindsight, HindsightEntries
from needreplay.replay.samplers.base import Sampler
from needreplay.replay.sequences import SequenceEntries, Sequences
from needreplay.replay.storage import Column, ColumnSpec, Memory, Ring, Writer, columns_of

_EPISODES = "an argument of ReplayBuffer.for_spaces, or of Episodes"
_OWN_OPTION = {
    "alpha": "sampler=ProportionalSampler(alpha=...)",
    "priority_exponent": "sampler=ProportionalSampler(alpha=...)",
    "draw": "sampler=ProportionalSampler(), for example",
    "prioritized": "sampler=ProportionalSampler()",
    "gamma": "discount, " + _EPISODES,
    "n_steps": "n_step, " + _EPISODES,
    "num_envs": "n_envs, " + _EPISODES,
    **dict.fromkeys(("n_step", "discount", "n_envs", "frame_stack", "autoreset"), _EPISODES),
    **dict.fromkeys(("size", "buffer_size", "max_size"), "capacity"),
    "batch_size": "the size of sample(size)",
    "beta_start": "beta=LinearBeta(start, end, batches)",
    "eps": "for you to add to priorities before update_priorities",
    "env_dict": "columns, such as {'obs': (np.float32, (4,))}",
    "n_sampled_goal": "hindsight=Hindsight(n_sampled_goal=...)",
    "goal_selection_strategy": "hindsight=Hindsight(goal_selection_strategy=...)",
}
"""What the options of other libraries, and those of episodes, are here."""


def check_options(made: type, unknown: Mapping[str, object], sampler: object) -> None:
    """Raise for options that ``made``'s constructor does not have, and for what is no sampler."""
    if unknown:
        name, known = next(iter(unknown)), [*inspect.signature(made).parameters][:-1]
        if name in _OWN_OPTION:
            hint = f"it is {_OWN_OPTION[name]}."
        elif nearest := difflib.get_close_matches(name, known, n=1):
            hint = f"did you mean {nearest[0]}?"
        else:
            hint = f"there are {', '.join(known)}."
        raise NeedReplayError(f"ReplayBuffer has no option {name!r}: {hint}")
    if sampler is not None and (isinstance(sampler, type) or not hasattr(sampler, "allocate")):
        raise NeedReplayError(
            f"sampler is {sampler!r}; pass an object, such as ProportionalSampler(alpha=0.6) "
            "(prioritized replay), UniformSampler() or FeatureNeedSampler(n_features=64)."
        )


class Options(NamedTuple):
    """The settings of a buffer, and the parts that they make."""

    capacity: int
    columns: dict[str, ColumnSpec]
    """plain: pairs (dtype, shape)"""
    sampler: Sampler
    episodes: Episodes | None = None
    sequences: Sequences | None = None
    hindsight: Hindsight | None = None
    beta: float | LinearBeta = 0.4

    @property
    def info(self) -> dict[str, Column]:
        """What ``add`` takes for the sampler, beside the columns of a transition."""
        info = dict[str, Column]()
        if self.sequences is not None or self.hindsight is not None:
            return info
        if n_features := getattr(self.sampler, "n_features", None):
            info["features"] = Column("features", np.dtype(np.float64), (n_features,))
        if getattr(self.sampler, "n_states", None):
            info["state"] = Column("state", np.dtype(np.int64), ())
        if clash := info.keys() & self.columns.keys():
            name = min(clash)
            raise NeedReplayError(
                f"columns has {name!r}, but add takes {name} for the {self.sampler.name} sampler; "
                "give the column another name."
            )
        return info

    def writer(self, memory: Memory | None) -> Writer:
        """What turns the values of ``add`` into rows; ``memory`` makes the rows of frames."""
        if self.episodes is None:
            return Writer([c for n, spec in self.columns.items() for c in columns_of(n, spec)])
        return EpisodeWriter(self.columns, self.episodes, self.capacity, self.info, memory)

    def entries(self, rows: Ring, writer: Writer) -> Entries | None:
        """What is sampled instead of the transitions in ``rows``, if anything."""
        sequences, hindsight = self.sequences, self.hindsight
        if sequences is None and hindsight is None:
            return None
        if sequences is not None and not isinstance(sequences, Sequences):
            raise NeedReplayError(f"sequences is {sequences!r}; pass Sequences(length=80).")
        if hindsight is not None and not isinstance(hindsight, Hindsight):
            raise NeedReplayError(f"hindsight is {hindsight!r}; pass Hindsight(n_sampled_goal=4).")
        if sequences is not None and hindsight is not None:
            raise NeedReplayError(
                "A buffer samples either sequences or transitions with hindsight; leave out one of "
                "the two."
            )
        if not isinstance(writer, EpisodeWriter):
            name = "hindsight" if sequences is None else "sequences"
            raise NeedReplayError(
                f"{name} needs to know which transitions follow each other; make the buffer "
                "with episodes (ReplayBuffer.for_env and for_spaces do)."
            )
        if sequences is not None:
            return SequenceEntries(sequences, rows, writer)
        assert hindsight is not None
        return HindsightEntries(hindsight, rows, writer)
