"""Sweeps: many runs, each in its own folder, on all cores or on a Ray cluster.

>>> from needreplay.sweeps import load_sweep
>>> len(load_sweep("minatar-small").runs)
24
"""

from needreplay.sweeps.file import RunSpec, Sweep, load_sweep, shipped_sweeps
from needreplay.sweeps.loop import SweepResult, run_sweep

__all__ = ["RunSpec", "Sweep", "SweepResult", "load_sweep", "run_sweep", "shipped_sweeps"]
