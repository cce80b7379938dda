"""Compiled kernels give, bit for bit, what the same functions give as plain Python."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import hashlib
import numba
from needreplay.core.rng import stream
from needreplay.tabular.settings import PS_SR, DynaSettings, without_need
from needreplay.tabular.trial import run_trial
from needreplay.worlds.layout import parse_layout
from needreplay.worlds.maze import DYNA_MAZE, maze_table

table = maze_table(parse_layout(DYNA_MAZE))
print("uncompiled" if numba.config.DISABLE_JIT else "compiled")
for name in ("printed", "released"):
    for settings in (PS_SR[name], without_need(PS_SR[name])):
        trial = run_trial(table, settings, 3, stream(0, name))
        told = b"".join(array.tobytes() for array in (trial.lengths, trial.Q, trial.M))
        print(name, settings.need, hashlib.sha256(told).hexdigest())
trial = run_trial(table, DynaSettings(), 3, stream(0, "dyna"))
print("dyna", hashlib.sha256(trial.lengths.tobytes() + trial.Q.tobytes()).hexdigest())
"""


def digests(disable_jit: str) -> list[str]:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": disable_jit}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.splitlines()


def test_the_same_digests(uncompiled: bool) -> None:
    if uncompiled:
        pytest.skip("once, in the compiled run, is enough")
    compiled, plain = digests("0"), digests("1")
    assert compiled[0] == "compiled"
    assert plain[0] == "uncompiled"
    assert len(set(compiled)) == 6
    assert compiled[1:] == plain[1:]
