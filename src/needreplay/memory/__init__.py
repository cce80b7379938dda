"""The replay memory: what was stored, and how it is drawn."""

from needreplay.memory.batch import Batch
from needreplay.memory.beta import LinearBeta
from needreplay.memory.draws import Proportional, RankBased, Sequence, Uniform
from needreplay.memory.intake import Episodes
from needreplay.memory.replay import Replay

__all__ = [
    "Batch",
    "Episodes",
    "LinearBeta",
    "Proportional",
    "RankBased",
    "Replay",
    "Sequence",
    "Uniform",
]
