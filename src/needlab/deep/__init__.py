"""Deep agents: double DQN with prioritized replay and the deep successor representation."""

from needreplay._core.errors import NeedReplayError

try:
    import torch as torch
except ImportError as missing:
    raise NeedReplayError(
        "Deep agents need torch, which is not installed; install it with: "
        "pip install 'needreplay[deep]'"
    ) from missing

from needlab.deep.agent import DeepAgent, UpdateStats
from needlab.deep.presets import AGENTS, deep_preset
from needlab.deep.settings import DeepSettings

__all__ = [
    "AGENTS",
    "DeepAgent",
    "DeepSettings",
    "UpdateStats",
    "deep_preset",
]
