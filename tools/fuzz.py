"""Attack needreplay for a given time and print counts (``make fuzz``).

    python tools/fuzz.py SECONDS [SEED]

Damaged run folders, sweep files, arguments, signals to training, what the buffer's own attacks are,
and sequences of calls against plain models (the property tests, on new cases). Each failure is
printed with the seed and number that repeat it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "fakes"))

BUFFER_ATTACKS = "buffer_attacks"
"""A module of tests/fakes with its own ATTACKS."""


class Count(NamedTuple):
    """How often an attack was tried, and how often it succeeded."""

    tried: int
    failed: int


Attack = Callable[[np.random.Generator, Path], tuple[str, str]]


def repeat(name: str, attack: Attack, seconds: float, seed: int) -> Count:
    """Attack until the time is up."""
    end, tried, failed = time.monotonic() + seconds, 0, 0
    with tempfile.TemporaryDirectory() as place:
        while time.monotonic() < end:
            what, failure = attack(np.random.default_rng([seed, tried]), Path(place))
            if failure:
                failed += 1
                print(f"{name}, seed {seed}, number {tried}: {what}\n    {failure}", flush=True)
            tried += 1
    return Count(tried, failed)


def attack_with_signals(rng: np.random.Generator, place: Path) -> tuple[str, str]:
    """Kill, terminate or interrupt a training run until it ends; it must end as one undisturbed."""
    import run_attacks as attacks

    folder = Path(tempfile.mkdtemp(dir=place))
    line = [sys.executable, "-m", "needreplay", *attacks.WORDS, "--seed", "0"]
    line += ["--set", "checkpoint_steps=20", "--out", str(folder / "run")]
    sent = []
    expected = _undisturbed(tuple(line[:-1]))
    for _ in range(20):
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        chosen = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[int(rng.integers(3))]
        try:
            said = process.communicate(timeout=float(rng.uniform(1.0, 8.0)))[1]
        except subprocess.TimeoutExpired:
            process.send_signal(chosen)
            sent.append(chosen.name)
            said = process.communicate()[1]
        code = process.returncode
        if code == 0:
            break
        if code not in (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM, 130, 143):
            return " ".join(sent), f"exit code {code}: {said.decode()[-300:]}"
    what = " ".join(sent) or "no signal"
    found = folder / "run" / "metrics.csv"
    same = found.exists() and (code != 0 or found.read_bytes() == expected)
    return what, "" if same or code != 0 else "it ended with other metrics"


_expected: dict[tuple[str, ...], bytes] = {}


def _undisturbed(line: tuple[str, ...]) -> bytes:
    if line not in _expected:
        folder = Path(tempfile.mkdtemp()) / "run"
        subprocess.run([*line, str(folder)], check=True, capture_output=True)
        _expected[line] = (folder / "metrics.csv").read_bytes()
    return _expected[line]


def property_tests(seconds: float, seed: int) -> Count:
    """Sequences of calls against plain models: the property tests, with a new seed each round."""
    command = [sys.executable, "-m", "pytest", "-m", "hypothesis", "-p", "no:cacheprovider"]
    command += ["--hypothesis-profile=fuzz", "--hypothesis-show-statistics", "-n", "auto"]
    command += ["--maxprocesses=8"]
    end, tried, failed = time.monotonic() + seconds, 0, 0
    while (left := end - time.monotonic()) > 0:
        seed += 1
        line = [*command, f"--hypothesis-seed={seed}"]
        try:
            done = subprocess.run(line, capture_output=True, text=True, timeout=left, cwd=ROOT)
        except subprocess.TimeoutExpired:
            break
        tried += sum(int(n) for n in re.findall(r"(\d+) passing,", done.stdout))
        if done.returncode:
            failed += 1
            print(done.stdout, done.stderr, f"Repeat it with: {' '.join(line)}", sep="\n")
    return Count(tried, failed)


def main(seconds: float, seed: int) -> int:
    """Share the time between the attacks; return 1 if one succeeded."""
    os.chdir(tempfile.mkdtemp())
    import run_attacks as attacks

    attacks.runs()
    known: dict[str, Attack] = dict(attacks.ATTACKS)
    try:
        known |= import_module(BUFFER_ATTACKS).ATTACKS
    except ImportError:
        print(f"There is no {BUFFER_ATTACKS}: the buffer is attacked by its property tests only.")
    known["signals to training"] = attack_with_signals
    share = seconds / (len(known) + 1)
    counts = {name: repeat(name, attack, share, seed) for name, attack in known.items()}
    counts["sequences of calls"] = property_tests(share, seed)
    for name, count in counts.items():
        print(f"{name:<24} {count.tried:>9,} tried {count.failed:>5,} failed")
    tried, failed = (sum(column) for column in zip(*counts.values(), strict=True))
    print(f"{tried:,} attacks in {seconds:g} s with seed {seed}: {failed:,} failed.")
    return 1 if failed else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(float(given[0]), int(given[1]) if len(given) > 1 else int(time.time())))
