"""Compiled kernels do what the same functions do as plain Python, up to rounding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

SCRIPT = """
import json
import numba
from needreplay._core.rng import stream
from needlab.tabular.evb import EVB, simulate
from needlab.tabular.settings import PS_SR, DynaSettings, without_need
from needlab.tabular.trial import run_trial
from needlab.worlds import tabular_world
from needlab.worlds.boards import linear_track

table = tabular_world("dyna-maze")
trials = [bool(numba.config.DISABLE_JIT)]
for name in ("printed", "released"):
    for settings in (PS_SR[name], without_need(PS_SR[name]), DynaSettings()):
        trial = run_trial(table, settings, 3, stream(0, name))
        trials.append([trial.lengths.tolist(), trial.agent.Q.tolist(), trial.agent.M.tolist()])
for name in ("published", "text"):
    life = simulate(linear_track(), EVB[name], episodes=3)
    pairs = life.backups[["state", "action", "length"]].tolist()
    trials.append([[*life.lengths.tolist(), pairs], life.agent.Q.tolist(), life.agent.T.tolist()])
print(json.dumps(trials))
"""


def trials(disable_jit: str) -> Any:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": disable_jit}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout)


def test_the_same_trials(uncompiled: bool) -> None:
    if uncompiled:
        pytest.skip("once, in the compiled run, is enough")
    compiled, plain = trials("0"), trials("1")
    assert (compiled[0], plain[0]) == (False, True)
    for one, other in zip(compiled[1:], plain[1:], strict=True):
        assert one[0] == other[0]
        np.testing.assert_allclose(one[1], other[1], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(one[2], other[2], rtol=1e-12, atol=1e-15)
