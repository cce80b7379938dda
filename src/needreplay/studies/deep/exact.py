"""Deep Q-learning with exact need: the preregistered test that separates need from its learner.

``docs/preregistration.md`` fixed tasks, arms, metric and tests before the runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.sparse.csgraph import shortest_path

from needreplay.core.jit import jit
from needreplay.core.rng import stream
from needreplay.core.tables import Table, long_table
from needreplay.core.types import FloatArray
from needreplay.deep.dqn import QLearner, Transitions, priority_of, q_loss
from needreplay.deep.networks import QNetwork
from needreplay.replay import ProportionalSampler, ReplayBuffer, UniformSampler
from needreplay.replay.samplers import StateNeedSampler
from needreplay.report.aggregate import holm
from needreplay.report.claims import Claim, Verdict
from needreplay.report.figures import new_figure
from needreplay.report.statistics import permutation_test, student_interval
from needreplay.rules.priority import annealed
from needreplay.rules.successor import transition_matrix
from needreplay.studies.deep.exact_tasks import ExactTask, exact_task
from needreplay.studies.study import Options, Result, Study
from needreplay.studies.trials import TrialRunner

DISCOUNT = 0.99
HORIZON = 0.9
"""γ of need"""
TERMS = 60
"""of the sum (γ T)^k"""
CHECKPOINTS = 20
BATCH, CAPACITY, START, TARGET_PERIOD, POLICY_PERIOD = 32, 10_000, 500, 100, 100
EPSILON_END, EPSILON_STEPS = 0.1, 4_000

ARMS: dict[str, tuple[str, float]] = {
    "uniform": ("uniform", 0.0),
    "PER": ("per", 0.0),
    "exact need": ("exact", 0.0),
    "exact need, .25 uniform": ("exact", 0.25),
    "exact need, .5 uniform": ("exact", 0.5),
    "shuffled need, .25 uniform": ("shuffled", 0.25),
    "backward need, .25 uniform": ("backward", 0.25),
    "0.5^distance, .25 uniform": ("distance", 0.25),
}
"""The kind of need, and the share of the probability that is uniform."""


class Block(NamedTuple):
    """Runs that are made together."""

    tasks: tuple[tuple[str, int], ...]
    """each with the steps between updates"""
    arms: tuple[str, ...] = tuple(ARMS)
    steps: int = 12_000


BLOCKS = {
    "small": Block((("MultiRoom", 4), ("deep sea", 4), ("moving goal", 4), ("twelve mazes", 4))),
    "large": Block(
        (
            ("FourRooms", 4),
            ("DistShift", 4),
            ("Taxi", 4),
            ("FourRooms", 16),
            ("twelve mazes", 16),
        )
    ),
    "long": Block(
        (("MultiRoom", 4), ("moving goal", 4), ("twelve mazes", 4), ("FourRooms", 4)),
        ("uniform", "PER", "exact need, .25 uniform", "shuffled need, .25 uniform"),
        48_000,
    ),
}
"""Presets."""

QUICK = Block(
    (("moving goal", 4),),
    ("uniform", "exact need, .25 uniform", "shuffled need, .25 uniform"),
    4_000,
)
SEEDS = {"quick": 2, "full": 10}


class Case(NamedTuple):
    """One run."""

    task: str
    period: int
    arm: str
    seed: int
    steps: int


@jit
def visits(next_state: Any, flows: Any, state: int, terms: int, backward: bool) -> Any:
    """Σ_k (γ T)^k from ``state``, a row of M, or ``backward`` to it, a column.

    ``flows`` is π(a | s), 0 where the step ends.
    """
    n_states, n_actions = next_state.shape
    now, total = np.zeros(n_states), np.zeros(n_states)
    now[state] = total[state] = 1.0
    for _ in range(terms):
        following = np.zeros(n_states)
        for s in range(n_states):
            for a in range(n_actions):
                if backward:
                    following[s] += HORIZON * flows[s, a] * now[next_state[s, a]]
                elif now[s] != 0.0:
                    following[next_state[s, a]] += HORIZON * flows[s, a] * now[s]
        now = following
        total += now
    return total


def distance_kernel(task: ExactTask) -> FloatArray:
    """[state, state]: 0.5^d with d the steps of a shortest path; 0 where there is none."""
    anywhere = np.ones(task.reward.shape)
    kernel: FloatArray = 0.5 ** shortest_path(
        transition_matrix(task.next_state, task.ends, anywhere), unweighted=True
    )
    return kernel


def policy_value(task: ExactTask, policy: FloatArray) -> float:
    """The mean discounted return of a policy, [state, action], over the task's starts."""
    T = transition_matrix(task.next_state, task.ends, policy)
    expected = (policy * task.reward).sum(axis=1)
    values = np.linalg.solve(np.eye(len(T)) - DISCOUNT * T, expected)
    return float(np.mean([values[starts].mean() for starts in task.starts]))


