"""What a study is: it is asked with a Request and answers with an Outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from needreplay.core.progress import Progress
from needreplay.core.tables import Table
from needreplay.report.claims import Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Size: TypeAlias = Literal["quick", "full"]
Choice: TypeAlias = Literal["trials", "trial", "states"]


@dataclass(frozen=True)
class Request:
    """How a study shall be run.

    Args:
        presets: the sets of settings to run; a study gets only such as it has.
        trials: how many trials of each; ``None`` is the study's own number for the size.
        seed: every random number follows from it.
        workers: how many processes; results do not depend on it.
        size: "quick" is minutes for everything, "full" is the paper's size or more.
        trial: which trial is shown where a picture can show only one.
        states: the sizes of a world whose size can be chosen; none are the study's own.
        runs_folder: where runs are kept, to be gone on with after a stop; ``None``: nowhere.
    """

    presets: tuple[str, ...]
    trials: int | None
    seed: int
    workers: int
    size: Size
    trial: int = 0
    states: tuple[int, ...] = ()
    runs_folder: Path | None = None


@dataclass
class Outcome:
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
    config: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Study:
    """One experiment: which runs, which figure, what is claimed.

    Args:
        name: of the study, its command-line word and its folder.
        title: a headline.
        question: what the paper says or asks, in one or two sentences.
        presets: the sets of settings that it has.
        run: answers a request.
        documentation: where its page is, relative to the project's root.
        quick_presets: what the quick size runs where no preset is asked for; none means all.
        takes: which of a request's choices it follows.
        keeps_runs: its runs stay when it is finished, because they are long and a request for
            more of them goes on with those; else ``data.csv`` has everything, and they go.
    """

    name: str
    title: str
    question: str
    presets: tuple[str, ...]
    run: Callable[[Request, Progress], Outcome]
    documentation: str
    quick_presets: tuple[str, ...] = ()
    takes: tuple[Choice, ...] = ("trials",)
    keeps_runs: bool = False

    def default_presets(self, size: Size) -> tuple[str, ...]:
        """What runs where no preset is asked for."""
        return (self.quick_presets if size == "quick" else ()) or self.presets
