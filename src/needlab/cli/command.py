"""Find the subcommand, run it, and turn errors into one line and exit code 2."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from needreplay._core.errors import NeedReplayError, not_installed, unknown
from needreplay._core.files import reason
from needreplay._version import __version__

LAB = ("jinja2", "matplotlib", "PIL", "rich", "scipy", "tyro")
"""What the extra ``lab`` brings."""
USAGE_ERROR = 2
BROKEN_PIPE = 141
SIGNAL = 128
"""As in shells: 128 + the number of a signal, such as SIGINT or SIGPIPE."""

COMMANDS = {
    "Train agents": {
        "train": "train a deep agent on a world; the same command resumes",
        "eval": "play a trained agent; --watch makes a page of an episode",
        "diagnose": "how far one update of a trained agent spreads, and what predicts it",
        "sweep": "many runs, on all cores or on Ray",
        "report": "one page with figures and statistics from a sweep",
    },
    "Study replay": {
        "reproduce": "the paper's figures and further studies",
        "watch": "replay in a maze, step by step, in your browser",
        "gallery": "moments of replay that are worth seeing, on one page",
        "fit": "fit models of replay to your own data",
    },
}
"""What each subcommand is for, as ``--help`` lists it."""
EXAMPLES = """\
Try first
  needreplay train --world CartPole-v1 --steps 20000 --out runs/a
  needreplay reproduce fig2 --preset printed --trials 50
  needreplay watch ps-sr ps --world dyna-maze
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (default: this process's) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words == ["--version"]:
        print(f"needreplay {__version__}")
        return 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path may hold bytes that are no text.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return _help() if not words or words[0] in ("-h", "--help") else _run(words)
        finally:
            # A reader that has left is noticed here, not at exit.
            sys.stdout.flush()
    except NeedReplayError as error:
        print(f"needreplay: {error}", file=sys.stderr)
        return USAGE_ERROR
    except ModuleNotFoundError as missing:
        if missing.name not in LAB:
            raise
        advice = not_installed(f"The command line needs {missing.name}", "lab")
        print(f"needreplay: {advice}", file=sys.stderr)
        return USAGE_ERROR
    except BrokenPipeError:
        # The reader of our output (head, less) has left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        if error.filename is None:
            raise
        # Of a path that somebody gave: a name that is too long, a folder that cannot be read.
        print(f"needreplay: {os.fspath(error.filename)!r}: {reason(error)}.", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt as stop:
        return _stopped(str(stop), getattr(stop, "signum", signal.SIGINT))
    except RuntimeError as error:
        # Python 3.11 wraps a Ctrl-C during the creation of a class, as in imports.
        if isinstance(error.__cause__, KeyboardInterrupt):
            return _stopped()
        raise


def _stopped(message: str = "", signum: int = signal.SIGINT) -> int:
    print(f"\nneedreplay: {message or 'stopped.'}", file=sys.stderr)
    return SIGNAL + signum


def _run(words: list[str]) -> int:
    import tyro

    from needlab.cli.diagnose import Diagnose
    from needlab.cli.eval import Eval
    from needlab.cli.fit import FitCommand
    from needlab.cli.report import Report
    from needlab.cli.reproduce import Reproduce
    from needlab.cli.sweep import Sweep
    from needlab.cli.train import Train
    from needlab.cli.watch import Gallery, Watch

    commands: dict[str, Callable[..., Any]] = {
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
    if words[0] not in commands:
        raise unknown("command", words[0], commands)
    chosen = tyro.extras.subcommand_cli_from_dict(commands, prog="needreplay", args=words)
    code: int | None = chosen.run(["needreplay", *words])
    return code or 0


def _help() -> int:
    """Print what the command can do; fits on one screen."""
    lines = ["needreplay: experience replay prioritized by gain x need (arXiv 2111.14331)", ""]
    for heading, commands in COMMANDS.items():
        lines += [heading, *(f"  {name:<11}{says}" for name, says in commands.items()), ""]
    print("\n".join(lines))
    print(EXAMPLES)
    print("needreplay COMMAND --help explains a command; needreplay --version: the version.")
    return 0
