"""Run studies and write what they found: one folder per figure, one page for all of them.

A figure that the same options and the same source made is not made again. The cache of a study
that was stopped is beside its folder, and the same command resumes from it.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

from needlab.core.lock import locked
from needlab.core.source import source_digest
from needlab.core.tables import prepare_folder, read_json
from needlab.core.types import JsonObject
from needlab.report.claims import tallies
from needlab.report.figures import house_style
from needlab.report.figures_page import write_figures_page
from needlab.runs.display import Display
from needlab.runs.local import LocalEngine
from needlab.runs.runner import Engine
from needlab.runs.stopping import Stopped, signum_of, sigterm_stops
from needlab.runs.trials import TrialRunner
from needlab.studies import load_study, study_names
from needlab.studies.folder import check_own_folder, versions, write_study
from needlab.studies.study import Option, Options, Result, Study
from needreplay._core.errors import NeedReplayError, unknown

_DIGITS = 8
_CACHE_NAME = re.compile(rf"[0-9a-f]{{{_DIGITS}}}(-[0-9a-f]{{{_DIGITS}}})?")


def reproduce(
    names: Sequence[str],
    options: Options,
    out: str | Path,
    argv: Sequence[str],
    *,
    display: Display | None = None,
) -> Path:
    """Run the studies called ``names`` (none: all), write them into ``out``, return the page.

    Bad options raise before anything runs. Each figure's folder is finished before the next
    study starts; a study that Ctrl-C stops resumes from its cache with the same command.

    Args:
        names: which studies.
        options: how to run them; ``options.presets`` empty means all that a study has.
        out: the folder for the results; other figures in it stay, and stay on the page.
        argv: the command line, for the record.
        display: where progress is shown; by default on standard error.
    """
    planned = plan(names, options)
    out = prepare_folder(out)
    for study, _ in planned:
        check_own_folder(out / study.name)
    done: list[str] = []
    try:
        with sigterm_stops(), closing(LocalEngine(options.workers, reuse=True)) as engine:
            for study, own in planned:
                with only_one(out / study.name):
                    outcome = _make(study, own, out, argv, engine, display or Display())
                page = write_figures_page(out, order=study_names())
                done.append(study.name)
                print(f"{study.name}: {outcome} -> {out / study.name}", flush=True)
    except KeyboardInterrupt as stop:
        rest = [study.name for study, _ in planned if study.name not in done]
        said = f"finished in {out}: {', '.join(done)}" if done else "no figure is finished"
        if rest and _has_work(cache_root(out / rest[0])):
            said += f"; {rest[0]} resumes from its cache"
        raise Stopped(
            f"stopped; {said}. Run the rest with:\n  {command_of(rest, options, out)}",
            signum_of(stop),
        ) from None
    print(f"The page with all figures: {page}")
    return page


def _has_work(cache: Path) -> bool:
    """Whether there is anything to resume from; what is hidden is not used again."""
    names = (path.relative_to(cache).parts for path in cache.rglob("*") if path.is_file())
    return any(not any(name.startswith(".") for name in parts) for parts in names)


def _make(
    study: Study,
    options: Options,
    out: Path,
    argv: Sequence[str],
    engine: Engine,
    display: Display,
) -> str:
    """Make a figure, unless it is up to date; return a few words about it."""
    figure = out / study.name
    cached = cache_folder(figure, study, options)
    if is_up_to_date(figure, study, options):
        said = "up to date"
    else:
        began = time.perf_counter()
        facts = made_from(study, options)
        try:
            with house_style():
                result = study.run(options, TrialRunner(engine, cached, display))
        except NeedReplayError as error:
            raise NeedReplayError(f"{study.name}: {error}") from error
        if source_digest.__wrapped__() != source_digest():
            raise NeedReplayError(
                f"needreplay's own files changed while {study.name} ran, so its trials may be of "
                "two versions; give the same command again."
            )
        seconds = time.perf_counter() - began
        record = {
            "command": command_of([study.name], options, out),
            "command_line": shlex.join(argv),
            "seconds": round(seconds, 3),
            "made_from": facts,
        }
        write_study(figure, study, options, result, record)
        said = f"{_summary(result)}, {seconds:.1f} s"
    if not study.keeps_cache:
        remove_cache(figure, cached)
    return said


def _summary(result: Result) -> str:
    found = {preset: ", ".join(said.values()) for preset, said in tallies(result.claims).items()}
    if len(found) < 2:
        return "claims: " + "".join(found.values()) if found else "no claim to check"
    return "claims: " + "; ".join(f"{preset}: {said}" for preset, said in found.items())


def plan(names: Sequence[str], options: Options) -> list[tuple[Study, Options]]:
    """Which studies run with which presets; raises for what does not exist or makes no sense.

    A study that was named must have every preset that was chosen. If none was named, those that
    have one of the presets run.
    """
    for field, value, least in (
        ("trials", options.trials, 1),
        ("workers", options.workers, 1),
        ("seed", options.seed, 0),
        ("trial", options.trial, 0),
        ("states", min(options.states, default=None), 2),
    ):
        if value is not None and value < least:
            raise NeedReplayError(f"--{field} must be at least {least}, not {value}.")
    for name in names:
        if name not in study_names():
            raise unknown("figure", name, study_names())
    studies = [load_study(name) for name in dict.fromkeys(names or study_names())]
    known = dict.fromkeys(preset for study in studies for preset in study.presets)
    for preset in options.presets:
        if preset in study_names():
            raise NeedReplayError(
                f"{preset!r} is a figure, not a preset; name figures before the options."
            )
        if preset not in known:
            raise unknown("preset", preset, known)
    if names:
        _check_used(studies, options)
    planned = []
    for study in studies:
        chosen = options.presets or study.default_presets(options.size)
        missing = [name for name in chosen if name not in study.presets]
        if names and missing:
            raise NeedReplayError(
                f"{study.name} has no preset {missing[0]!r}; "
                f"choose from: {', '.join(study.presets)}."
            )
        presets = tuple(dict.fromkeys(name for name in chosen if name in study.presets))
        if presets:
            planned.append((study, replace(options, presets=presets)))
    return planned


def _check_used(studies: Sequence[Study], options: Options) -> None:
    """Raise for an option that no named figure uses."""
    given: dict[Option, bool] = {
        "trials": options.trials is not None,
        "trial": options.trial != 0,
        "states": bool(options.states),
        "world": bool(options.world),
    }
    for option, is_given in given.items():
        if is_given and not any(option in study.takes for study in studies):
            named = " and ".join(study.name for study in studies)
            takers = [name for name in study_names() if option in load_study(name).takes]
            raise NeedReplayError(
                f"--{option} changes nothing in {named}; it is for: {', '.join(takers)}."
            )


def command_of(names: Sequence[str], options: Options, out: Path) -> str:
    """The command that makes these figures (the number of workers changes nothing)."""
    words = ["needreplay", "reproduce", *names]
    for option, values in (
        ("--preset", options.presets),
        ("--trials", () if options.trials is None else (options.trials,)),
        ("--states", options.states),
        ("--world", (options.world,) if options.world else ()),
        ("--trial", (options.trial,) if options.trial else ()),
        ("--seed", (options.seed,)),
        ("--size", (options.size,)),
        ("--out", (out,)),
    ):
        words += [option, *map(str, values)] if values else []
    return shlex.join(words)


def made_from(study: Study, options: Options) -> JsonObject:
    """What a figure's numbers follow from: options (except workers), source, library versions."""
    own = inspect.getsourcefile(study.run)
    source = hashlib.sha256(source_digest().encode())
    source.update(Path(own).read_bytes() if own else b"")
    source.update(json.dumps(versions()).encode())
    plain: JsonObject = json.loads(json.dumps(asdict(replace(options, workers=0))))
    if options.world and Path(options.world).is_file():
        plain["world"] = Path(options.world).read_text(encoding="utf-8", errors="replace")
    return {"options": plain, "source": source.hexdigest()}


