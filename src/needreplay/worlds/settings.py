"""How a named world is made: sticky actions, lost lives, idle starts, the cap on an episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from needreplay.core.checks import COUNT, SHARE, check_fields


@dataclass(frozen=True)
class WorldSettings:
    """How a world is made; each kind of world uses the fields that concern it."""

    sticky: float = 0.25
    """the probability that the last action is repeated (Atari, MinAtar)"""
    life_loss_ends: bool = False
    """whether a lost life ends the episode for the learner, while the game continues (Atari)"""
    noops: int = 0
    """the largest number of idle frames at the start of a game, at least one; 0: none (Atari)"""
    episode_cap: int = 27_000
    """steps after which an episode is truncated; 0: never"""
    action_set: Literal["full", "minimal"] = "minimal"
    """all actions, or those that do something in the game (Atari, MinAtar)"""
    ramping: bool = True
    """whether the game becomes harder with time (MinAtar)"""

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        check_fields(self, {"sticky": SHARE, "noops": COUNT, "episode_cap": COUNT})
