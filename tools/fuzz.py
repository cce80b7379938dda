"""Run the property tests on new random cases until the time is up or one fails (``make fuzz``)."""

from __future__ import annotations

import re
import subprocess
import sys
import time

COMMAND = [sys.executable, "-m", "pytest", "-n", "auto", "--maxprocesses=8", "-m", "hypothesis"]
COMMAND += ["--hypothesis-profile=fuzz", "--hypothesis-show-statistics"]


def main(seconds: float) -> int:
    """Repeat all property tests with a new seed each time; return pytest's exit code."""
    end = time.monotonic() + seconds
    seed = int(time.time())
    rounds = examples = 0
    while (left := end - time.monotonic()) > 0:
        seed += 1
        command = [*COMMAND, f"--hypothesis-seed={seed}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=left)
        except subprocess.TimeoutExpired:
            break
        if done.returncode:
            print(done.stdout, done.stderr, f"Repeat it with: {' '.join(command)}", sep="\n")
            return done.returncode
        rounds += 1
        examples += sum(int(n) for n in re.findall(r"(\d+) passing,", done.stdout))
        print(f"round {rounds}, seed {seed}: {examples:,} cases so far, none failed", flush=True)
    print(f"{rounds} rounds and {examples:,} cases in {seconds:g} seconds, none failed.")
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
