"""Figure 3's pictures: the paper's four panels, the methods beyond the paper, and what decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from needlab.core.tables import Table
from needlab.report.data import shipped_table
from needlab.report.figures import AGENT_COLORS, PALETTE, draw_band, label_of, new_figure
from needlab.report.statistics import Band
from needlab.studies.cliffwalk.cases import CaseResult, Comparison, center_interval, compare
from needlab.studies.cliffwalk.claims import COMPARED, NOTHING, Effect
from needlab.studies.cliffwalk.settings import Method, cliffwalk_preset, in_words

COLORS: dict[str, str] = {
    "uniform": AGENT_COLORS["uniform"],
    "oracle": AGENT_COLORS["oracle"],
    "per": AGENT_COLORS["per"],
    "need": AGENT_COLORS["per-sr"],
    "need-random": "#009E73",
    "need-optimal": "#CC79A7",
    "rank": "#56B4E9",
    "pser": "#009E73",
    "need-backward": "#CC79A7",
    "need-magnitude": "#E69F00",
    "gain": "#000000",
}
FIRST: tuple[Method, ...] = ("uniform", "per", "need", "oracle")
SECOND: tuple[Method, ...] = ("per", "need-random", "need", "need-optimal", "oracle")
BEYOND: tuple[Method, ...] = (
    "need", "rank", "pser", "need-backward", "need-magnitude", "gain",
)  # fmt: skip
FALLS: dict[str, str] = {"ends": "ends the episode", "teleports": "back to the start"}

BEYOND_LOWEST, BEYOND_HIGHEST = 0.05, 30.0
"""The axis of ratios to PER; bounds above it are drawn at its edge."""


def paper_figure(
    results: Sequence[CaseResult], need_rows: Table, presets: Sequence[str], seed: int
) -> Figure:
    """The chain on top; below it for each preset: updates, the need row, kinds of need."""
    rows = 1 + len(presets)
    heights = [0.45, *[1.0] * len(presets)]
    figure, axes = new_figure(
        rows, 3, height=1.1 + 3.0 * len(presets), width=11.0, height_ratios=heights
    )
    for unused in axes[0]:
        unused.remove()
    _draw_chain(figure.add_subplot(axes[0, 0].get_gridspec()[0, :]), presets)
    for number, preset in enumerate(presets):
        first, middle, last = axes[number + 1]
        _draw_updates(first, results, preset, FIRST, seed)
        first.set_title(f"{preset}: need or gain")
        _draw_need_row(middle, need_rows, preset)
        _draw_updates(last, results, preset, SECOND, seed)
        last.set_title("kinds of need")
        if preset == "released":
            _draw_published(first, "first")
            _draw_published(last, "second")
    return figure


def _draw_chain(axes: Axes, presets: Sequence[str]) -> None:
    n = 6
    axes.set_axis_off()
    axes.set_xlim(-0.8, n + 0.8)
    axes.set_ylim(-1.0, 0.7)
    axes.set_aspect("equal")
    labels = [*[str(state) for state in range(1, n + 1)], "goal"]
    for state, label in enumerate(labels):
        color = "#009E73" if state == n else "#0072B2" if state == 0 else "#777777"
        axes.scatter([state], [0], s=620, color="white", edgecolor=color, linewidth=2, zorder=3)
        axes.text(state, 0, label, ha="center", va="center", fontsize=8, zorder=4)
        if state < n:
            axes.annotate(
                "", (state + 0.76, 0), (state + 0.24, 0),
                arrowprops={"arrowstyle": "->", "color": "#444444"},
            )  # fmt: skip
            axes.annotate(
                "", (state, -0.85), (state, -0.28),
                arrowprops={"arrowstyle": "->", "color": "#D55E00"},
            )  # fmt: skip
    axes.text(0, 0.38, "start", ha="center", fontsize=8, color="#0072B2")
    axes.text(n - 0.5, 0.38, "reward 1", ha="center", fontsize=8, color="#009E73")
    falls = [f"{preset}: {FALLS[cliffwalk_preset(preset).fall]}" for preset in presets]
    said = "\n".join(["wrong action", *falls])
    axes.text(n + 0.5, -0.4, said, va="center", fontsize=8, color="#D55E00")


def buffer_size_of(result: CaseResult) -> float:
    """The horizontal axis: the buffer's size, or the authors' number."""
    if cliffwalk_preset(result.label).buffer_axis == "authors":
        return (result.states - 1) * 2.0 ** (result.states - 1)
    return float(result.columns["transitions"][0])


def _draw_updates(
    axes: Axes, results: Sequence[CaseResult], preset: str, methods: Sequence[Method], seed: int
) -> None:
    settings = cliffwalk_preset(preset)
    for method in methods:
        ours = sorted(
            (f for f in results if f.label == preset and f.method == method),
            key=lambda f: f.states,
        )
        x = [buffer_size_of(f) for f in ours]
        band = Band.of(center_interval(f, settings.center, seed) for f in ours)
        draw_band(axes, x, band, color=COLORS[method], label=label_of(method), marker="o", ms=3)
        censored = [i for i, f in enumerate(ours) if f.censored]
        axes.scatter(
            [x[i] for i in censored], band.estimate[censored], s=60, marker="^",
            facecolor="white", edgecolor=COLORS[method], zorder=3,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(
        "transitions, as the authors count" if settings.buffer_axis == "authors" else "transitions"
    )
    axes.set_ylabel(f"updates ({settings.center})")
    axes.legend(fontsize=8)


def _draw_published(axes: Axes, panel: str) -> None:
    """The points of the paper's figure, over the authors' own axis."""
    table = shipped_table("fig3_published").where(panel=panel)
    for method in table.distinct("method"):
        own = table.where(method=method)
        before = own["states"] - 1.0
        axes.plot(before * 2.0**before, own["updates"], "x", color=COLORS[method], markersize=6)
    axes.plot([], [], "x", color="#444444", label="published")
    axes.legend(fontsize=8)


def _draw_need_row(axes: Axes, need_rows: Table, preset: str) -> None:
    here = need_rows.where(preset=preset, method="need")
    states, occupancy = here["state"], here["occupancy"]
    current = min(4, len(states) - 1)
    colors = ["#0072B2" if state == current else COLORS["need"] for state in states.tolist()]
    axes.bar(states + 1, occupancy, color=colors)
    axes.set_xlabel("state")
    axes.set_xticks(states + 1)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_ylabel("need, M's row")
    axes.set_title(f"need at state {current + 1}, {len(states)} states")


def beyond_figure(results: Sequence[CaseResult], presets: Sequence[str], seed: int) -> Figure:
    """Every other method's updates as a multiple of PER's, over the number of states."""
    figure, axes = new_figure(1, len(presets), height=3.8, width=3.8 * len(presets), sharey=True)
    for panel, preset in zip(axes[0], presets, strict=True):
        center = cliffwalk_preset(preset).center
        for method in BEYOND:
            held = compare(results, preset, method, "per", center, seed)
            own = [r for r in results if r.label == preset and r.method == method]
            _draw_ratio(panel, held, {r.states: r.censored for r in own}, method)
        panel.axhline(1.0, color=COLORS["per"], linewidth=1, linestyle="--")
        panel.set_yscale("log")
        panel.set_ylim(BEYOND_LOWEST, BEYOND_HIGHEST)
        panel.set_title(preset)
        panel.set_xlabel("states")
    axes[0, 0].set_ylabel("updates / updates of PER")
    axes[0, 0].legend(fontsize=8, ncols=2)
    return figure


def _draw_ratio(axes: Axes, held: Comparison, stopped: dict[int, int], method: str) -> None:
    """A line through sizes at which every trial converged; triangles where it would be a bound."""
    sizes = np.array(held.sizes)
    ratio = Band.of(map(held.at, held.sizes))
    complete = np.array([stopped[size] == 0 for size in held.sizes])
    shown = Band(
        *(np.where(complete, end, np.nan) for end in (ratio.estimate, ratio.low, ratio.high))
    )
    color = COLORS[method]
    draw_band(axes, sizes, shown, color=color, label=method, alpha=0.15, marker="o", ms=3)
    axes.scatter(
        sizes[~complete], np.minimum(ratio.estimate[~complete], BEYOND_HIGHEST / 1.2), s=30,
        marker="^", facecolor="white", edgecolor=color, zorder=3,
    )  # fmt: skip


def _round_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, or, where the axis has fewer than two decades, 1, 2 and 5 of each."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    leading = (1.0,) if high > 100.0 * low else (1.0, 2.0, 5.0)
    return [lead * 10.0**power for power in powers for lead in leading]


def deciding_figure(effects: Sequence[Effect]) -> Figure:
    """The ratio under each change, at the largest size, one column for each comparison."""
    largest = max(effect.states for effect in effects)
    here = [effect for effect in effects if effect.states == largest]
    changes = list(dict.fromkeys(effect.change for effect in here))
    figure, axes = new_figure(
        1, len(COMPARED), height=1.4 + 0.2 * len(changes), width=11.0, sharey=True
    )
    bases = list(dict.fromkeys(change.base for change in changes))
    colors = {base: PALETTE[i] for i, base in enumerate(bases)}
    for panel, (one, other) in zip(axes[0], COMPARED, strict=True):
        ours = {e.change: e for e in here if e.one == one}
        for place, change in enumerate(changes):
            ratio = ours[change].ratio
            known = np.isfinite([ratio.low, ratio.high]).all()
            if known:
                panel.plot([ratio.low, ratio.high], [place, place], color=colors[change.base])
            panel.scatter(
                [ratio.estimate], [place], color=colors[change.base], zorder=3,
                s=60 if change.setting == NOTHING else 18,
                marker="^" if ours[change].not_converged else "o",
            )  # fmt: skip
        panel.axvline(1.0, color="#444444", linewidth=1, linestyle="--")
        panel.set_xscale("log")
        low, high = panel.get_xlim()
        panel.set_xticks([tick for tick in _round_ticks(low, high) if low <= tick <= high])
        panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_title(f"{label_of(one)} / {label_of(other)}")
        panel.set_xlabel(f"ratio of updates, {largest} states")
    axes[0, 0].set_yticks(range(len(changes)))
    axes[0, 0].set_yticklabels(
        [
            change.base if change.setting == NOTHING else in_words(change.setting, change.value)
            for change in changes
        ],
        fontsize=8,
    )
    for label, change in zip(axes[0, 0].get_yticklabels(), changes, strict=True):
        label.set_color(colors[change.base])
        label.set_fontweight("bold" if change.setting == NOTHING else "normal")
    axes[0, 0].invert_yaxis()
    return figure
