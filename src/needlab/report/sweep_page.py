"""One offline page of a sweep: curves, aggregates, profiles, comparisons, and every run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from needlab.core.tables import Table, prepare_folder, write_table
from needlab.report.aggregate import AGGREGATES
from needlab.report.comparison import SCORES, Cell, agent_labels, cells_of
from needlab.report.figures import house_style
from needlab.report.page import MOST_SCREENS, Picture, inlined, write_page
from needlab.report.sweep_figures import draw_aggregates, draw_curves, draw_points, draw_profiles
from needlab.report.sweep_folder import NEED, ReadRun, read_sweep
from needlab.report.sweep_numbers import Numbers, numbers_of, tables_of
from needreplay._core.errors import NeedReplayError, counted
from needreplay.need import accurate_need

LINES_OF_SCREEN = 20
_FORMULA = ("=", "+", "-", "@")
MOST_ROWS = 60
"""Rows of a table on the page; the CSV file has them all."""


def write_sweep_page(folder: str | Path, *, seed: int = 0) -> Path:
    """Write ``report.html`` and the CSV files in ``report/`` into the sweep's folder."""
    folder = Path(folder)
    results = read_sweep(folder)
    labels = agent_labels(results.runs)
    complete = [run for run in results.runs if run.state == "done"]
    cells, repeats = cells_of(complete, labels)
    results.problems += repeats
    numbers = numbers_of(cells, seed) if cells else None
    tables = {} if numbers is None else tables_of(cells, numbers)
    tables["runs"] = _runs_table(results.runs, labels)
    inaccurate = _inaccurate_need(complete, labels)
    place = folder / "report"
    if place.is_symlink():
        raise NeedReplayError(f"{str(place)!r} is a link to another place; remove it.")
    prepare_folder(place)
    for stem, table in tables.items():
        write_table(place / f"{stem}.csv", _plain_text(table))
    pictures = [] if numbers is None else _pictures(cells, numbers)
    rows = _rows(results.runs, labels, cells, numbers)
    return write_page(
        folder / "report.html",
        "sweep.html",
        contents=_contents(bool(results.problems), bool(inaccurate), pictures, rows),
        results=results,
        labels=labels,
        inaccurate=inaccurate,
        counts=Counter(run.state for run in results.runs),
        pictures=pictures,
        numbers=numbers,
        rows=rows,
        aggregates=list(AGGREGATES),
        most_rows=MOST_ROWS,
        tables=sorted(tables),
    )


def _plain_text(table: Table) -> Table:
    """The table without formulas: a spreadsheet would compute text that begins like one.

    Such text gets an apostrophe in front, and is one line. It can only come from somebody's folder:
    our own names do not begin so.
    """

    def plain(cell: str) -> str:
        cell = cell.replace("\r", " ").replace("\n", " ")
        return f"'{cell}" if cell.lstrip().startswith(_FORMULA) else cell

    return Table(
        {
            name: list(map(plain, table[name].tolist()))
            if table[name].dtype.kind == "U"
            else table[name]
            for name in table.names
        }
    )


def _contents(
    problems: bool, inaccurate: bool, pictures: list[Picture], rows: dict[str, list[list[object]]]
) -> list[tuple[str, str]]:
    """The sections of a long page, by their ids; of a short one, none."""
    lines = sum(min(len(listed), MOST_ROWS) for listed in rows.values())
    if 0.8 * len(pictures) + lines / LINES_OF_SCREEN <= MOST_SCREENS:
        return []
    listed = {
        "problems": "Damaged or left out" if problems else "",
        "inaccurate": "What cannot be concluded" if inaccurate else "",
        **{picture.title.lower().replace(" ", "-"): picture.title for picture in pictures},
        "scores": "Scores by task" if rows.get("scores") else "",
        "aggregates": "All tasks, in numbers" if rows.get("aggregates") else "",
        "improvement": "Probability of improvement" if rows.get("improvement") else "",
        "paired": "Trial by trial" if rows.get("paired") else "",
        "runs": "All runs",
        "need": "How accurate need was" if rows.get("need") else "",
        "files": "Numbers as files",
    }
    return [(name, title) for name, title in listed.items() if title]


