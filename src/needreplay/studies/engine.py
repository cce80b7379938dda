"""Run studies and write what they found: one folder per figure, one page for all of them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from needreplay.core.errors import NeedReplayError, unknown
from needreplay.core.progress import Progress
from needreplay.core.tables import prepare_folder
from needreplay.report.page import write_page
from needreplay.studies import load_study, study_names
from needreplay.studies.base import Choice, Outcome, Request, Study
from needreplay.studies.folders import refuse_foreign_folder, write_study
from needreplay.studies.kept import (
    all_runs_of,
    is_kept,
    made_from,
    only_one,
    remove_runs,
    runs_folder_of,
)


class Stopped(KeyboardInterrupt):
    """Ctrl-C, with a message that says what is done and how to go on."""


def reproduce(
    names: Sequence[str],
    request: Request,
    out: str | Path,
    argv: Sequence[str],
    *,
    progress: Progress | None = None,
) -> Path:
    """Run the studies called ``names`` (none: all), write them into ``out``, say where the page is.

    Whatever can be refused is refused before anything runs. Each figure's folder is finished
    before the next study starts, and the runs of the one that Ctrl-C falls into are kept: the same
    command goes on with them. A figure that the same request made from the same source is kept;
    remove its folder to make it anew.

    Args:
        names: which studies.
        request: how to run them; ``request.presets`` empty means all that a study has.
        out: the folder for the results; other figures in it stay, and stay on the page.
        argv: the command line, for the record.
        progress: where bars are drawn; by default a terminal's standard error.
    """
    planned = plan(names, request)
    out = prepare_folder(out)
    for study, _ in planned:
        refuse_foreign_folder(out / study.name)
    progress = progress or Progress()
    done: list[str] = []
    try:
        for study, asked in planned:
            with only_one(out / study.name):
                said = _made(study, asked, out, argv, progress)
            page = write_page(out, order=study_names())
            done.append(study.name)
            print(f"{study.name}: {said} -> {out / study.name}", flush=True)
    except KeyboardInterrupt:
        rest = [study.name for study, _ in planned if study.name not in done]
        said = f"done and kept in {out}: {', '.join(done)}" if done else "no figure is done"
        if rest and all_runs_of(out / rest[0]).is_dir():
            said += f"; {rest[0]} goes on where it stopped"
        raise Stopped(
            f"stopped; {said}. Run the rest with:\n  {command_of(rest, request, out)}"
        ) from None
    print(f"The page with all figures: {page}")
    return page


def _made(study: Study, asked: Request, out: Path, argv: Sequence[str], progress: Progress) -> str:
    """Make a figure, unless it is there; a few words on it."""
    figure = out / study.name
    runs = runs_folder_of(figure, study, asked)
    said = "kept, as nothing has changed"
    if not is_kept(figure, study, asked):
        began = time.perf_counter()
        outcome = _answer(study, replace(asked, runs_folder=runs), progress)
        seconds = time.perf_counter() - began
        record = {
            "command": command_of([study.name], asked, out),
            "command_line": shlex.join(argv),
            "seconds": round(seconds, 3),
            "made_from": made_from(study, asked),
        }
        write_study(figure, study, asked, outcome, record)
        said = f"{_summary(outcome)}, {seconds:.1f} s"
    if not study.keeps_runs:
        remove_runs(figure, runs)
    return said


def plan(names: Sequence[str], request: Request) -> list[tuple[Study, Request]]:
    """Which studies run with which presets; refuses what does not exist or makes no sense.

    A study that was named must have every preset that was asked for. Where none was named, those
    that have one of the presets run.
    """
    for field, value, least in (
        ("trials", request.trials, 1),
        ("workers", request.workers, 1),
        ("seed", request.seed, 0),
        ("trial", request.trial, 0),
        ("states", min(request.states, default=None), 2),
    ):
        if value is not None and value < least:
            raise NeedReplayError(f"--{field} must be at least {least}, not {value}.")
    if not study_names():
        raise NeedReplayError("There are no figures to reproduce yet.")
    for name in names:
        if name not in study_names():
            raise unknown("figure", name, study_names())
    studies = [load_study(name) for name in dict.fromkeys(names or study_names())]
    known = dict.fromkeys(preset for study in studies for preset in study.presets)
    for preset in request.presets:
        if preset in study_names():
            raise NeedReplayError(
                f"{preset!r} is a figure, not a preset; name figures before the options."
            )
        if preset not in known:
            raise unknown("preset", preset, known)
    if names:
        _refuse_what_nobody_takes(studies, request)
    planned = []
    for study in studies:
        asked = request.presets or study.default_presets(request.size)
        presets = tuple(dict.fromkeys(name for name in asked if name in study.presets))
        lacking = [name for name in asked if name not in study.presets]
        if names and lacking:
            raise NeedReplayError(
                f"{study.name} has no preset {lacking[0]!r}; "
                f"choose from: {', '.join(study.presets)}."
            )
        if presets:
            planned.append((study, replace(request, presets=presets)))
    return planned


def _refuse_what_nobody_takes(studies: Sequence[Study], request: Request) -> None:
    """A choice that no figure among those named would follow is an error, not a silence."""
    chosen: dict[Choice, bool] = {
        "trials": request.trials is not None,
        "trial": request.trial != 0,
        "states": bool(request.states),
    }
    for choice, made in chosen.items():
        if made and not any(choice in study.takes for study in studies):
            named = " and ".join(study.name for study in studies)
            takers = [name for name in study_names() if choice in load_study(name).takes]
            raise NeedReplayError(
                f"--{choice} changes nothing in {named}; it is for: {', '.join(takers)}."
            )


def command_of(names: Sequence[str], request: Request, out: Path) -> str:
    """The command that makes these figures (the number of workers changes nothing)."""
    words = ["needreplay", "reproduce", *names]
    if request.presets:
        words += ["--preset", *request.presets]
    if request.trials is not None:
        words += ["--trials", str(request.trials)]
    if request.states:
        words += ["--states", *map(str, request.states)]
    if request.trial:
        words += ["--trial", str(request.trial)]
    words += ["--seed", str(request.seed), "--size", request.size, "--out", str(out)]
    return shlex.join(words)


def _answer(study: Study, request: Request, progress: Progress) -> Outcome:
    try:
        return study.run(request, progress)
    except NeedReplayError as error:
        raise NeedReplayError(f"{study.name}: {error}") from error


def _summary(outcome: Outcome) -> str:
    if not outcome.claims:
        return "no claim to check"
    holding = sum(claim.verdict == "holds" for claim in outcome.claims)
    return f"{holding} of {len(outcome.claims)} claims hold"
