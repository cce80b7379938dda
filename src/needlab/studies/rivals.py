"""Which model of replay explains which events, in the worlds of Mattar & Daw (2018)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from needlab.core.tables import Table, long_table
from needlab.report.claims import Claim, verdict_of
from needlab.report.figures import new_figure
from needlab.report.statistics import Interval, mean_interval
from needlab.runs.trials import TrialRunner
from needlab.studies.mattar_daw.measures import leads_to_goal, path_lengths
from needlab.studies.study import Options, Result, Study
from needlab.tabular.evb import EVB, simulate
from needlab.tabular.evb.settings import EVBSettings
from needlab.tabular.evb.simulation import Simulation
from needlab.tabular.fit import data_of, fit_events
from needlab.tabular.replay_events import FORWARD, replay_events
from needlab.tabular.rivals import simulate_model
from needlab.worlds import TabularWorld, tabular_world
from needlab.worlds.boards import linear_track
from needreplay._core.rng import stream
from needreplay._core.types import BoolArray, IntArray

EPISODES, LEARNING_EPISODES = 50, 20
SIMULATIONS = {"quick": 8, "full": 60}
FITS = {"quick": 1, "full": 6}
"""Of each truth, to see whether fits find it."""
NEAR = 2
"""Steps; an event is away from the agent if all of its states are farther than this."""
SHARE_AWAY = 0.1
F, R = 0, 1
BEFORE, AFTER = 0, 1

AGENTS: dict[str, str] = {
    "EVB": "",
    "EVB, one step": "",
    "goals": "goals,gain_exponent=20,need_exponent=20",
    "SFMA": "sfma-dynamic",
    "SFMA, 32": "sfma-dynamic",
    "SFMA, forward": "sfma,reverse=0,forward=1",
    "recency": "recency",
    "random": "uniform",
}
"""By name, the model of ``simulate_model``. EVB is Mattar & Daw's agent as published, one step the
control of goals: no chains, and need of the present policy. SFMA is in its dynamic mode."""
THEIRS = ("SFMA", "SFMA, 32")
"""Of which Diekmann & Cheng (2023) claim that they learn nearly as fast as EVB."""
LENGTHS = {"SFMA, 32": 32}
"""Backups in a replay, where there are not 20 as in Mattar & Daw; SFMA's code has 32 by default."""

WORLDS: dict[str, tuple[float, ...]] = {
    "linear track": (1.0,),
    "open field": (1.0,),
    "track, 1 or 4": (1.0, 4.0),
    "track, 1 or 0": (1.0, 0.0),
}
"""By name, the rewards between which events are divided: the last one that was received."""

TRUTHS: tuple[tuple[float, float, float], ...] = (
    (1.0, 1.0, 0.0),
    (1.5, 0.5, 0.05),
    (0.5, 2.0, 0.2),
)
"""gain_exponent, need_exponent, lapse of the simulations whose parameters are fitted again."""
FITTED = ("gain_exponent", "need_exponent", "lapse")
FIT_EPISODES = 15


@dataclass(frozen=True)
class Case:
    """Simulations that differ only in their number."""

    agent: str
    world: str
    seed: int = 0


class Phenomenon(NamedTuple):
    """What events show in animals, and how it is measured in one simulation."""

    name: str
    statement: str
    source: str
    world: str
    measure: Callable[[Any], Any]
    """of the columns of all simulations"""


