"""A process that fills a buffer in a folder until it is killed; prints each id flushed."""

from __future__ import annotations

import sys

import numpy as np

from needreplay import ReplayBuffer

COLUMNS = {"id": np.int64, "copies": (np.int64, 200)}
CAPACITY = 500


def opened(folder: str) -> ReplayBuffer:
    """The buffer in ``folder``."""
    return ReplayBuffer(CAPACITY, COLUMNS, folder=folder)


if __name__ == "__main__":
    buffer = opened(sys.argv[1])
    while True:
        for number in range(buffer.next_id, buffer.next_id + 70):
            buffer.add(id=number, copies=np.full(200, number))
            buffer.update_priorities([number], [1.0 / (1.0 + number)])
        buffer.flush()
        print(buffer.next_id, flush=True)
