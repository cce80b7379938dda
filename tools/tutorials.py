"""Run the tutorials and write their pages, with what they print and draw: ``make tutorials``.

A tutorial is a program, ``docs/tutorials/NAME.py``. Its docstring is the title and the first words,
comments that begin with ``#:`` are text, lines that begin with ``# $`` are commands, the rest is
code. What a part prints stands below it, and so does a new ``figure``. ``NAME.md`` is written.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import io
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs/tutorials"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.py")))


@dataclass
class Part:
    """A part of a tutorial, and what it printed and drew when it ran."""

    kind: str
    """text, code or command"""
    source: str
    printed: str = ""
    picture: str = ""


def kind_of(line: str) -> str:
    """What a line of a program is a part of."""
    if line.startswith("#:"):
        return "text"
    return "command" if line.startswith("# $ ") else "code"


def parts_of(program: str) -> list[Part]:
    """The parts of a program."""
    docstring = ast.get_docstring(ast.parse(program)) or ""
    title, _, intro = docstring.partition("\n")
    body = re.sub(r'\A""".*?"""\n', "", program, flags=re.S)
    found = [Part("text", f"# {title.rstrip('.')}\n\n{intro.strip()}")]
    for kind, lines in groupby(body.splitlines(), kind_of):
        source = "\n".join(lines)
        if kind != "code":
            source = re.sub(r"^#(:| \$) ?", "", source, flags=re.M)
        if source.strip():
            found.append(Part(kind, source.strip("\n")))
    return found


def run(parts: list[Part], name: str, folder: Path) -> None:
    """Run the parts in ``folder`` and keep what they print; a figure is saved there."""
    space: dict[str, Any] = {"__name__": "__main__"}
    environment = {**os.environ, "COLUMNS": "88", "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    with contextlib.chdir(folder):
        for number, part in enumerate(parts):
            if part.kind == "command":
                done = subprocess.run(
                    part.source, shell=True, env=environment, capture_output=True, text=True
                )
                assert done.returncode == 0, done.stdout + done.stderr
                part.printed = done.stdout
            elif part.kind == "code":
                before, printed = space.get("figure"), io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(part.source, f"{name}.py", "exec"), space)
                part.printed = printed.getvalue()
                if space.get("figure") is not before:
                    part.picture = f"{name}_{number}.png"
                    space["figure"].savefig(part.picture, dpi=110, bbox_inches="tight")


def page_of(parts: list[Part], name: str, footer: str) -> str:
    """The page as Markdown."""
    lines = []
    for part in parts:
        if part.kind == "text":
            lines += [part.source, ""]
        elif part.kind == "command":
            lines += [*(f"    {line}" for line in part.source.splitlines()), ""]
        else:
            lines += ["```python", part.source, "```", ""]
        if part.printed:
            lines += ["```text", part.printed.rstrip(), "```", ""]
        if part.picture:
            lines += [f"![What the code above draws]({part.picture})", ""]
    return "\n".join([*lines, f"*The whole program: [{name}.py]({name}.py). {footer}*", ""])


def main() -> None:
    """Write the pages named on the command line, or all."""
    from needreplay import __version__

    for name in sys.argv[1:] or NAMES:
        parts = parts_of((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
        with TemporaryDirectory() as folder:
            run(parts, name, Path(folder))
            for part in parts:
                if part.picture:
                    copyfile(Path(folder) / part.picture, FOLDER / part.picture)
        footer = (
            f"Run by `python tools/tutorials.py {name}` on {datetime.date.today()}, needreplay "
            f"{__version__}, Python {platform.python_version()}."
        )
        (FOLDER / f"{name}.md").write_text(page_of(parts, name, footer), encoding="utf-8")


if __name__ == "__main__":
    main()
