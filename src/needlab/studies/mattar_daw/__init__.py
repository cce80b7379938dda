"""Mattar & Daw (2018): forward and reverse replay from gain x need, and what decides them."""

from __future__ import annotations

from dataclasses import asdict

from needlab.report.statistics import mean_interval
from needlab.runs.trials import TrialRunner
from needlab.studies.mattar_daw.cases import (
    CASES,
    CHANGES,
    EPISODES,
    FLOOR,
    FLOORS,
    LINEAR,
    OPEN,
    SECONDS,
    UNCHANGED,
    WORLDS,
    Case,
    Variant,
    floor_cases,
    run_case,
)
from needlab.studies.mattar_daw.claims import Found, answers, claim_of
from needlab.studies.mattar_daw.figure import draw_all
from needlab.studies.mattar_daw.heights import height_table
from needlab.studies.mattar_daw.measures import COUNTS
from needlab.studies.mattar_daw.tables import (
    DIRECTIONS,
    answer_table,
    deciding_table,
    event_table,
    floor_table,
    gain_table,
    preset_tables,
)
from needlab.studies.study import Options, Result, Study
from needreplay._core.rng import stream

SIMULATIONS = {
    "quick": {LINEAR: 60, OPEN: 60, "change": 20, "other": 60},
    "full": {LINEAR: 10_000, OPEN: 100, "change": 200, "other": 1000},
}
"""Of the presets' events by world, of every change, and of the other figures."""


def run(options: Options, runner: TrialRunner) -> Result:
    """Run the presets, every change of ``published``, and compare with the published figures."""
    everything = simulate_all(options, runner)
    found = {variant: own for variant, own in everything.items() if variant.floor == FLOOR}
    answered = {variant: answers(variant, own, options.seed) for variant, own in found.items()}
    presets = {variant.preset: own for variant, own in found.items() if variant.change == UNCHANGED}
    floors = {
        variant.floor: own
        for variant, own in everything.items()
        if variant.preset == "published" and variant.change == UNCHANGED
    }
    tables = {
        "data": event_table(found),
        "deciding": deciding_table(found, options.seed),
        **({"floors": floor_table(floors, options.seed)} if floors else {}),
        "claims_by_change": answer_table(answered),
        **preset_tables(presets, options.seed),
        "heights": height_table(presets, options.seed),
        "gain": gain_table(),
    }
    figures, captions = draw_all(presets, tables, options.seed)
    return Result(
        tables=tables,
        figures=figures,
        captions=captions,
        claims=[
            claim_of(answer, variant.preset)
            for variant, own in answered.items()
            if variant.change == UNCHANGED
            for answer in own
        ],
        config={
            "episodes": EPISODES,
            "simulations": _numbers(options),
            "settings": {
                f"{variant.preset}, {variant.change}": asdict(variant.settings) for variant in found
            },
        },
        notes=notes(found, options.seed),
    )


def variants_of(presets: tuple[str, ...]) -> list[Variant]:
    """The presets as they are, and ``published`` with one change at a time."""
    changed = [Variant("published", change) for change in CHANGES if change != UNCHANGED]
    return [*map(Variant, presets), *(changed if "published" in presets else [])]


def _numbers(options: Options) -> dict[str, int]:
    numbers = SIMULATIONS[options.size]
    return numbers if options.trials is None else dict.fromkeys(numbers, options.trials)


def simulate_all(options: Options, runner: TrialRunner) -> dict[Variant, Found]:
    """Run all simulations; by variant and name of the case, stacked columns.

    Variants with another floor are among them, with events in both worlds only.
    """
    numbers, variants = _numbers(options), variants_of(options.presets)
    found: dict[Variant, Found] = {variant: {} for variant in variants}
    cases = {
        (kind, case): name
        for kind, listed in CASES.items()
        for variant in variants
        for name, case in listed(variant, options.seed).items()
    }
    if "published" in options.presets:
        for floor in FLOORS:
            for name, case in floor_cases(floor, options.seed).items():
                cases["events", case] = name
                found.setdefault(case.variant, {})
    ran = runner.run(
        run_case,
        list(cases),
        [numbers[_number(kind, case)] for kind, case in cases],
        label="mattar-daw",
        seconds=[SECONDS[kind] for kind, _ in cases],
    )
    for (kind, case), columns in ran.items():
        found[case.variant][cases[kind, case]] = columns
    return found


def _number(kind: str, case: Case) -> str:
    """Which of ``SIMULATIONS`` a case is."""
    if case.variant.change != UNCHANGED or case.variant.floor != FLOOR:
        return "change"
    return case.world if kind == "events" and case.schedule == "baseline" else "other"


def notes(found: dict[Variant, Found], seed: int) -> list[str]:
    """The answers to the two open questions, with their numbers."""

    def said(change: str, world: str) -> str:
        own = found[Variant("published", change)][f"{world}/baseline"]["counted"]
        parts = []
        for direction, name in enumerate(DIRECTIONS):
            rng = stream(seed, "mattar-daw", "notes", change, world, name)
            values = own[:, COUNTS.index("states"), direction, 0] / EPISODES
            parts.append(f"{name} {mean_interval(values, rng).text()}")
        return f"{world}: {', '.join(parts)}"

    lines = [
        "Means and intervals are over simulations. Events per episode are counts over 50 episodes; "
        "after a change of reward, counts over 25, as published, whatever the true number.",
        "heights.csv has our heights beside what is published in numbers: the axes that the "
        "authors' scripts fix, and the changes in animals that figure 5 shows. The article prints "
        "no heights of the model's bars; the claims compare their direction.",
        "The preset published counts a run of five pairs as an event, as the authors did; text, "
        "deciding.png and the lines below count runs of five different states. deciding.csv has "
        "both.",
    ]
    if Variant("published", "no floor") not in found:
        return lines
    for change, statement in (
        (UNCHANGED, "Events per episode of the preset published"),
        ("no floor", "Without the gain floor"),
        ("floor on the sum", "With the floor on the sum of gains instead of each element"),
        ("no chains", "Without n-step chains"),
        ("gain by |TD|", "With |TD| as gain, floor and chains as published"),
        ("|TD| x need alone", "With Yuan & Mattar's rule, |TD| x need alone"),
    ):
        lines.append(f"{statement}: {'; '.join(said(change, world) for world in WORLDS)}.")
    return lines


STUDY = Study(
    name="mattar-daw",
    title="Forward and reverse replay from gain x need (Mattar & Daw 2018)",
    question="Replay ordered by policy gain x need should produce forward events before a run "
    "and reverse events after it. Does it, and which piece of the agent decides?",
    presets=("published", "text"),
    run=run,
    documentation="docs/mattar_daw.md",
    paper="mattar-daw",
)
