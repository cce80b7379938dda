"""Find the subcommand, run it, and turn refusals into one line and exit code 2."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence

from needlab.studies import STUDIES
from needreplay._core.errors import NeedReplayError, not_installed
from needreplay._core.files import reason
from needreplay._version import __version__

LAB = ("jinja2", "matplotlib", "PIL", "rich", "scipy", "tyro")
"""What the extra ``lab`` brings."""
REFUSED = 2
BROKEN_PIPE = 141
SIGNAL = 128
"""As in shells: 128 + the number of a signal, such as SIGINT or SIGPIPE."""


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
            return _run(words or ["--help"])
        finally:
            # A reader that has left is noticed here, not at exit.
            sys.stdout.flush()
    except NeedReplayError as error:
        print(f"needreplay: {error}", file=sys.stderr)
        return REFUSED
    except ModuleNotFoundError as missing:
        if missing.name not in LAB:
            raise
        refusal = not_installed(f"The command line needs {missing.name}", "lab")
        print(f"needreplay: {refusal}", file=sys.stderr)
        return REFUSED
    except BrokenPipeError:
        # The reader of our output (head, less) has left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        if error.filename is None:
            raise
        # Of a path that somebody gave: a name that is too long, a folder that cannot be read.
        print(f"needreplay: {os.fspath(error.filename)!r}: {reason(error)}.", file=sys.stderr)
        return REFUSED
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

    from needlab.cli.eval import Eval
    from needlab.cli.fit import FitCommand
    from needlab.cli.report import Report
    from needlab.cli.reproduce import Reproduce
    from needlab.cli.sweep import Sweep
    from needlab.cli.train import Train
    from needlab.cli.watch import Gallery, Watch

    chosen = tyro.extras.subcommand_cli_from_dict(
        {
            "reproduce": Reproduce,
            "train": Train,
            "eval": Eval,
            "sweep": Sweep,
            "report": Report,
            "watch": Watch,
            "gallery": Gallery,
            "fit": FitCommand,
        },
        prog="needreplay",
        description=_description(),
        args=words,
    )
    code: int | None = chosen.run(["needreplay", *words])
    return code or 0


def _description() -> str:
    figures = "\n".join(f"  {listing.name:<12} {listing.shows}" for listing in STUDIES)
    return (
        "Experience replay prioritized by gain x need (Yuan & Mattar, arXiv 2111.14331).\n\n"
        f"Figures that can be reproduced:\n{figures or '  (none yet)'}\n\n"
        "needreplay SUBCOMMAND --help explains a subcommand; needreplay --version: the version."
    )