def _minus(first: tuple[Any, ...], second: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Events per episode of one kind minus another: (reward, direction, when)."""
    return lambda own: own["events"][(slice(None), *first)] - own["events"][(slice(None), *second)]


def _by_reward(own: Any) -> Any:
    """[simulation, reward, direction], before and after a run together."""
    return own["events"].sum(axis=3)


_TRACK, _FIELD, _LABYRINTH = "linear track", "open field", "labyrinth"
LEARNING_WORLDS = (_TRACK, _FIELD, _LABYRINTH)
LABYRINTH = """\
S.#...#..
#.#.#.#.#
....#....
.#######.
...#...#.
##.#.#.#.
.....#..G
"""
"""Two ways to the goal, of 18 and 20 steps, and dead ends."""
_MD3, _MD5 = "Mattar & Daw, fig. 3", "Mattar & Daw, fig. 5"
PHENOMENA: tuple[Phenomenon, ...] = (
    *(
        Phenomenon(f"{name}, {short}", f"{said} ({world})", _MD3, world, measure)
        for short, world in (("track", _TRACK), ("field", _FIELD))
        for name, said, measure in (
            (
                "forward before",
                "Before a run, forward events outnumber reverse ones",
                _minus((0, F, BEFORE), (0, R, BEFORE)),
            ),
            (
                "reverse after",
                "After a run, reverse events outnumber forward ones",
                _minus((0, R, AFTER), (0, F, AFTER)),
            ),
            (
                "away",
                "More than a tenth of the events are away from the agent",
                lambda own: own["away"] - SHARE_AWAY * own["events"].sum(axis=(1, 2, 3)),
            ),
        )
    ),
    Phenomenon(
        "more reverse after 4", "Reverse events are more frequent after a reward of 4 than of 1",
        _MD5, "track, 1 or 4", lambda own: np.diff(_by_reward(own)[..., R])[:, 0],
    ),
    Phenomenon(
        "fewer reverse after 0", "Reverse events are less frequent after a reward of 0 than of 1",
        _MD5, "track, 1 or 0", lambda own: -np.diff(_by_reward(own)[..., R])[:, 0],
    ),
    Phenomenon(
        "forward changes less",
        "Reward of 4 instead of 1 changes reverse events more than forward ones",
        _MD5, "track, 1 or 4",
        lambda own: np.diff(_by_reward(own)[..., R] - _by_reward(own)[..., F])[:, 0],
    ),
)  # fmt: skip


@cache
def _world(name: str) -> tuple[TabularWorld, IntArray, BoolArray]:
    """A world, lengths of its shortest paths, and where a replay is after a run."""
    schedule: Any = {"track, 1 or 4": "1-or-4", "track, 1 or 0": "1-or-0"}.get(name, "baseline")
    boards = {_FIELD: "open-field", _LABYRINTH: LABYRINTH}
    world = tabular_world(boards[name]) if name in boards else linear_track(schedule)
    return world, path_lengths(world), leads_to_goal(world)


def simulated(case: Case, simulation: int, settings: EVBSettings, episodes: int) -> Simulation:
    """One simulation of an agent."""
    world, seed = _world(case.world)[0], case.seed
    settings = replace(settings, backups=LENGTHS.get(case.agent, settings.backups))
    if AGENTS[case.agent]:
        return simulate_model(
            AGENTS[case.agent], world, settings=settings, episodes=episodes, seed=seed,
            simulation=simulation,
        )  # fmt: skip
    if case.agent != "EVB":
        settings = replace(settings, extend_chains=False, need="policy")
    return simulate(world, settings, episodes=episodes, seed=seed, simulation=simulation)


def run_events(case: Case, simulation: int) -> dict[str, npt.ArrayLike]:
    """Events per episode: [reward, direction, before or after a run], and those away."""
    world, between, after = _world(case.world)
    found = simulated(case, simulation, EVB["published"], EPISODES)
    rewards = np.array(WORLDS[case.world])
    counts, away = np.zeros((len(rewards), 2, 2)), 0
    for pause in found.pauses:
        part = found.backups[pause["first"] : pause["first"] + pause["count"]]
        agent = int(pause["state"])
        group = int(np.argmin(np.abs(rewards - pause["last_reward"])))
        for event in replay_events(part["state"], part["action"], world.next_state, permutations=0):
            states = part["state"][event["first"] : event["last"] + 1]
            direction = F if event["direction"] == FORWARD else R
            counts[group, direction, AFTER if after[agent] else BEFORE] += 1
            lengths = between[agent, states]
            away += bool(np.all((lengths < 0) | (lengths > NEAR)))
    return {"events": counts / (EPISODES / len(rewards)), "away": away / EPISODES}


def run_learning(case: Case, simulation: int) -> dict[str, npt.ArrayLike]:
    """Mean steps of an episode of an agent that is greedy in nine of ten steps."""
    settings = replace(EVB["published"], behavior="epsilon-greedy", epsilon=0.1)
    found = simulated(case, simulation, settings, LEARNING_EPISODES)
    return {"steps": float(found.lengths[1:].mean())}


def run_fit(truth: tuple[float, ...], simulation: int) -> dict[str, npt.ArrayLike]:
    """Fit a simulation of EVB: [parameter, (estimate, low, high)]."""
    values = ",".join(f"{name}={value}" for name, value in zip(FITTED, truth, strict=True))
    world = _world(_TRACK)[0]
    found = simulate_model(f"evb,{values}", world, episodes=FIT_EPISODES, simulation=simulation)
    fit = fit_events(data_of(found, world), "evb", free=FITTED, starts=2)
    return {"estimates": np.array([(one.value, one.low, one.high) for one in fit.estimates])}


def run(options: Options, runner: TrialRunner) -> Result:
    """Run every model in every world, and fit simulations of EVB again."""
    trials = options.trials or SIMULATIONS[options.size]
    fits = min(FITS[options.size], trials)
    events = [Case(agent, world, options.seed) for agent in AGENTS for world in WORLDS]
    learning = [Case(agent, world, options.seed) for agent in AGENTS for world in LEARNING_WORLDS]
    found = runner.run(run_events, events, trials, label="rivals events", seconds=0.1)
    steps = runner.run(run_learning, learning, trials, label="rivals learning", seconds=0.05)
    fitted = runner.run(run_fit, TRUTHS, fits, label="rivals fits", seconds=10.0)
    answers = {
        (phenomenon.name, agent): _answer(phenomenon, found[Case(agent, phenomenon.world,
                                          options.seed)], agent, options.seed)
        for phenomenon in PHENOMENA
        for agent in AGENTS
    }  # fmt: skip
    claims = [
        Claim(
            statement=f"{agent}: {phenomenon.statement}",
            source=phenomenon.source,
            measured=f"difference per episode: {answers[phenomenon.name, agent].text()}",
            verdict=verdict_of(answers[phenomenon.name, agent], 0.0, "above"),
            preset="default",
        )
        for phenomenon in PHENOMENA
        for agent in AGENTS
    ]
    claims += _learning_claims(steps, options.seed)
    figure = _draw(answers)
    return Result(
        tables={
            "data": _counts(found, options.seed),
            "explains": long_table(
                ("phenomenon", "agent"),
                {
                    key: {
                        **interval.columns("difference"),
                        "verdict": verdict_of(interval, 0.0, "above"),
                    }
                    for key, interval in answers.items()
                },
            ),
            "learning": long_table(
                ("world", "agent"),
                {
                    (case.world, case.agent): mean_interval(
                        columns["steps"], stream(options.seed, "rivals", case.world, case.agent)
                    ).columns("steps")
                    for case, columns in steps.items()
                },
            ),
            "recovery": _recovery(fitted),
        },
        figures={"figure": figure},
        captions={
            "figure": "Which model shows which phenomenon: the difference per episode. Green: all "
            "of its 95% interval over simulations is as in animals; red: all of it is not; white: "
            "undecided."
        },
        claims=claims,
        config={
            "episodes": EPISODES, "simulations": trials, "fits": fits, "agents": AGENTS,
            "backups": {agent: LENGTHS.get(agent, EVB["published"].backups) for agent in AGENTS},
            "away": f"all states more than {NEAR} steps from the agent",
        },
        notes=[
            "Every agent learns, acts and pauses alike; only what it replays differs. EVB takes "
            "the best backup, goals the best with high probability, the others draw.",
        ],
    )  # fmt: skip


def _answer(phenomenon: Phenomenon, own: Any, agent: str, seed: int) -> Interval:
    rng = stream(seed, "rivals", phenomenon.name, agent)
    return mean_interval(phenomenon.measure(own), rng)


def _learning_claims(steps: Any, seed: int) -> list[Claim]:
    """Who learns faster than with random replay, and whether SFMA is nearer to EVB than to it."""
    claims = []
    for world in LEARNING_WORLDS:
        own = {agent: steps[Case(agent, world, seed)]["steps"] for agent in AGENTS}
        saved = {agent: own["random"] - values for agent, values in own.items()}
        asked = {
            (agent, f"learns faster than with random replay ({world})", "steps saved"): values
            for agent, values in saved.items()
            if agent != "random"
        }
        for agent in THEIRS if "EVB" in saved else ():
            said = f"learns nearly as fast as EVB: nearer to it than to random replay ({world})"
            more = "steps saved against random, minus steps lost against EVB"
            asked[agent, said, more] = 2.0 * saved[agent] - saved["EVB"]
        for (agent, said, measured), values in asked.items():
            interval = mean_interval(values, stream(seed, "rivals", "learning", agent, said))
            claims.append(
                Claim(
                    statement=f"{agent}: {said}",
                    source="Diekmann & Cheng (2023)" if agent in THEIRS else "our comparison",
                    measured=f"{measured} in an episode: {interval.text()}",
                    verdict=verdict_of(interval, 0.0, "above"),
                    preset="default",
                )
            )
    return claims


def _counts(found: Any, seed: int) -> Table:
    """Events per episode, with intervals."""
    parts = {}
    for case, columns in found.items():
        for group, reward in enumerate(WORLDS[case.world]):
            for direction, name in ((F, "forward"), (R, "reverse")):
                for when, word in ((BEFORE, "before"), (AFTER, "after")):
                    key = (case.agent, case.world, reward, name, word)
                    values = columns["events"][:, group, direction, when]
                    interval = mean_interval(values, stream(seed, "rivals", *map(str, key)))
                    parts[key] = interval.columns("events_per_episode")
    return long_table(("agent", "world", "last_reward", "direction", "when"), parts)


def _recovery(fitted: Any) -> Table:
    """Of every truth and parameter: mean estimate, and in how many fits the interval has it."""
    parts = {}
    for truth, columns in fitted.items():
        for i, name in enumerate(FITTED):
            value, low, high = columns["estimates"][:, i].T
            inside = (low <= truth[i] + 1e-9) & (truth[i] <= high + 1e-9)
            parts[", ".join(map(str, truth)), name] = {
                "truth": truth[i], "mean_estimate": value.mean(), "spread": value.std(),
                "inside": int(inside.sum()), "fits": len(value),
            }  # fmt: skip
    return long_table(("simulated", "parameter"), parts)


def _draw(answers: dict[tuple[str, str], Interval]) -> Figure:
    """A table of signs: phenomena by models."""
    figure, ((axes,),) = new_figure(height=0.42 * len(PHENOMENA) + 1.2)
    colors = {"holds": "#9fd3b5", "does not hold": "#f2b8a0", "undecided": "#ffffff"}
    for row, phenomenon in enumerate(PHENOMENA):
        for column, agent in enumerate(AGENTS):
            interval = answers[phenomenon.name, agent]
            color = colors[verdict_of(interval, 0.0, "above")]
            axes.fill_between([column, column + 1], row, row + 1, color=color, linewidth=0)
            axes.text(
                column + 0.5, row + 0.5, f"{interval.estimate:+.2f}", ha="center", va="center",
                fontsize=9,
            )  # fmt: skip
    axes.set(xlim=(0, len(AGENTS)), ylim=(len(PHENOMENA), 0))
    names = [agent.replace(", ", ",\n") for agent in AGENTS]
    axes.set_xticks(np.arange(len(AGENTS)) + 0.5, names)
    axes.set_yticks(np.arange(len(PHENOMENA)) + 0.5, [each.name for each in PHENOMENA])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


STUDY = Study(
    name="rivals",
    title="Which model of replay explains which events",
    question="EVB orders replay by gain x need. Which phenomena of replay need that, and which do "
    "SFMA, candidate goals, or mere recency show as well?",
    presets=("default",),
    run=run,
    documentation="docs/rivals.md",
)
