"""How a named world is made: sticky actions, lost lives, idle starts, the cap on an episode."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_type_hints

from needreplay.errors import NeedReplayError, unknown


@dataclass(frozen=True)
class WorldSettings:
    """How a world is made; what does not concern a kind of world is left aside there."""

    sticky: float = 0.25
    """the probability that the last action is repeated (Atari, MinAtar)"""
    life_loss_ends: bool = False
    """whether a lost life ends the episode for the learner, while the game goes on (Atari)"""
    noops: int = 0
    """from one up to so many idle frames at a game's start; 0: none (Atari)"""
    episode_cap: int = 27_000
    """steps after which an episode is truncated; 0: never"""
    action_set: Literal["full", "minimal"] = "minimal"
    """all actions, or those that do something in the game (Atari, MinAtar)"""
    ramping: bool = True
    """whether the game grows harder (MinAtar)"""

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        hints = get_type_hints(type(self))
        for field in fields(self):
            value, kind = getattr(self, field.name), hints[field.name]
            if get_args(kind):
                if value not in get_args(kind):
                    raise unknown(field.name, value, get_args(kind))
            elif kind is bool:
                if not isinstance(value, bool):
                    raise NeedReplayError(f"{field.name} is {value!r}; it must be true or false.")
            elif kind is int:
                if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                    raise NeedReplayError(
                        f"{field.name} is {value!r}; it must be a whole number, 0 or more."
                    )
            elif isinstance(value, str | bool) or not 0.0 <= value <= 1.0:
                raise NeedReplayError(f"{field.name} is {value!r}; it must be from 0 to 1.")
