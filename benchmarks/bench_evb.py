"""How long 1,000 simulations of 50 episodes on the linear track take, on one core.

python benchmarks/bench_evb.py [simulations]
"""

from __future__ import annotations

import sys
import time

from needlab.tabular.evb.settings import EVB
from needlab.tabular.evb.simulation import simulate
from needlab.worlds.boards import linear_track


def main() -> None:
    """Compile, then measure."""
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    task = linear_track()
    simulate(task, EVB["published"])
    began, busy = time.perf_counter(), time.process_time()
    for number in range(simulations):
        simulate(task, EVB["published"], simulation=number)
    wall, cpu = time.perf_counter() - began, time.process_time() - busy
    print(f"{simulations:,} simulations: {cpu:.1f} s of one core, {wall:.1f} s on the clock")


if __name__ == "__main__":
    main()
