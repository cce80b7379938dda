"""One offline page of a diagnosis: its two sentences, and every update as a dot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from needlab.report.figures import new_figure
from needlab.report.page import inlined, write_page

if TYPE_CHECKING:
    from needreplay.need import Diagnosis


def write_diagnosis_page(path: str | Path, found: Diagnosis, *, note: str = "") -> Path:
    """Write the page ``path``. It opens from a file and loads nothing.

    Args:
        path: of the page.
        found: what ``diagnose`` returned.
        note: how it was made.
    """
    return write_page(
        Path(path), "diagnosis.html", said=found.text(), figure=inlined(scatter(found)), note=note
    )


def scatter(found: Diagnosis) -> Figure:
    """The effect of each update from each query, against gain, need and gain x need."""
    figure, (row,) = new_figure(1, 3, sharey=True)
    gains = np.broadcast_to(found.gains, found.needs.shape)
    products = gains * found.needs
    for axes, name, values, correlation in (
        (row[0], "gain", gains, found.gain),
        (row[1], "need", found.needs, found.need),
        (row[2], "gain x need", products, found.product),
    ):
        shown = (values > 0.0) & (found.effects > 0.0)
        axes.loglog(values[shown], found.effects[shown], ".", markersize=3, alpha=0.4)
        axes.set_xlabel(name)
        axes.set_title(f"rank correlation {correlation:.2f}", fontsize=9)
    row[0].set_ylabel("change of the values of the next states")
    return figure
