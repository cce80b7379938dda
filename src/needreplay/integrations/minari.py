"""Offline data: a replay buffer with the episodes of a Minari dataset.

Nothing of Minari is imported. Any object with ``observation_space``, ``action_space`` and
``iterate_episodes`` will do, whose episodes have ``observations`` (one more than steps),
``actions``, ``rewards``, ``terminations`` and ``truncations``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from needreplay._core.errors import NeedReplayError
from needreplay.replay import ReplayBuffer

_OF_EPISODE = ("observations", "actions", "rewards", "terminations", "truncations")


def from_minari(dataset: Any, *, capacity: int | None = None, **options: Any) -> ReplayBuffer:
    """A buffer with the steps of ``dataset``, such as ``minari.load_dataset`` returns.

    Args:
        dataset: a Minari dataset, or part of one (``filter_episodes``).
        capacity: how many transitions are stored; by default all.
        **options: those of ``ReplayBuffer.for_spaces``: ``n_step``, ``sampler``, ``hindsight`` ...
    """
    for name in ("observation_space", "action_space", "iterate_episodes", "total_steps"):
        if not hasattr(dataset, name):
            raise NeedReplayError(
                f"dataset is {dataset!r} and has no {name}; pass what minari.load_dataset returns."
            )
    replay = ReplayBuffer.for_spaces(
        dataset.observation_space,
        dataset.action_space,
        capacity=int(dataset.total_steps) if capacity is None else capacity,
        **options,
    )
    add_episodes(replay, dataset.iterate_episodes())
    return replay


def add_episodes(replay: ReplayBuffer, episodes: Iterable[Any]) -> None:
    """Add whole episodes to ``replay``; one that neither terminated nor was truncated is cut.

    Args:
        replay: a buffer that knows episodes (``ReplayBuffer.for_spaces``); of several environments
            they are those of the first.
        episodes: Minari's, or objects with the same attributes.
    """
    for k, episode in enumerate(episodes):
        if missing := [name for name in _OF_EPISODE if not hasattr(episode, name)]:
            raise NeedReplayError(
                f"Episode {k} of episodes has no {', '.join(missing)}; pass Minari's episodes. "
                "Those before it are stored."
            )
        replay.cut(0)
        replay.add(
            env=0,
            obs=_part(episode.observations, slice(None, -1)),
            action=episode.actions,
            reward=episode.rewards,
            next_obs=_part(episode.observations, slice(1, None)),
            terminated=episode.terminations,
            truncated=episode.truncations,
        )
        replay.cut(0)


def _part(observations: Any, of: slice) -> Any:
    if isinstance(observations, dict):
        return {name: _part(part, of) for name, part in observations.items()}
    return observations[of]
