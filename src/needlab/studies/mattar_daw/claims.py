"""What Mattar & Daw's figures show, as questions that every variant of the agent answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from needlab.report.claims import Claim, Verdict, verdict_of
from needlab.report.statistics import Interval, curve_interval, difference_interval
from needlab.studies.mattar_daw.cases import LINEAR, OPEN, Variant
from needlab.studies.mattar_daw.measures import FAR, LONGEST
from needreplay._core.rng import stream
from needreplay._core.types import AnyArray, FloatArray

Found = dict[str, dict[str, AnyArray]]
"""Of one variant: by "world/schedule", "world/agent", "sleep" or "shock", the stacked columns."""
Direction = Literal["above", "below", "same"]

F, R = 0, 1
BEFORE, AFTER = 0, 1
SAME = (0.8, 1.25)
"""Rates whose ratio is within these are called the same."""
EARLY, LATE = slice(1, 11), slice(40, 50)
"""Laps 2 to 11 and 41 to 50."""


PICTURES = {
    "fig. 1": "behavior",
    "fig. 3": "figure",
    "fig. 4": "distances",
    "fig. 5": "rewards",
    "fig. 6": "laps",
}
"""Our picture of a published figure; the picture ``rewards`` shows sleep, too."""


@dataclass(frozen=True)
class Question:
    """One comparison with a published direction."""

    name: str
    figure: str
    statement: str
    quantity: str
    direction: Direction
    measure: Callable[[Found, np.random.Generator], Interval | None]
    """None: there is nothing to compare, since such events do not occur"""


@dataclass(frozen=True)
class Answer:
    """What one variant says to a question."""

    question: Question
    interval: Interval | None

    @property
    def verdict(self) -> Verdict:
        """Whether the published direction is found."""
        found, direction = self.interval, self.question.direction
        if found is None:
            return "undecided"
        if direction == "same":
            low, high = SAME
            if low <= found.low and found.high <= high:
                return "holds"
            return "does not hold" if found.low > high or found.high < low else "undecided"
        if found.low == found.high == 0.0:
            return "does not hold"
        return verdict_of(found, 0.0, direction)

    @property
    def text(self) -> str:
        """The quantity and its interval."""
        value = "no such events" if self.interval is None else self.interval.text()
        return f"{self.question.quantity}: {value}"


def answers(variant: Variant, found: Found, seed: int) -> list[Answer]:
    """Every question that this variant's simulations can answer."""
    return [
        Answer(
            question,
            question.measure(
                found,
                stream(seed, "mattar-daw", "claims", variant.preset, variant.change, question.name),
            ),
        )
        for question in QUESTIONS
    ]


def claim_of(answer: Answer, preset: str) -> Claim:
    """An answer as a claim for the page."""
    question = answer.question
    published = {"above": "above 0", "below": "below 0", "same": "a ratio of about 1"}
    return Claim(
        statement=question.statement,
        source=f"Mattar & Daw 2018, {question.figure}",
        measured=answer.text,
        verdict=answer.verdict,
        preset=preset,
        detail=f"Published direction: {published[question.direction]}.",
        figure="rewards" if question.measure is _arms else PICTURES[question.figure],
    )


def rates(found: Found, case: str, direction: int, group: int = 0) -> FloatArray:
    """[simulation]: events per episode of one direction, before and after a run together."""
    total: FloatArray = found[case]["events"][:, group, direction].sum(axis=1)
    return total


def _steps(found: Found, rng: np.random.Generator, world: str, rival: str) -> Interval:
    ours, other = (found[f"{world}/{agent}"]["steps"] for agent in ("full", rival))
    return difference_interval(ours.sum(axis=1), other.sum(axis=1), rng, paired=True)


def _moments(found: Found, rng: np.random.Generator, world: str, direction: int) -> Interval:
    events = found[f"{world}/baseline"]["events"][:, 0, direction]
    more, fewer = (BEFORE, AFTER) if direction == F else (AFTER, BEFORE)
    return difference_interval(events[:, more], events[:, fewer], rng, paired=True)


def _ratio(values: FloatArray) -> float:
    """The second number over the first; 0 if there is nothing."""
    return float(values[1] / values[0]) if values[0] > 0 else 0.0


