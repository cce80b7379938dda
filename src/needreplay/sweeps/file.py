"""What a sweep is: runs named by a TOML file, a shipped name, or a function of your own."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from needreplay.core.checks import AT_LEAST_ONE, COUNT, check_number, is_whole
from needreplay.core.errors import NeedReplayError, unknown
from needreplay.sweeps.kinds import imported, kind_named
from needreplay.sweeps.spec import RunSpec

_PLURALS = {"worlds": "world", "agents": "agent", "presets": "preset", "seeds": "seed"}
_TOP = ("name", "about", "runs")


@dataclass(frozen=True)
class Sweep:
    """Runs that belong together; of equal ones the first alone."""

    name: str
    about: str
    runs: tuple[RunSpec, ...]

    def __post_init__(self) -> None:
        """Keep of equal runs the first: they have one folder, so they are one run."""
        once: dict[str, RunSpec] = {}
        for spec in self.runs:
            once.setdefault(spec.name, spec)
        object.__setattr__(self, "runs", tuple(once.values()))


def shipped_sweeps() -> tuple[str, ...]:
    """The names of the sweeps that come with needreplay."""
    folder = files("needreplay") / "sweeps" / "files"
    return tuple(sorted(p.name.removesuffix(".toml") for p in folder.iterdir()))


def load_sweep(source: str | Path) -> Sweep:
    """The sweep that a file, a shipped name or ``module:function`` describes.

    A file ends in .toml. The function takes no arguments and returns ``RunSpec``s. Everything that
    can be refused is refused here, before anything runs.
    """
    text = str(source)
    if text.endswith(".toml"):
        try:
            return parsed(Path(text).read_text(encoding="utf-8"), text, Path(text).stem)
        except (OSError, UnicodeDecodeError) as error:
            raise NeedReplayError(f"The sweep {text!r} cannot be read: {error}.") from error
    if ":" in text:
        _import_from_here()
        return Sweep(text, "", _complete(_checked(imported(text)(), text), text))
    if text not in shipped_sweeps():
        raise unknown("sweep", text, [*shipped_sweeps(), "a file FILE.toml", "module:function"])
    shipped = files("needreplay") / "sweeps" / "files" / f"{text}.toml"
    return parsed(shipped.read_text(encoding="utf-8"), text, text)


def _import_from_here() -> None:
    """Find modules of the present folder, as python -m does; workers are told the same path."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def parsed(text: str, source: str, name: str = "sweep") -> Sweep:
    """The sweep that a TOML text describes; ``source`` is how refusals name it."""
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NeedReplayError(f"{source} is not TOML: {error}.") from error
    for key in said:
        if key not in _TOP:
            raise NeedReplayError(f"{source}: {unknown('entry', key, _TOP)}")
    blocks = said.get("runs")
    if not isinstance(blocks, list) or not blocks:
        raise NeedReplayError(f"{source} names no runs: it needs at least one [[runs]].")
    if not all(isinstance(block, dict) for block in blocks):
        raise NeedReplayError(f"{source}: each of its runs must be a table, [[runs]].")
    try:
        specs = [spec for block in blocks for spec in _expanded(block)]
    except NeedReplayError as error:
        raise NeedReplayError(f"{source}: {error}") from error
    return Sweep(
        str(said.get("name", name)), str(said.get("about", "")).strip(), _complete(specs, source)
    )


def _checked(found: Any, source: str) -> list[RunSpec]:
    specs = list(found) if isinstance(found, Iterable) else []
    if not specs or not all(isinstance(spec, RunSpec) for spec in specs):
        raise NeedReplayError(f"{source} must return RunSpecs, and at least one.")
    return specs


def _complete(specs: Iterable[RunSpec], source: str) -> tuple[RunSpec, ...]:
    """Every value filled in."""
    runs = []
    for spec in specs:
        try:
            if ":" in spec.kind:
                _import_from_here()
            whole = RunSpec(spec.kind, kind_named(spec.kind).complete(dict(spec.config)))
            _ = whole.name  # refuses what JSON cannot hold
            runs.append(whole)
        except (NeedReplayError, TypeError) as error:
            raise NeedReplayError(f"{source}: {error}") from error
    return tuple(runs)


def _expanded(block: Mapping[str, Any]) -> Iterator[RunSpec]:
    """Every combination of what a [[runs]] block lists: seeds last, so that they vary first."""
    rest = dict(block)
    kind = rest.pop("kind", "deep")
    if not isinstance(kind, str):
        raise NeedReplayError(f"kind is {kind!r}; it must be text.")
    variants = rest.pop("overrides", {})
    variants = variants if isinstance(variants, list) else [variants]
    if not variants or not all(isinstance(variant, dict) for variant in variants):
        raise NeedReplayError("overrides must be a table, or a list of tables.")
    per_run = rest.pop("trials_per_run", None)
    axes: dict[str, list[Any]] = {}
    for plural, single in _PLURALS.items():
        if plural not in rest:
            continue
        if single in rest:
            raise NeedReplayError(f"a [[runs]] says both {single} and {plural}.")
        listed = rest.pop(plural)
        if plural == "seeds" and is_whole(listed):
            listed = list(range(listed))
        if not isinstance(listed, list) or not listed:
            raise NeedReplayError(f"{plural} must be a list with something in it.")
        axes[single] = listed
    names = [name for name in axes if name != "seed"]
    for values in product(*(axes[name] for name in names)):
        for overrides in variants:
            for seed in axes.get("seed", [None]):
                config = {**rest, **dict(zip(names, values, strict=True))}
                if overrides:
                    config["overrides"] = overrides
                if seed is not None:
                    config["seed"] = seed
                for piece in _cut(config, per_run):
                    yield RunSpec(kind, piece)


def _cut(config: dict[str, Any], per_run: Any) -> Iterator[dict[str, Any]]:
    """Trials in runs of ``per_run``; without it, all in one run."""
    if per_run is None:
        yield config
        return
    if "trials" not in config:
        raise NeedReplayError("trials_per_run cuts trials: say trials as well.")
    trials, first = config["trials"], config.get("first_trial", 0)
    check_number("trials_per_run", per_run, int, AT_LEAST_ONE)
    check_number("trials", trials, int, AT_LEAST_ONE)
    check_number("first_trial", first, int, COUNT)
    for begin in range(first, first + trials, per_run):
        size = min(per_run, first + trials - begin)
        yield {**config, "first_trial": begin, "trials": size}
