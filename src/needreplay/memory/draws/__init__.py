"""Ways to draw from a memory, one interface (``base.Draw``), one file each."""

from needreplay.memory.draws.grouped import Grouped
from needreplay.memory.draws.magnitude import Magnitude
from needreplay.memory.draws.norm_tree import NormTree
from needreplay.memory.draws.proportional import Proportional
from needreplay.memory.draws.rank import RankBased
from needreplay.memory.draws.resampled import Resampled
from needreplay.memory.draws.sequence import Sequence
from needreplay.memory.draws.sweep import Sweep
from needreplay.memory.draws.uniform import Uniform
from needreplay.memory.draws.vector_tree import VectorTree

__all__ = [
    "Grouped",
    "Magnitude",
    "NormTree",
    "Proportional",
    "RankBased",
    "Resampled",
    "Sequence",
    "Sweep",
    "Uniform",
    "VectorTree",
]
