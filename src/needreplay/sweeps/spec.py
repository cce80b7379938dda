"""One run of a sweep: a kind, a config of plain values, and the name that follows from both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from needreplay.core.errors import NeedReplayError

_DIGITS = 16


@dataclass(frozen=True)
class RunSpec:
    """Everything that a run's result follows from.

    >>> RunSpec("maze", {"agent": "ps", "seed": 0}).name == RunSpec(
    ...     "maze", {"seed": 0, "agent": "ps"}
    ... ).name
    True
    """

    kind: str
    """deep, maze, cliffwalk, or a ``module:function`` of your own"""
    config: Mapping[str, Any]
    """plain values: what JSON can hold"""

    @cached_property
    def plain(self) -> dict[str, Any]:
        """What stands in the run's ``config.json``."""
        if "kind" in self.config:
            raise NeedReplayError("A run's config has no entry 'kind': it is said beside it.")
        return {"kind": self.kind, **self.config}

    @cached_property
    def name(self) -> str:
        """The name of the run's folder: a hash of its kind and config."""
        try:
            text = json.dumps(self.plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise NeedReplayError(
                f"The config of a {self.kind} run cannot be written as JSON: {error}."
            ) from error
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]

    @property
    def label(self) -> str:
        """A few words for a person."""
        config = self.config
        words = [str(config[key]) for key in ("world", "agent", "preset") if key in config]
        for name, value in dict(config.get("overrides") or {}).items():
            words.append(f"{name}={value}")
        words += [f"{key} {config[key]}" for key in ("seed", "first_trial") if key in config]
        return " ".join(words) or self.kind
