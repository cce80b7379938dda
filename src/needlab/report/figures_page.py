"""The page of all figures in a folder: what is claimed, what was measured, how it was made."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

from needlab.core.types import JsonObject
from needlab.report.claims import Claim, claim_from, tallies, tally
from needlab.report.files import UntrustedFolder, is_plain
from needlab.report.page import MOST_SCREENS, Link, Picture, inlined, write_page
from needreplay._core.errors import NeedReplayError

MARKS = {"holds": "✓", "does not hold": "✗", "undecided": "?", "concludes nothing": "–"}
_OURS = ("meta.json", "claims.json", "data.csv", "figure.svg", "figure.png")
_LARGEST_SVG = 1_500_000
_KINDS = (".svg", ".pdf", ".png")
FEW_CLAIMS = 6
"""A table of more claims than this is folded."""


@dataclass(frozen=True)
class Paper:
    """Whose experiments they are, and what its presets mean."""

    name: str
    address: str
    about: str
    presets: tuple[tuple[str, str], ...]


PAPERS = {
    "yuan-mattar": Paper(
        "Yuan & Mattar (2021)",
        "https://arxiv.org/abs/2111.14331",
        "experience replay prioritized by gain × need",
        (
            ("printed", "the paper's text"),
            ("released", "what the authors' code did"),
            ("corrected", "that code with its faults fixed"),
        ),
    ),
    "mattar-daw": Paper(
        "Mattar & Daw (2018)",
        "https://doi.org/10.1038/s41593-018-0232-z",
        "hippocampal replay ordered by gain × need",
        (
            ("published", "what the authors' code does, in its order of steps"),
            ("text", "our reading of the article"),
        ),
    ),
}
"""By the name in a figure's ``meta.json``."""


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
    paper: Paper | None = None
    notes: list[str] = field(default_factory=list)
    files: list[Link] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """files that its command writes and that are not in the folder"""
    problems: list[str] = field(default_factory=list)

    @property
    def tallies(self) -> dict[str, dict[str, str]]:
        """What its claims count as, for each preset."""
        return tallies(self.claims)

    @property
    def parts(self) -> list[tuple[Picture | None, list[Claim]]]:
        """Each picture with the claims that it shows; those without one are the first picture's."""
        stems = [picture.title for picture in self.pictures]
        own: dict[str, list[Claim]] = {stem: [] for stem in stems or [""]}
        for claim in self.claims:
            own[claim.figure if claim.figure in own else next(iter(own))].append(claim)
        pictures: list[Picture | None] = [*self.pictures] or [None]
        return list(zip(pictures, own.values(), strict=True))


def write_figures_page(out: str | Path, *, order: Sequence[str] = ()) -> Path:
    """Write ``report.html`` from all figure folders in ``out``: as in ``order``, then by name."""
    rank = {name: position for position, name in enumerate(order)}
    folders = [path for path in Path(out).iterdir() if _is_figure_folder(path)]
    folders.sort(key=lambda path: (rank.get(path.name, len(rank)), path.name))
    sections = [read_section(folder) for folder in folders]
    papers = list(dict.fromkeys(section.paper for section in sections if section.paper))
    return write_page(
        Path(out) / "report.html",
        "figures.html",
        sections=sections,
        papers=papers,
        counts=tallies([claim for section in sections for claim in section.claims]),
        marks=MARKS,
        few_claims=FEW_CLAIMS,
        tally=tally,
        contents=_screens(sections) > MOST_SCREENS,
    )


def _screens(sections: Sequence[Section]) -> float:
    """About how many screens the page fills: a picture is most of one, with its words."""
    return sum(0.6 + 0.8 * len(section.pictures) for section in sections)


def _is_figure_folder(path: Path) -> bool:
    if path.name.startswith(".") or path.is_symlink() or not path.is_dir():
        return False
    return any((path / name).exists() for name in _OURS)


