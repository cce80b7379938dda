"""The studies, by name. A study's module is imported by ``load_study``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from needreplay._core.errors import unknown

if TYPE_CHECKING:
    from needlab.studies.study import Study


class Listing(NamedTuple):
    """A study in the list: enough for the help text, without importing it."""

    name: str
    module: str
    """it has a ``STUDY``"""
    shows: str
    """what its figure shows, in a few words"""


STUDIES: tuple[Listing, ...] = (
    Listing("fig1", "needlab.studies.maze.fig1", "the start's occupancy as it is learned"),
    Listing("fig2", "needlab.studies.maze.fig2", "steps per episode, PS against PS-SR"),
    Listing("dyna", "needlab.studies.maze.dyna", "Dyna-Q with n = 0, 5, 50 beside PS and PS-SR"),
    Listing("mazes", "needlab.studies.maze.growth", "updates until optimal as mazes grow"),
    Listing("maze-settings", "needlab.studies.maze.settings", "each setting changed alone"),
    Listing("maze-replay", "needlab.studies.maze.replay", "what is replayed, in order"),
    Listing("when-need-pays", "needlab.studies.maze.when_need_pays", "where need saves steps"),
    Listing("fig3", "needlab.studies.cliffwalk", "PER against PER with need in the cliffwalk"),
    Listing("fig5", "needlab.studies.deep", "deep PER-SR: the published runs, ours on MinAtar"),
    Listing("exact-need", "needlab.studies.deep.exact", "deep Q-learning with exact need"),
    Listing("linear-need", "needlab.studies.linear_need", "need in linear agents with tile codes"),
    Listing("need-quality", "needlab.studies.deep.need_quality", "how accurate learned need is"),
    Listing(
        "similar-states", "needlab.studies.deep.similar_states", "where states look alike and recur"
    ),
    Listing(
        "value-of-backup",
        "needlab.studies.locality.value_of_backup",
        "what an update is worth, and what predicts it",
    ),
    Listing(
        "diagnosis", "needlab.studies.locality.diagnosis", "the diagnosis against exact values"
    ),
    Listing("ladder", "needlab.studies.locality.ladder", "where need stops paying, up to DQN"),
    Listing("minatar", "needlab.studies.deep.minatar", "need in MinAtar against its controls"),
    Listing(
        "mattar-daw", "needlab.studies.mattar_daw", "forward and reverse replay by gain x need"
    ),
    Listing("replay-counts", "needlab.studies.replay_counts", "replay events of every agent"),
    Listing("rivals", "needlab.studies.rivals", "which model of replay explains which events"),
)
"""Every study, in the order in which they run and stand on the page."""


SWEEP_KINDS = {"cliffwalk": "needlab.studies.cliffwalk.cases:KIND"}
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
