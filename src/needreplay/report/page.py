"""One page that opens offline: every figure in a folder, what is claimed, and how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from needreplay.core.tables import write_text
from needreplay.report.sections import Section, read_sections

VERDICT_MARKS = {"holds": "✓", "does not hold": "✗", "undecided": "?"}


def write_page(out: str | Path, *, order: Sequence[str] = ()) -> Path:
    """Write ``report.html`` from all figure folders in ``out``, and say where it is."""
    path = Path(out) / "report.html"
    page = render(read_sections(Path(out), order))
    # Half a surrogate pair, in a record or a file's name, is no text that UTF-8 could write.
    write_text(path, page.encode(errors="replace").decode())
    return path


def render(sections: Sequence[Section]) -> str:
    """The page as text. Everything that comes from files is escaped."""
    environment = Environment(
        loader=PackageLoader("needreplay.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    claims = [claim for section in sections for claim in section.claims]
    counts = {
        verdict: sum(claim.verdict == verdict for claim in claims) for verdict in VERDICT_MARKS
    }
    template = environment.get_template("page.html")
    return template.render(sections=sections, counts=counts, marks=VERDICT_MARKS)
