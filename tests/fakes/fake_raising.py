"""A study that cannot do what it is asked."""

from __future__ import annotations

from needlab.runs.trials import TrialRunner
from needlab.studies.study import Options, Result, Study
from needreplay._core.errors import NeedReplayError


def run(options: Options, runner: TrialRunner) -> Result:
    raise NeedReplayError("The maze has no goal.")


STUDY = Study("raising", "Raises", "Can it?", ("corrected",), run, "docs/raising.md")
