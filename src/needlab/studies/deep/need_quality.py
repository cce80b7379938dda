"""How accurate each learner of need is, beside one agent and beside trivial scores, and its cost.

The agent is the paper's (PER-SR), whose updates are scaled by its own need: rows "successor", which
learn from all episodes. Rows "successor, m solved" are the need model ``linear`` on the same
features, from 500 batches of the buffer as it is then, with the need models' γ of 0.9 and with the
agent's. That is M / p in place of M: another need, and not the paper's with a better m.

Need models learn from the agent's buffer and change nothing of it: "cosine/4" at every fourth of
its updates, as in the agents, "cosine" at each; "cosine-shared/4" is on the agent's Q network. All
numbers are of queries in episodes that they do not learn from (one in 20); the meaning of each is
in ``needreplay.need.quality``. Rows "recency", "clock", "similarity", "blurred similarity" and
"brightness" are scores that learn nothing; "cosine/4, untrained" and "cosine/4, other query" are
that learner before any update, and seen from a random transition. Rows "cosine/4, age" (of the
first learner) use stored vectors that are so many updates old, and "new episodes" are ones that the
agent plays at the end and nothing learns from. ``cost`` is a learner's time / the time of the
agent's updates.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from matplotlib.figure import Figure

from needlab.core.tables import Table, long_table, read_table, write_table
from needlab.core.types import Env, Values
from needlab.deep.agent import DeepAgent, UpdateStats
from needlab.deep.successor import PaperNeed
from needlab.report.claims import Claim, Verdict
from needlab.runs.config import RunConfig, make_agent, make_env
from needlab.runs.evaluation import play_episode
from needlab.runs.runner import OnUnits
from needlab.runs.train_loop import train
from needlab.runs.trials import TrialRunner
from needlab.studies.deep.arms_figure import draw_arms
from needlab.studies.study import Options, Result, Study
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray
from needreplay.need import NeedModel, NeedQuality, accurate_need, need_quality, withholds
from needreplay.replay import ReplayBuffer

NeedsOf: TypeAlias = Callable[[Any, dict[str, Any]], AnyArray]
"""Need of transitions with these columns, seen from some observations."""
PARTS = 4
"""Measurements of a run."""
NEW_STEPS = 5_000
"""Steps of the episodes that nothing learns from."""
NUMBERS = tuple(each.name for each in dataclasses.fields(NeedQuality))[:-1]
SECONDS_PER_STEP = 0.02
"""About what a run takes, for the time to finish."""
NEEDS = {"successor": "the paper's", "linear": "linear", "spectral": "spectral", "cosine": "cosine"}
"""The needs of claims and tables, and what they are called there."""
TRIVIAL = (
    "recency",
    "similarity",
    "blurred similarity",
    "brightness",
    "cosine, untrained",
    "cosine, other query",
)
"""The scores that need has to be above; the clock is right by construction."""
COLUMNS = {"auc": TRIVIAL, "auc_past": TRIVIAL[1:], "auc_time": TRIVIAL}
"""What accuracy is: also above the own episode's past, where recency is right by construction, and
above other episodes at the same time."""

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
_MINATAR = tuple(f"minatar/{game}" for game in GAMES)
_ROWS = ("CartPole-v1", "Acrobot-v1", "minigrid:MiniGrid-FourRooms-v0")
_THREE = ("cosine/4", "spectral/4", "linear/4")


@dataclass(frozen=True)
class Plan:
    """The runs of a preset."""

    worlds: tuple[str, ...]
    learners: tuple[str, ...] = ()
    steps: int = 60_000
    seed: int = 0
    agent_preset: str = "corrected"
    queries: int = 60
    overrides: Values = field(default_factory=dict)


PLANS = {
    "minatar": Plan(_MINATAR, (*_THREE, "cosine-shared/4", "spectral-shared/4")),
    "rows": Plan(_ROWS, _THREE, steps=20_000),
    # Atari's own settings ask for 20,000 steps before the first update.
    "atari": Plan(
        ("atari/Pong",), _THREE, steps=8_000, queries=30,
        overrides={"min_history": 1_000, "capacity": 10_000, "decoder": "small", "features": 64},
    ),
    "another-seed": Plan(_MINATAR, ("cosine/4", "spectral/4"), seed=1),
    "every-update": Plan(("minatar/seaquest",), ("cosine", "spectral")),
    "printed": Plan(_MINATAR, steps=30_000, agent_preset="printed"),
    "released": Plan(_MINATAR, steps=30_000, agent_preset="released"),
}  # fmt: skip
"""Presets: need models beside the corrected agent, then the paper's agent alone in two readings."""
QUICK = Plan(
    ("CartPole-v1",), ("cosine/4",), steps=2_000, queries=20, overrides={"min_history": 200}
)


class Case(NamedTuple):
    """One run."""

    preset: str
    world: str
    seed: int

    @property
    def file_name(self) -> str:
        """The name of the file that holds its rows."""
        world = "".join(letter if letter.isalnum() else "-" for letter in self.world)
        return f"{self.preset}-{world}-{self.seed}.csv"


