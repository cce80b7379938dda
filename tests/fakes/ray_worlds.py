"""Worlds that fail after some steps."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np


class Failing(gymnasium.Env[Any, Any]):
    """Raises, or has a reward that is not a number, at step 50."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, how: str = "raise", **_: Any) -> None:
        self.how, self.steps = how, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        """Begin."""
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:  # noqa: ARG002
        """Fail at step 50."""
        self.steps += 1
        if self.steps == 50 and self.how == "raise":
            raise RuntimeError("the motor is on fire")
        reward = float("nan") if self.steps >= 50 else 0.0
        return np.zeros(3, np.float32), reward, self.steps % 20 == 0, False, {}


class Differs(Failing):
    """Has other observations in the processes of Ray than here."""

    def __init__(self, **_: Any) -> None:
        super().__init__("differ")
        size = 4 if "worker" in sys.argv[0] else 3
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (size,), np.float32)


if "Differs-v0" not in gymnasium.registry:
    gymnasium.register("Differs-v0", Differs)
for name, how in (("Raises-v0", "raise"), ("NaN-v0", "nan")):
    if name not in gymnasium.registry:
        gymnasium.register(name, Failing, kwargs={"how": how})
