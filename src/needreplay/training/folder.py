"""The folder of one training run.

``config.json`` is what runs, ``metrics.csv`` has a row per iteration, ``checkpoint-<steps>`` is the
newest checkpoint, and ``done.json`` marks a complete run and holds its summary.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from needreplay.core.errors import NeedReplayError
from needreplay.core.lock import locked
from needreplay.core.tables import prepare_folder, read_json, write_json
from needreplay.training.config import RunConfig

CONFIG, METRICS, DONE, RUN, LOCK = "config.json", "metrics.csv", "done.json", "run.json", "lock"
CHECKPOINT = "checkpoint-"
PART = "checkpoint.part"
RESUME = "The same command resumes from the last checkpoint."


@contextmanager
def claimed(folder: str | Path, config: RunConfig) -> Iterator[Path]:
    """Make the folder and hold it for this process; refuse one that holds another run."""
    path = prepare_folder(folder)
    busy = (
        f"Another process trains in {str(path)!r} ({{holder}}); wait for it, stop it, or choose "
        "another folder."
    )
    with locked(path / LOCK, busy):
        _claim(path, config)
        yield path


def _claim(folder: Path, config: RunConfig) -> None:
    mine = {**asdict(config), "overrides": dict(config.overrides)}
    if not (folder / CONFIG).exists():
        write_json(folder / CONFIG, mine)
        return
    found = read_json(folder / CONFIG)
    for name in mine:
        if found.get(name) != mine[name]:
            raise NeedReplayError(
                f"{str(folder)!r} holds a run with {name} {found.get(name)!r}, not {mine[name]!r}; "
                "choose another folder, or use the same arguments to resume that run."
            )


def config_of(folder: Path) -> RunConfig:
    """The config of the run in ``folder``."""
    path = folder / CONFIG
    if not path.is_file():
        raise NeedReplayError(
            f"{str(folder)!r} is not the folder of a training run: it has no {CONFIG}."
        )
    try:
        config = read_json(path)
        # A run of a sweep names its kind, too.
        config.pop("kind", None)
        return RunConfig(**config)
    except (TypeError, AttributeError) as error:
        raise NeedReplayError(f"{str(path)!r} is not the config of a training run.") from error


def newest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint to resume from; an unfinished one has another name and does not count."""
    found = [path for path in folder.glob(f"{CHECKPOINT}*") if _steps(path).isdigit()]
    return max(found, key=lambda path: int(_steps(path)), default=None)


def _steps(checkpoint: Path) -> str:
    return checkpoint.name.removeprefix(CHECKPOINT)


def write_checkpoint(folder: Path, steps: int, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a folder, rename it to the checkpoint of ``steps``, remove older ones.

    A process that is killed at any moment leaves the old checkpoint or the new one.
    """
    part = folder / PART
    try:
        shutil.rmtree(part, ignore_errors=True)
        prepare_folder(part)
        write(part)
        older = [path for path in folder.glob(f"{CHECKPOINT}*") if path.is_dir()]
        part.rename(folder / f"{CHECKPOINT}{steps}")
    except (OSError, NeedReplayError) as error:
        # An unfinished checkpoint would only keep a full disk full.
        shutil.rmtree(part, ignore_errors=True)
        reason = error.strerror if isinstance(error, OSError) else str(error).rstrip(".")
        raise NeedReplayError(
            f"The checkpoint at step {steps} cannot be written: {reason}. {RESUME}"
        ) from error
    _sync(folder)
    for path in older:
        shutil.rmtree(path, ignore_errors=True)


def _sync(folder: Path) -> None:
    """Have the new name on the disk before the old checkpoint is removed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
