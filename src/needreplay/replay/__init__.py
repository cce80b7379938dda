"""The replay memory: what was stored, and how it is drawn."""

from needreplay.replay.batch import Batch
from needreplay.replay.beta import LinearBeta
from needreplay.replay.buffer import ReplayBuffer
from needreplay.replay.intake import Episodes
from needreplay.replay.samplers import ProportionalSampler, PSERSampler, RankSampler, UniformSampler

__all__ = [
    "Batch",
    "Episodes",
    "LinearBeta",
    "PSERSampler",
    "ProportionalSampler",
    "RankSampler",
    "ReplayBuffer",
    "UniformSampler",
]
