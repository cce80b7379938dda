"""A study that cannot do what it is asked."""

from __future__ import annotations

from needreplay.core.errors import NeedReplayError
from needreplay.core.progress import Progress
from needreplay.studies.base import Outcome, Request, Study


def run(request: Request, progress: Progress) -> Outcome:
    raise NeedReplayError("The maze has no goal.")


STUDY = Study("refusing", "Refuses", "Can it?", ("corrected",), run, "docs/refusing.md")
