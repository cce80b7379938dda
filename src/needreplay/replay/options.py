"""Options of a buffer: what other libraries call them, and those that decide what is sampled."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from needreplay._core.errors import NeedReplayError
from needreplay.replay.entries import Entries
from needreplay.replay.episodes import EpisodeWriter
from needreplay.replay.hindsight import Hindsight, HindsightEntries
from needreplay.replay.sequences import SequenceEntries, Sequences
from needreplay.replay.storage import Ring, Writer

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


def unknown_option(name: str, known: Iterable[str]) -> NeedReplayError:
    """The error for an option that does not exist, with a hint."""
    if name in _OWN_OPTION:
        hint = f"it is {_OWN_OPTION[name]}"
    else:
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(known)}"
    return NeedReplayError(f"ReplayBuffer has no option {name!r}: {hint}.".replace("?.", "?"))


def entries_of(
    sequences: Sequences | None, hindsight: Hindsight | None, rows: Ring, writer: Writer
) -> Entries | None:
    """What is sampled instead of the transitions in ``rows``, if anything."""
    if sequences is None and hindsight is None:
        return None
    if sequences is not None and not isinstance(sequences, Sequences):
        raise NeedReplayError(f"sequences is {sequences!r}; pass Sequences(length=80).")
    if hindsight is not None and not isinstance(hindsight, Hindsight):
        raise NeedReplayError(f"hindsight is {hindsight!r}; pass Hindsight(n_sampled_goal=4).")
    if sequences is not None and hindsight is not None:
        raise NeedReplayError(
            "A buffer samples either sequences or transitions with hindsight; leave out one of the "
            "two."
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
