"""Where, between prioritized sweeping and DQN, does need stop paying? The preregistered ladder.

``docs/preregistration.md`` fixed rungs, arms, metric, tests and predictions before the runs.
``ladder_agent.py`` is the agent of all rungs; each differs from the one before in one thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from needlab.core.tables import Table, long_table
from needlab.linear import encode_world, feature_matrix
from needlab.report.aggregate import geometric_ratio, holm
from needlab.report.claims import Claim, Verdict, tested_verdict
from needlab.report.figures import new_figure
from needlab.report.statistics import permutation_test
from needlab.runs.trials import TrialRunner
from needlab.studies.locality.ladder_agent import DISCOUNT, Plan, new_agent, run_kernel
from needlab.studies.locality.ladder_network import parameters_of
from needlab.studies.maze.world import dyna_world
from needlab.studies.study import Options, Result, Size, Study
from needlab.tabular.trial import random_policy_successor
from needreplay._core.rng import stream
from needreplay._core.types import FloatArray, IntArray

HIDDEN, EPISODES, EPISODE_STEPS = 64, 30, 2_000
ARMS = ("none", "need", "shuffled")
MEASURED = 5
"""Trials without need at whose end the locality of updates is measured."""
UPDATES = 32
"""Updates whose locality is averaged."""
PRESETS = {"6x9": 1, "12x18": 2, "18x27": 3}
"""the size of the maze: its resolution"""


class Rung(NamedTuple):
    """How a rung replays, what its Q is, and the class of ``value-of-backup`` that it has."""

    plan: Plan
    width: float = 0.0
    """of radial features; 0: one-hot"""
    function: str = ""
    """empty: not among those that are compared with it"""


_STORED = Plan(sampled=True, stored=True)
_NETWORK = _STORED._replace(hidden=HIDDEN)
RUNGS: dict[str, Rung] = {
    "PS-SR": Rung(Plan()),
    "sampled": Rung(Plan(sampled=True)),
    "stored transitions": Rung(_STORED),
    "linear, one-hot": Rung(_STORED, function="table"),
    "radial 0.7": Rung(_STORED, 0.7, "radial 0.7"),
    "radial 1.5": Rung(_STORED, 1.5, "radial 1.5"),
    "radial 3": Rung(_STORED, 3.0, "radial 3"),
    "radial 6": Rung(_STORED, 6.0, "radial 6"),
    "network": Rung(_NETWORK, function="network 64, no target"),
    "target network": Rung(_NETWORK._replace(target=True), function="network 64"),
    "minibatches": Rung(_NETWORK._replace(target=True, batch=32, every=4), function="network 64"),
}
TRIALS: dict[Size, dict[str, int]] = {
    "quick": {"6x9": 5, "12x18": 5, "18x27": 5},
    "full": {"6x9": 100, "12x18": 100, "18x27": 40},
}
NETWORK_TRIALS: dict[Size, dict[str, int]] = {
    "quick": {"6x9": 5, "12x18": 0, "18x27": 0},
    "full": {"6x9": 100, "12x18": 40, "18x27": 0},
}


class Case(NamedTuple):
    """One arm on one rung in one maze."""

    maze: str
    rung: str
    arm: str
    seed: int


@cache
def inner_products(resolution: int, width: float) -> FloatArray:
    """[state, state]: of the features of states; empty for one-hot ones."""
    if not width:
        return np.zeros((0, 0))
    world = dyna_world(0.0, resolution)
    features = feature_matrix(encode_world("radial", world, width=width), world.n_states)
    found: FloatArray = features @ features.T
    return found


def learn(case: Case, trial: int) -> dict[str, float]:
    """Steps in episodes 2 to 30, in the first, and in trials without need the locality."""
    rung, resolution = RUNGS[case.rung], PRESETS[case.maze]
    world, places = dyna_world(0.0, resolution), None
    if case.arm == "shuffled":
        free, places = np.flatnonzero(world.free), np.arange(world.n_states)
        places[free] = stream(case.seed, "ladder", "shuffled", trial).permutation(free)
    agent = new_agent(
        world,
        rung.plan,
        random_policy_successor(world, DISCOUNT),
        kernel=inner_products(resolution, rung.width),
        places=places,
        uses_need=case.arm != "none",
        rng=stream(case.seed, "ladder", "network", trial),
    )
    steps = np.zeros(EPISODES, np.int64)
    rng = stream(case.seed, "ladder", case.maze, trial)
    run_kernel(agent, rung.plan, world, steps, EPISODE_STEPS, rng)
    local = np.nan
    if case.arm == "none" and trial < MEASURED:
        local = _locality(case, agent.theta, agent.inputs)
    return {"later": steps[1:].sum(), "first": steps[0], "locality": local}


def _locality(case: Case, theta: FloatArray, inputs: IntArray) -> float:
    """Of updates of some free states, over all free states."""
    import torch

    from needlab.studies.locality.classes import ClassNetwork
    from needlab.studies.locality.value import Function, locality, near_states, unit_directions

    rung, resolution = RUNGS[case.rung], PRESETS[case.maze]
    world, n_states = dyna_world(0.0, resolution), dyna_world(0.0, resolution).n_states
    rng = stream(case.seed, "ladder", "locality")
    states = rng.choice(np.flatnonzero(world.free), UPDATES)
    if rung.plan.hidden:
        n_inputs = int(inputs.max()) + 1
        network = ClassNetwork(n_inputs, HIDDEN, world.n_actions)
        named = parameters_of(theta[0], n_inputs, HIDDEN, world.n_actions)
        network.load_state_dict({name: torch.from_numpy(part) for name, part in named.items()})
        obs = np.zeros((n_states, n_inputs))
        obs[np.arange(n_states)[:, None], inputs] = 1.0
        actions = rng.integers(world.n_actions, size=UPDATES)
        shape = (n_states, world.n_actions)
        made = Function(network, torch.from_numpy(obs)).spread(
            unit_directions(states, actions, shape)
        )
    else:
        kernel = inner_products(resolution, rung.width)
        made = (kernel if len(kernel) else np.eye(n_states))[states][:, :, None]
    return locality(made, states, near_states(world), world.free)


def run(options: Options, runner: TrialRunner) -> Result:
    """Every arm on every rung in every maze, then the ratios and the place of the fall."""
    steps: dict[tuple[str, str], dict[str, IntArray]] = {}
    local: dict[str, list[float]] = {}
    for maze in options.presets:
        cases, trials = [], []
        for rung, (plan, *_) in RUNGS.items():
            planned = (NETWORK_TRIALS if plan.hidden else TRIALS)[options.size][maze]
            wanted = min(planned, options.trials or planned)
            cases += [Case(maze, rung, arm, options.seed) for arm in ARMS if wanted]
            trials += [wanted] * (len(ARMS) if wanted else 0)
        seconds = [
            (1.0 if RUNGS[case.rung].plan.hidden else 0.05) * PRESETS[maze] ** 2 for case in cases
        ]
        label = f"ladder, {maze}, {options.size}"
        found = runner.run(learn, cases, trials, label=label, seconds=seconds)
        for case, columns in found.items():
            steps.setdefault((maze, case.rung), {})[case.arm] = columns["later"]
            if case.arm == "none":
                local.setdefault(case.rung, []).extend(columns["locality"][:MEASURED].tolist())
    places = {rung: float(np.mean(values)) for rung, values in local.items() if values}
    summary = summary_of(steps, places, options.seed)
    parts = {
        (maze, rung, arm): {"trial": np.arange(len(later)), "steps": later}
        for (maze, rung), arms in steps.items()
        for arm, later in arms.items()
    }
    preset = ", ".join(options.presets)
    return Result(
        tables={"data": long_table(("maze", "rung", "arm"), parts), "summary": summary},
        figures={"figure": draw(summary)},
        captions={
            "figure": "Steps in episodes 2 to 30 with need, and with the need of another state, "
            "divided by those without need: one change a rung, from the maze's PS-SR to DQN. "
            "Bars: 95% intervals. Gray: the locality of updates."
        },
        claims=claims_of(summary, preset),
        config={"mazes": list(options.presets), "rungs": list(RUNGS), "arms": list(ARMS)},
        notes=["The design was fixed in docs/preregistration.md before the trials were run."],
    )


PAIRS = {"need / none": ("need", "none"), "need / shuffled": ("need", "shuffled"),
         "shuffled / none": ("shuffled", "none")}  # fmt: skip


def summary_of(
    steps: Mapping[tuple[str, str], Mapping[str, IntArray]], local: Mapping[str, float], seed: int
) -> Table:
    """By ratio and rung: the ratio of steps over mazes, p after Holm over rungs, locality."""
    rng = stream(seed, "ladder", "statistics")
    rungs = [rung for rung in RUNGS if any(own == rung for _, own in steps)]
    parts = []
    for name, pair in PAIRS.items():
        rows, p = [], []
        for rung in rungs:
            own = [arms for (_, each), arms in steps.items() if each == rung]
            one, other = ([arms[arm] for arms in own] for arm in pair)
            ratio = geometric_ratio(one, other, rng, paired=True, resamples=10_000)
            rows.append(ratio.columns("ratio"))
            p.append(permutation_test(one, other, rng, paired=True))
        for rung, row, adjusted in zip(rungs, rows, holm(p), strict=True):
            parts.append(((name, rung), {**row, "p_holm": adjusted, "locality": local[rung]}))
    return long_table(("ratio_of", "rung"), parts)


def pays(summary: Table) -> dict[str, bool]:
    """By rung: whether steps with need are fewer than without, and than with shuffled need."""
    none, shuffled = (summary.where(ratio_of=f"need / {name}") for name in ("none", "shuffled"))
    fewer = [(own["ratio"] < 1.0) & (own["p_holm"] < 0.05) for own in (none, shuffled)]
    return dict(zip(none["rung"].tolist(), (fewer[0] & fewer[1]).tolist(), strict=True))


def the_fall(paid: Mapping[str, bool]) -> str:
    """The first rung from which on need pays nowhere; empty: it pays at the last one."""
    fall = ""
    for rung in reversed(list(paid)):
        if paid[rung]:
            return fall
        fall = rung
    return fall


def claims_of(summary: Table, preset: str) -> list[Claim]:
    """Prediction (c) and what it is made of."""
    paid = pays(summary)
    fall, order = the_fall(paid), list(paid)
    networks = [rung for rung in order if RUNGS[rung].plan.hidden]
    at = order.index(fall) if fall else len(order)
    predicted = fall in ("radial 3", "radial 6", "network")
    verdict: Verdict = "holds" if predicted else "undecided"
    if at <= order.index("radial 0.7") or any(paid[rung] for rung in networks):
        verdict = "does not hold"
    claims = [
        Claim(
            statement="Need stops paying between wide features and the network, not before",
            source="preregistration (c)",
            measured=f"the fall is at: {fall or 'no rung'}; need pays at: "
            f"{', '.join(rung for rung in order if paid[rung]) or 'no rung'}",
            verdict=verdict,
            preset=preset,
            detail="Need pays if steps are fewer than without need and than with shuffled need, "
            "each by a paired permutation test over mazes, Holm over rungs.",
        )
    ]
    for rung in order:
        own = {name: next(summary.where(ratio_of=name, rung=rung).rows()) for name in PAIRS}
        said = {
            name: f"{cell['ratio']:.2f} [{cell['low']:.2f}, {cell['high']:.2f}], "
            f"p = {cell['p_holm']:.2g}"
            for name, cell in own.items()
        }
        none = own["need / none"]
        claims.append(
            Claim(
                statement=f"Need saves steps: {rung}",
                source="preregistration",
                measured="; ".join(f"{name} {words}" for name, words in said.items()),
                verdict=tested_verdict(none["p_holm"], none["ratio"] < 1.0),
                preset=preset,
                detail="Ratios of steps, geometric mean over mazes; p after Holm over rungs.",
            )
        )
    return claims


def draw(summary: Table) -> Figure:
    """Ratios rung by rung, and locality beside them."""
    figure, ((axes,),) = new_figure(height=4.2)
    rungs = summary.distinct("rung")
    x = np.arange(len(rungs))
    for shift, (name, color) in enumerate(zip(PAIRS, ("C0", "C2", "C3"), strict=True)):
        own = summary.where(ratio_of=name)
        ends = [own["ratio"] - own["low"], own["high"] - own["ratio"]]
        at = x + 0.15 * (shift - 1)
        axes.errorbar(at, own["ratio"], np.maximum(ends, 0.0), fmt="o", color=color, label=name)
    axes.axhline(1.0, color="0.5", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylabel("ratio of steps")
    axes.set_xticks(x, rungs, rotation=35, ha="right", fontsize=8)
    beside = axes.twinx()
    beside.bar(x, own["locality"], width=0.6, color="0.85", zorder=0)
    beside.set_ylim(0.0, 1.05)
    beside.set_ylabel("locality of an update")
    axes.set_zorder(beside.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.legend(fontsize=7)
    return figure


STUDY = Study(
    name="ladder",
    title="From prioritized sweeping to DQN, one change at a time",
    question="At which rung between the maze's PS-SR and a DQN does need stop saving steps?",
    presets=tuple(PRESETS),
    quick_presets=("6x9",),
    run=run,
    documentation="docs/why_need_pays.md",
    keeps_cache=True,
)
