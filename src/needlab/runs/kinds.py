"""The kinds of run by name, and the kind ``deep``: training a deep agent.

A kind is a function ``run(config, folder, on_units)``: it works in ``folder``, resumes from what it
finds there, calls ``on_units`` with the amount of work done, and at the end writes ``done.json``.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from needlab.core.imports import load_object
from needlab.runs.config import RunConfig, check_learns
from needlab.runs.runner import OnUnits
from needreplay._core.errors import NeedReplayError, unknown

Config: TypeAlias = dict[str, Any]

SHIPPED = {
    "deep": "needlab.runs.kinds:DEEP",
    "tabular": "needlab.runs.tabular_runs:TABULAR",
    "linear": "needlab.runs.linear_runs:LINEAR",
}
"""The kinds of this package. ``load_sweep`` takes names for others."""


@dataclass(frozen=True)
class Kind:
    """What a sweep does with runs of one kind."""

    run: Callable[[Config, Path, OnUnits], None]
    complete: Callable[[Config], Config] = lambda config: config
    """fill in every value, and raise for what cannot run"""
    units: Callable[[Config], int] = lambda config: int(config.get("steps", 1))
    """the amount of work: steps, or trials"""
    unit: str = "steps"
    probe: Callable[[Config], Config] | None = None
    """the config of a shorter run that measures the speed of this one"""
    command: Callable[[Config, Path], str] = lambda _config, _folder: ""
    """the command of this run alone; empty: only the sweep runs it"""


def kind_named(name: str, others: Iterable[str] = ()) -> Kind:
    """A shipped kind, or any other as ``module:name``: a function, or a ``Kind``.

    ``others`` are names that an error lists, too.
    """
    if name in SHIPPED:
        kind: Kind = load_object(SHIPPED[name])
        return kind
    if ":" not in name:
        raise unknown("kind of run", name, [*SHIPPED, *others, "module:function"])
    found = load_object(name)
    return found if isinstance(found, Kind) else Kind(run=check_callable(found, name))


def check_callable(found: Any, name: str) -> Callable[..., Any]:
    """Raise for what is not a function."""
    if not callable(found):
        raise NeedReplayError(f"{name!r} is not a function.")
    function: Callable[..., Any] = found
    return function


REQUIRED: Any = object()


def filled(config: Config, defaults: Config, kind: str) -> Config:
    """``defaults`` with the values of ``config``; raise for unknown names and missing values."""
    for name in config:
        if name not in defaults:
            raise unknown(f"entry of a {kind} run", name, defaults)
    merged = {**defaults, **config}
    missing = [name for name, value in merged.items() if value is REQUIRED]
    if missing:
        raise NeedReplayError(f"A {kind} run needs {missing[0]!r}.")
    if not isinstance(merged["overrides"], dict):
        raise NeedReplayError(f"overrides is {merged['overrides']!r}; it must be a table.")
    return merged


def _run_deep(config: Config, folder: Path, on_units: OnUnits) -> None:
    from needlab.runs.run import run_training

    run_training(
        RunConfig(**config),
        folder,
        on_steps=lambda steps, _row: on_units(steps),
        on_warning=lambda text: print(f"needreplay: {text}", file=sys.stderr),
    )


def _complete_deep(config: Config) -> Config:
    defaults = {**asdict(RunConfig(world="")), "world": REQUIRED}
    found = RunConfig(**filled(config, defaults, "deep"))
    check_learns(found)
    return {**asdict(found), "overrides": dict(found.overrides)}


def _probe_deep(config: Config) -> Config:
    """A run that learns from its first steps on, with evaluation in its usual share."""
    resolved = RunConfig(**config).resolved()
    protocol, agent, iteration = resolved.protocol, resolved.agent, 500
    overrides = {
        **config["overrides"],
        "min_history": min(agent.min_history, 200),
        "capacity": min(agent.capacity, 10_000),
        "iteration_steps": iteration,
        "eval_steps": round(protocol.eval_steps / protocol.iteration_steps * iteration),
        "checkpoint_steps": 10**9,
    }
    return {**config, "overrides": overrides, "steps": min(config["steps"], 50_000), "seed": 0}


def _command_deep(config: Config, folder: Path) -> str:
    """The ``needreplay train`` of this run."""
    words = ["needreplay", "train"]
    for name in ("world", "agent", "preset", "steps", "seed", "device"):
        words += [f"--{name}", str(config[name])]
    for name, value in config["overrides"].items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words += ["--set", f"{name}={text}"]
    return shlex.join([*words, "--out", str(folder)])


DEEP = Kind(_run_deep, _complete_deep, probe=_probe_deep, command=_command_deep)
