"""Read files that may come from anybody: a folder half-written, damaged or made to deceive.

Whatever cannot be read is named in ``problems``, and the rest is used. Nothing in a folder is ever
run, and links are not followed: they could point at a private file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from needlab.core.tables import Table, read_json, read_table
from needlab.core.types import JsonObject
from needreplay._core.errors import NeedReplayError


def is_plain(path: Path) -> bool:
    """Whether ``path`` is a file and not a link."""
    return path.is_file() and not path.is_symlink()


def plain_name(path: Path) -> str:
    """A file's name as text; it may be bytes that are no text."""
    return path.name.encode(errors="backslashreplace").decode()


@dataclass
class UntrustedFolder:
    """Reads files of one folder and collects what is wrong with them."""

    path: Path
    problems: list[str] = field(default_factory=list)

    def has(self, name: str) -> bool:
        """Whether there is a plain file ``name``."""
        return is_plain(self.path / name)

    def table(self, name: str) -> Table:
        """Read a table; a missing or damaged one raises."""
        return read_table(self._existing(name))

    def json(self, name: str) -> Any:
        """Read JSON of any type; a missing or damaged file raises."""
        found = read_json(self._existing(name))
        # JSON can spell half a character (a lone surrogate), which no file can hold.
        try:
            return json.loads(json.dumps(found, ensure_ascii=False).encode(errors="replace"))
        except (ValueError, RecursionError) as error:
            raise NeedReplayError(f"{name} cannot be read: {error}.") from error

    def record(self, name: str, *, required: bool = True) -> JsonObject:
        """Read a JSON object; one that cannot be read is empty, and a problem if ``required``."""
        try:
            found = self.json(name)
            if not isinstance(found, dict):
                raise NeedReplayError(f"{name} is not a record.")
        except NeedReplayError as error:
            if required:
                self.note(error)
            return {}
        return found

    def text(self, name: str) -> str:
        """Read text; what cannot be read is empty."""
        try:
            path = self.path / name
            return path.read_text(encoding="utf-8").strip() if is_plain(path) else ""
        except (OSError, UnicodeDecodeError):
            return ""

    def note(self, error: NeedReplayError) -> None:
        """Add a problem; paths in it become names of files."""
        self.problems.append(self.short(error))

    def short(self, error: NeedReplayError) -> str:
        """The error's message with names of files in place of paths."""
        return str(error).replace(f"{self.path}/", "")

    def _existing(self, name: str) -> Path:
        if not self.has(name):
            raise NeedReplayError(f"{name} is missing: the folder is not complete.")
        return self.path / name