def _shares(rng: np.random.Generator, *columns: FloatArray) -> Interval | None:
    """Ratio of sums over simulations: denominator and numerator, [simulation] each.

    Of four columns, the first ratio minus the second. None without a denominator.
    """
    if columns[0].sum() == 0:
        return None
    return curve_interval(
        np.stack(columns, axis=1),
        lambda mean: _ratio(mean[:2]) - (_ratio(mean[2:]) if len(mean) > 2 else 0.0),
        rng,
    )


def _offset(found: Found, rng: np.random.Generator, direction: int) -> Interval | None:
    last = found[f"{LINEAR}/baseline"]["columns"][:, direction, 1]
    return _shares(rng, last.sum(axis=1), last @ np.arange(-FAR, FAR + 1))


def _paths(found: Found, rng: np.random.Generator, side: int, place: int) -> Interval | None:
    counts = found[f"{OPEN}/baseline"]["paths"][:, side]
    lengths, own, every = np.arange(LONGEST + 1), counts[:, place], counts[:, 3]
    return _shares(rng, own.sum(axis=1), own @ lengths, every.sum(axis=1), every @ lengths)


def _near(
    found: Found, rng: np.random.Generator, world: str, direction: int, side: int
) -> Interval | None:
    counts = found[f"{world}/baseline"]["near"][:, direction, side].sum(axis=1)
    hits, events, chance = np.moveaxis(counts, -1, 0)
    return _shares(rng, events, hits - chance)


def _arms(found: Found, rng: np.random.Generator) -> Interval | None:
    cued, uncued, total = found["sleep"]["arms"].T
    return _shares(rng, total, cued - uncued)


def _against(found: Found, rng: np.random.Generator, case: str, other: str) -> Interval:
    """Reverse events after the second reward of a schedule minus those of another class."""
    ours = rates(found, f"{LINEAR}/{case}", R, 1)
    theirs = rates(found, f"{LINEAR}/{other}", R)
    return difference_interval(ours, theirs, rng, paired=case == other)


def reward_ratio(
    found: Found, rng: np.random.Generator, case: str, other: str, direction: int = F
) -> Interval | None:
    """Events after the second reward of a schedule over those after the first of another.

    None if there are none of these.
    """
    ours = rates(found, f"{LINEAR}/{case}", direction, 1)
    # The baseline has more simulations in the full size; those of the same number are compared.
    theirs = rates(found, f"{LINEAR}/{other}", direction)[: len(ours)]
    return _shares(rng, theirs, ours)


def _shock(found: Found, rng: np.random.Generator) -> Interval:
    before, after = found["shock"]["replayed"].T
    return difference_interval(after, before, rng, paired=True)


def _laps(
    found: Found, rng: np.random.Generator, column: str, direction: int | None = None
) -> Interval:
    values = found[f"{LINEAR}/baseline"][column]
    values = values if direction is None else values[..., direction]
    early, late = (values[:, laps].mean(axis=1) for laps in (EARLY, LATE))
    return difference_interval(late, early, rng, paired=True)


def _visits(found: Found, rng: np.random.Generator) -> Interval | None:
    hits, states = np.moveaxis(found[f"{LINEAR}/baseline"]["visits"], -1, 0)
    if hits.sum() == 0:
        return None
    rest = states[:, 1:].sum(axis=1), hits[:, 1:].sum(axis=1)
    return _shares(rng, *rest, states[:, 0], hits[:, 0])


