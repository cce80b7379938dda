"""The replay buffer: stored transitions, and how they are sampled."""

from needreplay.replay.batch import Batch, LinearBeta
from needreplay.replay.buffer import ReplayBuffer
from needreplay.replay.episodes import Episodes
from needreplay.replay.hindsight import Hindsight
from needreplay.replay.prefetch import Prefetch
from needreplay.replay.samplers import (
    ProportionalSampler,
    PSERSampler,
    RankSampler,
    RecencySampler,
    UniformSampler,
)
from needreplay.replay.sequences import Sequences

__all__ = [
    "Batch",
    "Episodes",
    "Hindsight",
    "LinearBeta",
    "PSERSampler",
    "Prefetch",
    "ProportionalSampler",
    "RankSampler",
    "RecencySampler",
    "ReplayBuffer",
    "Sequences",
    "UniformSampler",
]
