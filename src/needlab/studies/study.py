"""What a study is: trials -> tables -> figures and claims, run with ``Options``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from needlab.core.tables import Table
from needlab.core.types import JsonObject
from needlab.report.claims import Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from needlab.runs.trials import TrialRunner

Size: TypeAlias = Literal["quick", "full"]
Option: TypeAlias = Literal["trials", "trial", "states", "world"]


@dataclass(frozen=True)
class Options:
    """How to run a study.

    Args:
        presets: the sets of settings to run; a study gets only those that it has.
        trials: trials of each agent; ``None`` is the study's own number for the size.
        seed: every random number follows from it.
        workers: how many processes; results do not depend on it.
        size: "quick" is minutes for everything, "full" is the paper's size or more.
        trial: which trial to show where a picture can show only one.
        states: the sizes of a world whose size can be chosen; empty: the study's own.
        world: a world by name, or a file with a maze as text; empty: the study's own.
    """

    presets: tuple[str, ...]
    trials: int | None
    seed: int
    workers: int
    size: Size
    trial: int = 0
    states: tuple[int, ...] = ()
    world: str = ""


@dataclass
class Result:
    """What a study found.

    Args:
        tables: by file stem; "data" is required.
        figures: by file stem; "figure" is required, others are extra pictures.
        captions: a caption for each figure, by the same stem.
        claims: what is claimed and whether it holds, per preset.
        config: the complete settings that were used.
        notes: paragraphs that a reader of the figure should know.
    """

    tables: dict[str, Table]
    figures: dict[str, Figure]
    captions: dict[str, str] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    config: JsonObject = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Study:
    """One experiment: which trials, which figure, which claims.

    Args:
        name: the study's name on the command line, and its folder.
        title: a headline.
        question: what the paper says or asks, in one or two sentences.
        presets: the sets of settings that it has.
        run: runs the trials and returns the result; ``reproduce`` sets the house style for it.
        documentation: its page, relative to the project's root.
        paper: whose experiment it is, a name of ``report.figures_page.PAPERS``.
        quick_presets: the presets of the quick size if none is chosen; empty: all.
        takes: which options it uses.
        keeps_cache: keep the cache of a finished study, and share it between options. For long
            training runs: a later call with more seeds runs only the new ones.
    """

    name: str
    title: str
    question: str
    presets: tuple[str, ...]
    run: Callable[[Options, TrialRunner], Result]
    documentation: str
    paper: str = "yuan-mattar"
    quick_presets: tuple[str, ...] = ()
    takes: tuple[Option, ...] = ("trials",)
    keeps_cache: bool = False

    def default_presets(self, size: Size) -> tuple[str, ...]:
        """The presets that run if none is chosen."""
        return (self.quick_presets if size == "quick" else ()) or self.presets
