"""Does the diagnosis for users rank classes of functions as exact values do?

``needreplay.need.diagnose`` knows no table and no exact value. Here both are computed, at the last
checkpoint of the runs of ``value-of-backup``, with the same exact need.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from matplotlib.figure import Figure
from scipy.stats import kendalltau

from needlab.core.tables import Table, long_table
from needlab.report.claims import Claim, Verdict
from needlab.report.figures import colors_of, new_figure
from needlab.runs.trials import TrialRunner
from needlab.studies.deep.exact_arms import HORIZON, Memory
from needlab.studies.deep.exact_tasks import ExactTask, exact_task
from needlab.studies.deep.exact_training import DISCOUNT, TableDQN
from needlab.studies.locality.backup import (
    CHECKPOINTS,
    FACTORS,
    TEMPERATURE,
    Case,
    Moment,
    checkpoints,
    equal_batch,
)
from needlab.studies.locality.classes import CLASSES
from needlab.studies.locality.value import softmax_policy
from needlab.studies.locality.value_of_backup import QUICK_CLASSES, QUICK_TASKS, TASKS
from needlab.studies.study import Options, Result, Study
from needlab.tabular.successor import transition_matrix
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray
from needreplay.equations import closed_form
from needreplay.need import Diagnosis, diagnose
from needreplay.replay import Batch, ReplayBuffer, UniformSampler

SEEDS = 3
SAME = 0.8
"""Kendall's tau from which on both rank alike."""
NUMBERS = ("locality", "advantage")


def compare(case: Case, trial: int) -> dict[str, AnyArray]:
    """Both numbers, exact and as diagnosed, at a run's last checkpoint."""
    seed, task, found = case.seed + trial, exact_task(case.task), {}
    for number, (agent, memory, present) in enumerate(checkpoints(case, seed)):
        if number == CHECKPOINTS - 1:
            rng = stream(seed, "value of backup", "transitions", number)
            exact = Moment(task, agent, memory, present, rng).measured(more=False)
            size = exact["correlation"][0, :, 0].astype(np.float64)
            found["exact_locality"] = exact["locality"]
            found["exact_advantage"] = size[FACTORS.index("gain x need")] - size[0]
            told = diagnosed(task, agent, memory, seed)
            found |= {f"diagnosed_{name}": getattr(told, name) for name in NUMBERS}
    return found


def diagnosed(task: ExactTask, agent: TableDQN, memory: Memory, seed: int) -> Diagnosis:
    """What ``diagnose`` says, from a buffer with the same transitions and exact need."""
    stored = memory.buffer.read(np.arange(memory.buffer.oldest_id, memory.buffer.next_id))
    obs = agent.obs.numpy()
    buffer = buffer_of(stored, obs, task.world.n_actions)
    numbers = {row.tobytes(): state for state, row in enumerate(obs)}
    with torch.no_grad():
        policy = softmax_policy(agent.network(agent.obs).double().numpy(), TEMPERATURE)
    M = closed_form(transition_matrix(task.world.next_state, task.world.ends, policy), HORIZON)

    def states_of(rows: AnyArray) -> list[int]:
        return [numbers[row.tobytes()] for row in rows]

    def needs_of(views: Any, columns: dict[str, Any]) -> FloatArray:
        need: FloatArray = M[np.ix_(states_of(views), states_of(columns["obs"]))]
        return need

    def loss(network: Any, batch: Batch) -> Any:
        own = equal_batch(batch.ids, {name: stored[name][batch.ids] for name in stored})
        online, agent.learner.online = agent.learner.online, network
        try:
            return agent.td_errors(own) ** 2 / 2
        finally:
            agent.learner.online = online

    return diagnose(agent.network, loss, buffer, need=needs_of, seed=seed)


