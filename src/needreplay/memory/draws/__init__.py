"""Ways to draw from a memory, one interface (``base.Draw``), one file each."""

from needreplay.memory.draws.proportional import Proportional
from needreplay.memory.draws.rank import RankBased
from needreplay.memory.draws.sequence import Sequence
from needreplay.memory.draws.uniform import Uniform

__all__ = ["Proportional", "RankBased", "Sequence", "Uniform"]
