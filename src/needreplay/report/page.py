"""Build a page that opens offline: one template environment, pictures as part of the page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from needreplay.core.errors import counted
from needreplay.core.tables import write_text
from needreplay.report.figures import house_style


@dataclass(frozen=True)
class Picture:
    """An image as it stands in the page: its bytes are in the address."""

    title: str
    address: str
    caption: str


def write_page(path: Path, template: str, **values: Any) -> Path:
    """Write the page ``path`` from a template. Everything that comes from files is escaped."""
    page = _environment().get_template(template).render(**values)
    # UTF-8 cannot write half a surrogate pair, which a file's name may hold.
    write_text(path, page.encode(errors="replace").decode())
    return path


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("needreplay.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["counted"] = counted
    return environment


def number(value: float) -> str:
    """Three or four digits, for a table that is read.

    >>> number(0.123456), number(12345.6), number(float("inf"))
    ('0.123', '12,346', 'not known')
    """
    if value in (float("inf"), float("-inf")):
        return "not known"
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
