"""What a sweep is: runs described by a TOML file, a shipped name, or the user's own function."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import islice, product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from needlab.core.imports import call_object, check_code, load_object
from needlab.core.types import JsonObject
from needlab.runs.kinds import SHIPPED, check_callable, kind_named
from needreplay._core.checks import AT_LEAST_ONE, COUNT, check_number, is_whole
from needreplay._core.errors import NeedReplayError, unknown

_PLURALS = {"worlds": "world", "agents": "agent", "presets": "preset", "seeds": "seed"}
_NOT_SPEED = ("seed", "steps", "first_trial", "trials")
_TOP = ("name", "about", "runs")
MAX_RUNS = 100_000
NO_KINDS: Mapping[str, str] = MappingProxyType({})
_PLAIN_NAME = re.compile(r"\w[\w .,+=@()-]{0,99}")


@dataclass(frozen=True)
class RunSpec:
    """One run: everything that its result depends on.

    >>> RunSpec("tabular", {"agent": "ps", "seed": 0}).name == RunSpec(
    ...     "tabular", {"seed": 0, "agent": "ps"}
    ... ).name
    True
    """

    kind: str
    """deep, tabular, or any other as ``module:name``"""
    config: JsonObject
    """plain values: what JSON can hold"""

    @cached_property
    def plain(self) -> JsonObject:
        """The content of the run's ``config.json``."""
        if "kind" in self.config:
            raise NeedReplayError("A run's config must not have an entry 'kind'; use RunSpec.kind.")
        return {"kind": self.kind, **self.config}

    @cached_property
    def name(self) -> str:
        """The name of the run's folder: a hash of its kind and config."""
        try:
            text = json.dumps(self.plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise NeedReplayError(
                f"The config of a {self.kind} run cannot be written as JSON: {error}."
            ) from error
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def units(self) -> int:
        """The amount of work: steps, or trials."""
        return kind_named(self.kind).units(dict(self.config))

    @property
    def like(self) -> str:
        """Equal for runs that should be equally fast (games of one family, all seeds)."""
        config = {name: value for name, value in self.plain.items() if name not in _NOT_SPEED}
        family, slash, _ = str(config.get("world", "")).partition("/")
        world = family if slash else config.get("world")
        return json.dumps({**config, "world": world}, sort_keys=True)

    @property
    def label(self) -> str:
        """A few words for people."""
        config = self.config
        words = [str(config[key]) for key in ("world", "agent", "preset") if key in config]
        for entry in ("world_options", "overrides"):
            words += [f"{name}={value}" for name, value in dict(config.get(entry) or {}).items()]
        words += [f"{key} {config[key]}" for key in ("seed", "first_trial") if key in config]
        return " ".join(words) or self.kind


@dataclass(frozen=True)
class Sweep:
    """Runs that belong together; equal runs share a folder, so they are one run."""

    name: str
    about: str
    runs: tuple[RunSpec, ...]

    def __post_init__(self) -> None:
        """Drop runs that occur again."""
        once = {spec.name: spec for spec in reversed(self.runs)}
        ordered = dict.fromkeys(spec.name for spec in self.runs)
        object.__setattr__(self, "runs", tuple(once[name] for name in ordered))


def shipped_sweeps() -> tuple[str, ...]:
    """The names of the sweeps that come with needreplay."""
    folder = files("needlab") / "runs" / "sweeps"
    return tuple(sorted(path.name.removesuffix(".toml") for path in folder.iterdir()))


def load_sweep(
    source: str | Path, *, allow_code: Collection[str] = (), kinds: Mapping[str, str] = NO_KINDS
) -> Sweep:
    """Load a sweep from a file, a shipped name or ``module:function``.

    A file ends in .toml. The function takes no arguments and returns ``RunSpec`` objects. Whatever
    can be found wrong raises here, before anything runs or is imported.

    Args:
        source: what to load.
        allow_code: modules that a file may use, in worlds, agents, settings and kinds.
        kinds: more kinds that runs may name, each ``module:name``. ``paper-cliffwalk`` needs those
            of the studies: ``needlab.studies.SWEEP_KINDS``.
    """
    text = str(source)
    if text.endswith(".toml"):
        try:
            content = Path(text).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise NeedReplayError(f"The sweep {text!r} cannot be read: {error}.") from error
        return parsed(content, text, Path(text).stem, allow_code=allow_code, kinds=kinds)
    if ":" in text:
        check_callable(load_object(text), text)
        specs = call_object(text)
        specs = list(specs) if isinstance(specs, Iterable) else []
        if not specs or not all(isinstance(spec, RunSpec) for spec in specs):
            raise NeedReplayError(f"{text} must return RunSpec objects, at least one.")
        return Sweep(text, "", _complete(specs, text, kinds))
    if text not in shipped_sweeps():
        raise unknown("sweep", text, [*shipped_sweeps(), "a file FILE.toml", "module:function"])
    shipped = files("needlab") / "runs" / "sweeps" / f"{text}.toml"
    return parsed(shipped.read_text(encoding="utf-8"), f"{text}.toml", text, kinds=kinds)


def parsed(
    text: str,
    source: str,
    name: str = "sweep",
    *,
    allow_code: Collection[str] = (),
    kinds: Mapping[str, str] = NO_KINDS,
) -> Sweep:
    """The sweep of a TOML text; errors call it ``source``."""
    try:
        entries = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise NeedReplayError(f"{source} is not TOML: {error}.") from error
    for key in entries:
        if key not in _TOP:
            raise NeedReplayError(f"{source}: {unknown('entry', key, _TOP)}")
    blocks = entries.get("runs")
    if not isinstance(blocks, list) or not blocks:
        raise NeedReplayError(f"{source} has no runs: it needs at least one [[runs]].")
    if not all(isinstance(block, dict) for block in blocks):
        raise NeedReplayError(f"{source}: each entry of runs must be a table, [[runs]].")
    try:
        specs = list(islice((s for block in blocks for s in _expanded(block)), MAX_RUNS + 1))
        if len(specs) > MAX_RUNS:
            raise NeedReplayError(f"a sweep has at most {MAX_RUNS:,} runs.")
    except NeedReplayError as error:
        raise NeedReplayError(f"{source}: {error}") from error
    for spec in specs:
        # What one's own kind does with its config is up to it.
        is_ours = spec.kind in SHIPPED or spec.kind in kinds
        check_code(spec.plain if is_ours else spec.kind, allow_code, source)
    name = entries.get("name", name)
    if not isinstance(name, str) or not _PLAIN_NAME.fullmatch(name):
        raise NeedReplayError(
            f"{source}: name is {name!r}; it must be a plain file name: letters, digits, spaces, "
            "'.', '_', '+' and '-', with a letter or digit first."
        )
    about = str(entries.get("about", "")).strip()
    return Sweep(name, about, _complete(specs, source, kinds))


def _complete(
    specs: Iterable[RunSpec], source: str, kinds: Mapping[str, str]
) -> tuple[RunSpec, ...]:
    """Fill in every value; a name of ``kinds`` becomes what it stands for, for every process."""
    runs = []
    for spec in specs:
        try:
            kind = kinds.get(spec.kind, spec.kind)
            run = RunSpec(kind, kind_named(kind, kinds).complete(dict(spec.config)))
            _ = run.name  # raises for what JSON cannot hold
            runs.append(run)
        except (NeedReplayError, TypeError) as error:
            raise NeedReplayError(f"{source}: {error}") from error
    return tuple(runs)


def _expanded(block: JsonObject) -> Iterator[RunSpec]:
    """Every combination of a [[runs]] block's lists; seeds vary first."""
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
            raise NeedReplayError(f"a [[runs]] has both {single} and {plural}; use one of them.")
        listed = rest.pop(plural)
        if plural == "seeds" and is_whole(listed):
            check_number("seeds", listed, int, (1, MAX_RUNS))
            listed = list(range(listed))
        if not isinstance(listed, list) or not listed:
            raise NeedReplayError(f"{plural} must be a list with at least one entry.")
        axes[single] = listed
    seeds = axes.pop("seed", [None])
    for *values, overrides, seed in product(*axes.values(), variants, seeds):
        config = {**rest, **dict(zip(axes, values, strict=True))}
        if overrides:
            config["overrides"] = overrides
        if seed is not None:
            config["seed"] = seed
        for piece in _split(config, per_run):
            yield RunSpec(kind, piece)


def _split(config: JsonObject, per_run: Any) -> Iterator[JsonObject]:
    """Runs of ``per_run`` trials each; without it, one run."""
    if per_run is None:
        yield config
        return
    if "trials" not in config:
        raise NeedReplayError("trials_per_run needs trials as well.")
    trials, first = config["trials"], config.get("first_trial", 0)
    check_number("trials_per_run", per_run, int, AT_LEAST_ONE)
    check_number("trials", trials, int, AT_LEAST_ONE)
    check_number("first_trial", first, int, COUNT)
    for start in range(first, first + trials, per_run):
        size = min(per_run, first + trials - start)
        yield {**config, "first_trial": start, "trials": size}
