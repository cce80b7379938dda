"""Attacks on run folders, sweep files and arguments: a fixed part in the tests, more in make fuzz.

Each attack says what it did, and returns a line if the program failed: a traceback, an exit code
other than 0 or 2, more than one sentence, other results than those of an undamaged run, or code
that ran although nobody named it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from needlab.cli import main
from needlab.runs.sweep_file import parsed
from needreplay._core.errors import NeedReplayError

Random = np.random.Generator

SMALL = (
    "min_history=60 capacity=300 batch_size=8 features=8 iteration_steps=60 eval_steps=10 "
    "checkpoint_steps=90"
)
STEPS = 150
WORDS = ["train", "--world", "CartPole-v1", "--agent", "per-sr", "--steps", str(STEPS)]
WORDS += [word for setting in SMALL.split() for word in ("--set", setting)]
HOSTILE: list[Any] = [None, True, -1, 0, 1.5, 10**30, "", "x", "nan", [], {}, [1], {"a": 1}, "\0"]
MODULE = "attack_module"


LONGEST = 20
"""Seconds of a command: to play 10**9 episodes is no fault, but Ctrl-C must end it."""
STOPPED = 130


def called(words: Sequence[str], longest: int = LONGEST) -> tuple[int | None, str]:
    """The exit code of a command and what it said; no code: a traceback."""
    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(longest)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: int | None = main(list(words))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
    return code, err.getvalue()


def failure(words: Sequence[str]) -> str:
    """What is wrong with how a command ended; empty: nothing."""
    code, said = called(words)
    if code is None or code not in (0, 2, STOPPED):
        return f"exit code {code} of {list(words)}: {said[-300:]}"
    if code == 2 and not said.strip():
        return f"{list(words)} is refused without a word"
    return ""


# Run folders.


@cache
def runs() -> Path:
    """A complete run, and one of another seed."""
    root = Path(tempfile.mkdtemp(prefix="needreplay-attacks-"))
    for name, seed in (("complete", "0"), ("other", "1")):
        code, said = called([*WORDS, "--seed", seed, "--out", str(root / name)], longest=900)
        assert code == 0, said
    return root


def copied(place: Path, *, stopped: bool) -> Path:
    """A copy of the complete run; or as it is if the end was never recorded."""
    folder = place / "attacked"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(runs() / "complete", folder)
    if stopped:
        (folder / "done.json").unlink()
    return folder


def files(folder: Path) -> list[Path]:
    """What a run is made of."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock")


def flip(path: Path, rng: Random) -> None:
    content = bytearray(path.read_bytes() or b"x")
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)


def cut(path: Path, rng: Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(rng.integers(len(content) + 1))])


def drop_row(path: Path, rng: Random) -> None:
    lines = path.read_bytes().splitlines(keepends=True) or [b""]
    del lines[int(rng.integers(len(lines)))]
    path.write_bytes(b"".join(lines))


def noise(path: Path, rng: Random) -> None:
    path.write_bytes(rng.bytes(int(rng.integers(200))))


def delete(path: Path, _rng: Random) -> None:
    path.unlink()


def turn_into_folder(path: Path, _rng: Random) -> None:
    path.unlink()
    path.mkdir()


def turn_into_pipe(path: Path, _rng: Random) -> None:
    path.unlink()
    os.mkfifo(path)


def of_another_run(path: Path, _rng: Random) -> None:
    inside = any(part.startswith("checkpoint-") for part in path.parts)
    other = runs() / "other"
    (place,) = other.glob("checkpoint-*") if inside else [other]
    shutil.copyfile(place / path.name, path)


