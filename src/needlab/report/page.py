"""Build a page that opens offline: one template environment, pictures as part of the page."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from needlab.core.tables import write_text
from needlab.report.figures import house_style
from needlab.report.statistics import Interval
from needreplay._core.errors import counted

MOST_SCREENS = 5
"""A longer page has a table of contents beside it."""


@dataclass(frozen=True)
class Link:
    """A file beside the page."""

    name: str
    address: str
    size: str


@dataclass(frozen=True)
class Picture:
    """An image as it stands in the page: its bytes are in the address."""

    title: str
    address: str
    caption: str
    files: tuple[Link, ...] = ()
    """the same picture as files"""


def write_page(path: Path, template: str, **values: object) -> Path:
    """Write the page ``path`` from a template. Everything that comes from files is escaped."""
    page = _environment().get_template(template).render(**values)
    # UTF-8 cannot write half a surrogate pair, which a file's name may hold.
    write_text(path, page.encode(errors="replace").decode())
    return path


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("needlab.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": cell, "counted": counted}
    return environment


def cell(value: object) -> object:
    """A table's cell: numbers with three or four digits, an interval with its ends if known.

    >>> print(cell(0.123456), cell(12345.6), cell("text"))
    <span class="num">0.123</span> <span class="num">12,346</span> text
    """
    if isinstance(value, Interval):
        known = math.isfinite(value.low)
        ends = f"{_digits(value.low)} to {_digits(value.high)}"
        return _number(value.estimate) + (_QUIET.format(ends) if known else "")
    return _number(value) if isinstance(value, float) else value


_QUIET = Markup(' <span class="quiet">{}</span>')


def _number(value: float) -> Markup:
    digits = _digits(value) if math.isfinite(value) else ""
    return Markup('<span class="num">{}</span>').format(digits)


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def inlined(image: Path | Figure) -> str:
    """A picture's file, or a figure, as an address that a page can hold."""
    if isinstance(image, Path):
        kind, content = image.suffix, image.read_bytes()
    else:
        drawn = io.BytesIO()
        with house_style():
            image.savefig(drawn, format="svg", metadata={"Date": None, "Creator": "needreplay"})
        kind, content = ".svg", drawn.getvalue()
    media = {".svg": "image/svg+xml", ".png": "image/png"}[kind]
    return f"data:{media};base64,{base64.b64encode(content).decode()}"
