"""Figure 3: vanilla PER-SR in the Blind Cliffwalk (paper, section 4.2 and appendix B.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from needreplay.runs.progress import Progress
from needreplay.studies.base import Outcome, Request, Study
from needreplay.studies.fig3.claims import claims_of
from needreplay.studies.fig3.deciding import (
    changes_between,
    deciding_jobs,
    deciding_table,
    effects_of,
    sentences,
)
from needreplay.studies.fig3.figure import beyond_figure, deciding_figure, paper_figure
from needreplay.studies.fig3.magnitude import magnitude_jobs, magnitude_table, variants_of
from needreplay.studies.fig3.runs import (
    Found,
    data_table,
    jobs_of,
    need_row_table,
    run_jobs,
    successor_table,
)
from needreplay.studies.fig3.summary import summary_table
from needreplay.tabular.cliffwalk_settings import METHODS, cliffwalk_preset

QUICK_LARGEST = 9
QUICK_EXTRA_SIZES = (8,)
FULL_EXTRA_SIZES = (5, 8, 11)
"""The sizes of the two tables beside the figure: what decides, and probability or magnitude."""


def run(request: Request, progress: Progress) -> Outcome:
    """Run every method at every size, then what decides, then probability against magnitude."""
    quick = request.size == "quick"
    presets = request.presets
    sizes = {name: sizes_of(name, quick=quick) for name in presets}
    extra_sizes = QUICK_EXTRA_SIZES if quick else FULL_EXTRA_SIZES
    jobs = [
        job
        for name in presets
        for job in jobs_of(
            name,
            cliffwalk_preset(name),
            METHODS,
            sizes[name],
            request.trials or cliffwalk_preset(name).repetitions,
            request.seed,
        )
    ]
    changes = changes_between(presets)
    changing = deciding_jobs(changes, extra_sizes, request.trials, request.seed)
    variants = [variant for name in presets for variant in variants_of(name)]
    scaling = magnitude_jobs(variants, extra_sizes, request.trials, request.seed)
    found = run_jobs(jobs, request.workers, progress, "fig3: all methods")
    changed = run_jobs(changing, request.workers, progress, "fig3: each setting alone")
    scaled = run_jobs(scaling, request.workers, progress, "fig3: probability or magnitude")
    need_rows = need_row_table(found)
    tables = {
        "data": data_table(found),
        "need_row": need_rows,
        "summary": summary_table(found, request.seed),
        "successor": successor_table(found),
        "magnitude": magnitude_table(variants, scaled, request.seed),
    }
    figures = {
        "figure": paper_figure(found, need_rows, presets, request.seed),
        "beyond": beyond_figure(found, presets, request.seed),
    }
    captions = {"figure": _CAPTION, "beyond": _BEYOND}
    notes = [_CENSORING.format(count=_not_converged(found))]
    if changes:
        effects = effects_of(changes, changed, request.seed)
        tables["deciding"] = deciding_table(effects)
        figures["deciding"] = deciding_figure(effects)
        captions["deciding"] = _DECIDING
        notes += sentences(effects)
    return Outcome(
        tables=tables,
        figures=figures,
        captions=captions,
        claims=[claim for name in presets for claim in claims_of(found, name, request.seed)],
        config={
            name: {**_plain(asdict(cliffwalk_preset(name))), "sizes": list(sizes[name])}
            for name in presets
        },
        notes=notes,
    )


def sizes_of(preset: str, *, quick: bool) -> tuple[int, ...]:
    """The numbers of states that a preset is run with."""
    sizes = cliffwalk_preset(preset).sizes
    return tuple(n for n in sizes if n <= QUICK_LARGEST) if quick else sizes


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: list(x) if isinstance(x, tuple) else x for name, x in settings.items()}


def _not_converged(found: Sequence[Found]) -> str:
    said = [
        f"{f.label} {f.method} at {f.states} states {f.censored} of {len(f.trials)}"
        + (f" ({sum(f.diverged)} by an overflow)" if any(f.diverged) else "")
        for f in found
        if f.censored
    ]
    return "; ".join(said) if said else "none"


_CAPTION = (
    "Q-updates until the values are right, over the size of a memory that is filled beforehand; "
    "only the choice of what to replay differs. Bands are 95% bootstrap intervals over trials. An "
    "open triangle: some trials did not converge and count as their whole budget, so the point is "
    "a lower bound (of a mean) or may be one (of a median, where half did not)."
)
_BEYOND = (
    "Methods beyond the paper, as a multiple of PER's updates (below the dashed line: fewer). "
    "need-backward reads M's column, need-magnitude draws by gain and scales the update by need, "
    "gain always replays the largest gain."
)
_DECIDING = (
    "Each preset (bold) and the same with one single setting of its neighbour: below 1 the first "
    "method takes fewer updates. A triangle: some trials did not converge."
)
_CENSORING = (
    "A trial that did not converge within its budget (summary.csv has it) is kept: it counts as "
    "its whole budget, and a verdict it could undo is undecided. Not converged: {count}."
)

STUDY = Study(
    name="fig3",
    title="Blind Cliffwalk: PER against PER with need",
    question=(
        "The paper: PER converges exponentially faster than uniform replay, need makes it faster "
        "still, even the need of a random policy does, and optimal need gets closer to the oracle."
    ),
    presets=("released", "corrected", "printed"),
    quick_presets=("released", "corrected"),
    run=run,
    documentation="docs/cliffwalk.md",
)
