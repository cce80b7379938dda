"""What is there already: figures, and the runs of one that was stopped, of the same source.

So a second ``make reproduce`` is quick, and one after a change of any line of needreplay is not.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from needreplay.core.errors import NeedReplayError
from needreplay.core.source import source_digest
from needreplay.core.tables import prepare_folder, read_json
from needreplay.studies.base import Request, Study
from needreplay.sweeps.lock import locked

_DIGITS = 8
_RUNS_NAME = re.compile(rf"[0-9a-f]{{{_DIGITS}}}(-[0-9a-f]{{{_DIGITS}}})?")


def made_from(study: Study, request: Request) -> dict[str, Any]:
    """What a figure follows from: not the number of workers, nor where long runs are kept."""
    asked = asdict(replace(request, workers=0, runs_folder=None))
    own = inspect.getsourcefile(study.run)
    source = hashlib.sha256(source_digest().encode())
    source.update(Path(own).read_bytes() if own else b"")
    source.update(json.dumps(_versions()).encode())
    plain: dict[str, Any] = json.loads(json.dumps({"request": asked}))
    return {**plain, "source": source.hexdigest()}


@cache
def _versions() -> dict[str, str]:
    """Of the libraries that numbers and pictures come from."""
    found = {}
    for library in ("numpy", "numba", "matplotlib", "torch"):
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


def runs_folder_of(figure: Path, study: Study, request: Request) -> Path:
    """Where a figure's runs are: those of another source are in another folder, and not found.

    So are those of another request, but for a study that keeps its runs: there requests share them.
    """
    facts = made_from(study, request)
    name = str(facts["source"])[:_DIGITS]
    if not study.keeps_runs:
        asked = json.dumps(facts["request"], sort_keys=True)
        name += "-" + hashlib.sha256(asked.encode()).hexdigest()[:_DIGITS]
    return all_runs_of(figure) / name


def all_runs_of(figure: Path) -> Path:
    """The folder beside a figure's own that holds its runs, of every source and request."""
    return figure.with_name(f"{figure.name}-runs")


@contextmanager
def only_one(figure: Path) -> Iterator[None]:
    """One process at a time makes a figure in a folder; a second is refused."""
    folder = prepare_folder(all_runs_of(figure))
    busy = (
        f"Another process ({{holder}}) is making {figure.name} in {str(figure.parent)!r}; wait for "
        "it, or choose another --out."
    )
    lock = folder / ".lock"
    with locked(lock, busy):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()


def remove_runs(figure: Path, runs: Path) -> None:
    """Remove a finished figure's ``runs``, and those that no source of today would go on with.

    Runs of other requests stay: they may be of a longer figure that was stopped.
    """
    source = runs.name.partition("-")[0]
    for folder in all_runs_of(figure).glob("*"):
        ours = (folder / "sweep.json").is_file() and _RUNS_NAME.fullmatch(folder.name)
        if ours and (folder == runs or not folder.name.startswith(source)):
            shutil.rmtree(folder, ignore_errors=True)


def is_kept(folder: Path, study: Study, request: Request) -> bool:
    """Whether ``folder`` is whole and made from the same; a damaged record means no."""
    try:
        meta = read_json(folder / "meta.json")
        files = [str(name) for name in meta["files"]]
        return bool(
            meta["made_from"] == made_from(study, request)
            and "data.csv" in files
            and all((folder / name).is_file() for name in files)
        )
    except (NeedReplayError, KeyError, TypeError):
        return False
