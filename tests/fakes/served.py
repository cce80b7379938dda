"""Attacks in a process of their own, so that a crash or a hang is counted, not suffered."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

Attack = Callable[[np.random.Generator, Path], tuple[str, str]]
"""Gets random numbers and a folder; returns what it did, and a line if it found a fault."""


class Served:
    """Answers of ``python FILE NAME``, which is started when it is first asked.

    Args:
        file: a module that calls ``serve``.
        name: of its attack.
        patience: seconds for an answer.
        start: seconds for the first.
    """

    def __init__(self, file: str, name: str, patience: float = 60.0, start: float = 900.0) -> None:
        self._words = [sys.executable, "-W", "ignore", file, name]
        self._patience, self._start = patience, start
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, rng: np.random.Generator, _: Path) -> tuple[str, str]:
        """One attack."""
        return self.ask(int(rng.integers(2**62)))

    def ask(self, seed: int) -> tuple[str, str]:
        """The attack of a seed; a crash, or no answer in time, is a failure."""
        started = self._process is None
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(self._words, stdin=pipe, stdout=pipe, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(self._start if started else self._patience, self._process.kill)
        timer.start()
        try:
            print(seed, file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            self.close()
            return f"seed {seed}", "it crashed or did not end"
        what, failure = json.loads(line)
        return f"{what} (seed {seed})", failure

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def serve(attacks: dict[str, Attack]) -> None:
    """Read a seed from each line of the input, and print what the attack returns."""
    # What is attacked may print; answers have a line of their own.
    answers, sys.stdout = sys.stdout, sys.stderr
    attack = attacks[sys.argv[1]]
    with tempfile.TemporaryDirectory() as place:
        for line in sys.stdin:
            found = attack(np.random.default_rng(int(line)), Path(place))
            print(json.dumps(found), file=answers, flush=True)
