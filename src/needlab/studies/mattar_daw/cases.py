"""Which simulations: presets, one change at a time, worlds, reward schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from needlab.core.presets import changed
from needlab.core.types import Values
from needlab.studies.mattar_daw.measures import measure, path_lengths
from needlab.tabular.evb.settings import EVB, EVBSettings, dyna, without_replay
from needlab.tabular.evb.simulation import new_agent, replay_once, simulate
from needlab.tabular.replay_events import Count
from needlab.worlds import TabularWorld, tabular_world
from needlab.worlds.boards import linear_track
from needreplay._core.rng import stream
from needreplay._core.types import IntArray

EPISODES = 50
UNCHANGED = "none"
LINEAR, OPEN = "linear track", "open field"
WORLDS = (LINEAR, OPEN)
AGENTS = ("full", "no replay", "dyna")

CHANGES: dict[str, Values] = {
    UNCHANGED: {},
    "floor on the sum": {"floor": "sum"},
    "no floor": {"floor": "none"},
    "no chains": {"extend_chains": False},
    "rate of T 0.1": {"transition_rate": 0.1},
    "replay before the first step": {"start_replay": "before-first-step"},
    "need from the goal": {"end_replay": "at-goal"},
    "beta 2": {"inverse_temperature": 2.0},
    "beta 20": {"inverse_temperature": 20.0},
    "gain by |TD|": {"gain": "td"},
    "need exact for the policy": {"need": "policy"},
    "need 1": {"need": "one"},
    "|TD| x need alone": {"gain": "td", "extend_chains": False, "floor": "none"},
}
"""Each changes one thing; the last is Yuan & Mattar's rule in these worlds: no chains, no floor.
"need 1" is what the authors' script for the open field sets."""
FLOOR = 1e-10
FLOORS = (1e-16, 1e-14, 1e-12, FLOOR, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3)
"""Smallest gains, and the published one; events only."""

MAGNITUDES: dict[str, tuple[float, ...]] = {
    "baseline": (1.0,),
    "1-or-4": (1.0, 4.0),
    "1-or-0": (1.0, 0.0),
}
SCHEDULES = {
    "baseline": ("baseline",),
    "1-or-4": ("1-or-4 after 1", "1-or-4 after 4"),
    "1-or-0": ("1-or-0 after 1", "1-or-0 after 0"),
}
"""By schedule of rewards, the names of the classes that events fall into."""


@dataclass(frozen=True)
class Variant:
    """A preset with one change."""

    preset: str
    change: str = UNCHANGED
    floor: float = FLOOR

    @property
    def settings(self) -> EVBSettings:
        """The agent's settings."""
        return changed(EVB[self.preset], **CHANGES[self.change], floor_size=self.floor)

    @property
    def count(self) -> Count:
        """``published`` counts events as the authors did; it must land on their numbers."""
        return "pairs" if self.preset == "published" else "states"


@dataclass(frozen=True)
class Case:
    """Simulations that differ only in their number."""

    variant: Variant
    world: str
    schedule: str = "baseline"
    agent: str = "full"
    seed: int = 0


def event_cases(variant: Variant, seed: int) -> dict[str, Case]:
    """Figures 3, 4, 5 and 6: the track with three schedules, and the open field."""
    places = [*((LINEAR, schedule) for schedule in MAGNITUDES), (OPEN, "baseline")]
    return {
        f"{world}/{schedule}": Case(variant, world, schedule, seed=seed)
        for world, schedule in places
    }


def floor_cases(floor: float, seed: int) -> dict[str, Case]:
    """Both worlds with another smallest gain."""
    variant = Variant("published", floor=floor)
    return {f"{world}/baseline": Case(variant, world, seed=seed) for world in WORLDS}


def behavior_cases(variant: Variant, seed: int) -> dict[str, Case]:
    """Figure 1: three agents in two worlds."""
    return {
        f"{world}/{agent}": Case(variant, world, agent=agent, seed=seed)
        for world in WORLDS
        for agent in AGENTS
    }


