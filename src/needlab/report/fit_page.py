"""One offline page of fitted models: parameters, comparison, and where each model is better."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from needlab.report.figures import PALETTE, new_figure
from needlab.report.page import inlined, write_page
from needlab.report.statistics import Interval
from needlab.tabular.fit import Comparison, Fit
from needlab.tabular.rivals import MODELS, PARAMETERS


def write_fit_page(
    path: str | Path, fits: Sequence[Fit], comparison: Comparison | None = None, *, note: str = ""
) -> Path:
    """Write the page ``path``. It opens from a file and loads nothing.

    Args:
        path: of the page.
        fits: of the same data.
        comparison: of the models, if there are several.
        note: how it was made.
    """
    return write_page(
        Path(path),
        "fit.html",
        fits=[
            {
                "fit": one,
                "rows": [
                    {
                        "name": own.name,
                        "interval": Interval(own.value, own.low, own.high),
                        "meaning": PARAMETERS[own.name].meaning,
                        "at_limit": own.at_limit,
                    }
                    for own in one.estimates
                ],
                "fixed": [
                    (name, value)
                    for name, value in one.values.items()
                    if name not in {own.name for own in one.estimates}
                ],
                "about": MODELS.get(one.model.partition(",")[0]),
            }
            for one in fits
        ],
        comparison=_rows(comparison) if comparison else [],
        best=comparison.best if comparison else "",
        figure=inlined(by_episode(fits)),
        note=note,
    )


def _rows(comparison: Comparison) -> list[dict[str, object]]:
    """The table of a comparison, the best model first."""
    table = comparison.table()
    order = np.argsort(-table["cross_validated"])
    return [{name: table[name][i].item() for name in table.names} for i in order]


def by_episode(fits: Sequence[Fit]) -> Figure:
    """The mean log-likelihood of an observation by episode, against uniform chance."""
    figure, ((axes,),) = new_figure(height=3.2)
    for fit, color in zip(fits, PALETTE * len(fits), strict=False):
        choices = len(fit.by_observation) != len(fit.data.pairs)
        episodes = fit.data.steps["episode"] if choices else fit.data.episodes
        listed, place = np.unique(episodes, return_inverse=True)
        means = np.bincount(place, fit.by_observation) / np.bincount(place)
        axes.plot(listed + 1, means, color=color, label=fit.model)
    chance = fits[0].uniform / fits[0].observations
    axes.axhline(chance, color="#000000", linestyle=":", label="uniform")
    axes.set(xlabel="episode", ylabel="mean log-likelihood")
    axes.legend(loc="lower right")
    return figure
