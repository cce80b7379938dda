"""What an engine is: it starts runs and says which have ended, and how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from needreplay.sweeps.spec import RunSpec


@dataclass(frozen=True)
class Ended:
    """A run that has ended: done, raised (it would again), or lost with its process or machine."""

    name: str
    how: Literal["done", "raised", "lost"]
    lines: tuple[str, ...] = ()


class Engine(Protocol):
    """Runs things. Whether a run is done is for its folder to say, not for the engine."""

    @property
    def slots(self) -> int:
        """How many runs it takes at once."""
        ...

    def start(self, spec: RunSpec, folder: Path) -> None:
        """Begin a run."""
        ...

    def wait(self, seconds: float) -> list[Ended]:
        """Runs that have ended; waits up to ``seconds`` for the first."""
        ...

    def close(self) -> None:
        """Stop everything that still runs."""
        ...
