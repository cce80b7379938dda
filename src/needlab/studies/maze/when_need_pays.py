"""Where need saves steps in mazes, and where it does not: the preregistered tabular map.

``docs/preregistration.md`` fixed worlds, arms, metric and tests before the trials were run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.sparse.csgraph import shortest_path

from needlab.core.tables import Table, long_table
from needlab.report.aggregate import holm
from needlab.report.claims import Claim, Verdict
from needlab.report.figures import new_figure
from needlab.report.statistics import permutation_test, ratio_interval
from needlab.runs.trials import TrialRunner
from needlab.studies.study import Options, Result, Size, Study
from needlab.tabular.arrays import new_arrays
from needlab.tabular.settings import LearningSettings, agent_settings
from needlab.tabular.successor import random_policy_matrix
from needlab.tabular.trial import run_episodes
from needlab.worlds.boards import DYNA_MAZE
from needlab.worlds.tabular import Schedule, TabularWorld, world_of_arrays
from needlab.worlds.text import magnified, next_states
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray, IntArray
from needreplay.equations import closed_form

PRESETS = {"6x9": 1, "12x18": 2}
"""the size of the maze: its resolution"""
TRIALS: dict[Size, int] = {"quick": 20, "full": 500}
EPISODES = 30
GOAL_PERIOD = 10
"""episodes between moves of the goal"""
GOALS = ((0, 8), (5, 8), (0, 3))
"""cells of the Dyna maze; a fixed goal is the first"""
EPISODE_STEPS = 2_000

ARMS = {
    "ps": "PS (need 1)",
    "ps-sr .95": "PS-SR, horizon .95",
    "ps-sr .5": "PS-SR, horizon .5",
    "distance": "0.5^distance",
    "shuffled": "0.5^distance, shuffled",
    "dyna-q": "Dyna-Q",
}
SHOWN = tuple(arm for arm in ARMS if arm != "ps")


class World(NamedTuple):
    """One cell of the map, without the agent."""

    resolution: int
    random_start: bool
    moving_goal: bool
    slip: float
    updates: int
    step_size: float

    def row(self) -> str:
        """The label of its row in the figure."""
        start = "random" if self.random_start else "fixed"
        goal = "moving" if self.moving_goal else "fixed"
        size = f"{6 * self.resolution}x{9 * self.resolution}"
        return f"{size}, {start} start, {goal} goal, slip {self.slip:g}"

    def column(self) -> str:
        """The label of its column in the figure."""
        return f"n={self.updates}\nα={self.step_size:g}"


LEVELS: dict[Size, tuple[tuple[Any, ...], ...]] = {
    "quick": ((False, True), (False, True), (0.0,), (5,), (0.1, 1.0)),
    "full": ((False, True), (False, True), (0.0, 0.2), (1, 5, 20), (0.1, 1.0)),
}
"""All combinations, for each size of the maze: the fields of ``World`` after the first."""


class Case(NamedTuple):
    """One arm in one cell."""

    world: World
    arm: str
    seed: int


@cache
def board(resolution: int, number: int = 0) -> TabularWorld:
    """The Dyna maze at a resolution with goal ``number``; other goals are cells like the rest."""
    rows = magnified(DYNA_MAZE.replace("G", ".").split(), resolution)
    flat, columns = "".join(rows), len(rows[0])
    row, column = GOALS[number]
    goal = (row * columns + column) * resolution
    return world_of_arrays(
        next_states(rows),
        [flat.index("S")],
        goals=[goal],
        rewards={goal: [(1.0, 0.0)]},
        start_rule="in order",
        free=[name != "#" for name in flat],
        columns=columns,
    )


def _moves(resolution: int) -> FloatArray:
    """T of the random policy, without final states."""
    next_state = board(resolution).next_state
    return random_policy_matrix(next_state, np.zeros(next_state.shape, np.bool_))


@cache
def distances(resolution: int) -> FloatArray:
    """[state, state]: steps of a shortest path; as many as there are states where there is none."""
    T = _moves(resolution)
    found: FloatArray = shortest_path(T, unweighted=True)
    return np.minimum(found, len(T))


@cache
def random_walk(resolution: int, discount: float) -> FloatArray:
    """M of the random policy, where the first goal ends the walk."""
    T = _moves(resolution)
    T[board(resolution).goals[0]] = 0.0
    return closed_form(T, discount)


def changing_world(world: World, seed: int, trial: int) -> Schedule:
    """The starts and goals of a trial: the same for every arm."""
    changes = range(0, EPISODES, GOAL_PERIOD) if world.moving_goal else (0,)
    boards = [board(world.resolution, i % len(GOALS)) for i in range(len(changes))]
    starts = boards[0].starts
    if world.random_start:
        rng = stream(seed, "when need pays", "starts", trial)
        free = np.flatnonzero(boards[0].free)
        goals = [boards[episode // GOAL_PERIOD % len(boards)].goals for episode in range(EPISODES)]
        starts = np.array([rng.choice(free[free != goal]) for goal in goals])
    return [
        (begin, now._replace(starts=starts, slip=world.slip))
        for begin, now in zip(changes, boards, strict=True)
    ]


def agent_of(case: Case, trial: int) -> tuple[LearningSettings, FloatArray | None]:
    """The settings and the initial M of an arm."""
    world, arm = case.world, case.arm
    own: dict[str, Any] = {"planning_updates": world.updates, "step_size": world.step_size}
    if arm in ("ps", "dyna-q"):
        return agent_settings(arm, **own), None
    if arm.startswith("ps-sr"):
        horizon = float(arm.split()[1])
        settings = agent_settings("ps-sr", **own, successor_discount=horizon)
        return settings, random_walk(world.resolution, horizon)
    kernel: FloatArray = np.power(0.5, distances(world.resolution))
    if arm == "shuffled":
        free = np.flatnonzero(board(world.resolution).free)
        places = np.arange(len(kernel))
        rng = stream(case.seed, "when need pays", "shuffled", trial)
        places[free] = rng.permutation(free)
        kernel = kernel[:, places]
    return agent_settings("ps-sr", **own, learn_successor=False), kernel


def _steps(case: Case, trial: int) -> dict[str, IntArray]:
    settings, M = agent_of(case, trial)
    world = changing_world(case.world, case.seed, trial)
    rng = stream(case.seed, "when need pays", trial)
    maze = world[0][1]
    agent = new_arrays(maze.n_states, maze.n_actions, M)
    steps = run_episodes(agent, world, settings, EPISODES, rng, episode_steps=EPISODE_STEPS)
    return {"later": steps[1:].sum(), "first": steps[0]}


def run(options: Options, runner: TrialRunner) -> Result:
    """Run every arm in every cell; ratios to PS with paired intervals, and Holm's p values."""
    resolutions = [PRESETS[name] for name in options.presets]
    worlds = [World(*values) for values in product(resolutions, *LEVELS[options.size])]
    seed = options.seed
    trials = options.trials or TRIALS[options.size]
    cases = [Case(world, arm, seed) for world in worlds for arm in ARMS]
    seconds = [0.002 * (1 + case.world.updates / 5) * case.world.resolution**3 for case in cases]
    found = runner.run(_steps, cases, trials, label="when need pays", seconds=seconds)
    later = {(case.world, case.arm): columns["later"] for case, columns in found.items()}
    summary = _summary(worlds, later, seed)
    return Result(
        tables={"data": summary},
        figures={"figure": _draw(worlds, summary)},
        captions={
            "figure": "Steps in episodes 2 to 30 of each agent, divided by those of prioritized "
            f"sweeping without need; {trials} paired trials. "
            "Blue: fewer steps. Gray text: not different from 1 after Holm's correction over the "
            "worlds."
        },
        claims=_claims(worlds, later, ", ".join(options.presets), seed),
        config={"trials": trials, "episodes": EPISODES, "arms": list(ARMS)},
        notes=[
            "The design was fixed in docs/preregistration.md before the trials were run, except "
            "that 12x18 mazes had 20 trials at first; a look at these came before the others."
        ],
    )


