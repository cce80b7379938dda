"""``needreplay sweep``: many runs, on all cores or on a Ray cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg

from needlab.cli.arguments import AllowCode, check_least, folder_named
from needlab.core.processes import usable_cores
from needlab.core.types import JsonObject
from needlab.studies import SWEEP_KINDS
from needreplay._core.errors import NeedReplayError, counted

if TYPE_CHECKING:
    from needlab.runs import RunState
    from needlab.runs import Sweep as SweepOfRuns
    from needlab.runs.runner import Engine

FAILED = 1


@dataclass(frozen=True)
class Sweep:
    """Run many runs. After any stop, the same command resumes and repeats nothing.

    For example
      needreplay sweep paper-maze --out sweeps/maze
      needreplay sweep minatar-small --dry-run
      needreplay sweep mine.toml --workers 8 --out sweeps/mine
      needreplay sweep mine.toml --engine ray --address auto --out /shared/mine

    Sweeps that come with needreplay: paper-maze, paper-cliffwalk, minatar-small, minatar-full,
    paper-atari, ablation-need. Then: needreplay report DIR. Exit code 1: some runs failed.

    A file of your own, mine.toml (docs/sweeps.md has all of it):
      [[runs]]                                    # every combination of the lists is a run
      worlds = ["minatar/breakout", "my_module:MyEnv-v0"]   # or: world = "CartPole-v1"
      agents = ["uniform", "per"]                 # or: agent = "my_module:MyAgent"
      preset = "default"                          # or: presets = [...]
      steps = 200_000
      seeds = 3                                   # 0, 1, 2; or a list
      overrides = [{ alpha = 0.6 }, { alpha = 0.8 }]   # settings, as in train --set
    A [[runs]] may name its kind: deep (the default), tabular, cliffwalk, or module:function. A file
    that names a module of yours needs --allow-code MODULE: only you decide what code runs.
    """

    sweep: Annotated[Positional[str], arg(metavar="FILE|NAME")]
    """A TOML file, one of the names above, or module:function (docs/sweeps.md)."""
    out: Annotated[str | None, arg(metavar="DIR", help_behavior_hint="(default: sweeps/NAME)")] = (
        None
    )
    """Folder of the sweep; each run has its own in DIR/runs."""
    engine: Literal["local", "ray"] = "local"
    """Processes on this machine, or tasks on a Ray cluster. Results do not depend on it."""
    address: Annotated[
        str | None, arg(metavar="HOST:PORT", help_behavior_hint="(default: start one here)")
    ] = None
    """The Ray cluster to join; auto: the one that this machine belongs to."""
    workers: Annotated[
        int | None,
        arg(metavar="N", help_behavior_hint="(default: all cores; on a cluster, all that fit)"),
    ] = None
    """Runs at once. Results do not depend on it."""
    cpus_per_run: Annotated[float, arg(metavar="X")] = 1
    """CPUs that a run reserves on a Ray cluster."""
    gpus_per_run: Annotated[float, arg(metavar="X")] = 0
    """GPUs that a run reserves on a Ray cluster; 0.25: four runs share one."""
    bring_back: bool = False
    """Let every Ray task send its finished folder back, even if --out is shared."""
    only: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="RUN")] = ()
    """Only this run (its name, or the start of it); repeat it for more."""
    dry_run: bool = False
    """List the runs and estimate their time from a measured speed; run nothing."""
    allow_code: AllowCode = ()
    """Let the file use this module (in world, agent, sampler, network, kind); repeat for more."""

    def run(self, argv: Sequence[str]) -> int:
        """Run the command."""
        from needlab.runs import load_sweep

        self._check_options()
        given = None if self.out is None else folder_named("--out", self.out)
        sweep = load_sweep(self.sweep, allow_code=self.allow_code, kinds=SWEEP_KINDS)
        chosen = self._chosen(sweep)
        out = given or Path("sweeps") / sweep.name.replace(":", "-")
        if self.dry_run:
            _dry_run(chosen, out, self.workers or usable_cores(), self.engine)
            return 0
        return self._run(sweep, chosen, out, argv)

    def _check_options(self) -> None:
        if self.workers is not None:
            check_least(1, workers=self.workers)
        for name in ("cpus_per_run", "gpus_per_run"):
            if getattr(self, name) < 0:
                raise NeedReplayError(f"--{name.replace('_', '-')} must not be negative.")
        if self.engine == "local" and (self.address or self.gpus_per_run or self.bring_back):
            raise NeedReplayError(
                "--address, --gpus-per-run and --bring-back are for --engine ray."
            )

    def _chosen(self, sweep: SweepOfRuns) -> SweepOfRuns:
        if not self.only:
            return sweep
        from dataclasses import replace

        runs = tuple(spec for spec in sweep.runs if spec.name.startswith(self.only))
        if not runs:
            raise NeedReplayError(f"{sweep.name} has no run {self.only[0]!r}; see --dry-run.")
        return replace(sweep, runs=runs)

    def _run(self, sweep: SweepOfRuns, chosen: SweepOfRuns, out: Path, argv: Sequence[str]) -> int:
        from needlab.runs import run_sweep
        from needlab.runs.display import Display

        words = _without_only(argv) + ([] if self.out else ["--out", str(out)])
        only = {spec.name for spec in chosen.runs} if self.only else ()
        slots = self.workers or (usable_cores() if self.engine == "local" else None)
        with Display().showing(sweep.name, slots) as watch:
            result = run_sweep(sweep, out, self._engine, argv=words, only=only, watch=watch)
        _report(result, sweep, out)
        return FAILED if result.failures else 0

    def _engine(self, folder: Path) -> Engine:
        if self.engine == "local":
            from needlab.runs.local import LocalEngine

            return LocalEngine(self.workers or usable_cores())
        from needlab.runs.cluster import RayEngine

        return RayEngine(
            folder,
            address=self.address,
            workers=self.workers,
            cpus_per_run=self.cpus_per_run,
            gpus_per_run=self.gpus_per_run,
            bring_back=self.bring_back,
        )


def _without_only(argv: Sequence[str]) -> list[str]:
    """The command of the whole sweep."""
    words = iter(argv)
    kept = []
    for word in words:
        if word == "--only":
            next(words, None)
        elif not word.startswith("--only="):
            kept.append(word)
    return kept


def _report(result: RunState, sweep: SweepOfRuns, out: Path) -> None:
    """Print failures with their last lines to standard error, the totals to standard output."""
    from needlab.core.machine import cpu_types
    from needlab.runs.runner import LAST_LINES

    for failure in result.failures:
        tries = "" if failure.attempts == 1 else f" after {failure.attempts} attempts"
        print(f"failed{tries}: {failure.item.name} {failure.item.label}", file=sys.stderr)
        for line in failure.lines[-LAST_LINES:]:
            print(f"    {line}", file=sys.stderr)
    if len(types := cpu_types(_machines(out, sweep))) > 1:
        print(
            f"The runs were made on {len(types)} types of CPU ({'; '.join(types)}): they are equal "
            "within rounding at each update, not bit for bit.",
            file=sys.stderr,
        )
    print(
        f"{sweep.name}: {counted(len(result.done), 'run')} done, "
        f"{len(result.kept)} done before, {len(result.failures)} failed -> {out}\n"
        f"The page: needreplay report {out}"
    )


def _machines(out: Path, sweep: SweepOfRuns) -> list[JsonObject]:
    """The machines that runs of a sweep worked on."""
    from needlab.core.machine import machines_of

    found: list[JsonObject] = []
    for spec in sweep.runs:
        with suppress(NeedReplayError):
            found += machines_of(out / "runs" / spec.name)
    return found


def _dry_run(sweep: SweepOfRuns, out: Path, workers: int, engine: str) -> None:
    from needlab.core.clock import duration
    from needlab.runs.kinds import kind_named
    from needlab.runs.runner import read_progress
    from needlab.runs.speed import STARTING, estimate, probe, speeds_of
    from needlab.runs.sweep_run import item_of

    items = {item_of(spec, out): spec for spec in sweep.runs}
    for item, spec in items.items():
        size = f"{item.units:,} {kind_named(spec.kind).unit}"
        done = " (done)" if item.is_complete else ""
        print(f"{item.name}  {item.label}  {size}{done}", flush=True)
    worked = {item.name: read_progress(item.progress) for item in items}
    speeds: dict[str, float | None] = dict(speeds_of(items, worked))
    left = {item: spec for item, spec in items.items() if not item.is_complete}
    measured = set()
    for item, spec in left.items():
        if item.like not in speeds:
            print(f"measuring the speed of {item.label} ...", file=sys.stderr)
            speeds[item.like] = probe(spec)
            measured.add(item.like)
    known = {like: speed for like, speed in speeds.items() if speed is not None}
    found = estimate(left, worked, known, starting=STARTING)
    print(f"{counted(len(items), 'run')}, {len(items) - len(left)} of them done.")
    if found.seconds:
        source = "short runs made now" if measured & known.keys() else f"the runs in {out}"
        print(
            f"About {duration(found.wall(workers))} on this machine with {workers} at once "
            f"(speed from {source})."
        )
        if engine == "ray":
            print("The speed of a Ray cluster's nodes, and how many runs fit on it, are not known.")
    if found.unknown:
        print(f"The speed of {counted(len(found.unknown), 'run')} is not known.")
