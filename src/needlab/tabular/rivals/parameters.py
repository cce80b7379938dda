"""The models of replay that can be simulated and fitted, and their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from needlab.tabular.evb.settings import EVB, EVBSettings
from needreplay._core.checks import check_number
from needreplay._core.errors import NeedReplayError, unknown

EVB_MODEL, GOALS_MODEL, SFMA_MODEL, RECENCY_MODEL, UNIFORM_MODEL = range(5)


@dataclass(frozen=True)
class Parameter:
    """A number of a model.

    Args:
        default: its value if it is neither given nor fitted.
        low: the smallest value.
        high: the largest.
        meaning: in a sentence.
        log: search on a logarithmic scale.
        whole: only whole numbers; a fit tries ``tried``.
        tried: the values that a fit of a whole number compares.
    """

    default: float
    low: float
    high: float
    meaning: str
    log: bool = False
    whole: bool = False
    tried: tuple[float, ...] = ()


PARAMETERS: Mapping[str, Parameter] = MappingProxyType({
    "gain_exponent": Parameter(1.0, 0.0, 50.0, "a of gain^a need^b"),
    "need_exponent": Parameter(1.0, 0.0, 50.0, "b of gain^a need^b"),
    "floor": Parameter(
        1e-10, 1e-16, 0.1, "smallest gain of a backup, and of each pair of its chain", log=True
    ),
    "transition_rate": Parameter(
        0.9, 0.0, 1.0, "how far a step moves its row of T, from which need follows"
    ),
    "chain": Parameter(
        20, 1, 20, "most pairs of an n-step backup: how far the agent plans ahead",
        whole=True, tried=(1, 2, 3, 5, 10, 20),
    ),
    "discount": Parameter(0.9, 0.0, 0.99, "γ, of Q and of need"),
    "step_size": Parameter(1.0, 0.0, 1.0, "α of every update of Q, real or replayed"),
    "inverse_temperature": Parameter(
        5.0, 0.0, 50.0, "β of the softmax policy, of choices and of what gain compares"
    ),
    "sharpness": Parameter(
        20.0, 0.01, 200.0, "k of SFMA: the chance of an experience is exp(k R) - 1", log=True
    ),
    "similarity_discount": Parameter(0.9, 0.0, 0.99, "γ of SFMA's similarity inverse(I - γT)"),
    "strength_decay": Parameter(1.0, 0.0, 1.0, "what a step leaves of SFMA's strengths"),
    "inhibition_decay": Parameter(
        0.9, 0.0, 1.0, "what a reactivation leaves of SFMA's inhibition"
    ),
    "reverse": Parameter(
        0.5, 0.0, 1.0, "chance of the reverse mode (SFMA) or of the reverse order (recency)"
    ),
    "forward": Parameter(
        0.0, 0.0, 1.0, "chance of SFMA's forward mode in a replay that is not in the reverse mode"
    ),
    "sweeping": Parameter(
        0.0, 0.0, 1.0, "chance of SFMA's sweeping mode in a replay in neither of these modes"
    ),
    "recency": Parameter(
        0.9, 0.0, 1.0, "how much less likely a run begins with the next older experience"
    ),
    "stay": Parameter(0.9, 0.0, 1.0, "chance of going on to the neighbor in time"),
    "lapse": Parameter(0.0, 0.0, 1.0, "share of backups that are uniformly random"),
})  # fmt: skip
"""By name."""


@dataclass(frozen=True)
class Model:
    """What says which backup comes next.

    Args:
        kind: of the kernels.
        parameters: what it has, by name.
        free: what a fit estimates unless told otherwise.
        meaning: in a sentence.
        source: what it rests on.
        dynamic: SFMA's mode follows the trial's TD errors.
    """

    kind: int
    parameters: tuple[str, ...]
    free: tuple[str, ...]
    meaning: str
    source: str
    dynamic: bool = False


_LEARNING = ("discount", "step_size", "inverse_temperature")
_EVB = ("gain_exponent", "need_exponent", "lapse", "floor")
_SFMA = ("sharpness", "similarity_discount", "strength_decay", "inhibition_decay", "lapse")

MODELS: Mapping[str, Model] = MappingProxyType({
    "evb": Model(
        EVB_MODEL,
        (*_EVB, "transition_rate", "chain", *_LEARNING),
        ("gain_exponent", "need_exponent", "lapse"),
        "P(backup) ~ gain^a need^b",
        "Mattar & Daw (2018); the exponents are ours",
    ),
    "goals": Model(
        GOALS_MODEL,
        (*_EVB, *_LEARNING),
        ("gain_exponent", "need_exponent", "lapse"),
        "P(backup) ~ sum over candidate goals of p(goal) gain^a need^b, each with its own values",
        "the idea of Sagiv et al. (2025), not their code",
    ),
    "sfma": Model(
        SFMA_MODEL,
        ("reverse", "forward", "sweeping", *_SFMA),
        ("reverse", "forward", "sharpness", "lapse"),
        "similar, frequent, not just reactivated; each replay is in one of four modes",
        "Diekmann & Cheng (2023)",
    ),
    "sfma-dynamic": Model(
        SFMA_MODEL,
        _SFMA,
        ("sharpness", "lapse"),
        "as sfma; the reverse mode is more likely after large TD errors",
        "Diekmann & Cheng (2023)",
        dynamic=True,
    ),
    "recency": Model(
        RECENCY_MODEL,
        ("recency", "stay", "reverse", "lapse"),
        ("recency", "stay", "reverse", "lapse"),
        "begin at a recent experience, then go on in the order of experience or against it",
        "a baseline of ours",
    ),
    "uniform": Model(UNIFORM_MODEL, (), (), "every remembered move is as likely", "Dyna"),
})  # fmt: skip
"""By name."""


class Values(NamedTuple):
    """Parameters as kernels take them; those of learning are in the rule of the settings."""

    gain_exponent: float
    need_exponent: float
    chain: int
    sharpness: float
    strength_decay: float
    inhibition_decay: float
    reverse: float
    forward: float
    sweeping: float
    recency: float
    stay: float
    lapse: float
    dynamic: bool


def parse_model(text: str) -> tuple[str, dict[str, float]]:
    """A model's name and the values that are given with it.

    >>> parse_model("evb,need_exponent=0")
    ('evb', {'need_exponent': 0.0})
    """
    name, *pairs = text.split(",")
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    given = {}
    for pair in pairs:
        parameter, equals, value = pair.partition("=")
        try:
            given[parameter] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise NeedReplayError(f"{text!r} has {pair!r}; write it as name=number.")
    return name, check_values(name, given)


def check_values(model: str, given: Mapping[str, float]) -> dict[str, float]:
    """Raise an error for a parameter that the model does not have, or out of its range."""
    for name, value in given.items():
        if name not in MODELS[model].parameters:
            raise unknown(f"parameter of {model}", name, MODELS[model].parameters)
        own = PARAMETERS[name]
        check_number(name, value, float, (own.low, own.high))
        if own.whole and value != int(value):
            raise NeedReplayError(f"{name} is {value!r}; it must be a whole number.")
    return {name: float(value) for name, value in given.items()}


def default_values(model: str, settings: EVBSettings = EVB["published"]) -> dict[str, float]:
    """The parameters of a model that nobody gave; those of learning come from ``settings``."""
    if model not in MODELS:
        raise unknown("model", model, MODELS)
    learned = {
        "floor": settings.floor_size,
        "chain": 20.0 if settings.extend_chains else 1.0,
        **{name: getattr(settings, name) for name in ("transition_rate", *_LEARNING)},
    }
    return {
        name: float(learned.get(name, PARAMETERS[name].default))
        for name in MODELS[model].parameters
    }


def values_of(model: str, values: Mapping[str, float]) -> Values:
    """Parameters for kernels."""
    known = {name: own.default for name, own in PARAMETERS.items()} | dict(values)
    numbers = {name: known[name] for name in Values._fields if name != "dynamic"}
    return Values(**{**numbers, "chain": int(known["chain"])}, dynamic=MODELS[model].dynamic)  # type: ignore[arg-type]


def settings_with(settings: EVBSettings, values: Mapping[str, float]) -> EVBSettings:
    """The settings of learning with the values of a model."""
    if settings.need == "given":
        raise NeedReplayError("need 'given' cannot be simulated or fitted here; choose another.")
    own = {name: values[name] for name in ("transition_rate", *_LEARNING) if name in values}
    if "floor" in values:
        own["floor_size"] = values["floor"]
    # A chain can be as long as a replay, and the rule has the powers of γ for that.
    backups = max(settings.backups, int(PARAMETERS["chain"].high))
    return replace(settings, backups=backups, **own)  # type: ignore[arg-type]
