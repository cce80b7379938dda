"""What is there already: figures, and the runs of one that was stopped, of the same source.

So a second ``make reproduce`` is quick, and one after a change of any line of needreplay is not.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import shutil
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import needreplay
from needreplay.errors import NeedReplayError
from needreplay.records import read_json
from needreplay.studies.base import Request, Study

_DIGITS = 16


def made_from(study: Study, request: Request) -> dict[str, Any]:
    """What a figure follows from: not the number of workers, nor where long runs are kept."""
    asked = asdict(replace(request, workers=0, runs_folder=None))
    own = inspect.getsourcefile(study.run)
    source = hashlib.sha256(_package_digest().encode())
    source.update(Path(own).read_bytes() if own else b"")
    plain: dict[str, Any] = json.loads(json.dumps({"request": asked}))
    return {**plain, "source": source.hexdigest()}


def runs_folder_of(figure: Path, study: Study, request: Request) -> Path:
    """Where a figure's runs are: runs of another source are in another folder, and not found."""
    return all_runs_of(figure) / str(made_from(study, request)["source"])[:_DIGITS]


def all_runs_of(figure: Path) -> Path:
    """The folder beside a figure's own that holds its runs, of every source."""
    return figure.with_name(f"{figure.name}-runs")


def remove_runs(figure: Path) -> None:
    """Remove a figure's runs, of every source; whatever else is there stays."""
    for folder in all_runs_of(figure).glob("*"):
        if len(folder.name) == _DIGITS and (folder / "sweep.json").is_file():
            shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        all_runs_of(figure).rmdir()


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


@cache
def _package_digest() -> str:
    """Of every file of needreplay's source."""
    root = Path(needreplay.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
