"""Build the sdist, and from what is in it the wheel: ``python tools/dist.py [FOLDER]``.

The build uses the setuptools, Cython and numpy of this environment, so it needs no network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
BUILD = "import setuptools.build_meta as b, sys; print(getattr(b, sys.argv[1])(sys.argv[2]))"


def build_dist(folder: Path) -> tuple[Path, Path]:
    """Write the sdist and the wheel to ``folder``; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    sdist = folder / _build("build_sdist", ROOT, folder)
    return sdist, build_wheel(sdist, folder)


def build_wheel(sdist: Path, folder: Path) -> Path:
    """Write the wheel of an sdist to ``folder``."""
    with TemporaryDirectory() as unpacked:
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        (source,) = Path(unpacked).iterdir()
        return folder / _build("build_wheel", source, folder)


def _build(hook: str, source: Path, folder: Path) -> str:
    """Run a hook of the build backend."""
    command = [sys.executable, "-c", BUILD, hook, str(folder.resolve())]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout.splitlines()[-1]


if __name__ == "__main__":
    for path in build_dist(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "dist"):
        print(path)