def is_up_to_date(folder: Path, study: Study, options: Options) -> bool:
    """Whether ``folder`` is complete and made from the same; a damaged record means no."""
    try:
        meta = read_json(folder / "meta.json")
        files = [str(name) for name in meta["files"]]
        return bool(
            meta["made_from"] == made_from(study, options)
            and "data.csv" in files
            and all((folder / name).is_file() for name in files)
        )
    except (NeedReplayError, KeyError, TypeError):
        return False


def cache_root(figure: Path) -> Path:
    """The folder beside a figure's own that holds its caches, of every source and options."""
    return figure.with_name(f"{figure.name}-cache")


def cache_folder(figure: Path, study: Study, options: Options) -> Path:
    """The cache of one source and, unless the study keeps its cache, of one set of options."""
    facts = made_from(study, options)
    name = str(facts["source"])[:_DIGITS]
    if not study.keeps_cache:
        chosen = json.dumps(facts["options"], sort_keys=True)
        name += "-" + hashlib.sha256(chosen.encode()).hexdigest()[:_DIGITS]
    return cache_root(figure) / name


def remove_cache(figure: Path, cached: Path) -> None:
    """Remove a finished figure's cache, and those of other sources.

    Caches of other options stay: they may belong to a longer run that was stopped.
    """
    source = cached.name.partition("-")[0]
    for folder in cache_root(figure).glob("*"):
        if _CACHE_NAME.fullmatch(folder.name) and (
            folder == cached or not folder.name.startswith(source)
        ):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def only_one(figure: Path) -> Iterator[None]:
    """Hold the figure's lock: one process at a time makes a figure in a folder."""
    folder = prepare_folder(cache_root(figure))
    busy = (
        f"Another process ({{holder}}) is making {figure.name} in {str(figure.parent)!r}; wait for "
        "it, or choose another --out."
    )
    lock = folder / ".lock"
    with locked(lock, busy):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            for empty in (*folder.iterdir(), folder):
                with suppress(OSError):
                    empty.rmdir()
