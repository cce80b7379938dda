"""Ways to draw from a memory, one interface (``base.Sampler``), one file each."""

from needreplay.replay.samplers.exhaustive import ExhaustiveNeedSampler
from needreplay.replay.samplers.magnitude import NeedScalingSampler
from needreplay.replay.samplers.norm_tree import FeatureNeedSampler
from needreplay.replay.samplers.proportional import ProportionalSampler
from needreplay.replay.samplers.pser import PSERSampler
from needreplay.replay.samplers.rank import RankSampler
from needreplay.replay.samplers.resampled import ResampledSampler
from needreplay.replay.samplers.state_need import StateNeedSampler
from needreplay.replay.samplers.uniform import UniformSampler
from needreplay.replay.samplers.vector_tree import VectorTreeSampler

__all__ = [
    "ExhaustiveNeedSampler",
    "FeatureNeedSampler",
    "NeedScalingSampler",
    "PSERSampler",
    "ProportionalSampler",
    "RankSampler",
    "ResampledSampler",
    "StateNeedSampler",
    "UniformSampler",
    "VectorTreeSampler",
]