def hostile_value(path: Path, rng: Random) -> None:
    """Another value somewhere in a JSON file, with digests that fit again."""
    if path.suffix != ".json":
        return flip(path, rng)
    content = json.loads(path.read_text())
    place = content
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        if not keys:
            break
        key = list(keys)[int(rng.integers(len(keys)))]
        if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.7:
            place = place[key]
            continue
        place[key] = HOSTILE[int(rng.integers(len(HOSTILE)))]
        break
    path.write_text(json.dumps(content))
    digests = path.parent / "digests.json"
    if digests.exists() and path != digests:
        listed = json.loads(digests.read_text())
        listed[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        digests.write_text(json.dumps(listed))
    return None


Way = Callable[[Path, Random], None]
WAYS: list[Way] = [
    flip,
    cut,
    drop_row,
    noise,
    delete,
    turn_into_folder,
    turn_into_pipe,
    of_another_run,
    hostile_value,
]


def attack_folder(rng: Random, place: Path) -> tuple[str, str]:
    """Damage one file of a run in one way; then resume, or play, or report."""
    stopped = rng.random() < 0.6
    folder = copied(place, stopped=bool(stopped))
    chosen = files(folder)
    path = chosen[int(rng.integers(len(chosen)))]
    way = WAYS[int(rng.integers(len(WAYS)))]
    way(path, rng)
    what = f"{way.__name__} {path.relative_to(folder)}{' of a stopped run' if stopped else ''}"
    plays = rng.random() < 0.3
    if plays:
        return what, failure(["eval", str(folder), "--episodes", "1"])
    found = failure([*WORDS, "--seed", "0", "--out", str(folder)])
    crafted = way is hostile_value and path.parent != folder
    if not found and not crafted and (folder / "done.json").is_file():
        expected = (runs() / "complete" / "metrics.csv").read_bytes()
        code = called([*WORDS, "--seed", "0", "--out", str(folder)])[0]
        if code == 0 and (folder / "metrics.csv").read_bytes() != expected:
            found = "it ended with other metrics and exit code 0"
    return what, found


# Sweep files and arguments.

SWEEP = """
name = "mine"
about = "text"
[[runs]]
worlds = ["CartPole-v1", "minatar/breakout"]
agents = ["uniform", "per"]
preset = "corrected"
steps = 20_000
seeds = 3
overrides = [{ alpha = 0.6 }, { alpha = 0.8 }]
[[runs]]
kind = "tabular"
world = "dyna-maze"
agents = ["ps", "ps-sr"]
trials = 10
trials_per_run = 5
world_options = { resolution = 1 }
"""
_WORDS = [
    "'../../x'",
    "-1",
    "1e999",
    "nan",
    "''",
    "true",
    "[]",
    "{}",
    "'a:b'",
    '"\\u0000"',
    "10**9",
]
_WORDS += [f"'{MODULE}:x'", "[[]]", "[{}]", "0", "99999999999999999999", "'per'", "1979-05-27"]


def attack_sweep_file(rng: Random, _place: Path) -> tuple[str, str]:
    """Change values or characters of a sweep file, and read it."""
    text = SWEEP
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.7:
            lines = text.splitlines()
            number = int(rng.integers(len(lines)))
            key = lines[number].partition("=")[0]
            lines[number] = f"{key} = {_WORDS[int(rng.integers(len(_WORDS)))]}"
            text = "\n".join(lines)
        else:
            at = int(rng.integers(len(text)))
            text = text[:at] + chr(int(rng.integers(1, 300))) + text[at + int(rng.integers(3)) :]
    try:
        parsed(text, "mine.toml")
    except NeedReplayError as error:
        return text, "" if "mine.toml" in str(error) else f"it does not name the file: {error}"
    except Exception as error:
        return text, f"{type(error).__name__}: {error}"
    return text, ""


_VALUES = [
    "",
    ":",
    "a:",
    ":b",
    "\0",
    "-1",
    "0",
    "1e400",
    "nan",
    "inf",
    "x" * 300,
    "/proc/x",
    "..",
    "é",
]
_VALUES += [
    "meta",
    "cuda:99",
    "a=b",
    "=",
    "true",
    "9" * 30,
    "\udcff",
    "../x",
    "--",
    "-",
    "1.5",
    "é:x",
]
_VALUES += [
    f"{MODULE}:Thing-v0",
    "ALE/Pong-v5",
    "GymV26Environment-v0",
    "phys2d/CartPole-v1",
    "atari/",
]
_OPTIONS = {
    "train": ["--world", "--agent", "--preset", "--steps", "--seed", "--set", "--device", "--out"],
    "eval": ["--episodes", "--seed", "--epsilon", "--allow-code"],
    "report": ["--seed"],
    "sweep": ["--out", "--engine", "--workers", "--only", "--cpus-per-run", "--gpus-per-run"],
}
_SETTINGS = [
    "capacity",
    "batch_size",
    "features",
    "n_step",
    "alpha",
    "network",
    "sampler",
    "sticky",
]
_SETTINGS += [
    "iteration_steps",
    "learning_rate",
    "discount",
    "frame_stack",
    "episode_cap",
    "nothing",
]


def attack_arguments(rng: Random, place: Path) -> tuple[str, str]:
    """Give a command one or two hostile arguments."""
    command = list(_OPTIONS)[int(rng.integers(len(_OPTIONS)))]
    words = {
        # A short run, if nothing refuses it.
        "train": [*WORDS, "--seed", "0", "--out", str(place / "run")],
        "eval": ["eval", str(runs() / "complete")],
        "report": ["report", str(place / "nowhere")],
        "sweep": ["sweep", str(place / "none.toml"), "--dry-run"],
    }[command]
    for _ in range(int(rng.integers(1, 3))):
        option = _OPTIONS[command][int(rng.integers(len(_OPTIONS[command])))]
        value = _VALUES[int(rng.integers(len(_VALUES)))]
        if option == "--set" and rng.random() < 0.8:
            value = f"{_SETTINGS[int(rng.integers(len(_SETTINGS)))]}={value}"
        words += [option, value]
    if command != "train" and rng.random() < 0.2:
        words[1] = _VALUES[int(rng.integers(len(_VALUES)))]
    before = Path.cwd()
    os.chdir(place)
    try:
        return " ".join(words), failure(words)
    finally:
        os.chdir(before)


ATTACKS: dict[str, Callable[[Random, Path], tuple[str, str]]] = {
    "damaged run folders": attack_folder,
    "sweep files": attack_sweep_file,
    "arguments": attack_arguments,
}