def run(options: Options, runner: TrialRunner) -> Result:
    """Make the runs of every preset, then hold each need against the trivial scores."""
    plans = {name: PLANS[name] if options.size == "full" else QUICK for name in options.presets}
    cases = {
        case.file_name: (case, plan)
        for name, plan in plans.items()
        for world in plan.worlds
        for case in [Case(name, world, options.seed + plan.seed)]
    }
    seconds = SECONDS_PER_STEP * max(plan.steps for plan in plans.values())
    paths = runner.files(measure, cases, label="need quality", seconds=seconds)
    data = long_table(
        Case._fields,
        [
            (tuple(case), read_table(path).columns)
            for path, (case, _) in zip(paths, cases.values(), strict=True)
        ],
    )
    accuracy = accuracy_of(data)
    return Result(
        tables={"data": data, "accuracy": accuracy},
        figures={"figure": draw(accuracy)},
        captions={
            "figure": "AUC of the next ten states at the end of each run, one run each: against "
            "states of other episodes, of the own past, and of other episodes at the same time."
        },
        claims=claims_of(accuracy),
        config={"plans": {name: dataclasses.asdict(plan) for name, plan in plans.items()}},
    )


def measure(what: tuple[Case, Plan], path: Path, on_units: OnUnits) -> None:
    """Write the rows of one run; a stopped one starts again, because its times are in the rows."""
    case, plan = what
    config = RunConfig(
        case.world, "per-sr", plan.agent_preset, plan.steps, case.seed, dict(plan.overrides)
    )
    env = make_env(config)
    agent = make_agent(config, env)
    papers = agent.need
    assert isinstance(papers, PaperNeed)
    rows = _Rows(case.seed, plan.queries, agent)
    models = {name: _model(name, agent, env, case.seed) for name in plan.learners}
    untrained = copy.deepcopy(models)
    seconds = dict.fromkeys(models, 0.0)
    learning = 1e-9
    older: list[tuple[int, NeedModel]] = []
    learn = agent.learn

    def timed(obs: AnyArray) -> UpdateStats | None:
        nonlocal learning
        begun = time.perf_counter()
        stats = learn(obs)
        learning += 0.0 if stats is None else time.perf_counter() - begun
        return stats

    agent.learn = timed  # type: ignore[method-assign]

    def on_update(_stats: UpdateStats) -> None:
        for name, model in models.items():
            begun = time.perf_counter()
            if agent.updates % int(name.partition("/")[2] or 1) == 0:
                model.learn(agent.buffer)
            seconds[name] += time.perf_counter() - begun

    def on_step() -> None:
        if agent.steps % (plan.steps // PARTS) == 0:
            measure_all()
            on_units(agent.steps / plan.steps)

    def measure_all() -> None:
        rows.add("successor", papers.needs_of)
        for discount in (0.9, agent.settings.discount):
            solved = _solved(papers, agent.buffer, env, discount, case.seed)
            rows.add(f"successor, m solved {discount:g}", _needs(solved))
        for name, model in models.items():
            cost = seconds[name] / learning
            rows.add(name, _needs(model), cost=cost, untrained=_needs(untrained[name]))
        if models:
            first, newest = next(iter(models.items()))
            for updates, old in older:
                rows.add(f"{first}, age {agent.updates - updates}", _aged(newest, old))
            older.append((agent.updates, copy.deepcopy(newest)))

    episodes = train(
        env, agent, seed=case.seed, first_episode=0, on_update=on_update, on_step=on_step
    )
    while agent.steps < plan.steps:
        next(episodes)
    if models:
        played = ReplayBuffer.for_spaces(env.observation_space, np.int64, capacity=NEW_STEPS)
        episode = 0
        while len(played) < NEW_STEPS:
            most = NEW_STEPS - len(played)
            play_episode(env, agent, case.seed, "new", episode, store=played, most_steps=most)
            episode += 1
        for name, model in models.items():
            rows.add(f"{name}, new episodes", _needs(model), new=played)
    write_table(path, Table({name: [row[name] for row in rows.rows] for name in rows.rows[0]}))


def _model(name: str, agent: DeepAgent, env: Env, seed: int) -> NeedModel:
    learner, _, shared = name.partition("/")[0].partition("-")
    features = agent.q.online.normalized_hidden if shared == "shared" else None
    return NeedModel(env.observation_space, learner=learner, features=features, seed=seed)


def _solved(
    papers: PaperNeed, buffer: ReplayBuffer, env: Env, discount: float, seed: int
) -> NeedModel:
    """``linear`` on the features of the paper's need, from 500 batches."""
    solved = NeedModel(
        env.observation_space,
        learner="linear",
        discount=discount,
        features=papers.features,
        seed=seed,
    )
    for _ in range(500):
        solved.learn(buffer)
    return solved


def _needs(model: NeedModel) -> NeedsOf:
    return lambda obs, columns: model.needs(obs, columns["obs"])


def _aged(newest: NeedModel, old: NeedModel) -> NeedsOf:
    """Need from the newest queries and from vectors that an older model stored."""
    return lambda obs, columns: newest.need_of(
        np.stack([*map(newest.query, obs)]) @ old.features(columns["obs"]).T
    )


class _Rows:
    """The rows of a run: those of a need, and once for each moment those of its trivial scores."""

    def __init__(self, seed: int, queries: int, agent: DeepAgent) -> None:
        self.rows: list[dict[str, Any]] = []
        self._seed, self._queries, self._agent = seed, queries, agent
        self._written: set[tuple[str, int]] = set()

    def add(
        self,
        name: str,
        needs_of: NeedsOf,
        *,
        cost: float = np.nan,
        untrained: NeedsOf | None = None,
        new: ReplayBuffer | None = None,
    ) -> None:
        """Measure a need on the agent's buffer, or on ``new`` episodes."""
        quality = need_quality(
            self._agent.buffer if new is None else new,
            needs_of,
            stream(self._seed, "need quality", self._agent.steps),
            withheld=withholds if new is None else lambda n: np.ones(len(n), np.bool_),
            untrained=untrained,
            queries=self._queries,
        )
        self._append(name, {key: getattr(quality, key) for key in NUMBERS}, cost)
        for score, found in quality.baselines.items():
            own = score in ("untrained", "other query")
            place = f"{name}, {score}" if own else score + (", new episodes" if new else "")
            if (place, self._agent.steps) not in self._written and (not own or untrained):
                self._written.add((place, self._agent.steps))
                self._append(place, found._asdict())

    def _append(self, need: str, scores: Mapping[str, float], cost: float = np.nan) -> None:
        moment = {"steps": self._agent.steps, "updates": self._agent.updates, "need": need}
        rounded = {name: float(f"{scores.get(name, np.nan):.4g}") for name in NUMBERS}
        self.rows.append({**moment, **rounded, "cost": float(f"{cost:.3g}")})


def accuracy_of(data: Table) -> Table:
    """The last AUCs of each need of each run, beside the best trivial score, and the gate."""
    rows = {}
    runs = data.distinct(*Case._fields)
    for run in runs:
        own = data.where(**dict(zip(Case._fields, run, strict=True)))
        last = {need.replace("/4", ""): row for row, need in enumerate(own["need"].tolist())}
        for need, called in NEEDS.items():
            for column, trivial in COLUMNS.items():
                if need not in last:
                    continue
                found = float(own[column][last[need]])
                scores = {name: float(own[column][last[name]]) for name in trivial if name in last}
                best = max(scores, key=lambda name: np.nan_to_num(scores[name], nan=-1.0))
                rows[(*run, called, column)] = {
                    "found": found,
                    "trivial": scores[best],
                    "trivial_score": best.rpartition(", ")[2],
                    "accurate": accurate_need(found, scores[best]),
                }
    return long_table((*Case._fields, "need", "number"), rows)


def claims_of(accuracy: Table) -> list[Claim]:
    """For each preset and need: is it accurate in every world?"""
    claims = []
    names = zip(accuracy["preset"].tolist(), accuracy["need"].tolist(), strict=True)
    for preset, need in dict.fromkeys(names):
        own, past, time_ = (
            accuracy.where(preset=preset, need=need, number=number) for number in COLUMNS
        )
        cells = zip(own["world"].tolist(), own["found"], own["trivial"], strict=True)
        each = [f"{world} {found:.3f} ({trivial:.3f})" for world, found, trivial in cells]
        verdict: Verdict = "holds" if own["accurate"].all() else "does not hold"
        if np.isnan(own["found"]).any():
            verdict = "undecided"
        claims.append(
            Claim(
                statement=f"Need is accurate in every world: {need}",
                source="docs/need_accuracy.md",
                measured=f"in {own['accurate'].sum()} of {len(own)}: {', '.join(each)}",
                verdict=verdict,
                preset=preset,
                detail="AUC, and in brackets the best trivial score. Accurate: at least .8, and "
                "above that score by .1 or by half of what is left to 1. It would be so in "
                f"{past['accurate'].sum()} worlds against the own episode's past, and in "
                f"{time_['accurate'].sum()} against other episodes at the same time. One run each.",
            )
        )
    return claims


def draw(accuracy: Table) -> Figure:
    """The AUC of each need in each world, one dot for each run."""
    worlds: Sequence[str] = accuracy.distinct("world")
    arms = [f"{need}, {number}" for number in COLUMNS for need in NEEDS.values()]

    def runs(world: str, arm: str) -> FloatArray:
        need, number = arm.split(", ")
        return accuracy.where(world=world, need=need, number=number)["found"]

    return draw_arms(worlds, arms, runs, lambda arm: not arm.startswith("the paper's"))


STUDY = Study(
    name="need-quality",
    title="How accurate learned need is",
    question="Does learned need know which stored states the agent meets next, better than scores "
    "that learn nothing?",
    presets=tuple(PLANS),
    quick_presets=("rows",),
    run=run,
    documentation="docs/need_accuracy.md",
    takes=(),
    keeps_cache=True,
)
