"""Deep agents: double DQN with prioritized replay and the deep successor representation."""

from needreplay.core.errors import NeedReplayError

try:
    import torch as torch
except ImportError as missing:
    raise NeedReplayError(
        "Deep agents need torch, which is not installed; install it with: pip install torch"
    ) from missing

from needreplay.deep.agent import DeepAgent, UpdateStats
from needreplay.deep.need_model import NeedModel
from needreplay.deep.presets import AGENTS, deep_preset
from needreplay.deep.quality import NeedQuality, need_quality
from needreplay.deep.settings import DeepSettings

__all__ = [
    "AGENTS",
    "DeepAgent",
    "DeepSettings",
    "NeedModel",
    "NeedQuality",
    "UpdateStats",
    "deep_preset",
    "need_quality",
]
