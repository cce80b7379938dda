"""Figure 5: PER against PER-SR with deep networks, from the paper's own runs and from ours."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from needlab.core.tables import Table, long_table
from needlab.runs.trials import TrialRunner
from needlab.studies.deep.claims import our_claims, published_claims
from needlab.studies.deep.figure import draw_bars, draw_ours, draw_published_curves
from needlab.studies.deep.ours import (
    AGENTS,
    PLANS,
    PRESET,
    curves,
    data_of,
    random_return,
    runs_of,
    train_all,
)
from needlab.studies.deep.published import Game, changes, end_level, published_games
from needlab.studies.study import Options, Result, Study


def run(options: Options, runner: TrialRunner) -> Result:
    """Read the published runs, make our own, and hold the paper's words against both."""
    plan = PLANS[options.size]
    if options.trials is not None:
        plan = plan._replace(seeds=options.trials)
    runs = runs_of(plan, options.seed)
    data = data_of(runs, train_all(runs, runner))
    random = {world: random_return(world, options.seed) for world in plan.worlds}
    games = published_games()
    return Result(
        tables={"data": data, "published": _published_table(games), "need": _need_table(data)},
        figures={
            "figure": draw_bars(games),
            "published_curves": draw_published_curves(games),
            "ours": draw_ours(data, plan, random),
        },
        captions={
            "figure": "The paper's own runs, one a game: PER-SR's score relative to PER's, by the "
            "best of 200 iterations, as in the paper, and by the last ten. Linear up to 100%, "
            "logarithmic beyond.",
            "published_curves": "The same runs: mean training return over the last six iterations. "
            "Dashed: Dopamine's DQN with uniform replay, the end of five runs.",
            "ours": f"Our runs on MinAtar: {plan.seeds} seeds, {plan.steps:,} steps, an update "
            "every fourth step, preset corrected. Left the mean evaluation return, right its "
            "last value, with Student's 95% intervals (small dots: seeds). Dotted: chance.",
        },
        claims=[*published_claims(games), *our_claims(data, plan, random)],
        config={
            "plan": plan._asdict(),
            "agents": {
                label: replace(runs[0].config, agent=agent, overrides={**plan.overrides, **changed})
                .resolved()
                .flat()
                for label, (agent, changed) in AGENTS.items()
                if label in plan.agents
            },
        },
        notes=[
            "One run a game cannot separate an algorithm from luck: the published runs are counted "
            "over games, ours over seeds.",
            "Scaling by raw need changes the size of every step as well as which transitions "
            "count; need divided by its mean in the batch separates the two.",
        ],
    )


def _published_table(games: list[Game]) -> Table:
    best, end = zip(*(changes(game) for game in games), strict=True)
    return Table(
        {
            "game": [game.name for game in games],
            "per_best": [float(game.per.max()) for game in games],
            "per_sr_best": [float(game.per_sr.max()) for game in games],
            "uniform_best": [game.uniform_best for game in games],
            "per_last_10": [end_level(game.per) for game in games],
            "per_sr_last_10": [end_level(game.per_sr) for game in games],
            "uniform_last_5": [game.uniform_end for game in games],
            "change_best_percent": best,
            "change_last_10_percent": end,
        }
    )


def _need_table(data: Table) -> Table:
    """Need and the likeness of features over the last half of each agent's runs, by game."""
    names = ("need_mean", "need_variation", "need_negative", "feature_similarity")
    rows = {}
    worlds, agents = (data.distinct(name) for name in ("world", "agent"))
    for world, agent in product(worlds, agents):
        if agent.startswith("per-sr"):
            found = {name: curves(data, world, agent, name) for name in names}
            rows[world, agent] = {name: v[:, v.shape[1] // 2 :].mean() for name, v in found.items()}
    return long_table(("world", "agent"), rows)


STUDY = Study(
    name="fig5",
    title="Deep PER-SR: the paper's Atari runs, and ours on MinAtar",
    question="The paper finds deep PER-SR better than PER in most of 15 Atari games, slower early "
    "on and without PER's late collapse. What do its runs say, and what do ours?",
    presets=(PRESET,),
    run=run,
    documentation="docs/deep_studies.md",
    keeps_cache=True,
)
