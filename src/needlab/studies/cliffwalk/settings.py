"""Settings of the Blind Cliffwalk's agents, and their presets.

A preset is a complete set of values: ``printed`` is the paper's text, ``released`` what its authors
ran, ``corrected`` the same without its faults. ``docs/cliffwalk.md`` numbers their differences and
measures the effect of each.

The numbers below a choice are the places of its values: what kernels read (``numbers_of``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Literal, TypeAlias, get_args

from needlab.core.presets import preset
from needreplay._core.checks import ANY, AT_LEAST_ONE, COUNT, SHARE, Bounds, check_fields, is_whole
from needreplay._core.errors import NeedReplayError

Method: TypeAlias = Literal[
    "uniform",
    "oracle",
    "per",
    "need",
    "need-random",
    "need-optimal",
    "rank",
    "pser",
    "need-backward",
    "need-magnitude",
    "gain",
]
METHODS: tuple[Method, ...] = get_args(Method)
PAPER_METHODS: tuple[Method, ...] = METHODS[:6]
"""Those of the paper's figure 3."""

Fall: TypeAlias = Literal["ends", "teleports"]
RightActions: TypeAlias = Literal["alternate", "first"]
Strings: TypeAlias = Literal["until_fall", "whole"]
NeedFrom: TypeAlias = Literal["before", "after"]
BEFORE, AFTER = range(2)
TraceReset: TypeAlias = Literal["never", "episode", "return"]
NEVER, EPISODE, RETURN = range(3)
NegativeNeed: TypeAlias = Literal["zero", "shift"]
ZERO, SHIFT = range(2)
Judged: TypeAlias = Literal["mean_of_all", "sum_of_right"]
Tested: TypeAlias = Literal["update", "goal"]
AT_UPDATE, AT_GOAL = range(2)
Oracle: TypeAlias = Literal["pair", "global", "right"]
ORACLE_PAIR, ORACLE_GLOBAL, ORACLE_RIGHT = range(3)
RandomNeed: TypeAlias = Literal["policy", "faulty"]
OptimalNeed: TypeAlias = Literal["greedy", "true", "faulty"]
GREEDY_NOW = 0
Corrected: TypeAlias = Literal["both", "gain"]
FOR_BOTH, FOR_GAIN = range(2)
BatchStep: TypeAlias = Literal["sum", "mean"]
SUM, MEAN = range(2)
Center: TypeAlias = Literal["median", "mean"]
BufferAxis: TypeAlias = Literal["transitions", "authors"]


@dataclass(frozen=True)
class CliffwalkSettings:
    """Everything that decides how many updates a trial takes; the defaults are ``printed``."""

    sizes: tuple[int, ...] = tuple(range(3, 14))
    """how many states are not the goal: one experiment for each"""
    repetitions: int = 10
    """trials of each"""
    center: Center = "median"
    """what the figure shows of the trials"""
    buffer_axis: BufferAxis = "transitions"
    """the figure's horizontal axis: the buffer's size, or the authors' (n - 1) 2^(n - 1)"""

    discount_offset: int = 0
    """γ = 1 − 1 / (n + this)"""
    fall: Fall = "ends"
    """a wrong action ends the episode, or teleports to the start and the target bootstraps there"""
    right_actions: RightActions = "alternate"
    """the right action alternates with the state, or is the first everywhere"""
    strings: Strings = "until_fall"
    """the buffer holds each of the 2^n action strings up to its first wrong action, or all of it"""

    q_start_std: float = 0.1
    """Q begins with N(0, this)"""
    step_size: float = 0.25
    """η of the Q-update"""
    alpha: float = 0.6
    """α: P(j) ∝ gain^α ..."""
    need_alpha: float = 0.6
    """... times need to this power; in [0, 1]"""
    minibatch: int = 1
    """transitions of one update of Q"""
    batch_step: BatchStep = "sum"
    """a minibatch's steps are added up (Algorithm 2), or averaged"""
    replay_period: int = 1
    """steps in the world between two updates"""
    priority_floor: float = 1e-6
    """gain = |δ| + this"""
    start_priority: float = 1.0
    """every transition's gain before it is first replayed"""
    beta: float = 0.4
    """importance weights (N P)^−β, divided by the minibatch's largest"""
    weights_correct: Corrected = "both"
    """weights correct for gain and need (Algorithm 2), or for gain alone"""

    need_from: NeedFrom = "before"
    """need is read at the state the action was taken in, or where the agent is after the step"""
    epsilon: float = 0.1
    """the probability of a random action"""
    trace_decay: float = 0.95
    """λ of the successor matrix"""
    successor_step_size: float = 0.1
    """α of the successor matrix"""
    successor_discount: float = math.nan
    """γ of TD(λ) for the successor matrix; NaN: the task's"""
    trace_reset: TraceReset = "episode"
    """when the eligibility trace is set to 0: never, after an episode, or on each return to the
    start"""
    negative_need: NegativeNeed = "zero"
    """negative need counts as 0, or all of its row is shifted by −min + 1e-3"""
    random_need: RandomNeed = "policy"
    """T of ``need-random``, and of the M that ``need`` starts from: of the random policy, or the
    authors', whose rows sum to 1.5"""
    optimal_need: OptimalNeed = "greedy"
    """T of ``need-optimal``: greedy now, truly optimal, or the authors', whose rows sum to 2"""

    judged: Judged = "mean_of_all"
    """the error: the mean square over all Q, or the sum of squares over right actions"""
    threshold: float = 1e-3
    """converged when the error is below this"""
    tested: Tested = "update"
    """convergence is tested after each update, or at the goal, before that step's update"""
    oracle: Oracle = "pair"
    """the oracle updates the pair with the largest |δ|, the one that lowers the error of all Q
    most, or the right action with the largest positive δ"""

    rank_exponent: float = 0.7
    """α of ``rank``: P ∝ rank^−α (Schaul et al. 2016)"""
    pser_decay: float = 0.4
    """of ``pser``: a gain is passed back with this factor a step (Brittain et al. 2020)"""
    pser_window: int = 5
    """of ``pser``: over this many steps"""
    pser_retained: float = 0.7
    """of ``pser``: a gain falls at most to this share of itself"""

    budget_per_transition: int = 400
    """a trial that has replayed this many times its buffer's size ..."""
    least_budget: int = 200_000
    """... and at least so many transitions, stops as not converged"""

    def __post_init__(self) -> None:
        """Raise for values that mean nothing."""
        check_fields(self, _BOUNDS)
        listed = isinstance(self.sizes, tuple | list) and len(self.sizes) > 0
        if not listed or not all(is_whole(size) and size >= 2 for size in self.sizes):
            raise NeedReplayError(
                f"sizes is {self.sizes!r}; it must be whole numbers, each at least 2."
            )
        if not (math.isnan(self.successor_discount) or 0.0 <= self.successor_discount <= 1.0):
            raise NeedReplayError(
                f"successor_discount is {self.successor_discount}; it must be from 0 to 1, or NaN "
                "for the task's own."
            )


