"""Figure 3: vanilla PER-SR in the Blind Cliffwalk (paper, section 4.2 and appendix B.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain

from needlab.runs.trials import TrialRunner
from needlab.studies.cliffwalk.cases import (
    Case,
    CaseResult,
    cases_of,
    data_table,
    need_row_table,
    run_cases,
    successor_table,
    summary_table,
)
from needlab.studies.cliffwalk.claims import (
    DECIDING_METHODS,
    changes_between,
    claims_of,
    deciding_table,
    effects_of,
    magnitude_table,
    sentences,
    variants_of,
)
from needlab.studies.cliffwalk.figure import beyond_figure, deciding_figure, paper_figure
from needlab.studies.cliffwalk.settings import (
    METHODS,
    PAPER_METHODS,
    CliffwalkSettings,
    Method,
    cliffwalk_preset,
)
from needlab.studies.study import Options, Result, Size, Study

QUICK_LARGEST = 9
EXTRA_SIZES: dict[Size, tuple[int, ...]] = {"quick": (8,), "full": (5, 8, 11)}
"""The sizes of the two tables beside the figure: what decides, and probability or magnitude."""


def run(options: Options, runner: TrialRunner) -> Result:
    """Run every method at every size, then what decides, then probability against magnitude.

    With ``options.states``, only the paper's six methods are run, and nothing beside the figure.
    """
    presets, seed = readings(options.presets), options.seed
    sizes = {name: options.states or sizes_of(name, options.size) for name in presets}
    cases = []
    for name in presets:
        every = name in options.presets and not options.states
        methods = METHODS if every else PAPER_METHODS
        own = cliffwalk_preset(name)
        cases += cases_of(name, own, methods, sizes[name], options.trials, seed)
    found = run_cases(cases, runner, "fig3: all methods")
    need_rows = need_row_table(found)
    result = Result(
        tables={
            "data": data_table(found),
            "need_row": need_rows,
            "summary": summary_table(found, seed),
            "successor": successor_table(found),
        },
        figures={"figure": paper_figure(found, need_rows, presets, seed)},
        captions={"figure": _CAPTION},
        claims=[claim for name in presets for claim in claims_of(found, need_rows, name, seed)],
        config={
            name: {**asdict(cliffwalk_preset(name)), "sizes": list(sizes[name])} for name in presets
        },
        notes=[_CENSORING.format(count=_not_converged(found))],
    )
    if not options.states:
        result.figures["beyond"] = beyond_figure(found, options.presets, seed)
        result.captions["beyond"] = _BEYOND
        _add_what_decides(result, options, runner)
        _add_magnitude(result, options, runner)
    return result


def _add_what_decides(result: Result, options: Options, runner: TrialRunner) -> None:
    changes = changes_between(options.presets)
    if not changes:
        return
    arms = [(change.label, settings, DECIDING_METHODS) for change, settings in changes]
    cases = _extra_cases(arms, options)
    changed = run_cases(cases, runner, "fig3: each setting alone")
    effects = effects_of(changes, changed, options.seed)
    result.tables["deciding"] = deciding_table(effects)
    result.figures["deciding"] = deciding_figure(effects)
    result.captions["deciding"] = _DECIDING
    result.notes += sentences(effects)


def _add_magnitude(result: Result, options: Options, runner: TrialRunner) -> None:
    variants = [variant for name in options.presets for variant in variants_of(name)]
    cases = _extra_cases([(v.label, v.settings(), (v.method,)) for v in variants], options)
    scaled = run_cases(cases, runner, "fig3: probability or magnitude")
    result.tables["magnitude"] = magnitude_table(variants, scaled, options.seed)


def _extra_cases(
    arms: Sequence[tuple[str, CliffwalkSettings, Sequence[Method]]], options: Options
) -> list[Case]:
    sizes = EXTRA_SIZES[options.size]
    found = (cases_of(*arm, sizes, options.trials, options.seed) for arm in arms)
    return list(chain.from_iterable(found))


def readings(presets: Sequence[str]) -> tuple[str, ...]:
    """The presets with both readings of the printed task; the second has the paper's methods."""
    both = {"printed": ("printed", "printed-returns")}
    return tuple(name for preset in presets for name in both.get(preset, (preset,)))


def sizes_of(preset: str, size: Size) -> tuple[int, ...]:
    """The numbers of states that a preset is run with."""
    sizes = cliffwalk_preset(preset).sizes
    return tuple(n for n in sizes if n <= QUICK_LARGEST) if size == "quick" else sizes


def _not_converged(results: Sequence[CaseResult]) -> str:
    counts = [
        f"{r.label} {r.method} at {r.states} states {r.censored} of {len(r.converged)}"
        + (f" ({overflows} by an overflow)" if overflows else "")
        for r in results
        for overflows in [int(r.columns["diverged"].sum())]
        if r.censored
    ]
    return "; ".join(counts) or "none"


_CAPTION = (
    "Q-updates until the values are right, over the size of a buffer that is filled beforehand; "
    "only the choice of what to replay differs. Bands are 95% bootstrap intervals over trials. An "
    "open triangle: some trials did not converge and count as their full budget, so the point is "
    "a lower bound (of a mean) or may be one (of a median, where half did not). The middle column "
    "is M at the end of a trial, the median over trials. Under released M is no such occupancy for "
    "most of a trial: it diverges, and comes back late (successor.csv has its largest entry). "
    "Crosses: read off the published figure. printed and printed-returns are two readings of the "
    "text: a fall ends the episode, or returns to the start state."
)
_BEYOND = (
    "Methods beyond the paper, as a multiple of PER's updates (below the dashed line: fewer). "
    "need-backward reads a column of M, need-magnitude samples by gain and scales the update by "
    "need, gain always replays the largest gain. An open triangle: some trials did not converge, "
    "so it is a bound, drawn at the edge where it lies beyond the axis. Under released and "
    "corrected that is gain at nearly every size."
)
_DECIDING = (
    "Each preset (bold) and the same with one single setting of its neighbor: below 1 the first "
    "method takes fewer updates. A triangle: some trials did not converge."
)
_CENSORING = (
    "A trial that did not converge within its budget (in summary.csv) stays in the data: it counts "
    "as its full budget, and a verdict it could undo is undecided. Not converged: {count}."
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
    takes=("trials", "states"),
    documentation="docs/cliffwalk.md",
)
