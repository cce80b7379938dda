"""What a study is: trials -> tables -> figures and claims, run with ``Options``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from needreplay.core.tables import Table, joined
from needreplay.report.claims import Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from needreplay.studies.trials import TrialRunner

Size: TypeAlias = Literal["quick", "full"]
Option: TypeAlias = Literal["trials", "trial", "states"]


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
    """

    presets: tuple[str, ...]
    trials: int | None
    seed: int
    workers: int
    size: Size
    trial: int = 0
    states: tuple[int, ...] = ()


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
    config: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Study:
    """One experiment: which trials, which figure, which claims.

    Args:
        name: the study's name on the command line, and its folder.
        title: a headline.
        question: what the paper says or asks, in one or two sentences.
        presets: the sets of settings that it has.
        run: runs the trials and returns the result.
        documentation: its page, relative to the project's root.
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
    quick_presets: tuple[str, ...] = ()
    takes: tuple[Option, ...] = ("trials",)
    keeps_cache: bool = False

    def default_presets(self, size: Size) -> tuple[str, ...]:
        """The presets that run if none is chosen."""
        return (self.quick_presets if size == "quick" else ()) or self.presets


def long_table(names: Sequence[str], parts: Mapping[Any, Mapping[str, npt.ArrayLike]]) -> Table:
    """A table of all parts, one below the other; each part's key fills the columns ``names``.

    >>> long_table(["agent"], {"ps": {"steps": [3, 4]}, "ps-sr": {"steps": [2]}})["agent"].tolist()
    ['ps', 'ps', 'ps-sr']
    """
    stacked = []
    for key, columns in parts.items():
        arrays = {name: np.asarray(column) for name, column in columns.items()}
        length = max(array.size for array in arrays.values())
        values = zip(names, key if isinstance(key, tuple) else (key,), strict=True)
        keys = {name: np.full(length, value) for name, value in values}
        stacked.append(keys | {n: np.broadcast_to(a, length) for n, a in arrays.items()})
    return joined(stacked)
