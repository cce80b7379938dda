"""Command lines of every command, with hostile values of every option that the parser knows."""

from __future__ import annotations

import os
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import run_attacks as runs
import table_attacks as tables
from served import Served, serve

from needlab.cli.diagnose import Diagnose
from needlab.cli.eval import Eval
from needlab.cli.fit import FitCommand
from needlab.cli.report import Report
from needlab.cli.reproduce import Reproduce
from needlab.cli.sweep import Sweep
from needlab.cli.train import Train
from needlab.cli.watch import Gallery, Watch
from needreplay._core import cluster
from needreplay._core.errors import NeedReplayError

COMMANDS: dict[str, Any] = {
    "train": Train,
    "eval": Eval,
    "diagnose": Diagnose,
    "sweep": Sweep,
    "report": Report,
    "reproduce": Reproduce,
    "watch": Watch,
    "gallery": Gallery,
    "fit": FitCommand,
}
SWEEP = """
[[runs]]
kind = "tabular"
world = "dyna-maze"
agent = "ps"
trials = 1
trials_per_run = 1
episodes = 1
"""


def no_cluster(*_: Any) -> None:
    """Instead of starting Ray, which takes seconds; ``cluster_attacks`` has one."""
    raise NeedReplayError("There is no cluster in these attacks.")


cluster.connect = no_cluster  # type: ignore[assignment]


@cache
def options_of(command: str) -> tuple[tuple[str, int | str | None], ...]:
    """Every option of a command, as its parser has it, and how many values it takes."""
    import tyro

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parser = tyro.extras.get_parser(COMMANDS[command])
    return tuple(
        (name, action.nargs)
        for action in parser._actions
        for name in action.option_strings
        if name not in ("-h", "--help")
    )


def usual(command: str, place: Path) -> list[str]:
    """A short command line that works."""
    (place / "mine.toml").write_text(SWEEP)
    (place / "maze.txt").write_text(tables.MAZE)
    for name, text in zip(("events.csv", "steps.csv"), tables._data(), strict=True):
        (place / name).write_text(text)
    run = str(runs.runs() / "complete")
    return {
        "train": [*runs.WORDS, "--out", "run"],
        "eval": ["eval", run, "--episodes", "1"],
        "diagnose": ["diagnose", run, "--updates", "8", "--queries", "1"],
        "sweep": ["sweep", "mine.toml", "--dry-run"],
        "report": ["report", "nowhere"],
        "reproduce": ["reproduce", "fig2", "--trials", "1", "--workers", "1", "--out", "figures"],
        "watch": ["watch", "ps", "--episodes", "1"],
        "gallery": ["gallery"],
        "fit": ["fit", "events.csv", "--steps", "steps.csv", "--world", "maze.txt", "--model",
                "recency,lapse=0.01", "--intervals", "none"],
    }[command]  # fmt: skip


WORDS = [
    *runs._VALUES, "ray", "full", "printed", "evb,need_exponent=nan", "ps:printed", "evb:text,",
    "evb,backups=-1", "fig2", "mine.toml", "maze.txt", "events.csv", "1e18", "18446744073709551616",
    "0.5", "2", "bootstrap", "json:loads", ".", "x.html/y", "\u202ex", "<script>",
    "'", "$(id)", "%s", "{0}", "-x", "--out", "\n", "\t", "con", "a" * 256,
]  # fmt: skip
NEEDS_WORKERS = ("--actors", "--workers")


def attack(rng: np.random.Generator, place: Path) -> tuple[str, str]:
    """One to three hostile values in a command line, or as a position, or a word left out."""
    here = place / "here"
    here.mkdir(exist_ok=True)
    command = list(COMMANDS)[int(rng.integers(len(COMMANDS)))]
    words = usual(command, here)
    options = options_of(command)
    for _ in range(int(rng.integers(1, 4))):
        how, value = rng.random(), WORDS[int(rng.integers(len(WORDS)))]
        if how < 0.8 and options:
            option, takes = options[int(rng.integers(len(options)))]
            if option in NEEDS_WORKERS and value in ("2", "9" * 30, "18446744073709551616"):
                continue  # that many processes are what was asked for
            if option == "--set" and rng.random() < 0.8:
                value = f"{runs._SETTINGS[int(rng.integers(len(runs._SETTINGS)))]}={value}"
            words += [option] if takes == 0 else [option, value]
        elif how < 0.9 and len(words) > 1:
            words[int(rng.integers(1, len(words)))] = value
        else:
            words.insert(int(rng.integers(1, len(words) + 1)), value)
    before = Path.cwd()
    os.chdir(here)
    try:
        return " ".join(map(repr, words)), runs.failure(words)
    finally:
        os.chdir(before)


ATTACKS = {"command lines": Served(__file__, "commands", patience=120.0)}

if __name__ == "__main__":
    runs.runs()
    serve({"commands": attack})
