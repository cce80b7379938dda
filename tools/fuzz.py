"""Attack needreplay for a given time and print counts (``make fuzz``).

    python tools/fuzz.py SECONDS [SEED]

Every kind of attack in ``tests/fakes/*_attacks.py``, signals to training, and the property tests on
new cases. The last two and faults on a Ray cluster, which are slow, get an eighth of the time each.
The others take turns: a kind whose cases are four times as long gets twice the time. Each failure
is printed with the seed and number that repeat it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "fakes"))
from served import Attack, Served  # noqa: E402


class Count(NamedTuple):
    """How often an attack was tried, and how often it succeeded."""

    tried: int
    failed: int


def take_turns(known: dict[str, Attack], seconds: float, seed: int) -> dict[str, Count]:
    """Attack in all ways until the time is up."""
    tried, failed = dict.fromkeys(known, 0), dict.fromkeys(known, 0)
    spent = dict.fromkeys(known, 0.0)
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as place:
        while time.monotonic() < end:
            # A product that is the same for all makes the time grow with the root of a case's.
            name = min(known, key=lambda name: spent[name] * tried[name])
            start, number = time.monotonic(), tried[name]
            what, failure = known[name](np.random.default_rng([seed, number]), Path(place))
            tried[name] += 1
            # Compiling must not cost a kind its turns.
            spent[name] += min(time.monotonic() - start, 0.5)
            if failure:
                failed[name] += 1
                print(f"{name}, seed {seed}, number {number}: {what}\n    {failure}", flush=True)
    for attack in known.values():
        if isinstance(attack, Served):
            attack.close()
    return {name: Count(tried[name], failed[name]) for name in known}


def signals_to_training(seconds: float, seed: int) -> Count:
    """Kill, terminate or interrupt training runs; each resumes and ends as one undisturbed.

    A seed repeats the signals, not the moment at which each arrives.
    """
    import run_attacks as attacks

    words = [*attacks.WORDS, "--seed", "0", "--set", "checkpoint_steps=20", "--out"]
    rng, end = np.random.default_rng(seed), time.monotonic() + seconds
    tried, failed = 0, 0
    with tempfile.TemporaryDirectory() as place:
        start = time.monotonic()
        code, said = _forked([*words, f"{place}/whole"], None, 0.0)
        assert code == 0, said
        usual, expected = time.monotonic() - start, Path(place, "whole/metrics.csv").read_bytes()
        folder = Path(place, "run")
        while time.monotonic() < end:
            chosen = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[int(rng.integers(3))]
            code, said = _forked([*words, str(folder)], chosen, float(rng.uniform(0, usual)))
            tried += 1
            failure = "" if code in (0, -chosen, 128 + chosen) else f"exit code {code}: {said}"
            if code == 0 and (folder / "metrics.csv").read_bytes() != expected:
                failure = "it ended with other metrics"
            if failure:
                failed += 1
                print(f"{chosen.name}, seed {seed}, number {tried - 1}: {failure}", flush=True)
            if code == 0 or failure:
                shutil.rmtree(folder, ignore_errors=True)
    return Count(tried, failed)


def _forked(words: list[str], signum: int | None, delay: float) -> tuple[int, str]:
    """Run a command in a copy of this process, which has imported and compiled all; signal it."""
    from needlab.cli import main as command

    with tempfile.TemporaryFile() as said:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            code = 1
            try:
                code = command(words)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        if signum is not None:
            time.sleep(delay)
            os.kill(pid, signum)
        hung = threading.Timer(120, os.kill, (pid, signal.SIGKILL))
        hung.start()
        status = os.waitpid(pid, 0)[1]
        hung.cancel()
        said.seek(0)
        return os.waitstatus_to_exitcode(status), said.read().decode()[-300:]


def property_tests(seconds: float, seed: int) -> Count:
    """The property tests, file after file, with a new seed each round."""
    command = [sys.executable, "-m", "pytest", "-m", "hypothesis", "-p", "no:cacheprovider"]
    command += ["--hypothesis-profile=fuzz", "--hypothesis-show-statistics"]
    files = [
        path
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "from hypothesis" in path.read_text(encoding="utf-8")
        and path.stem != "test_buffer_machine"
    ]
    end, tried, failed, number = time.monotonic() + seconds, 0, 0, 0
    while (left := end - time.monotonic()) > 0:
        turn, place = divmod(number, len(files))
        number += 1
        line = [*command, f"--hypothesis-seed={seed + turn}", str(files[place])]
        try:
            done = subprocess.run(line, capture_output=True, text=True, timeout=left, cwd=ROOT)
        except subprocess.TimeoutExpired:
            break
        tried += sum(int(n) for n in re.findall(r"(\d+) passing", done.stdout))
        if done.returncode:
            failed += 1
            print(done.stdout, done.stderr, f"Repeat it with: {' '.join(line)}", sep="\n")
    return Count(tried, failed)


def main(seconds: float, seed: int) -> int:
    """Share the time between the attacks; return 1 if one succeeded."""
    os.chdir(tempfile.mkdtemp())
    warnings.simplefilter("ignore")
    run_attacks = import_module("run_attacks")
    run_attacks.runs()
    counts = {"signals to training": signals_to_training(seconds / 8, seed)}
    counts["property tests"] = property_tests(seconds / 8, seed)
    counts |= take_turns(import_module("cluster_attacks").ATTACKS, seconds / 8, seed)
    known: dict[str, Attack] = dict(run_attacks.ATTACKS)
    for name in ("buffer", "process", "number", "kind", "table", "command", "page"):
        known |= import_module(f"{name}_attacks").ATTACKS
    counts |= take_turns(known, seconds * 5 / 8, seed)
    for name, count in counts.items():
        print(f"{name:<24} {count.tried:>9,} tried {count.failed:>5,} failed")
    tried, failed = (sum(column) for column in zip(*counts.values(), strict=True))
    print(f"{tried:,} attacks in {seconds:g} s with seed {seed}: {failed:,} failed.")
    return 1 if failed else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(float(given[0]), int(given[1]) if len(given) > 1 else int(time.time())))
