"""Prioritized replay and gain x need for Stable-Baselines3.

``DQN``, ``SAC``, ``TD3``, ``DDPG``, ``QRDQN``, ``TQC`` and ``CrossQ`` differ from those of
Stable-Baselines3 and sb3-contrib in replay alone:
``DQN("MlpPolicy", "CartPole-v1", replay=PrioritizedReplay())``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from needreplay._core.errors import NeedReplayError, not_installed

OLDEST, BEFORE = (2, 7), (2, 10)
"""The versions of Stable-Baselines3 that are supported: from, and up to but not including."""


def check_version(package: str, version: str) -> None:
    """Raise for a version whose ``train`` was never tested with these classes."""
    if not OLDEST <= tuple(int(part) for part in version.split(".")[:2]) < BEFORE:
        oldest, before = (".".join(map(str, pair)) for pair in (OLDEST, BEFORE))
        raise NeedReplayError(
            f"{package} is {version}; needreplay.integrations.sb3 supports versions from {oldest} "
            f"up to but not including {before}. Install one with: "
            f"pip install '{package}>={oldest},<{before}'"
        )


try:
    import stable_baselines3
except ImportError as missing:
    raise not_installed("needreplay.integrations.sb3 needs stable-baselines3", "sb3") from missing
check_version("stable-baselines3", stable_baselines3.__version__)

from needreplay.integrations.sb3.algorithms import DDPG, DQN, SAC, TD3, WithReplay  # noqa: E402
from needreplay.integrations.sb3.buffer import PrioritizedReplayBuffer, PrioritizedSamples  # noqa: E402
from needreplay.integrations.sb3.diagnosis import diagnose  # noqa: E402
from needreplay.integrations.sb3.settings import NeedReplay, PrioritizedReplay, UniformReplay  # noqa: E402

if TYPE_CHECKING:
    from needreplay.integrations.sb3.contrib import QRDQN, TQC, CrossQ

__all__ = [
    "DDPG",
    "DQN",
    "QRDQN",
    "SAC",
    "TD3",
    "TQC",
    "CrossQ",
    "NeedReplay",
    "PrioritizedReplay",
    "PrioritizedReplayBuffer",
    "PrioritizedSamples",
    "UniformReplay",
    "WithReplay",
    "diagnose",
]


def __getattr__(name: str) -> Any:
    if name not in ("QRDQN", "TQC", "CrossQ"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from needreplay.integrations.sb3 import contrib

    return getattr(contrib, name)
