"""Steps per episode in the Dyna maze: what fig2, dyna and maze-settings compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from needreplay.core.progress import Progress
from needreplay.core.types import IntArray
from needreplay.studies.base import Request
from needreplay.studies.runs import Experiment, run_experiments
from needreplay.sweeps import maze
from needreplay.tabular.settings import LearningSettings

EPISODES = 50
_SECONDS = 0.002
"""Of one trial, about."""


def agent_settings(agent: dict[str, Any]) -> LearningSettings:
    """The settings of an agent that ``maze_steps`` would run."""
    return maze.settings_of(maze.complete(agent))


def maze_steps(
    agents: Sequence[dict[str, Any]],
    trials: int,
    request: Request,
    progress: Progress,
    title: str,
) -> list[IntArray]:
    """For each agent (what a run of kind ``maze`` says of it): [trial, episode], the steps."""
    experiments = [
        Experiment("maze", {"seed": request.seed, "episodes": EPISODES, **agent}, trials, _SECONDS)
        for agent in agents
    ]
    tables = run_experiments(experiments, request, progress, title)
    return [table["steps"].reshape(trials, EPISODES) for table in tables]