def single_case(name: str, variant: Variant, seed: int) -> dict[str, Case]:
    """Figures 4 and 5: sleep and shock have worlds of their own."""
    return {name: Case(variant, LINEAR, seed=seed)}


@cache
def world_of(name: str, schedule: str) -> tuple[TabularWorld, IntArray]:
    """A world and the lengths of its shortest paths."""
    task = tabular_world("open-field") if name == OPEN else linear_track(schedule)  # type: ignore[arg-type]
    return task, path_lengths(task)


def run_events(case: Case, simulation: int) -> dict[str, npt.ArrayLike]:
    """One simulation and its measures."""
    task, between = world_of(case.world, case.schedule)
    found = simulate(
        task, case.variant.settings, episodes=EPISODES, seed=case.seed, simulation=simulation
    )
    rng = stream(case.seed, "mattar-daw", "permutations", simulation)
    variant, magnitudes = case.variant, MAGNITUDES[case.schedule]
    return {**measure(task, found, magnitudes, between, variant.floor, variant.count, rng)}


def run_behavior(case: Case, simulation: int) -> dict[str, npt.ArrayLike]:
    """Steps per episode of a greedy agent; its gain still compares softmax policies."""
    settings = replace(case.variant.settings, behavior="epsilon-greedy", epsilon=0.0)
    if case.agent == "no replay":
        settings = without_replay(settings)
    elif case.agent == "dyna":
        settings = dyna(settings)
    task, _ = world_of(case.world, case.schedule)
    found = simulate(task, settings, episodes=EPISODES, seed=case.seed, simulation=simulation)
    return {"steps": found.lengths}


def run_sleep(case: Case, simulation: int) -> dict[str, npt.ArrayLike]:
    """Backups in the T-maze that run along the cued and the uncued arm, with offline need."""
    offline = "first-eigenvector" if case.variant.preset == "published" else "stationary"
    settings = replace(case.variant.settings, need=offline)  # type: ignore[arg-type]
    found = simulate(
        tabular_world("t-maze"), settings, episodes=EPISODES, seed=case.seed, simulation=simulation
    )
    state, action = found.backups["state"], found.backups["action"]
    left, right, junction = 2, 3, 2
    cued = (action == right) & np.isin(state, (junction, junction + 1))
    uncued = (action == left) & np.isin(state, (junction, junction - 1))
    return {"arms": np.array([cued.sum(), uncued.sum(), len(state)], np.float64)}


def run_shock(case: Case, simulation: int) -> dict[str, npt.ArrayLike]:
    """Whether the cell before the end is replayed, before and after a shock of -1 there."""
    task, rng = tabular_world("shock-track"), stream(case.seed, "mattar-daw", "shock", simulation)
    settings, right = case.variant.settings, 3
    agent, zone = new_agent(task, settings), task.n_states - 2
    before = replay_once(agent, task, settings, 0, rng)
    agent.reward[zone, right] = -1.0
    after = replay_once(agent, task, settings, 0, rng)
    return {"replayed": np.array([zone in log["state"] for log in (before, after)], np.float64)}


CASES: dict[str, Callable[[Variant, int], dict[str, Case]]] = {
    "events": event_cases,
    "behavior": behavior_cases,
    "sleep": partial(single_case, "sleep"),
    "shock": partial(single_case, "shock"),
}
"""The cases of a variant, by kind of simulation."""
SECONDS = {"events": 0.04, "behavior": 0.01, "sleep": 0.02, "shock": 0.001}
"""About how long a simulation takes."""


def run_case(job: tuple[str, Case], simulation: int) -> dict[str, npt.ArrayLike]:
    """Run one simulation of a kind: events, behavior, sleep or shock."""
    kind, case = job
    run = {"events": run_events, "behavior": run_behavior, "sleep": run_sleep, "shock": run_shock}
    return run[kind](case, simulation)