def _summary(worlds: Sequence[World], later: dict[tuple[World, str], IntArray], seed: int) -> Table:
    keys = [(world, arm) for arm in SHOWN for world in worlds]
    rng = stream(seed, "when need pays", "statistics")
    ratios = [ratio_interval(later[key], later[key[0], "ps"], rng, paired=True) for key in keys]
    p = [permutation_test([later[key]], [later[key[0], "ps"]], rng, paired=True) for key in keys]
    size = len(worlds)
    adjusted = [x for begin in range(0, len(p), size) for x in holm(p[begin : begin + size])]
    rows = [
        (
            (*world, arm),
            {
                "trials": len(later[world, arm]),
                "steps": later[world, arm].mean(),
                "ps_steps": later[world, "ps"].mean(),
                **ratio.columns("ratio"),
                "p_holm": own,
            },
        )
        for (world, arm), ratio, own in zip(keys, ratios, adjusted, strict=True)
    ]
    return long_table((*World._fields, "arm"), rows)


def _draw(worlds: Sequence[World], summary: Table) -> Figure:
    rows = list(dict.fromkeys(world.row() for world in worlds))
    columns = list(dict.fromkeys(world.column() for world in worlds))
    figure, grid = new_figure(1, len(SHOWN), height=1.2 + 0.32 * len(rows))
    figure.set_figwidth(4.0 + 2.2 * len(SHOWN))
    for axes, arm in zip(grid[0], SHOWN, strict=True):
        own = summary.where(arm=arm)
        values = np.full((len(rows), len(columns)), np.nan)
        for world, ratio, p in zip(worlds, own["ratio"], own["p_holm"], strict=True):
            place = rows.index(world.row()), columns.index(world.column())
            values[place] = ratio
            axes.text(
                place[1], place[0], f"{ratio:.2f}", ha="center", va="center", fontsize=7,
                color="black" if p < 0.05 else "#999999",
            )  # fmt: skip
        axes.imshow(np.log2(values), cmap="RdBu_r", vmin=-2, vmax=2, aspect="auto", alpha=0.7)
        axes.set_title(ARMS[arm], fontsize=9)
        axes.set_xticks(range(len(columns)), columns, fontsize=7)
        axes.set_yticks(range(len(rows)), rows if axes is grid[0, 0] else [], fontsize=7)
        axes.grid(visible=False)
    return figure


