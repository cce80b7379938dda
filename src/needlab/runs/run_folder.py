"""The folder of one training run.

``config.json`` is what runs, ``metrics.csv`` has a row per iteration, ``checkpoint-<steps>`` is the
newest checkpoint, ``arrived`` counts what actors have sent, ``history.json`` has the machines that
worked on it and its earlier lengths, and ``done.json`` marks a complete run and holds its summary.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path

from needlab.core.imports import check_code
from needlab.core.lock import locked
from needlab.core.machine import HISTORY
from needlab.core.tables import check_file, prepare_folder, read_json, write_json
from needlab.core.types import JsonObject
from needlab.runs.config import RunConfig
from needreplay._core.checks import is_whole
from needreplay._core.errors import NeedReplayError

CONFIG, METRICS, DONE, RUN, LOCK = "config.json", "metrics.csv", "done.json", "run.json", "lock"
CHECKPOINT = "checkpoint-"
PART = "checkpoint.part"
DIGESTS = "digests.json"
RESUME = "The same command resumes from the last checkpoint."
_REPLACED = ".replaced"
_BUFFER = "replay"


@contextmanager
def claimed(folder: str | Path, config: RunConfig) -> Iterator[Path]:
    """Make the folder and hold it for this process; raise for one that holds another run."""
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
        left = [name for name in (METRICS, DONE, HISTORY) if (folder / name).exists()]
        left += [path.name for path in _checkpoints(folder)]
        if left:
            raise NeedReplayError(
                f"{str(folder)!r} holds {left[0]} of a run, but no {CONFIG}; put that file back, "
                "or choose another folder."
            )
        write_json(folder / CONFIG, mine)
        return
    found = _record(folder / CONFIG)
    other = [name for name in mine if found.get(name) != mine[name]]
    if other == ["steps"] and _can_extend(folder, found, config.steps):
        # In this order: whatever stops it, the same command extends the run.
        before = {found["steps"], *_extended_from(folder)}
        history = _history(folder)
        write_json(folder / HISTORY, {**history, "extended_from": sorted(before)})
        write_json(folder / CONFIG, mine)
    elif other:
        name = other[0]
        hint = ""
        if other == ["steps"] and is_whole(found.get(name)) and found[name] < config.steps:
            hint = (
                " The runs of a sweep cannot be extended."
                if "kind" in found
                else " To extend that run, finish it first."
            )
        raise NeedReplayError(
            f"{str(folder)!r} holds a run with {name} {found.get(name)!r}, not {mine[name]!r}; "
            f"choose another folder, or use the same arguments to resume that run.{hint}"
        )


def _can_extend(folder: Path, found: JsonObject, steps: int) -> bool:
    """Whether the run is complete and shorter; a run of a sweep stays what the sweep asked for."""
    shorter = is_whole(found.get("steps")) and found["steps"] < steps
    return shorter and (folder / DONE).exists() and "kind" not in found


def _extended_from(folder: Path) -> list[int]:
    """The earlier lengths of a run that was extended."""
    listed = _history(folder).get("extended_from", [])
    return [each for each in listed if is_whole(each)] if isinstance(listed, list) else []


def _history(folder: Path) -> JsonObject:
    return _record(folder / HISTORY) if (folder / HISTORY).exists() else {}


def _record(path: Path) -> JsonObject:
    found = read_json(path)
    if not isinstance(found, dict):
        raise NeedReplayError(f"{str(path)!r} is damaged: it is not a JSON object.")
    return found


def config_of(folder: Path, allow_code: Collection[str] = ()) -> RunConfig:
    """The config of the run in ``folder``; raise for code of modules that are not allowed."""
    path = folder / CONFIG
    if not path.is_file():
        raise NeedReplayError(
            f"{str(folder)!r} is not the folder of a training run: it has no {CONFIG}."
        )
    try:
        config = _record(path)
        # A run of a sweep names its kind, too.
        config.pop("kind", None)
        found = RunConfig(**config)
    except (TypeError, NeedReplayError) as error:
        raise NeedReplayError(
            f"{str(path)!r} is not the config of a training run: {error}"
        ) from error
    check_code(config, allow_code, repr(str(path)))
    return found


def done_of(folder: Path) -> JsonObject | None:
    """The summary of a complete run; None of any other."""
    path = folder / DONE
    if not path.exists():
        return None
    found = _record(path)
    if not is_whole(found.get("steps")):
        raise NeedReplayError(f"{str(path)!r} is damaged: it has no number of steps.")
    return found


def newest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint to resume from; an unfinished one has another name and does not count."""
    key = lambda path: (steps_of(path), path.suffix != _REPLACED)  # noqa: E731
    return max(_checkpoints(folder), key=key, default=None)


