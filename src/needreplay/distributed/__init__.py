"""One replay over many processes and machines, on Ray.

The learner's process has the index: priorities, need vectors and ids, with the samplers that there
are. Rows are in shards, which are Ray actors. Writers, one in each process that steps environments,
send them there.
"""

from needreplay.distributed.buffer import RayReplayBuffer
from needreplay.distributed.writer import Writer

__all__ = ["RayReplayBuffer", "Writer"]
