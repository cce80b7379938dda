"""A training run that somebody watches: a bar with speed, return and time to finish."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from needreplay.core.clock import Speed, duration
from needreplay.training.config import RunConfig
from needreplay.training.run import run_training


def beginning() -> str:
    """What stands beside the bar before the first step."""
    from needreplay.core.jit import has_cached_kernels

    if has_cached_kernels("deep"):
        return "beginning"
    return "beginning; kernels are compiled as they are needed, once"


def told(steps: int, total: int, speed: float, row: dict[str, Any] | None) -> str:
    """What stands beside the bar.

    >>> told(5_000, 20_000, 250.0, {"train_return": 3.25, "eval_return": None})
    '5,000 of 20,000 steps, 250 a second, 60 s to finish, return 3.25'
    """
    words = [f"{steps:,} of {total:,} steps"]
    if speed > 0.0:
        left = duration(max(0, total - steps) / speed)
        words += [f"{speed:.3g} a second", f"{left} to finish"]
    for name, word in (("train_return", "return"), ("eval_return", "in evaluation")):
        if row is not None and row.get(name) is not None:
            words.append(f"{word} {row[name]:.4g}")
    return ", ".join(words)


class Watch:
    """What is shown of a run; nothing where standard error is no terminal."""

    def __init__(self, config: RunConfig) -> None:
        self.steps = 0
        self._config = config
        self._row: dict[str, Any] | None = None
        self._speed = Speed()
        self._show: Any = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Sampler the bar as long as the block lasts."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = BarColumn(bar_width=20), TextColumn("{task.description}", markup=False)
        with Progress(*columns, console=Console(stderr=True), redirect_stdout=False) as drawn:
            task = drawn.add_task(beginning(), total=self._config.steps)
            self._show = lambda done, said: drawn.update(task, completed=done, description=said)
            yield
            self._show = None

    def moved(self, steps: int, row: dict[str, Any] | None) -> None:
        """So many steps are done, and perhaps an iteration."""
        self.steps, self._row = steps, row or self._row
        if self._show is not None and steps > 0:
            speed = self._speed.tell(time.monotonic(), steps)
            self._show(steps, told(steps, self._config.steps, speed, self._row))

    def evaluating(self, done: int, total: int) -> None:
        """So much of an evaluation is done."""
        if self._show is not None and done % 50 == 0:
            self._show(self.steps, f"evaluating, {min(done, total):,} of {total:,} steps")


def run_watched(config: RunConfig, folder: str | Path, *, tensorboard: bool = False) -> Path:
    """``run_training`` with progress; Ctrl-C says how to go on."""
    watch = Watch(config)
    try:
        with watch.shown():
            return run_training(
                config,
                folder,
                on_steps=watch.moved,
                on_evaluation=watch.evaluating,
                tensorboard=tensorboard,
            )
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(
            f"stopped at step {watch.steps:,}; the same command goes on from the last checkpoint."
        ) from stop
