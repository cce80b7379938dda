"""A figure's folder: everything a study found, put in place atomically."""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import subprocess
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from needlab.core.tables import prepare_folder, read_json, write_json, write_table
from needlab.core.types import JsonObject
from needlab.report.figures import save_figure
from needlab.studies.study import Options, Result, Study
from needreplay._core.errors import NeedReplayError
from needreplay._version import __version__

_STEM = re.compile(r"[a-z0-9][a-z0-9_-]*")


@cache
def versions() -> dict[str, str]:
    """Of needreplay, Python and the libraries that numbers and pictures come from."""
    found = {"needreplay": __version__, "python": platform.python_version()}
    for library in ("numpy", "numba", "scipy", "gymnasium", "matplotlib", "torch"):
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


def check_own_folder(folder: Path) -> None:
    """Raise for a folder that would be replaced although needreplay did not write it."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / "meta.json").is_file():
        raise NeedReplayError(
            f"{str(folder)!r} exists already and was not written by needreplay (it has no "
            "meta.json); move it away or choose another --out."
        )


def write_study(
    folder: Path, study: Study, options: Options, result: Result, record: JsonObject
) -> None:
    """Write everything beside ``folder``, then put it in the place of ``folder``.

    Files that somebody else put into the old folder move to the new one.
    """
    _check(study, result)
    token = secrets.token_hex(4)
    new = prepare_folder(folder.parent / f".{folder.name}.new-{token}")
    try:
        for stem, table in result.tables.items():
            write_table(new / f"{stem}.csv", table)
        for stem, figure in result.figures.items():
            save_figure(figure, new, stem)
        write_json(new / "claims.json", result.claims)
        files = [*sorted(path.name for path in new.iterdir()), "meta.json"]
        write_json(new / "meta.json", {**_meta(study, options, result), **record, "files": files})
        _swap(new, folder, folder.parent / f".{folder.name}.old-{token}")
    except OSError as error:
        raise NeedReplayError(f"{str(folder)!r} cannot be written: {error}.") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _swap(new: Path, folder: Path, old: Path) -> None:
    if not folder.exists():
        new.rename(folder)
        return
    check_own_folder(folder)
    ours = _files_of(folder)
    folder.rename(old)
    try:
        new.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    for path in old.iterdir():
        if path.name not in ours and not (folder / path.name).exists():
            path.rename(folder / path.name)
    shutil.rmtree(old, ignore_errors=True)


def _files_of(folder: Path) -> set[str]:
    """The files that needreplay wrote there; with a damaged record, none but the record."""
    try:
        return {str(name) for name in read_json(folder / "meta.json")["files"]} | {"meta.json"}
    except (NeedReplayError, KeyError, TypeError):
        return {"meta.json"}


def _check(study: Study, result: Result) -> None:
    for kind, stem, found in (
        ("table", "data", result.tables),
        ("figure", "figure", result.figures),
    ):
        if stem not in found:
            raise NeedReplayError(f"{study.name} returned no {kind} called {stem!r}.")
        for name in found:
            if not _STEM.fullmatch(name):
                raise NeedReplayError(f"{study.name}: {name!r} cannot be a {kind}'s file name.")
    strays = sorted(set(result.captions) - set(result.figures))
    if strays:
        raise NeedReplayError(f"{study.name} has a caption without a figure: {strays[0]!r}.")


def _meta(study: Study, options: Options, result: Result) -> JsonObject:
    return {
        "study": study.name,
        "title": study.title,
        "question": study.question,
        "documentation": study.documentation,
        "paper": study.paper,
        **asdict(options),
        "config": result.config,
        "captions": result.captions,
        "notes": result.notes,
        **origin(),
    }


def origin() -> JsonObject:
    """Commit, versions, machine and date, for a ``meta.json``."""
    return {
        "commit": commit(),
        "versions": versions(),
        "machine": {
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
        },
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def commit() -> str | None:
    """The commit of the clone that this code is in, "-dirty" with changes; None outside of one."""
    with suppress(OSError, subprocess.SubprocessError):
        for words in (
            ("ls-files", "--error-unmatch", Path(__file__).name),
            ("describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"),
        ):
            found = subprocess.run(
                ["git", *words],
                cwd=Path(__file__).parent,
                capture_output=True,
                text=True,
                check=True,
                timeout=10,
            )
        return found.stdout.strip()
    return None


def _processor() -> str:
    with suppress(OSError):
        described = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if model := re.search(r"^model name\s*:\s*(.+)$", described, re.MULTILINE):
            return model.group(1)
    return platform.processor() or platform.machine()