def _checkpoints(folder: Path) -> list[Path]:
    found = [path for path in folder.glob(f"{CHECKPOINT}*") if path.is_dir()]
    return [path for path in found if _number(path).isdecimal() and _number(path).isascii()]


def _number(checkpoint: Path) -> str:
    return checkpoint.name.removeprefix(CHECKPOINT).removesuffix(_REPLACED)


def steps_of(checkpoint: Path) -> int:
    """The steps of training before a checkpoint."""
    return int(_number(checkpoint))


def write_checkpoint(
    folder: Path, steps: int, write: Callable[[Path], None], metrics_digest: str
) -> None:
    """Let ``write`` fill a folder, rename it to the checkpoint of ``steps``, remove older ones.

    A process that is killed at any moment leaves the old checkpoint or the new one.
    """
    part, target = folder / PART, folder / f"{CHECKPOINT}{steps}"
    try:
        shutil.rmtree(part, ignore_errors=True)
        prepare_folder(part)
        write(part)
        digests = {path.name: _digest(path) for path in sorted(part.iterdir())}
        digests |= {CONFIG: _config_digest(_record(folder / CONFIG)), METRICS: metrics_digest}
        write_json(part / DIGESTS, digests)
        older = [path for path in folder.glob(f"{CHECKPOINT}*") if path.is_dir()]
        if target in older:
            older[older.index(target)] = target.rename(f"{target}{_REPLACED}")
        part.rename(target)
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


def checked_digests(checkpoint: Path, *names: str) -> dict[str, str]:
    """The digests of a checkpoint, after a comparison with its files and the run's config.

    Args:
        checkpoint: its folder.
        names: the files to compare; none: all.
    """
    digests = _record(checkpoint / DIGESTS)
    config = _record(checkpoint.parent / CONFIG)
    lengths = [config.get("steps"), *_extended_from(checkpoint.parent)]
    if digests.get(CONFIG) not in [_config_digest({**config, "steps": n}) for n in lengths]:
        raise NeedReplayError(
            f"The checkpoint {str(checkpoint)!r} is of another run than {CONFIG} beside it."
        )
    for name in names or {path.name for path in checkpoint.iterdir()} - {DIGESTS}:
        if digests.get(name) != _digest(checkpoint / name):
            raise NeedReplayError(
                f"{str(checkpoint / name)!r} is damaged, or of another checkpoint: its digest is "
                f"not the one in {DIGESTS}."
            )
    return digests


def _config_digest(config: JsonObject) -> str:
    plain = {each.name: config.get(each.name) for each in fields(RunConfig)}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _digest(path: Path) -> str:
    """Of a file; the buffer's, which may be large, ends with a digest of its own."""
    check_file(path)
    try:
        with path.open("rb") as file:
            if path.name == _BUFFER:
                file.seek(max(0, path.stat().st_size - 4096))
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise NeedReplayError(f"{str(path)!r} cannot be read: {error.strerror}.") from error


def _sync(folder: Path) -> None:
    """Have the new name on the disk before the old checkpoint is removed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
