"""A study that cannot do what it is asked."""

from __future__ import annotations

from needreplay.core.errors import NeedReplayError
from needreplay.studies.study import Options, Result, Study
from needreplay.studies.trials import TrialRunner


def run(options: Options, runner: TrialRunner) -> Result:
    raise NeedReplayError("The maze has no goal.")


STUDY = Study("refusing", "Refuses", "Can it?", ("corrected",), run, "docs/refusing.md")
