"""The house style of figures, and saving them so that the same data is the same bytes.

Figures are made without pyplot, so nothing of the user's matplotlib session is touched. The colors
are Okabe and Ito's, which color-blind readers can tell apart; an agent has one color everywhere.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from needlab.core import tables
from needlab.report.statistics import Band
from needreplay._core.types import AnyArray

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555", "#000000")

AGENT_COLORS = {
    "ps-sr": "#D55E00",
    "ps": "#0072B2",
    "dyna-q": "#009E73",
    "q-learning": "#555555",
    "per-sr": "#D55E00",
    "per": "#0072B2",
    "uniform": "#555555",
    "oracle": "#000000",
}

AGENT_LABELS = {
    "ps-sr": "PS-SR",
    "ps": "PS",
    "dyna-q": "Dyna-Q",
    "q-learning": "Q-learning",
    "per-sr": "PER-SR",
    "per": "PER",
    "uniform": "uniform",
    "oracle": "oracle",
}

WIDTH = 8.0
"""Inches: at 150 dots each, a README's column shows a figure of this width with legible text."""

_STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "axes.labelsize": 11,
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "figure.dpi": 150,
    "figure.facecolor": "white",
    "figure.titlesize": 13,
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 11,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "image.cmap": "viridis",
    "legend.fontsize": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.dpi": 150,
    "savefig.facecolor": "white",
    # Text stays text, so that a drawing program can edit it.
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "needreplay",
    "xtick.color": "#444444",
    "xtick.labelsize": 10,
    "ytick.color": "#444444",
    "ytick.labelsize": 10,
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw inside this block: matplotlib reads part of a style when something is drawn."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def new_figure(
    rows: int = 1, columns: int = 1, *, height: float = 3.6, width: float = WIDTH, **subplots: Any
) -> tuple[Figure, AnyArray]:
    """A figure in the house style and its axes, always as an array of shape (rows, columns).

    Args:
        rows: rows of axes.
        columns: columns of axes.
        height: of the figure, in inches.
        width: of the figure, in inches.
        subplots: passed on to ``Figure.subplots`` (``sharey=True`` and the like).
    """
    with house_style():
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False, **subplots)


def colors_of(names: Sequence[str]) -> dict[str, str]:
    """A color for each name: an agent's own, and for other names those that are still free."""
    known = {name: AGENT_COLORS[name] for name in names if name in AGENT_COLORS}
    free = [color for color in PALETTE if color not in known.values()] or list(PALETTE)
    others = [name for name in dict.fromkeys(names) if name not in known]
    return known | {name: free[i % len(free)] for i, name in enumerate(others)}


def label_of(name: str) -> str:
    """How a figure writes an agent's name."""
    return AGENT_LABELS.get(name, name)


def draw_band(
    axes: Axes,
    x: npt.ArrayLike,
    band: Band,
    *,
    color: str,
    label: str,
    alpha: float = 0.2,
    **line: Any,
) -> None:
    """A curve with its interval; the interval is left out where too few trials leave it open."""
    axes.plot(x, band.estimate, color=color, label=label, **line)
    known = np.isfinite(band.low) & np.isfinite(band.high)
    axes.fill_between(x, band.low, band.high, where=known, color=color, alpha=alpha, linewidth=0)


def error_bars(band: Band) -> AnyArray:
    """Distances to both ends, as ``errorbar`` takes them; 0 where an interval is open."""
    ends = np.stack([band.low, band.high])
    return np.where(np.isfinite(ends), np.abs(ends - band.estimate), 0.0)


def save_figure(figure: Figure, folder: str | Path, name: str = "figure") -> None:
    """Write ``name.svg``, ``name.pdf`` and ``name.png``: the same figure, the same bytes."""
    with house_style():
        # Constrained layout moves a little with every drawing; one that stands still is the same in
        # all files, and when a figure is saved again.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for kind, metadata in (
            ("svg", {"Date": None, "Creator": "needreplay"}),
            ("pdf", {"CreationDate": None, "Creator": "needreplay", "Producer": None}),
            ("png", {"Software": None}),
        ):
            drawn = io.BytesIO()
            figure.savefig(drawn, format=kind, metadata=metadata)
            tables.write_bytes(Path(folder) / f"{name}.{kind}", drawn.getvalue())
