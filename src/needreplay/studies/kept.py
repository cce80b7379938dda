"""Whether a figure is there already: made by the same request, from the same source.

So a second ``make reproduce`` is quick, and one after a change of any line of needreplay is not.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import needreplay
from needreplay.errors import NeedReplayError
from needreplay.records import read_json
from needreplay.studies.base import Request, Study


def made_from(study: Study, request: Request) -> dict[str, Any]:
    """What a figure follows from: not the number of workers, nor where long runs are kept."""
    asked = asdict(replace(request, workers=0, runs_folder=None))
    own = inspect.getsourcefile(study.run)
    source = hashlib.sha256(_package_digest().encode())
    source.update(Path(own).read_bytes() if own else b"")
    plain: dict[str, Any] = json.loads(json.dumps({"request": asked}))
    return {**plain, "source": source.hexdigest()}


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
