"""The folder of one training run: whose it is, its lock, its checkpoints.

A checkpoint is written under another name and renamed when it is whole, so that a process that
is killed at any moment leaves either the old one or the new one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from needreplay.core.errors import NeedReplayError
from needreplay.core.tables import prepare_folder, read_json, write_json
from needreplay.training.config import RunConfig

try:
    import fcntl
except ImportError:  # Windows has no such lock; there two processes are not kept apart.
    fcntl = None  # type: ignore[assignment]

CONFIG, METRICS, DONE, RUN, LOCK = "config.json", "metrics.csv", "done.json", "run.json", "lock"
CHECKPOINT = "checkpoint-"
PART = "checkpoint.part"


@contextmanager
def claimed(folder: str | Path, config: RunConfig) -> Iterator[Path]:
    """The folder, made and held by this process alone; one that holds another run is refused."""
    path = prepare_folder(folder)
    with _locked(path):
        _claim(path, config)
        yield path


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """A lock that the system lets go of when the process ends, however it ends."""
    try:
        file = (folder / LOCK).open("a")
    except OSError as error:
        raise NeedReplayError(
            f"The folder {str(folder)!r} cannot be written: {error.strerror}; choose another."
        ) from error
    with file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as held:
            raise NeedReplayError(
                f"Another process is training in {str(folder)!r}; wait for it, stop it, or choose "
                "another folder."
            ) from held
        yield


def _claim(folder: Path, config: RunConfig) -> None:
    """Write what is run, or refuse a folder where something else was."""
    plain = {**asdict(config), "overrides": dict(config.overrides)}
    path = folder / CONFIG
    if not path.exists():
        write_json(path, plain)
        return
    there = read_json(path)
    for name in plain:
        if there.get(name) != plain[name]:
            raise NeedReplayError(
                f"{str(folder)!r} holds a run with {name} {there.get(name)!r}, not {plain[name]!r};"
                " choose another folder, or give the same arguments to go on with that run."
            )


def config_of(folder: Path) -> RunConfig:
    """What was run in ``folder``; a folder that is no run's is refused."""
    if not (folder / CONFIG).is_file():
        raise NeedReplayError(
            f"{str(folder)!r} is not the folder of a training run: it has no {CONFIG}."
        )
    try:
        return RunConfig(**read_json(folder / CONFIG))
    except TypeError as error:
        raise NeedReplayError(
            f"{str(folder / CONFIG)!r} is not the config of a training run."
        ) from error


def newest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint to go on from; a half-written one has another name and does not count."""
    found = [
        path
        for path in folder.glob(f"{CHECKPOINT}*")
        if path.name.removeprefix(CHECKPOINT).isdigit()
    ]
    return max(found, key=lambda path: int(path.name.removeprefix(CHECKPOINT)), default=None)


def write_checkpoint(folder: Path, steps: int, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a folder, make it the checkpoint of ``steps``, then remove older ones."""
    part = folder / PART
    try:
        shutil.rmtree(part, ignore_errors=True)
        prepare_folder(part)
        write(part)
        older = [path for path in folder.glob(f"{CHECKPOINT}*") if path.is_dir()]
        part.rename(folder / f"{CHECKPOINT}{steps}")
    except (OSError, NeedReplayError) as error:
        # What a full disk left half-written would only keep it full.
        shutil.rmtree(part, ignore_errors=True)
        said = error.strerror if isinstance(error, OSError) else str(error).rstrip(".")
        raise NeedReplayError(
            f"The checkpoint at step {steps} cannot be written: {said}. The run stands at its last "
            "checkpoint; the same command goes on from there."
        ) from error
    _sync(folder)
    for path in older:
        shutil.rmtree(path, ignore_errors=True)


def _sync(folder: Path) -> None:
    """Have the new name on the disk before the old checkpoint goes."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
