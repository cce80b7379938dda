"""Named random streams: every random number of a run follows from one seed."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The generator that belongs to ``names`` under ``seed``.

    The same seed and names always give the same numbers; different names give independent streams,
    whatever order, process or worker asks for them.
    """
    label = "/".join(_spelled(name) for name in names)
    digest = hashlib.sha256(label.encode()).digest()
    words = np.frombuffer(digest, dtype="<u4")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *words.tolist()])))


def _spelled(name: str | int) -> str:
    """One name, so that no two lists of names are spelled alike."""
    return "str:" + name.replace("/", "//") if isinstance(name, str) else f"int:{int(name)}"