TESTS = (
    ("ps-sr .95", "ps", "learned need, horizon .95, saves steps over PS"),
    ("ps-sr .5", "ps", "learned need, horizon .5, saves steps over PS"),
    ("distance", "shuffled", "nearness saves steps over the same numbers on wrong states"),
    ("ps-sr .95", "distance", "learned need, horizon .95, saves steps over 0.5^distance"),
    ("ps-sr .95", "dyna-q", "learned need, horizon .95, saves steps over Dyna-Q"),
)


def _claims(
    worlds: Sequence[World],
    later: dict[tuple[World, str], IntArray],
    preset: str,
    seed: int,
) -> list[Claim]:
    """For each preregistered comparison: in how many cells it is less, more, not different."""
    rng = stream(seed, "when need pays", "claims")
    claims = []
    for arm, rival, statement in TESTS:
        pairs = [(later[world, arm], later[world, rival]) for world in worlds]
        tests = [permutation_test([a], [b], rng, paired=True, resamples=100_000) for a, b in pairs]
        p = np.array(holm(tests))
        ratios = np.array([a.mean() / b.mean() for a, b in pairs])
        fewer = int(np.count_nonzero((p < 0.05) & (ratios < 1)))
        more = int(np.count_nonzero((p < 0.05) & (ratios > 1)))
        verdict: Verdict = "undecided"
        if fewer > len(worlds) / 2:
            verdict = "holds"
        elif more >= len(worlds) / 2:
            verdict = "does not hold"
        low, middle, high = np.quantile(ratios, [0, 0.5, 1])
        claims.append(
            Claim(
                statement=f"In most worlds {statement}",
                source="preregistration",
                measured=f"fewer steps in {fewer} of {len(worlds)} worlds, more in {more}; ratio "
                f"of steps: median {middle:.2f}, from {low:.2f} to {high:.2f}",
                verdict=verdict,
                preset=preset,
                detail="Paired permutation test in each world, Holm over worlds.",
            )
        )
    return claims


STUDY = Study(
    name="when-need-pays",
    title="When does need pay? The tabular map",
    question="In which mazes does prioritized sweeping with need take fewer steps than without?",
    presets=tuple(PRESETS),
    quick_presets=("6x9",),
    run=run,
    documentation="docs/when_need_pays.md",
)
