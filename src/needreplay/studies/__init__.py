"""The studies, by name. A study's module is imported by ``load_study``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from needreplay.core.errors import unknown

if TYPE_CHECKING:
    from needreplay.studies.study import Study


class Listing(NamedTuple):
    """A study in the list: enough for the help text, without importing it."""

    name: str
    module: str
    """it has a ``STUDY``"""
    shows: str
    """what its figure shows, in a few words"""


STUDIES: tuple[Listing, ...] = (
    Listing("fig1", "needreplay.studies.maze.fig1", "the start's occupancy as it is learned"),
    Listing("fig2", "needreplay.studies.maze.fig2", "steps per episode, PS against PS-SR"),
    Listing("dyna", "needreplay.studies.maze.dyna", "Dyna-Q with n = 0, 5, 50 beside PS and PS-SR"),
    Listing("mazes", "needreplay.studies.maze.growth", "updates until optimal as mazes grow"),
    Listing("maze-settings", "needreplay.studies.maze.settings", "each setting changed alone"),
    Listing("maze-replay", "needreplay.studies.maze.replay", "what is replayed, in order"),
    Listing("when-need-pays", "needreplay.studies.maze.when_need_pays", "where need saves steps"),
    Listing("fig3", "needreplay.studies.cliffwalk", "PER against PER with need in the cliffwalk"),
    Listing("fig5", "needreplay.studies.deep", "deep PER-SR: the published runs, ours on MinAtar"),
    Listing("exact-need", "needreplay.studies.deep.exact", "deep Q-learning with exact need"),
    Listing("minatar", "needreplay.studies.deep.minatar", "need in MinAtar against its controls"),
    Listing(
        "mattar-daw", "needreplay.studies.mattar_daw", "forward and reverse replay by gain x need"
    ),
)
"""Every study, in the order in which they run and stand on the page."""


SWEEP_KINDS = {"cliffwalk": "needreplay.studies.cliffwalk.sweep_kind:KIND"}
"""The kinds of run that studies add to sweeps: ``load_sweep(..., kinds=SWEEP_KINDS)``."""


def study_names() -> tuple[str, ...]:
    """The names of all studies, in order."""
    return tuple(listing.name for listing in STUDIES)


def load_study(name: str) -> Study:
    """Import the study called ``name``."""
    for listing in STUDIES:
        if listing.name == name:
            study: Study = import_module(listing.module).STUDY
            return study
    raise unknown("figure", name, study_names())
