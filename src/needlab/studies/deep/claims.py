"""What the paper says of Atari (sections 5 and 6), checked on its own runs and on ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from needlab.core.tables import Table
from needlab.report.claims import DOUBTS, Claim, need_verdict, verdict_of
from needlab.report.statistics import proportion_interval, student_interval
from needlab.studies.deep.ours import PRESET, Plan, curves
from needlab.studies.deep.published import Game, changes, collapsed, slower_early
from needreplay._core.types import FloatArray
from needreplay.need import LOWEST_AUC, MARGIN

PUBLISHED = "released"
STAND_OUT = ("Berzerk", "Qbert", "Robotank")
ABOVE_RANDOM = 2.0
"""How far above a random player a short run has to come, for anything to be read from it."""


def published_claims(games: list[Game]) -> list[Claim]:
    """Section 5, from the runs behind it: one run a game, so games are what is counted."""
    by_best = {game.name: changes(game)[0] for game in games}
    largest = sorted(by_best, key=lambda name: by_best[name], reverse=True)[:3]
    preset = f"{PUBLISHED}, published runs"
    stand_out = Claim(
        "Berzerk, Qbert and Robotank stand out",
        "paper, section 5",
        f"the three largest changes by the best iteration are in {', '.join(largest)}",
        "holds" if set(largest) == set(STAND_OUT) else "does not hold",
        preset,
        "Relative changes are divided by PER's score, so they are largest where PER learned least.",
    )
    counted: list[tuple[str, str, Callable[[Game], bool], str]] = [
        (
            "PER-SR is better than PER in most games, by the best iteration",
            "paper, fig. 5",
            lambda game: changes(game)[0] > 0,
            "",
        ),
        (
            "PER-SR is better than PER in most games, by the last ten iterations",
            "the same runs, another measure",
            lambda game: changes(game)[1] > 0,
            "",
        ),
        (
            "PER-SR is slower than PER early on",
            "paper, section 5",
            slower_early,
            "Mean return over the first tenth of the run.",
        ),
        (
            "PER collapses late",
            "paper, section 5",
            lambda game: collapsed(game.per),
            "Of what it had gained at its best, more than half is lost in the last ten iterations.",
        ),
        (
            "PER-SR does not collapse",
            "paper, section 5",
            lambda game: not collapsed(game.per_sr),
            "As above.",
        ),
        (
            "The PER baseline is at least as good as DQN with uniform replay",
            "not in the paper; what its baseline is worth",
            lambda game: float(game.per.max()) >= game.uniform_best,
            "Best iteration, against Dopamine's DQN (five runs) on the same games.",
        ),
        (
            "PER-SR is at least as good as DQN with uniform replay",
            "not in the paper",
            lambda game: float(game.per_sr.max()) >= game.uniform_best,
            "As above.",
        ),
    ]
    claims = [
        _counted(statement, source, [holds(game) for game in games], "games", preset, detail)
        for statement, source, holds, detail in counted
    ]
    return [*claims[:2], stand_out, *claims[2:]]


def _counted(
    statement: str, source: str, holds: Sequence[bool], of: str, preset: str, detail: str
) -> Claim:
    share = proportion_interval(sum(holds), len(holds))
    measured = f"in {sum(holds)} of {len(holds)} {of}; share {share.text(digits=2)}"
    return Claim(statement, source, measured, verdict_of(share, 0.5, "above"), preset, detail)


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
                    "holds" if final.estimate - chance >= ABOVE_RANDOM else "does not hold",
                    PRESET,
                    f"Mean of {plan.seeds} seeds with Student's interval; the verdict is on the "
                    "mean.",
                )
            )
        rivals = [agent for agent in plan.agents if agent.startswith("per-sr")]
        for agent in rivals:
            accurate = _need_accuracy(data, world, agent)
            claims.append(accurate)
            if "per" in plan.agents:
                claims += _against_per(data, world, agent, DOUBTS[accurate.verdict])
        claims += [
            _collapse(data, world, agent)
            for agent in plan.agents
            if agent == "per" or agent in rivals
        ]
    return claims


def _need_accuracy(data: Table, world: str, agent: str) -> Claim:
    """Whether need was need: what the other claims about it are worth."""
    auc, baseline = (_last_mean(data, world, agent, f"need_auc{of}") for of in ("", "_baseline"))
    holds = need_verdict(auc, baseline)
    return Claim(
        f"On {world} the need of {agent} is accurate: it tells the next 10 states from others",
        "a check of our own",
        "not measured"
        if np.isnan(auc)
        else f"AUC {auc:.2f} at the end of training, the best trivial score {baseline:.2f}, means "
        "over seeds; 0.5 is chance",
        holds,
        PRESET,
        f"The bar is {LOWEST_AUC}, and {MARGIN} above trivial scores.",
    )


def _last_mean(data: Table, world: str, agent: str, column: str) -> float:
    """The mean over runs of the last value that was measured; NaN if there is none."""
    runs = list(curves(data, world, agent, column)) if column in data.names else []
    last = [run[~np.isnan(run)][-1:] for run in runs]
    return float(np.mean(np.concatenate(last))) if any(map(len, last)) else float("nan")


def _collapse(data: Table, world: str, agent: str) -> Claim:
    """PER collapses late, PER-SR does not; one or two games cannot show which stand out."""
    runs = curves(data, world, agent, "eval_return")
    last = max(1, runs.shape[1] // 20)
    return _counted(
        f"On {world} {agent} {'collapses late' if agent == 'per' else 'does not collapse'}",
        "paper, section 5",
        [collapsed(run, last) == (agent == "per") for run in runs],
        "runs",
        PRESET,
        "Of what it had gained at its best, more than half is lost in the last twentieth of "
        "iterations.",
    )


def _against_per(data: Table, world: str, agent: str, doubt: str) -> list[Claim]:
    ours, per = (curves(data, world, name, "eval_return") for name in (agent, "per"))
    length = min(ours.shape[1], per.shape[1])
    early = max(1, length // 4)
    measures = {
        "better than PER at the end": ours[:, -1] - per[:, -1],
        "better than PER by the best iteration": ours.max(1) - per.max(1),
        "better than PER over the whole run": ours[:, :length].mean(1) - per[:, :length].mean(1),
        "slower than PER early on": per[:, :early].mean(1) - ours[:, :early].mean(1),
    }
    leads = {words: student_interval(lead) for words, lead in measures.items()}
    return [
        Claim(
            f"On {world} {agent} is {words}",
            "paper, section 5",
            f"difference of evaluation returns, seed by seed: {lead.text()}",
            verdict_of(lead, 0.0, "above"),
            PRESET,
            doubt=doubt,
        )
        for words, lead in leads.items()
    ]
