"""Sweeps: many runs, each in a folder of its own, on all cores or on a Ray cluster.

>>> from needreplay.runs.sweep import load_sweep
>>> len(load_sweep("minatar-small").runs)
24
"""

from needreplay.runs.sweep.file import Sweep, load_sweep, shipped_sweeps
from needreplay.runs.sweep.loop import SweepResult, run_sweep
from needreplay.runs.sweep.spec import RunSpec

__all__ = ["RunSpec", "Sweep", "SweepResult", "load_sweep", "run_sweep", "shipped_sweeps"]