def epsilon_greedy(values: FloatArray, epsilon: float = EPSILON_END) -> FloatArray:
    """The policy, [state, action], that takes the first best action or a random one."""
    n_actions = values.shape[1]
    best = np.eye(n_actions)[values.argmax(axis=1)]
    policy: FloatArray = (1.0 - epsilon) * best + epsilon / n_actions
    return policy


def best_policy(task: ExactTask) -> FloatArray:
    """The policy of value iteration, with the same random actions."""
    Q = np.zeros(task.reward.shape)
    for _ in range(3_000):
        Q = task.reward + DISCOUNT * np.where(task.ends, 0.0, Q.max(axis=1)[task.next_state])
    return epsilon_greedy(Q)


def train(case: Case) -> FloatArray:
    """The value of the policy with ε = 0.1 at each checkpoint: 0 the random policy, 1 the best."""
    task, (kind, mix) = exact_task(case.task), ARMS[case.arm]
    n_states, n_actions = task.reward.shape
    random_value = policy_value(task, np.full(task.reward.shape, 1.0 / n_actions))
    best_value = policy_value(task, best_policy(task))
    rng = stream(case.seed, "exact need", case.task, case.period)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**62)))
        network = QNetwork("vector", task.obs.shape[1:], n_actions)
    learner, observed = QLearner("double-dqn", network), torch.from_numpy(task.obs)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    by_need = kind not in ("uniform", "per")
    kernel = distance_kernel(task) if kind == "distance" else None
    flows, need = np.zeros(task.reward.shape), None
    buffer = _buffer(kind, mix, n_states, case.seed)

    def all_values() -> FloatArray:
        with torch.no_grad():
            found: FloatArray = network(observed).numpy().astype(np.float64)
        return found

    def begin(step: int) -> int:
        phase = step // task.phase_steps % len(task.starts)
        return int(rng.choice(task.starts[phase]))

    curve, state, age, updates = [], begin(0), 0, 0
    donors = np.zeros(CAPACITY, np.int64)
    for step in range(case.steps):
        epsilon = annealed(1.0, EPSILON_END, (step - START) / EPSILON_STEPS)
        if rng.random() < epsilon:
            action = int(rng.integers(n_actions))
        else:
            with torch.no_grad():
                action = int(network(observed[state : state + 1]).argmax())
        next_state, ends = int(task.next_state[state, action]), bool(task.ends[state, action])
        extra: dict[str, Any] = {}
        if by_need:
            # Shuffled: a transition has the need of another one that is stored.
            donors[step % CAPACITY] = state
            other = int(rng.integers(min(step + 1, CAPACITY)))
            extra["state"] = donors[other] if kind == "shuffled" else state
        buffer.add(
            s=state, action=action, reward=task.reward[state, action], next_s=next_state,
            discount=0.0 if ends else DISCOUNT, **extra,
        )  # fmt: skip
        age += 1
        state = next_state
        if ends or age >= task.episode_steps:
            state, age = begin(step + 1), 0
        if step >= START and step % case.period == 0:
            if by_need and updates % POLICY_PERIOD == 0:
                flows = np.where(task.ends, 0.0, epsilon_greedy(all_values(), epsilon))
            if kernel is not None:
                need = kernel[state]
            elif by_need:
                need = visits(task.next_state, flows, state, TERMS, kind == "backward")
            beta = annealed(0.4, 1.0, step / case.steps)
            batch = buffer.sample(BATCH, need=need, beta=beta)
            columns = {name: torch.from_numpy(batch[name]) for name in ("s", "next_s", "action")}
            transitions = Transitions(
                obs=observed[columns["s"]],
                action=columns["action"],
                reward=torch.from_numpy(batch["reward"]),
                next_obs=observed[columns["next_s"]],
                discount=torch.from_numpy(batch["discount"]),
                weight=torch.from_numpy(batch.weights.astype(np.float32)),
                next_action=None,
            )
            error = learner.td_errors(transitions).error
            optimizer.zero_grad()
            q_loss(error, transitions.weight, None).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if kind != "uniform":
                priorities = priority_of(error.detach(), "abs", 1e-6).numpy()
                buffer.update_priorities(batch.ids, priorities)
            updates += 1
        if step % TARGET_PERIOD == 0:
            learner.update_target()
        if (step + 1) % (case.steps // CHECKPOINTS) == 0:
            value = policy_value(task, epsilon_greedy(all_values()))
            curve.append((value - random_value) / (best_value - random_value))
    return np.array(curve)


def _buffer(kind: str, mix: float, n_states: int, seed: int) -> ReplayBuffer:
    sampler: Any = StateNeedSampler(
        n_states, alpha=0.6, need_alpha=1.0, correct_for="gain", uniform_mix=mix
    )
    if kind == "uniform":
        sampler = UniformSampler()
    elif kind == "per":
        sampler = ProportionalSampler(alpha=0.6, stratified=False)
    columns: dict[str, Any] = dict.fromkeys(("s", "action", "next_s"), np.int64)
    columns |= dict.fromkeys(("reward", "discount"), np.float32)
    return ReplayBuffer(CAPACITY, columns, sampler=sampler, seed=seed)


def _train(case: Case, _: int) -> dict[str, FloatArray]:
    return {"value": train(case)}


def task_name(case: Case) -> str:
    """A task as it is shown."""
    name = case.task if case.period == 4 else f"{case.task}, every {case.period}"
    return f"{name}, {case.steps:,} steps" if case.steps > 12_000 else name


def run(options: Options, runner: TrialRunner) -> Result:
    """Run round after round (one seed of every task and arm), then compare the arms."""
    quick, preset = options.size == "quick", ", ".join(options.presets)
    blocks = [QUICK] if quick else [BLOCKS[name] for name in options.presets]
    rows: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    seeds = range(options.seed, options.seed + (options.trials or SEEDS[options.size]))
    for seed in seeds:
        cases = [
            Case(task, period, arm, seed, block.steps)
            for block in blocks
            for task, period in block.tasks
            for arm in block.arms
        ]
        label = f"exact need, {preset}, {options.size}, seed {seed}"
        found = runner.run(_train, cases, 1, label=label, seconds=10.0)
        for case, columns in found.items():
            curve = columns["value"][0]
            key = (task_name(case), case.arm, seed)
            rows.append((key, {"area": curve.mean(), "last": curve[-1]}))
    data = long_table(("task", "arm", "seed"), rows)
    lengths = dict.fromkeys(f"{block.steps:,}" for block in blocks)
    return Result(
        tables={"data": data},
        figures={"figure": _draw(data)},
        captions={
            "figure": "Area under the policy's exact value (ε = 0.1) in "
            f"{' or '.join(lengths)} steps (0: the random policy, "
            f"1: the best), {len(seeds)} seeds: means with Student's 95% intervals, and seeds as "
            "small dots."
        },
        claims=_claims(data, preset, options.seed),
        config={"seeds": list(seeds), "blocks": [block._asdict() for block in blocks]},
        notes=["The design was fixed in docs/preregistration.md before the runs."],
    )


def areas(data: Table, task: str, arm: str) -> FloatArray:
    """One number for each seed."""
    return data.where(task=task, arm=arm)["area"]


def _draw(data: Table) -> Figure:
    tasks = list(dict.fromkeys(data["task"].tolist()))
    arms = list(dict.fromkeys(data["arm"].tolist()))
    columns = min(3, len(tasks))
    figure, grid = new_figure(-(-len(tasks) // columns), columns, height=0.9 + 0.24 * len(arms))
    figure.set_figheight((0.9 + 0.24 * len(arms)) * len(grid))
    for number, axes in enumerate(grid.ravel()):
        if number >= len(tasks):
            axes.set_visible(False)
            continue
        for place, arm in enumerate(arms):
            own = areas(data, tasks[number], arm)
            if len(own) == 0:
                continue  # not an arm of this block
            interval = student_interval(own)
            color = "#D55E00" if arm.startswith("exact") else "#0072B2"
            axes.plot(own, np.full(len(own), place), ".", color=color, alpha=0.3, markersize=4)
            axes.plot(interval.estimate, place, "o", color=color, markersize=4)
            if np.isfinite(interval.low):
                axes.plot([interval.low, interval.high], [place, place], color=color)
        axes.set_title(tasks[number], fontsize=9)
        axes.set_yticks(range(len(arms)), arms if number % columns == 0 else [], fontsize=7)
        axes.invert_yaxis()
    return figure


TESTS = (
    ("exact need, .25 uniform", "shuffled need, .25 uniform"),
    ("exact need", "uniform"),
    ("exact need, .25 uniform", "uniform"),
    ("exact need, .5 uniform", "uniform"),
    ("exact need, .25 uniform", "PER"),
    ("exact need, .25 uniform", "0.5^distance, .25 uniform"),
    ("exact need, .25 uniform", "backward need, .25 uniform"),
    ("PER", "uniform"),
)
"""The preregistered comparisons."""


def _claims(data: Table, preset: str, seed: int) -> list[Claim]:
    arms: dict[str, set[str]] = {}
    for task, arm in zip(data["task"].tolist(), data["arm"].tolist(), strict=True):
        arms.setdefault(task, set()).add(arm)
    tasks_of = {pair: [task for task in arms if arms[task].issuperset(pair)] for pair in TESTS}
    tests = [pair for pair in TESTS if tasks_of[pair]]
    rng = stream(seed, "exact need", "claims")
    samples = [
        tuple([areas(data, task, arm) for task in tasks_of[pair]] for arm in pair) for pair in tests
    ]
    adjusted = holm([permutation_test(a, b, rng, paired=False) for a, b in samples])
    claims = []
    for (arm, rival), (a, b), p in zip(tests, samples, adjusted, strict=True):
        gaps = [float(one.mean() - other.mean()) for one, other in zip(a, b, strict=True)]
        ahead, gap = sum(each > 0 for each in gaps), float(np.mean(gaps))
        verdict: Verdict = "undecided"
        if p < 0.05:
            verdict = "holds" if gap > 0 else "does not hold"
        claims.append(
            Claim(
                statement=f"{arm} learns faster than {rival}",
                source="preregistration",
                measured=f"area {gap:+.3f} (mean over tasks), ahead in {ahead} of {len(gaps)} "
                f"tasks, p = {p:.2g} after Holm",
                verdict=verdict,
                preset=preset,
                detail="Stratified permutation test over tasks.",
            )
        )
    return claims


STUDY = Study(
    name="exact-need",
    title="Deep Q-learning with exact need",
    question="With need computed, not learned: does replay by gain x need learn faster, and does "
    "it matter that the values are on the right transitions?",
    presets=tuple(BLOCKS),
    quick_presets=("small",),
    run=run,
    documentation="docs/should_i_use_need.md",
    keeps_cache=True,
)
