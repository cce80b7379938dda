"""The command line in its own process: exit codes, what goes where, and Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from needlab.cli import main
from needlab.cli.command import COMMANDS
from needreplay import __version__


def run(fakes: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(fakes / "fake_cli.py"), *words],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
    )


def test_a_figure_from_the_command_line(fakes_folder: Path, tmp_path: Path) -> None:
    words = ["reproduce", "curve", "--trials", "2", "--preset", "printed", "--preset", "released"]
    done = run(fakes_folder, *words, cwd=tmp_path)
    assert done.returncode == 0
    # No bar if nobody watches, but a line for each step.
    assert re.fullmatch(r"curve: trials finished, \d+\.\d s\n", done.stderr)
    assert done.stdout.splitlines()[-1] == "The page with all figures: reproduction/report.html"
    assert (tmp_path / "reproduction" / "curve" / "figure.svg").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("reproduce fig9", "There is no figure 'fig9'; choose from: curve, hanging, raising."),
        ("reproduce curve --preset x y", "There is no preset 'x'; choose from: printed, released."),
        ("reproduce --preset printed curve", "'curve' is a figure, not a preset"),
        ("reproduce --trials 0", "--trials must be at least 1, not 0."),
        ("reproduce --workers 0", "--workers must be at least 1, not 0."),
        ("reproduce curve --out /proc/x", "The folder '/proc/x' cannot be written"),
        ("reproduce raising", "raising: The maze has no goal."),
    ],
)
@pytest.mark.usefixtures("fake_studies")
def test_a_refusal_is_one_sentence_and_exit_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"needreplay: {said}")
    assert err.count("\n") == 1


def test_a_refusal_is_the_exit_code_of_the_process(fakes_folder: Path, tmp_path: Path) -> None:
    done = run(fakes_folder, "reproduce", "fig9", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", ["reproduce --trials x", "fig2", "reproduce --size tiny"])
def test_what_cannot_be_parsed_is_exit_code_2(fakes_folder: Path, words: str) -> None:
    done = run(fakes_folder, *words.split())
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_help_teaches(fakes_folder: Path) -> None:
    done = run(fakes_folder, "--help")
    assert done.returncode == 0
    assert run(fakes_folder).stdout == run(fakes_folder, "-h").stdout == done.stdout
    assert len(done.stdout.splitlines()) <= 24, "it fits on one screen"
    assert max(map(len, done.stdout.splitlines())) <= 80
    done = run(fakes_folder, "reproduce", "--help")
    for said in ("For example", "--preset", "curve: exponentials", "the same seed"):
        assert said in done.stdout


def test_help_lists_every_command(fakes_folder: Path) -> None:
    done = run(fakes_folder, "trian")
    assert done.returncode == 2
    assert done.stderr.endswith("Did you mean 'train'?\n")
    known = done.stderr.split("choose from: ")[1].split(".")[0].split(", ")
    assert known == [name for commands in COMMANDS.values() for name in commands]


def test_version_and_python_m() -> None:
    for command in (["-m", "needlab", "--version"], ["-m", "needlab", "reproduce", "x"]):
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
        if "--version" in command:
            assert (done.returncode, done.stdout) == (0, f"needreplay {__version__}\n")
        else:
            assert done.returncode == 2
            assert "There " in done.stderr


def test_ctrl_c_in_the_making_of_a_class(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupting:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    def importing(words: list[str]) -> int:
        type("Imported", (), {"attribute": Interrupting()})
        return 0

    monkeypatch.setattr("needlab.cli.command._run", importing)
    assert main(["reproduce"]) == 130
    assert capsys.readouterr().err == "\nneedreplay: stopped.\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_stops_reading_is_no_error(fakes_folder: Path, unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, str(fakes_folder / "fake_cli.py"), "--help"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("workers", "how"), [("1", signal.SIGINT), ("2", signal.SIGINT), ("2", signal.SIGTERM)]
)
def test_a_stop_keeps_finished_figures(
    fakes_folder: Path, tmp_path: Path, workers: str, how: signal.Signals
) -> None:
    started = tmp_path / "started"
    started.mkdir()
    out = tmp_path / "out"
    words = ["reproduce", "curve", "hanging", "--preset", "printed", "--trials", "2"]
    words += ["--workers", workers, "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, str(fakes_folder / "fake_cli.py"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "FAKE_STARTED": str(started)},
        start_new_session=True,
        # A shell's background job ignores Ctrl-C and hands that on; these tests send it.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    wait_for(lambda: len(list(started.iterdir())) == int(workers))
    if how == signal.SIGINT:
        # Ctrl-C in a terminal reaches every process of the group.
        os.killpg(process.pid, how)
    else:
        process.send_signal(how)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + how
    assert stdout.startswith("curve: ")
    # Before it there are lines with the time to finish.
    _, stopped, said = stderr.partition("\nneedreplay: stopped")
    assert stopped + said == (
        f"\nneedreplay: stopped; finished in {out}: curve. Run the rest with:\n"
        "  needreplay reproduce hanging --preset printed --trials 2 --seed 0 --size quick "
        f"--out {out}\n"
    )
    assert {path.name for path in out.iterdir()} == {"curve", "report.html"}
    for path in started.iterdir():
        assert not Path("/proc", path.name).exists(), "a worker outlives the command"


def test_a_terminal_sees_a_bar(fakes_folder: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    words = ["reproduce", "curve", "--trials", "2", "--workers", "1", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(fakes_folder / "fake_cli.py"), *words],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:
        pass  # the other end is closed and everything is read
    os.close(ours)
    assert done.returncode == 0
    assert b"curve" in shown
    assert b"100%" in shown
    assert done.stdout.startswith("curve: ")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report", "a" * 300], "file name too long"),
        (["eval", "a" * 300], "file name too long"),
        (["watch", "a" * 300], "file name too long"),
        (["sweep", "json:loads"], "'json:loads', called with nothing, raised TypeError"),
        (
            ["train", "--world", "CartPole-v1", "--out", "x", "--set", "lr=1"],
            "it is 'learning_rate' here",
        ),
        (
            ["train", "--world", "CartPole-v1", "--out", "x", "--set", "learning_rate=1e400"],
            "a finite number",
        ),
    ],
)
def test_odd_words_get_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
