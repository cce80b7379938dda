"""Presets, which are named sets of settings, and settings as text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from needlab.core.types import Values
from needreplay._core.errors import NeedReplayError, unknown

S = TypeVar("S")

ELSEWHERE = {
    "lr": "learning_rate",
    "gamma": "discount",
    "buffer_size": "capacity",
    "learning_starts": "min_history",
    "train_freq": "update_period",
    "train_frequency": "update_period",
    "target_update_interval": "target_period",
    "target_network_frequency": "target_period",
    "n_steps": "n_step",
    "final_eps": "epsilon_end",
    "exploration_final_eps": "epsilon_end",
    "eps": "optimizer_eps",
    "priority_exponent": "alpha",
}
"""What settings of Stable-Baselines3, CleanRL and Dopamine are called here."""


def unknown_setting(name: str, known: Collection[str]) -> NeedReplayError:
    """The error for a setting that does not exist, with its name here where it has another one.

    >>> print(unknown_setting("lr", ["alpha", "learning_rate"]))
    There is no setting 'lr': it is 'learning_rate' here.
    """
    ours = ELSEWHERE.get(name)
    if ours in known:
        return NeedReplayError(f"There is no setting {name!r}: it is {ours!r} here.")
    return unknown("setting", name, known)


def flat(settings: Any) -> dict[str, Any]:
    """Every setting by name; those of a part (a dataclass in a field) are among them."""
    found: dict[str, Any] = {}
    for each in fields(settings):
        value = getattr(settings, each.name)
        found |= flat(value) if is_dataclass(value) else {each.name: value}
    return found


def changed(settings: S, **overrides: object) -> S:
    """Copy ``settings`` with settings changed; an unknown name raises and lists the known ones."""
    known = flat(settings)
    for name in overrides:
        if name not in known:
            raise unknown_setting(name, known)
    return _changed(settings, overrides)


def _changed(settings: S, overrides: Values) -> S:
    record: Any = settings
    new: dict[str, object] = {}
    for each in fields(record):
        value = getattr(record, each.name)
        if is_dataclass(value):
            new[each.name] = _changed(value, overrides)
        elif each.name in overrides:
            new[each.name] = overrides[each.name]
    result: S = replace(record, **new)
    return result


def preset(presets: Mapping[str, S], name: str, **overrides: object) -> S:
    """The settings of a named preset, with any field changed.

    >>> from needlab.tabular.settings import PS_SR
    >>> preset(PS_SR, "printed", planning_updates=10).planning_updates
    10
    """
    if name not in presets:
        raise unknown("preset", name, presets)
    return changed(presets[name], **overrides)


def parsed_settings(words: Iterable[str], source: str) -> dict[str, Any]:
    """Settings that a command line has as NAME=VALUE; an error says that they are of ``source``.

    >>> parsed_settings(["scale=raw", "capacity=1e5", "reward_clip=false"], "--set")
    {'scale': 'raw', 'capacity': 100000, 'reward_clip': False}
    """
    settings = {}
    for word in words:
        name, _, text = word.partition("=")
        if not name or not text:
            raise NeedReplayError(f"{source} {word!r} is not of the form NAME=VALUE.")
        settings[name] = parsed_value(text)
    return settings


def parsed_value(text: str) -> Any:
    """A boolean, a number or a word, whichever fits first; 1e5 is a whole number.

    >>> [parsed_value(text) for text in ("true", "3", "1e5", "1e-3", "0.5", "raw")]
    [True, 3, 100000, 0.001, 0.5, 'raw']
    """
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    whole = "e" in text.lower() and number.is_integer()
    return int(number) if whole else number
