"""Deep agents: double DQN with prioritized replay and the deep successor representation."""

from needreplay._core.errors import not_installed

try:
    import torch as torch
except ImportError as missing:
    raise not_installed("Deep agents need torch", "deep") from missing

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