QUESTIONS: tuple[Question, ...] = (
    *(
        Question(
            f"fewer steps than {rival}, {world}", "fig. 1",
            f"Replay by gain x need learns the {world} in fewer steps than {rival}",
            "steps in 50 episodes, full agent minus the other", "below",
            partial(_steps, world=world, rival=rival),
        )
        for world in (LINEAR, OPEN)
        for rival in ("no replay", "dyna")
    ),
    *(
        question
        for world in (LINEAR, OPEN)
        for question in (
            Question(
                f"forward before, {world}", "fig. 3",
                f"Forward events come before a run rather than after it ({world})",
                "forward events per episode, before minus after", "above",
                partial(_moments, world=world, direction=F),
            ),
            Question(
                f"reverse after, {world}", "fig. 3",
                f"Reverse events come after a run rather than before it ({world})",
                "reverse events per episode, after minus before", "above",
                partial(_moments, world=world, direction=R),
            ),
        )
    ),
    Question(
        "forward ahead", "fig. 4", "Forward events run ahead of the agent (linear track)",
        "columns from the agent to the last state", "above", partial(_offset, direction=F),
    ),
    Question(
        "reverse behind", "fig. 4", "Reverse events run back behind the agent (linear track)",
        "columns from the agent to the last state", "below", partial(_offset, direction=R),
    ),
    Question(
        "backups near the agent", "fig. 4",
        "Backups are nearer to the agent than states at large (open field)",
        "path length from the agent, backups minus all states", "below",
        partial(_paths, side=0, place=0),
    ),
    Question(
        "backups near the reward", "fig. 4",
        "Backups are nearer to the reward than states at large (open field)",
        "path length to the reward, backups minus all states", "below",
        partial(_paths, side=1, place=0),
    ),
    Question(
        "events start near the agent", "fig. 4",
        "Events start nearer to the agent than states at large (open field)",
        "path length from the agent, first states of events minus all states", "below",
        partial(_paths, side=0, place=1),
    ),
    *(
        question
        for world in (LINEAR, OPEN)
        for question in (
            Question(
                f"forward predicts, {world}", "fig. 4",
                f"Forward events show the steps that follow ({world})",
                "share of the next 10 states among the event's first five, minus chance", "above",
                partial(_near, world=world, direction=F, side=1),
            ),
            Question(
                f"reverse remembers, {world}", "fig. 4",
                f"Reverse events show the steps just made ({world})",
                "share of the last 10 states among the event's first five, minus chance", "above",
                partial(_near, world=world, direction=R, side=0),
            ),
        )
    ),
    Question(
        "cued arm in sleep", "fig. 4",
        "Offline replay prefers the arm with the cued reward (T-maze)",
        "share of backups along the arms, cued minus uncued", "above", _arms,
    ),
    Question(
        "reverse after 4, against baseline", "fig. 5",
        "Reverse events become more frequent after a larger reward",
        "reverse events per episode, after 4 minus baseline", "above",
        partial(_against, case="1-or-4", other="baseline"),
    ),
    Question(
        "reverse after 4, against 1", "fig. 5",
        "Reverse events are more frequent after 4 than after 1 in the same simulations",
        "reverse events per episode, after 4 minus after 1", "above",
        partial(_against, case="1-or-4", other="1-or-4"),
    ),
    Question(
        "reverse after 0, against baseline", "fig. 5",
        "Reverse events become rarer after a missing reward",
        "reverse events per episode, after 0 minus baseline", "below",
        partial(_against, case="1-or-0", other="baseline"),
    ),
    Question(
        "forward after 4, against 1", "fig. 5",
        "Forward events are as frequent after 4 as after 1 in the same simulations",
        "forward events per episode, after 4 over after 1", "same",
        partial(reward_ratio, case="1-or-4", other="1-or-4"),
    ),
    Question(
        "forward after 0, against 1", "fig. 5",
        "Forward events are as frequent after 0 as after 1 in the same simulations",
        "forward events per episode, after 0 over after 1", "same",
        partial(reward_ratio, case="1-or-0", other="1-or-0"),
    ),
    Question(
        "forward after 4, against baseline", "fig. 5",
        "Forward events after a larger reward are as frequent as without changes",
        "forward events per episode, after 4 over baseline", "same",
        partial(reward_ratio, case="1-or-4", other="baseline"),
    ),
    Question(
        "shock", "fig. 5", "After a shock, its place is replayed though the agent is far from it",
        "share of simulations that replay it, after minus before", "above", _shock,
    ),
    Question(
        "forward by lap", "fig. 6", "Forward events become rarer with practice",
        "forward events per lap, laps 41-50 minus laps 2-11", "below",
        partial(_laps, column="laps", direction=F),
    ),
    Question(
        "reverse by lap", "fig. 6", "Reverse events become rarer with practice",
        "reverse events per lap, laps 41-50 minus laps 2-11", "below",
        partial(_laps, column="laps", direction=R),
    ),
    Question(
        "gain by lap", "fig. 6", "The gain of backups falls with practice",
        "mean gain, laps 41-50 minus laps 2-11", "below", partial(_laps, column="lap_gain"),
    ),
    Question(
        "visits", "fig. 6", "States visited in a lap are more often part of its events",
        "chance to be in an event, visited minus not visited", "above", _visits,
    ),
)  # fmt: skip