def read_section(path: Path) -> Section:
    """Read what one figure's folder holds."""
    folder = UntrustedFolder(path)
    meta = folder.record("meta.json")
    notes, captions = meta.get("notes"), meta.get("captions")
    config = meta.get("config")
    section = Section(
        name=path.name,
        title=_text(meta, "title") or path.name,
        question=_text(meta, "question"),
        documentation=_text(meta, "documentation"),
        command=_text(meta, "command"),
        config=json.dumps(config, indent=2, ensure_ascii=False) if config else "",
        facts=_facts(meta),
        notes=[str(note) for note in notes] if isinstance(notes, list) else [],
        pictures=_pictures(folder, captions if isinstance(captions, dict) else {}),
        claims=_claims(folder),
        paper=PAPERS.get(_text(meta, "paper")),
        files=_links(path),
        left_out=_left_out(folder, meta.get("files")),
        problems=folder.problems,
    )
    if not folder.has("data.csv"):
        section.problems.append("data.csv is missing.")
    return section


def _claims(folder: UntrustedFolder) -> list[Claim]:
    claims: list[Claim] = []
    try:
        found = folder.json("claims.json")
        if not isinstance(found, list):
            raise NeedReplayError("claims.json is not a list of claims.")
        # One by one: the claims before a damaged one are used.
        claims.extend(map(claim_from, found))
    except NeedReplayError as error:
        folder.note(error)
    return claims


def _pictures(folder: UntrustedFolder, captions: JsonObject) -> list[Picture]:
    files = [path for path in folder.path.iterdir() if path.suffix in (".svg", ".png")]
    stems = {path.stem for path in files if is_plain(path) and path.name[0] != "."}
    pictures = []
    rank = {stem: place for place, stem in enumerate(captions)}
    for stem in sorted(stems, key=lambda s: (s != "figure", rank.get(s, len(rank)), s)):
        try:
            address = _address(folder.path, stem)
        except OSError as error:
            folder.problems.append(f"The picture {stem} cannot be read: {error.strerror}.")
            continue
        caption = captions.get(stem, "")
        said = caption if isinstance(caption, str) else ""
        beside = [folder.path / f"{stem}{kind}" for kind in _KINDS]
        links = tuple(
            replace(_link(path), name=path.suffix[1:].upper()) for path in beside if is_plain(path)
        )
        pictures.append(Picture(stem, address, said, links))
    if "figure" not in stems:
        folder.problems.append("The figure is missing.")
    return pictures


def _address(folder: Path, stem: str) -> str:
    """The drawing, sharp at any size; if that would make the page heavy, the pixels."""
    drawing, pixels = folder / f"{stem}.svg", folder / f"{stem}.png"
    is_light = is_plain(drawing) and drawing.stat().st_size <= _LARGEST_SVG
    return inlined(drawing if is_light or not is_plain(pixels) else pixels)


def _links(folder: Path) -> list[Link]:
    tables = sorted(folder.glob("*.csv"), key=lambda path: (path.name != "data.csv", path.name))
    others = [folder / name for name in ("claims.json", "meta.json")]
    return [_link(path) for path in (*tables, *others) if is_plain(path)]


def _link(path: Path) -> Link:
    address = quote(os.fsencode(f"{path.parent.name}/{path.name}"))
    return Link(path.name, address, _size(path))


def _left_out(folder: UntrustedFolder, files: object) -> list[str]:
    names = [name for name in files if isinstance(name, str)] if isinstance(files, list) else []
    present = {path.name for path in folder.path.iterdir()}
    return [name for name in names if name not in present]


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1e3))} kB"


def _facts(meta: JsonObject) -> list[tuple[str, str]]:
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


def _text(meta: JsonObject, name: str) -> str:
    value = meta.get(name)
    return str(value) if isinstance(value, str | int | float) else ""


def _duration(seconds: float) -> str:
    if not 0 <= seconds < 1e9:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