def buffer_of(stored: dict[str, AnyArray], obs: FloatArray, n_actions: int) -> ReplayBuffer:
    """The same transitions with observations and episodes, in the same order."""
    space = spaces.Box(-np.inf, np.inf, obs.shape[1:], np.float32)
    buffer = ReplayBuffer.for_spaces(
        space, spaces.Discrete(n_actions), capacity=len(stored["s"]), discount=DISCOUNT,
        sampler=UniformSampler(),
    )  # fmt: skip
    ends = stored["discount"] == 0.0
    leaves = np.append(stored["next_s"][:-1] != stored["s"][1:], True)
    for row in range(len(ends)):
        buffer.add(
            obs=obs[stored["s"][row]],
            action=int(stored["action"][row]),
            reward=float(stored["reward"][row]),
            next_obs=obs[stored["next_s"][row]],
            terminated=bool(ends[row]),
            truncated=bool(leaves[row] and not ends[row]),
        )
    return buffer


def run(options: Options, runner: TrialRunner) -> Result:
    """Compare both in the classes and tasks of ``value-of-backup``."""
    quick = options.size == "quick"
    tasks = QUICK_TASKS if quick else TASKS["main"]
    functions = QUICK_CLASSES if quick else tuple(CLASSES)
    cases = [Case(task, name, options.seed, 0) for task in tasks for name in functions]
    trials = options.trials or (1 if quick else SEEDS)
    found = runner.run(compare, cases, trials, label="diagnosis", seconds=10.0)
    data = long_table(
        ("task", "function"),
        {(case.task, case.function): columns for case, columns in found.items()},
    )
    return Result(
        tables={"data": data},
        figures={"figure": draw(data)},
        captions={
            "figure": "Locality of updates, and the advantage of gain x need over gain in "
            "predicting their effect: as diagnosed without exact values, against the exact ones."
        },
        claims=claims_of(data, options.presets[0]),
        config={"trials": trials, "classes": list(functions)},
        notes=["The rule was fixed in docs/preregistration.md before the runs."],
    )


def tau(data: Table, task: str, number: str) -> float:
    """Kendall's tau over classes between the means of both."""
    own = data.where(task=task)
    means = [
        [own.where(function=name)[f"{by}_{number}"].mean() for name in dict.fromkeys(
            own["function"].tolist())]
        for by in ("exact", "diagnosed")
    ]  # fmt: skip
    return float(kendalltau(*means).statistic)


def claims_of(data: Table, preset: str) -> list[Claim]:
    """One claim for each number: tau is at least .8 on average over tasks."""
    claims = []
    tasks = data.distinct("task")
    for number in NUMBERS:
        each = {task: tau(data, task, number) for task in tasks}
        average = float(np.mean(list(each.values())))
        verdict: Verdict = "holds" if average >= SAME else "does not hold"
        claims.append(
            Claim(
                statement=f"The diagnosis ranks classes of functions as exact values do: {number}",
                source="preregistration",
                measured=f"Kendall's tau {average:.2f} on average: "
                + ", ".join(f"{task} {value:.2f}" for task, value in each.items()),
                verdict=verdict,
                preset=preset,
                detail=f"Holds from {SAME} on. Both have the same exact need; the diagnosis "
                "measures effects as changes of Q on the next 50 stored steps.",
            )
        )
    return claims


def draw(data: Table) -> Figure:
    """Diagnosed against exact, one dot for each run."""
    figure, (row,) = new_figure(1, len(NUMBERS))
    colors = colors_of(list(CLASSES))
    for axes, number in zip(row, NUMBERS, strict=True):
        for name in data.distinct("function"):
            own = data.where(function=name)
            axes.plot(
                own[f"exact_{number}"], own[f"diagnosed_{number}"], "o",
                color=colors[name], label=name, markersize=4, alpha=0.6,
            )  # fmt: skip
        axes.set_xlabel(f"exact {number}")
        axes.set_ylabel(f"diagnosed {number}")
    row[-1].legend(fontsize=6)
    return figure


STUDY = Study(
    name="diagnosis",
    title="The diagnosis of updates against exact values",
    question="Does needreplay.need.diagnose rank classes of functions as exact values do?",
    presets=("default",),
    run=run,
    documentation="docs/diagnose.md",
    keeps_cache=True,
)
