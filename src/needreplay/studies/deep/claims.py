"""What the paper says of Atari (sections 5 and 6), held against its own runs and against ours."""

from __future__ import annotations

import numpy as np

from needreplay.core.tables import Table
from needreplay.core.types import FloatArray
from needreplay.report.claims import Claim, Verdict, verdict_of
from needreplay.report.statistics import Interval, proportion_interval, student_interval
from needreplay.studies.deep.ours import PRESET, Plan, curves
from needreplay.studies.deep.published import Game, changes, collapsed, slower_early

PUBLISHED = "released"
STAND_OUT = ("Berzerk", "Qbert", "Robotank")
ABOVE_RANDOM = 2.0
"""How far above a random player a short run has to come, for anything to be read from it."""


def published_claims(games: list[Game]) -> list[Claim]:
    """Section 5, from the runs behind it: one run a game, so games are what is counted."""
    by_best = {game.name: changes(game)[0] for game in games}
    at_end = {game.name: changes(game)[1] for game in games}
    n = len(games)
    largest = sorted(by_best, key=lambda name: by_best[name], reverse=True)[:3]
    falls = {agent: [collapsed(getattr(g, agent)) for g in games] for agent in ("per", "per_sr")}
    beaten = [float(game.per.max()) < game.uniform_best for game in games]
    beaten_sr = [float(game.per_sr.max()) < game.uniform_best for game in games]
    return [
        _counted(
            "PER-SR is better than PER in most games, by the best iteration",
            "paper, fig. 5",
            sum(change > 0 for change in by_best.values()),
            n,
        ),
        _counted(
            "PER-SR is better than PER in most games, by the last ten iterations",
            "the same runs, another measure",
            sum(change > 0 for change in at_end.values()),
            n,
        ),
        _published(
            "Berzerk, Qbert and Robotank stand out",
            "paper, section 5",
            f"the three largest changes by the best iteration are in {', '.join(largest)}",
            "holds" if set(largest) == set(STAND_OUT) else "does not hold",
            "Relative changes are divided by PER's score, so that they are largest where PER "
            "learned least.",
        ),
        _counted(
            "PER-SR is slower than PER early on",
            "paper, section 5",
            sum(slower_early(game) for game in games),
            n,
            "Mean return over the first tenth of the run.",
        ),
        _counted(
            "PER collapses late",
            "paper, section 5",
            sum(falls["per"]),
            n,
            "Of what it had gained at its best, more than half is lost in the last ten iterations.",
        ),
        _counted(
            "PER-SR does not collapse", "paper, section 5", n - sum(falls["per_sr"]), n, "As above."
        ),
        _counted(
            "The PER baseline is at least as good as DQN with uniform replay",
            "not in the paper; what its baseline is worth",
            n - sum(beaten),
            n,
            "Best iteration, against Dopamine's DQN (five runs) on the same games.",
        ),
        _counted(
            "PER-SR is at least as good as DQN with uniform replay",
            "not in the paper",
            n - sum(beaten_sr),
            n,
            "As above.",
        ),
    ]


def _published(
    statement: str, source: str, measured: str, verdict: Verdict, detail: str = ""
) -> Claim:
    return Claim(statement, source, measured, verdict, f"{PUBLISHED}, published runs", detail)


def _counted(statement: str, source: str, count: int, n: int, detail: str = "") -> Claim:
    share = proportion_interval(count, n)
    return _published(
        statement,
        source,
        f"in {count} of {n} games; share {share.text(digits=2)}",
        verdict_of(share, 0.5, "above"),
        detail,
    )


def our_claims(data: Table, plan: Plan, random: dict[str, FloatArray]) -> list[Claim]:
    """The same questions put to our runs: seeds are what is counted."""
    claims = []
    for world in plan.worlds:
        chance = float(random[world].mean())
        for agent in plan.agents:
            final = student_interval(curves(data, world, agent, "eval_return")[:, -1])
            claims.append(
                Claim(
                    f"{agent} learns {world}: it ends {ABOVE_RANDOM:g} or more above chance",
                    "a check of our own",
                    f"{final.text()}; a random player {chance:.2f}",
                    _reached(final.estimate - chance),
                    PRESET,
                    f"Mean of {plan.seeds} seeds with Student's interval; the verdict is on the "
                    "mean.",
                )
            )
        rivals = [agent for agent in plan.agents if agent.startswith("per-sr")]
        for agent in rivals if "per" in plan.agents else []:
            claims += _against_per(data, world, agent)
        claims += [
            _collapse(data, world, agent)
            for agent in plan.agents
            if agent == "per" or agent in rivals
        ]
    return claims


def _collapse(data: Table, world: str, agent: str) -> Claim:
    """PER collapses late, PER-SR does not; which games stand out cannot be asked of one or two."""
    runs = curves(data, world, agent, "eval_return")
    last = max(1, runs.shape[1] // 20)
    fallen = sum(collapsed(run, last) for run in runs)
    count = fallen if agent == "per" else len(runs) - fallen
    share = proportion_interval(count, len(runs))
    return Claim(
        f"On {world} {agent} {'collapses late' if agent == 'per' else 'does not collapse'}",
        "paper, section 5",
        f"in {count} of {len(runs)} runs; share {share.text(digits=2)}",
        verdict_of(share, 0.5, "above"),
        PRESET,
        "Of what it had gained at its best, more than half is lost in the last twentieth of "
        "iterations.",
    )


def _reached(lead: float) -> Verdict:
    return "holds" if lead >= ABOVE_RANDOM else "does not hold"


def _against_per(data: Table, world: str, agent: str) -> list[Claim]:
    ours, per = (curves(data, world, name, "eval_return") for name in (agent, "per"))
    length = min(ours.shape[1], per.shape[1])
    early = max(1, length // 4)
    measures: list[tuple[str, Interval]] = [
        ("better than PER at the end", _paired(ours[:, -1], per[:, -1])),
        ("better than PER by the best iteration", _paired(ours.max(1), per.max(1))),
        (
            "better than PER over the whole run",
            _paired(ours[:, :length].mean(1), per[:, :length].mean(1)),
        ),
        (
            "slower than PER early on",
            _paired(per[:, :early].mean(1), ours[:, :early].mean(1)),
        ),
    ]
    return [
        Claim(
            f"On {world} {agent} is {words}",
            "paper, section 5",
            f"difference of evaluation returns, seed by seed: {lead.text()}",
            verdict_of(lead, 0.0, "above"),
            PRESET,
        )
        for words, lead in measures
    ]


def _paired(first: FloatArray, second: FloatArray) -> Interval:
    return student_interval(np.asarray(first) - np.asarray(second))
