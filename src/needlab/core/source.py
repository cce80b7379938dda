"""Which needreplay this is, to the last line: what a result depends on besides its config."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def source_digest() -> str:
    """A digest of every file of both packages as it is now on disk: code, data, templates."""
    root = Path(__file__).parent.parent.parent
    digest = hashlib.sha256()
    for path in sorted([*(root / "needreplay").rglob("*"), *(root / "needlab").rglob("*")]):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