_BOUNDS: Bounds = {
    name: bounds
    for bounds, names in (
        (AT_LEAST_ONE, "repetitions minibatch replay_period budget_per_transition least_budget"),
        (COUNT, "discount_offset pser_window"),
        (ANY, "q_start_std alpha priority_floor start_priority threshold rank_exponent"),
        (SHARE, "step_size need_alpha beta epsilon trace_decay successor_step_size"),
        (SHARE, "pser_decay pser_retained"),
    )
    for name in names.split()
}

_RELEASED = CliffwalkSettings(
    sizes=tuple(range(2, 12)),
    repetitions=15,
    center="mean",
    buffer_axis="authors",
    discount_offset=1,
    fall="teleports",
    right_actions="first",
    strings="whole",
    q_start_std=0.0,
    priority_floor=1e-3,
    need_from="after",
    epsilon=0.05,
    successor_step_size=0.5,
    successor_discount=0.95,
    trace_reset="never",
    negative_need="shift",
    random_need="faulty",
    optimal_need="faulty",
    judged="sum_of_right",
    tested="goal",
    oracle="right",
)

CLIFFWALK = {
    "printed": CliffwalkSettings(),
    "printed-returns": CliffwalkSettings(fall="teleports"),
    "released": _RELEASED,
    "corrected": replace(
        _RELEASED,
        buffer_axis="transitions",
        successor_step_size=0.1,
        successor_discount=math.nan,
        trace_reset="return",
        negative_need="zero",
        random_need="policy",
        optimal_need="true",
    ),
}
"""Figure 3's settings, by preset. The text can be read in two ways: a fall ends the episode, or
returns to the start state; ``printed`` and ``printed-returns`` differ in nothing else."""


def cliffwalk_preset(name: str, **overrides: object) -> CliffwalkSettings:
    """The settings of a preset, with any field changed.

    >>> cliffwalk_preset("released", trace_reset="return").trace_reset
    'return'
    """
    return preset(CLIFFWALK, name, **overrides)


def differences(one: str, other: str) -> dict[str, tuple[object, object]]:
    """The fields in which two presets differ, with both values."""
    a, b = cliffwalk_preset(one), cliffwalk_preset(other)
    values = {field.name: (getattr(a, field.name), getattr(b, field.name)) for field in fields(a)}
    return {name: (x, y) for name, (x, y) in values.items() if x is not y and x != y}


_ROWS = {"policy": "rows sum to 1", "faulty": "rows sum to more than 1"}

WORDS: dict[str, tuple[str, dict[str, str]]] = {
    "successor_step_size": ("M's step size", {}),
    "successor_discount": ("M's γ", {}),
    "trace_reset": (
        "trace set to 0",
        {
            "never": "never",
            "episode": "after an episode",
            "return": "on each return to the start",
        },
    ),
    "negative_need": ("negative need", {"zero": "counts as 0", "shift": "shifts its row"}),
    "random_need": ("random policy's T", _ROWS),
    "optimal_need": (
        "optimal need's T",
        {"greedy": "greedy now", "true": "of the true optimum", "faulty": _ROWS["faulty"]},
    ),
    "discount_offset": ("the task's γ", {"0": "1 − 1/n", "1": "1 − 1/(n + 1)"}),
    "fall": ("a fall", {"ends": "ends the episode", "teleports": "teleports to the start"}),
    "right_actions": ("right action", {"alternate": "alternates", "first": "always the first"}),
    "strings": ("buffer's strings", {"until_fall": "end at a fall", "whole": "are whole"}),
    "q_start_std": ("spread of Q at the start", {}),
    "priority_floor": ("smallest gain", {}),
    "need_from": ("need is read", {"before": "before the step", "after": "after the step"}),
    "epsilon": ("walker's ε", {}),
    "judged": (
        "error",
        {"mean_of_all": "mean over all Q", "sum_of_right": "sum over right actions"},
    ),
    "tested": ("tested", {"update": "at each update", "goal": "at the goal"}),
    "oracle": ("oracle takes", {"pair": "the largest |δ|", "right": "right action's largest δ"}),
}


def in_words(setting: str, value: str) -> str:
    """A setting and its value as a reader of the paper would say them."""
    name, values = WORDS[setting]
    return f"{name}: {values.get(value, value)}"
