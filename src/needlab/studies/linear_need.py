"""Linear Q-learning with tile codes: does replay by gain x need pay where updates are local?

Part 6 of ``docs/preregistration.md`` fixed worlds, arms, metric and tests before the runs.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import gymnasium
import numpy as np

import needlab.worlds  # noqa: F401  (registers our worlds)
from needlab.core.tables import Table, long_table
from needlab.core.types import Values
from needlab.linear import LinearQ, encode_space, linear_settings
from needlab.report.aggregate import holm, stratified_difference
from needlab.report.claims import Claim, Verdict, tested_verdict
from needlab.report.statistics import Interval, permutation_test
from needlab.runs.trials import TrialRunner
from needlab.studies.deep.arms_figure import draw_arms
from needlab.studies.study import Options, Result, Study
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray

NEED = "gain x need"
ARMS = {
    "uniform": "linear",
    "gain": "linear-per",
    NEED: "linear-per-sr",
    "shuffled need": "linear-per-sr-shuffled",
}
RIVALS = ("gain", "shuffled need", "uniform")
BOTH = "both worlds"
PLANNED = 1.10
"""The ratio that the plan set out to see: need that is surely below it does not pay."""
SEARCH = 50_000
"""Steps within which a first goal must be found, where reward is sparse."""


class Task(NamedTuple):
    """A world, its codes, and how long an agent learns."""

    world: str
    options: dict[str, Any]
    cells: tuple[int, int]
    discount: float
    steps: int
    """that count"""
    after_first: bool
    """count from the first goal on: before it nothing can be learned, and all arms are the same"""
    seeds: int


TASKS = {
    "Mountain Car": Task(
        "MountainCar-v0", {"max_episode_steps": 1_000}, (8, 8), 0.99, 15_000, False, 30
    ),
    "continuous maze": Task("needreplay/ContinuousMaze-v1", {}, (6, 9), 0.95, 5_000, True, 60),
}
SETTINGS: Values = {
    "step_size": 0.5, "epsilon": 0.1, "batch_size": 4, "target_period": 100, "capacity": 10_000,
}  # fmt: skip
TILINGS = 4


class Case(NamedTuple):
    """An arm in a task."""

    task: str
    arm: str
    first_seed: int = 0
    """of trial 0"""
    share: float = 1.0
    """of the steps that count; less for a quick look"""


def learn(case: Case, trial: int) -> dict[str, float]:
    """One run: how many goals were reached, and the CPU time that it took."""
    began, task, seed = time.process_time(), TASKS[case.task], case.first_seed + trial
    env = gymnasium.make(task.world, **task.options)
    encoding = encode_space("tile", env.observation_space, cells=task.cells, tilings=TILINGS)
    settings = linear_settings(ARMS[case.arm], discount=task.discount, **SETTINGS)
    agent = LinearQ(encoding, int(env.action_space.n), settings, seed=seed)  # type: ignore[attr-defined]
    obs, _ = env.reset(seed=seed)
    agent.begin(obs)
    counted = round(task.steps * case.share)
    step, first, goals, end = 0, -1, 0, SEARCH if task.after_first else counted
    while step < end:
        action = agent.act(obs)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        agent.learn(obs, action, float(reward), next_obs, terminated)
        step += 1
        obs = next_obs
        if terminated:
            if first < 0 and task.after_first:
                end = step + counted
            goals += first >= 0 or not task.after_first
            first = step if first < 0 else first
        if terminated or truncated:
            obs, _ = env.reset()
            agent.begin(obs)
    env.close()
    seconds = time.process_time() - began
    return {"goals": goals, "first": first, "steps": step, "cpu_seconds": seconds}


def run(options: Options, runner: TrialRunner) -> Result:
    """All arms in both worlds, then the comparisons of the plan."""
    quick = options.size == "quick"
    cases = [Case(task, arm, options.seed, 0.2 if quick else 1.0) for task in TASKS for arm in ARMS]
    seeds = [options.trials or (2 if quick else TASKS[case.task].seeds) for case in cases]
    label = f"linear need, {options.size}, seed {options.seed}"
    found = runner.run(learn, cases, seeds, label=label, seconds=4.0)
    data = long_table(
        ("task", "arm"),
        [
            ((case.task, case.arm), {"seed": np.arange(len(columns["goals"])), **columns})
            for case, columns in found.items()
        ],
    )
    compared = comparisons(data, options.seed)
    return Result(
        tables={"data": data, "differences": compared},
        figures={
            "figure": draw_arms(
                list(TASKS),
                list(ARMS),
                lambda task, arm: data.where(task=task, arm=arm)["goals"].astype(float),
                lambda arm: arm == NEED,
            )
        },
        captions={
            "figure": "Goals reached in 15,000 steps of Mountain Car, and in the 5,000 steps after "
            "the first goal of the continuous maze: means with Student's 95% intervals; small dots "
            "are single runs."
        },
        claims=claims_of(compared),
        config={
            "settings": SETTINGS, "tilings": TILINGS, "arms": ARMS,
            "tasks": {name: task._asdict() for name, task in TASKS.items()},
        },
        notes=["The design was fixed in docs/preregistration.md before the runs."],
    )  # fmt: skip


def _logs(data: Table, task: str, arm: str, column: str) -> FloatArray:
    found: FloatArray = np.log(data.where(task=task, arm=arm)[column] + 1.0 * (column == "goals"))
    return found


def comparisons(data: Table, seed: int) -> Table:
    """Need against each rival: ratios of goals + 1, paired by seed, and ratios of CPU time.

    ``p`` is that of a paired permutation test, stratified by world, Holm over the rivals.
    """
    rows: dict[tuple[str, str], dict[str, float]] = {}
    tests = []
    for rival in RIVALS:
        goals, costs = (
            [[_logs(data, task, arm, column) for task in TASKS] for arm in (NEED, rival)]
            for column in ("goals", "cpu_seconds")
        )
        for place, task in enumerate((*TASKS, BOTH)):
            own, other = ([part[place]] if task != BOTH else part for part in goals)
            (interval, visible), cost = (
                stratified_difference(own, other),
                float(np.mean([(a - b).mean() for a, b in zip(*costs, strict=True)])),
            )
            log = (interval.estimate, interval.low, interval.high, visible, cost)
            names = ("ratio", "low", "high", "visible", "cpu_ratio")
            rows[rival, task] = dict(zip(names, np.exp(log).tolist(), strict=True))
        rng = stream(seed, "linear need", rival)
        tests.append(permutation_test(goals[0], goals[1], rng, paired=True, scaled=False))
    for rival, p in zip(RIVALS, holm(tests), strict=True):
        for task in (*TASKS, BOTH):
            rows[rival, task]["p"] = p if task == BOTH else np.nan
    return long_table(("rival", "task"), rows)


def claims_of(compared: Table) -> list[Claim]:
    """The plan's verdict on the prediction, and whether need reaches more goals than each rival."""
    rows = {rival: next(compared.where(rival=rival, task=BOTH).rows()) for rival in RIVALS}
    claims = [_prediction(rows["gain"], rows["shuffled need"])]
    for rival, row in rows.items():
        claims.append(
            Claim(
                statement=f"Linear Q-learning reaches more goals by gain x need than by {rival}",
                source="preregistration",
                measured=f"ratio of goals, geometric mean of two worlds: {_interval(row).text()}, "
                f"p = {row['p']:.2g} after Holm",
                verdict=tested_verdict(row["p"], row["ratio"] > 1.0),
                preset="default",
                detail="Paired by seed, stratified by world. The interval is Student's, for this "
                f"comparison alone. A true ratio of {row['visible']:.2f} is seen with 90% power.",
            )
        )
    return claims


