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

from needreplay.errors import NeedReplayError, unknown
from needreplay.runs.sweep.kinds import imported, kind_named
from needreplay.runs.sweep.spec import RunSpec

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
    folder = files("needreplay") / "sweeps"
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
        # As python -m has it; worker processes are told the same path.
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return Sweep(text, "", _complete(_checked(imported(text)(), text), text))
    if text not in shipped_sweeps():
        raise unknown("sweep", text, [*shipped_sweeps(), "a file FILE.toml", "module:function"])
    shipped = files("needreplay") / "sweeps" / f"{text}.toml"
    return parsed(shipped.read_text(encoding="utf-8"), text, text)


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
    specs = [spec for block in blocks for spec in _expanded(block, source)]
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
            whole = RunSpec(spec.kind, kind_named(spec.kind).complete(dict(spec.config)))
            _ = whole.name  # refuses what JSON cannot hold
            runs.append(whole)
        except (NeedReplayError, TypeError) as error:
            raise NeedReplayError(f"{source}: {error}") from error
    return tuple(runs)


def _expanded(block: Mapping[str, Any], source: str) -> Iterator[RunSpec]:
    """Every combination of what a [[runs]] block lists: seeds last, so that they vary first."""
    rest = dict(block)
    kind = rest.pop("kind", "deep")
    variants = rest.pop("overrides", {})
    variants = variants if isinstance(variants, list) else [variants]
    chunk = rest.pop("chunk", None)
    axes: dict[str, list[Any]] = {}
    for plural, single in _PLURALS.items():
        if plural not in rest:
            continue
        if single in rest:
            raise NeedReplayError(f"{source}: a [[runs]] says both {single} and {plural}.")
        listed = rest.pop(plural)
        if plural == "seeds" and isinstance(listed, int) and not isinstance(listed, bool):
            listed = list(range(listed))
        if not isinstance(listed, list) or not listed:
            raise NeedReplayError(f"{source}: {plural} must be a list with something in it.")
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
                for piece in _chunks(config, chunk, source):
                    yield RunSpec(kind, piece)


def _chunks(config: dict[str, Any], chunk: Any, source: str) -> Iterator[dict[str, Any]]:
    """Trials in pieces of ``chunk``; without it, all in one run."""
    if chunk is None:
        yield config
        return
    trials, first = config.get("trials"), config.get("first_trial", 0)
    if not isinstance(chunk, int) or not isinstance(trials, int) or chunk < 1 or trials < 1:
        raise NeedReplayError(f"{source}: chunk and trials must be whole numbers, 1 or more.")
    for begin in range(first, first + trials, chunk):
        size = min(chunk, first + trials - begin)
        yield {**config, "first_trial": begin, "trials": size}
