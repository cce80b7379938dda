"""One self-contained page that shows replay logs: boards, backups in order, a timeline."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from needlab.core.types import JsonObject
from needlab.report.page import write_page
from needlab.report.replay_log import KINDS, ReplayLog
from needlab.tabular.replay_events import DIRECTIONS
from needreplay._core.types import AnyArray


class Moment(NamedTuple):
    """A moment of some logs that a page links to."""

    title: str
    text: str
    """one paragraph"""
    start: str
    """as in the page's own links: "runs=0,1&frame=300" """


def write_viewer(
    path: Path,
    logs: Sequence[ReplayLog],
    *,
    title: str,
    note: str = "",
    moments: Sequence[Moment] = (),
) -> Path:
    """Write the page ``path``. It opens from a file and loads nothing.

    Args:
        path: of the page.
        logs: one or more; two are shown beside each other.
        title: of the page.
        note: a paragraph below it.
        moments: a list to choose from; the page opens with the first.
    """
    data = {
        "runs": [_packed_log(log) for log in logs],
        "kinds": KINDS,
        "directions": DIRECTIONS,
        "start": moments[0].start if moments else "",
    }
    return write_page(
        path,
        "viewer.html",
        title=title,
        note=note,
        moments=moments,
        several=len(logs) > 1,
        floors=any(log.backups["floor"].any() for log in logs),
        doors=any(set(log.board.marks) & set("<>^v") for log in logs),
        data=script_data(data),
    )


def viewer_frame(logs: Sequence[ReplayLog], height: int = 700) -> str:
    """The page of some logs as an element for a notebook."""
    with TemporaryDirectory() as folder:
        title = ", ".join(log.name for log in logs)
        page = write_viewer(Path(folder) / "replay.html", logs, title=title)
        content = page.read_text(encoding="utf-8")
    return Markup(
        '<iframe srcdoc="{}" style="width:100%;height:{}px;border:0" title="Replay: {}"></iframe>'
    ).format(content, height, title)


def _packed_log(log: ReplayLog) -> JsonObject:
    return {
        "name": log.name,
        "world": ", ".join(filter(None, (log.board.name, log.board.starts))),
        "columns": log.board.columns,
        "marks": log.board.marks,
        "next": packed(log.board.next_state),
        "steps": _fields(log.steps),
        "pauses": _fields(log.pauses),
        "backups": _fields(log.backups),
        "writes": _fields(log.writes),
        "need": packed(log.need),
    }


def _fields(records: AnyArray) -> JsonObject:
    return {name: packed(records[name]) for name in records.dtype.names or ()}


def script_data(data: object) -> Markup:
    """JSON as it can stand in a script element: only "<" could end that."""
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def packed(values: AnyArray) -> dict[str, str]:
    """Numbers as little-endian bytes in base64."""
    kind = "f4" if values.dtype.kind == "f" else "i4"
    content = np.ascontiguousarray(values, f"<{kind}").tobytes()
    return {"type": kind, "base64": base64.b64encode(content).decode()}
