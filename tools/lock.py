"""Pin every package that ``make`` installs, with the hashes of its files (``make lock``; needs uv).

Writes ``requirements.lock`` (what ``make`` installs), ``requirements-cuda.lock`` (NVIDIA's
libraries, which PyPI's torch for Linux needs and a CPU build does not) and
``requirements-peers.lock`` (for ``make bench-replay``). Versions in a lock stay where they fit;
``python tools/lock.py --upgrade`` takes the newest.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

TORCH = "torch==2.13.0"
CUDA = re.compile(r"(nvidia|cuda|triton)\b")
EXTRAS = ["lab", "deep", "minatar", "atari", "tensorboard", "ray", "sb3", "minigrid", "pynapple"]
CONTENTS = {
    "requirements.lock": ["--group=dev", *(f"--extra={extra}" for extra in EXTRAS)],
    "requirements-peers.lock": ["--group=build", "--group=peers", "--extra=atari"],
}
HASH = "    --hash=sha256:"

Pins = dict[str, set[str]]
"""The hashes of each requirement: ``numpy==2.4.6 ; python_full_version < '3.12'``."""


def read(lock: Path) -> Pins:
    """The requirements of a lock file and their hashes."""
    pins: Pins = {}
    requirement = ""
    for line in lock.read_text().splitlines() if lock.exists() else []:
        words = line.rstrip(" \\")
        if words.startswith(HASH):
            pins[requirement].add(words.removeprefix(HASH))
        elif words and not words.startswith("#"):
            requirement = words
            pins[requirement] = set()
    return pins


def write(lock: Path, pins: Pins) -> None:
    """Write ``pins`` in alphabetical order."""
    names = sorted(pins, key=lambda name: name.split("=="))
    parts = [" \\\n".join([name, *(HASH + h for h in sorted(pins[name]))]) for name in names]
    lock.write_text("# Made by `make lock`.\n" + "".join(part + "\n" for part in parts))


def resolve(lock: Path, options: list[str]) -> Pins:
    """Let uv choose versions for Python 3.11 and newer on every platform."""
    command = ["uv", "pip", "compile", "pyproject.toml", "--universal", "--python-version=3.11"]
    command += ["--generate-hashes", "--no-header", "--no-annotate"]
    command += ["--constraint=-", f"--output-file={lock}", *options]
    subprocess.run(command, input=TORCH, text=True, check=True, stdout=subprocess.DEVNULL)
    return read(lock)


def hashes_of_local_wheels(pins: Pins) -> Pins:
    """The hashes of wheels in the folders of ``PIP_FIND_LINKS``, which pip sees and uv does not.

    A local version counts: ``torch-2.13.0+cpu-...whl`` satisfies ``torch==2.13.0``.
    """
    found: Pins = {}
    for folder in os.environ.get("PIP_FIND_LINKS", "").split():
        for wheel in Path(folder).glob("*.whl"):
            name, version = wheel.name.split("-")[:2]
            wanted = f"{name.replace('_', '-').lower()}=={version.split('+')[0]}"
            for requirement in pins:
                if requirement.split(" ")[0] == wanted:
                    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
                    found.setdefault(requirement, set()).add(digest)
    return found


def main(options: list[str]) -> None:
    """Write the three lock files."""
    cuda: Pins = {}
    for file, contents in CONTENTS.items():
        lock = Path(file)
        before = read(lock)
        pins = resolve(lock, [*contents, *options])
        # Old hashes of the same version stay: they may belong to wheels of another machine.
        for more in (before, hashes_of_local_wheels(pins)):
            for requirement in pins.keys() & more.keys():
                pins[requirement] |= more[requirement]
        cuda |= {name: pins.pop(name) for name in list(pins) if CUDA.match(name)}
        write(lock, pins)
    write(Path("requirements-cuda.lock"), cuda)


if __name__ == "__main__":
    main(sys.argv[1:])
