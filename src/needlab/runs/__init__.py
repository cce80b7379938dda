"""Sweeps: many runs, each in its own folder, on all cores or on a Ray cluster.

>>> from needlab.runs import load_sweep
>>> len(load_sweep("minatar-small").runs)
24
"""

from needlab.runs.runner import RunState
from needlab.runs.sweep_file import RunSpec, Sweep, load_sweep, shipped_sweeps
from needlab.runs.sweep_run import run_sweep

__all__ = ["RunSpec", "RunState", "Sweep", "load_sweep", "run_sweep", "shipped_sweeps"]
