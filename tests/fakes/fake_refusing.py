"""A study that cannot do what it is asked."""

from __future__ import annotations

from needreplay.errors import NeedReplayError
from needreplay.runs.progress import Progress
from needreplay.studies.base import Outcome, Request, Study


def run(request: Request, progress: Progress) -> Outcome:
    raise NeedReplayError("The maze has no goal.")


STUDY = Study("refusing", "Refuses", "Can it?", ("corrected",), run, "docs/refusing.md")
