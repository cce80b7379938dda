"""Samplers: which transitions a batch holds. One interface, ``base.Sampler``."""

from needreplay.replay.samplers.base import Sampler
from needreplay.replay.samplers.exhaustive import ExhaustiveNeedSampler
from needreplay.replay.samplers.feature_need import FeatureNeedSampler
from needreplay.replay.samplers.proportional import ProportionalSampler
from needreplay.replay.samplers.pser import PSERSampler
from needreplay.replay.samplers.rank import RankSampler
from needreplay.replay.samplers.recency import RecencySampler
from needreplay.replay.samplers.state_need import StateNeedSampler
from needreplay.replay.samplers.uniform import UniformSampler

__all__ = [
    "ExhaustiveNeedSampler",
    "FeatureNeedSampler",
    "PSERSampler",
    "ProportionalSampler",
    "RankSampler",
    "RecencySampler",
    "Sampler",
    "StateNeedSampler",
    "UniformSampler",
]