def _inaccurate_need(runs: list[ReadRun], labels: dict[str, str]) -> list[str]:
    """What no comparison of this sweep can tell anything about."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for run in runs:
        if run.need:
            key = str(run.config.get("world", "")), labels[run.name]
            measured = run.need["need_auc"], run.need["need_auc_baseline"]
            found.setdefault(key, []).append(measured)
    said = []
    for (world, agent), pairs in found.items():
        known = [pair for pair in pairs if not np.isnan(pair).any()]
        if not known:
            said.append(f"On {world} whether the need of {agent} was accurate was not measured")
            continue
        auc, baseline = np.mean(known, axis=0).tolist()
        if not accurate_need(auc, baseline):
            how = f"AUC {auc:.2f}, trivial scores {baseline:.2f}"
            how += f", means of {counted(len(known), 'run')}"
            said.append(f"On {world} the need of {agent} was not accurate ({how})")
    return [f"{words}; nothing can be concluded about it." for words in said]


@house_style()
def _pictures(cells: list[Cell], numbers: Numbers) -> list[Picture]:
    drawn: list[tuple[str, Figure, str]] = []
    curves = [cell for cell in cells if len(cell.x) > 1]
    points = [cell for cell in cells if len(cell.x) == 1]
    if curves:
        figure = draw_curves(curves, numbers.curves, numbers.agents)
        drawn.append(("Learning curves", figure, _CURVES))
    if points:
        drawn.append(("Scores", draw_points(points, numbers.finals, numbers.agents), _POINTS))
    if numbers.aggregates:
        shared = numbers.normalized
        figure = draw_aggregates(numbers.aggregates, shared.agents)
        over = f"Final scores, {shared.how}, over {counted(len(shared.tasks), 'task')}: "
        drawn.append(("All tasks together", figure, over + _AGGREGATES))
        profiles = draw_profiles(numbers.thresholds, numbers.profiles, f"score, {shared.how}")
        drawn.append(("Performance profiles", profiles, _PROFILES))
    return [Picture(title, inlined(figure), caption) for title, figure, caption in drawn]


_CURVES = (
    "Means over seeds with 95% bootstrap bands; with too few seeds for a band (fewer than six), "
    "every seed's curve is drawn thinly."
)
_POINTS = "Means over seeds with 95% bootstrap intervals."
_AGGREGATES = (
    "stratified bootstrap 95% intervals; a mark without a bar has fewer than three runs of some "
    "task. For the optimality gap less is better."
)
_PROFILES = (
    "The share of runs with a final score above each threshold, with 95% bands: a curve that lies "
    "above another everywhere is better everywhere."
)


def _rows(
    runs: list[ReadRun], labels: dict[str, str], cells: list[Cell], numbers: Numbers | None
) -> dict[str, list[list[object]]]:
    """The page's tables, as cells for the filter ``cell``."""
    named = {
        run.name: [
            Markup("<code>{}</code>").format(run.name),
            run.config.get("world", ""),
            labels[run.name],
            run.config.get("seed", ""),
        ]
        for run in runs
    }
    shown = Markup("<details><summary>show</summary><pre>{}</pre></details>")
    rows: dict[str, list[list[object]]] = {
        "runs": [
            [
                *named[run.name],
                run.state,
                "" if run.seconds is None else run.seconds,
                shown.format(run.command) if run.command else "",
            ]
            for run in runs
        ],
        "need": [[*named[run.name], *run.need.values()] for run in runs if run.need],
    }
    if numbers is None:
        return rows
    found = numbers.aggregates
    return rows | {
        "scores": [
            [
                cell.task,
                cell.agent,
                cell.measure.y,
                len(cell.trials),
                numbers.finals[cell.task, cell.agent],
                *(float(cell.scores[name].mean()) for name in ("best", "area")),
            ]
            for cell in cells
        ],
        "aggregates": [
            [score, agent, *(found[score, name, agent] for name in AGGREGATES)]
            for score in (SCORES if found else ())
            for agent in numbers.normalized.agents
        ],
        "improvement": [
            [*pair, one] for (score, *pair), one in numbers.improvements.items() if score == "final"
        ],
        "paired": [
            [*key, pair.pairs, pair.difference, p] for key, (pair, p) in numbers.paired.items()
        ],
    }


def _runs_table(runs: list[ReadRun], labels: dict[str, str]) -> Table:
    return Table(
        {
            "run": [run.name for run in runs],
            "world": [str(run.config.get("world", "")) for run in runs],
            "agent": [labels[run.name] for run in runs],
            "seed": [str(run.config.get("seed", "")) for run in runs],
            "state": [run.state for run in runs],
            "seconds": [float("nan") if run.seconds is None else run.seconds for run in runs],
            **{name: [run.need.get(name, float("nan")) for run in runs] for name in NEED},
            "command": [run.command for run in runs],
        }
    )
