"""Training with a progress bar or lines: speed, return and time to finish."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from needlab.core.clock import Speed, duration
from needlab.core.types import JsonObject
from needlab.runs.config import RunConfig
from needlab.runs.run import run_training
from needlab.runs.run_folder import newest_checkpoint, steps_of
from needlab.runs.stopping import Stopped, signum_of


def status(steps: int, total: int, speed: float, row: JsonObject | None) -> str:
    """The bar's text.

    >>> status(5_000, 20_000, 250.0, {"train_return": 3.25, "eval_return": None})
    '5,000 of 20,000 steps, 250 per second, 60 s to finish, return 3.25'
    """
    words = [f"{steps:,} of {total:,} steps"]
    if speed > 0.0:
        left = duration(max(0, total - steps) / speed)
        words += [f"{speed:.3g} per second", f"{left} to finish"]
    for name, word in (("train_return", "return"), ("eval_return", "in evaluation")):
        if row is not None and row.get(name) is not None:
            words.append(f"{word} {row[name]:.4g}")
    return ", ".join(words)


def need_doubt(row: JsonObject) -> str:
    """A sentence if need was measured and is not accurate, else nothing."""
    if row.get("need_accurate") != 0:
        return ""
    return (
        f"need is not accurate at step {row['steps']:,}: AUC {row['need_auc']:.2f}, trivial "
        f"scores {row['need_auc_baseline']:.2f}; conclude nothing about need"
    )


def run_with_bar(
    config: RunConfig,
    folder: str | Path,
    *,
    command: str = "",
    tensorboard: bool = False,
    address: str | None = None,
    gpus_per_actor: float = 0.0,
) -> Path:
    """``run_training`` with a bar where standard error is a terminal, else a line per iteration.

    A stop says from where ``command`` resumes.
    """
    done, last_row, speed = 0, None, Speed()
    show: Callable[[int, str], None] = lambda _steps, _text: None  # noqa: E731
    lines = not sys.stderr.isatty()

    def on_steps(steps: int, row: JsonObject | None) -> None:
        nonlocal done, last_row
        done, last_row = steps, row or last_row
        if steps > 0:
            now = speed.update(time.monotonic(), steps)
            text = status(steps, config.steps, now, last_row)
            show(steps, text)
            if lines and row is not None:
                say(text)
            if row is not None and (doubt := need_doubt(row)):
                say(f"needreplay: {doubt}")

    def on_evaluation(steps: int) -> None:
        if steps % 50 == 0:
            show(done, f"evaluating, {steps:,} steps")

    def run() -> Path:
        return run_training(
            config,
            folder,
            on_steps=on_steps,
            on_evaluation=on_evaluation,
            on_warning=lambda text: say(f"needreplay: {text}"),
            tensorboard=tensorboard,
            address=address,
            gpus_per_actor=gpus_per_actor,
        )

    try:
        if lines:
            return run()
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = BarColumn(bar_width=20), TextColumn("{task.description}", markup=False)
        with Progress(*columns, console=Console(stderr=True), redirect_stdout=False) as bar:
            task = bar.add_task("starting", total=config.steps)
            show = lambda steps, text: bar.update(task, completed=steps, description=text)  # noqa: E731
            return run()
    except KeyboardInterrupt as stop:
        raise Stopped(
            f"stopped; {resumption(folder)} with: {command or 'the same call'}",
            signum_of(stop),
        ) from stop


def resumption(folder: str | Path) -> str:
    """Say where a run goes on, from its newest checkpoint or from the beginning."""
    found = newest_checkpoint(Path(folder))
    return "start from the beginning" if found is None else f"resume from step {steps_of(found):,}"


def say(text: str) -> None:
    """Print a line to standard error, at once."""
    print(text, file=sys.stderr, flush=True)