def _prediction(gain: dict[str, Any], shuffled: dict[str, Any]) -> Claim:
    """Part 6 of the plan: ahead of both, or surely less than ``PLANNED`` ahead of gain."""
    verdict: Verdict = "undecided"
    if all(row["p"] < 0.05 and row["ratio"] > 1.0 for row in (gain, shuffled)):
        verdict = "holds"
    elif gain["high"] < PLANNED:
        verdict = "does not hold"
    return Claim(
        statement="Need pays in linear agents with tile codes, whose updates are local",
        source="preregistration",
        measured=f"need / gain {_interval(gain).text()}, need / shuffled need "
        f"{_interval(shuffled).text()}",
        verdict=verdict,
        preset="default",
        detail="It holds if need is ahead of both (p < .05 after Holm), and does not where the "
        f"interval of need / gain lies below {PLANNED:g}.",
    )


def _interval(row: dict[str, Any]) -> Interval:
    return Interval(row["ratio"], row["low"], row["high"])


STUDY = Study(
    name="linear-need",
    title="Linear Q-learning with tile codes",
    question="In worlds too large for a table, with updates that stay local: does replay by gain x "
    "need learn faster than by gain, by shuffled need, and than uniform replay?",
    presets=("default",),
    run=run,
    documentation="docs/linear.md",
    keeps_cache=True,
)
