"""Read a figure's folder for the page, believing nothing in it.

A folder may come from somebody else, be half-written or damaged: whatever cannot be read is said on
the page, and the rest is shown. Nothing in it is ever run.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from needreplay.core.errors import NeedReplayError
from needreplay.core.tables import read_json
from needreplay.report.claims import Claim, claim_from

_OURS = ("meta.json", "claims.json", "data.csv", "figure.svg", "figure.png")
_LARGEST_SVG = 1_500_000


@dataclass(frozen=True)
class Picture:
    """An image as it stands in the page: its bytes are in the address."""

    name: str
    address: str
    caption: str


@dataclass(frozen=True)
class Link:
    """A file beside the page."""

    name: str
    address: str
    size: str


@dataclass
class Section:
    """Everything the page says about one figure; ``problems`` is what could not be read."""

    name: str
    title: str
    question: str = ""
    documentation: str = ""
    command: str = ""
    config: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: list[Link] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_sections(out: Path, order: Sequence[str] = ()) -> list[Section]:
    """A section for every figure's folder in ``out``: first those in ``order``, then by name."""
    rank = {name: position for position, name in enumerate(order)}
    folders = [path for path in out.iterdir() if _is_figure_folder(path)]
    folders.sort(key=lambda path: (rank.get(path.name, len(rank)), path.name))
    return [read_section(folder) for folder in folders]


def read_section(folder: Path) -> Section:
    """What one figure's folder says."""
    section = Section(name=folder.name, title=folder.name)
    meta = _record(folder / "meta.json", section)
    section.title = _text(meta, "title") or folder.name
    section.question = _text(meta, "question")
    section.documentation = _text(meta, "documentation")
    section.command = _text(meta, "command")
    section.config = _settings(meta.get("config"))
    section.facts = _facts(meta)
    notes = meta.get("notes")
    section.notes = [str(note) for note in notes] if isinstance(notes, list) else []
    captions = meta.get("captions")
    section.pictures = _pictures(folder, captions if isinstance(captions, dict) else {}, section)
    section.claims = _claims(folder / "claims.json", section)
    section.files = _files(folder)
    if not any(link.name == "data.csv" for link in section.files):
        section.problems.append("data.csv is missing.")
    return section


def _is_figure_folder(path: Path) -> bool:
    if path.name.startswith(".") or path.is_symlink() or not path.is_dir():
        return False
    return any((path / name).exists() for name in _OURS)


def _record(path: Path, section: Section) -> dict[str, Any]:
    try:
        found = _read(path)
        if isinstance(found, dict):
            return found
        section.problems.append(f"{path.name} is not a record.")
    except NeedReplayError as error:
        section.problems.append(_without_folder(error, path))
    return {}


def _claims(path: Path, section: Section) -> list[Claim]:
    claims: list[Claim] = []
    try:
        found = _read(path)
        if not isinstance(found, list):
            raise NeedReplayError(f"{path.name} is not a list of claims.")
        # One by one, so that the claims before a damaged one are kept.
        claims.extend(map(claim_from, found))
    except NeedReplayError as error:
        section.problems.append(_without_folder(error, path))
    return claims


def _read(path: Path) -> Any:
    if not _is_plain_file(path):
        raise NeedReplayError(f"{path.name} is missing: the folder is not complete.")
    return read_json(path)


def _without_folder(error: NeedReplayError, path: Path) -> str:
    return str(error).replace(repr(str(path)), path.name)


def _pictures(folder: Path, captions: dict[str, Any], section: Section) -> list[Picture]:
    files = [path for path in folder.iterdir() if path.suffix in (".svg", ".png")]
    stems = {path.stem for path in files if _is_plain_file(path) and path.name[0] != "."}
    pictures = []
    for stem in sorted(stems, key=lambda stem: (stem != "figure", stem)):
        try:
            address = _address(folder, stem)
        except OSError as error:
            section.problems.append(f"The picture {stem} cannot be read: {error.strerror}.")
            continue
        caption = captions.get(stem, "")
        pictures.append(Picture(stem, address, caption if isinstance(caption, str) else ""))
    if "figure" not in stems:
        section.problems.append("The figure is missing.")
    return pictures


def _address(folder: Path, stem: str) -> str:
    """The drawing, sharp at any size; where that would make the page heavy, the pixels."""
    drawing, pixels = folder / f"{stem}.svg", folder / f"{stem}.png"
    is_light = _is_plain_file(drawing) and drawing.stat().st_size <= _LARGEST_SVG
    if is_light or not _is_plain_file(pixels):
        return _inlined("image/svg+xml", drawing)
    return _inlined("image/png", pixels)


def _inlined(kind: str, path: Path) -> str:
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _files(folder: Path) -> list[Link]:
    tables = [path for path in folder.glob("*.csv") if _is_plain_file(path)]
    tables.sort(key=lambda path: (path.name != "data.csv", path.name))
    pictures = [folder / "figure.svg", folder / "figure.png"]
    records = [folder / "claims.json", folder / "meta.json"]
    return [
        Link(path.name, quote(os.fsencode(f"{folder.name}/{path.name}")), _size(path))
        for path in (*tables, *pictures, *records)
        if _is_plain_file(path)
    ]


def _is_plain_file(path: Path) -> bool:
    """A link in somebody else's folder could point at a private file: it is left out."""
    return path.is_file() and not path.is_symlink()


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1e3))} kB"


def _facts(meta: dict[str, Any]) -> list[tuple[str, str]]:
    versions, machine = meta.get("versions"), meta.get("machine")
    presets, seconds = meta.get("presets"), meta.get("seconds")
    facts = [
        ("Presets", ", ".join(map(str, presets)) if isinstance(presets, list) else ""),
        ("Size", _text(meta, "size")),
        ("Trials", _text(meta, "trials")),
        ("Seed", _text(meta, "seed")),
        ("Time", _duration(seconds) if isinstance(seconds, int | float) else ""),
        ("Date", _text(meta, "date")),
        ("Machine", _text(machine, "processor") if isinstance(machine, dict) else ""),
        ("needreplay", _text(versions, "needreplay") if isinstance(versions, dict) else ""),
    ]
    return [(name, said) for name, said in facts if said]


def _settings(config: object) -> str:
    return json.dumps(config, indent=2, ensure_ascii=False) if config else ""


def _text(meta: dict[str, Any], name: str) -> str:
    value = meta.get(name)
    return str(value) if isinstance(value, str | int | float) else ""


def _duration(seconds: float) -> str:
    if not 0 <= seconds < 1e9:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
