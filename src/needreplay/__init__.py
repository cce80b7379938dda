"""needreplay: experience replay prioritised by gain x need.

Importing this package is instant: numba, gymnasium, matplotlib and the rest load when a name that
needs them is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from needreplay._version import __version__
from needreplay.errors import NeedReplayError

if TYPE_CHECKING:
    from needreplay.memory import (
        Episodes,
        LinearBeta,
        Proportional,
        RankBased,
        Replay,
        Sequence,
        Uniform,
    )
    from needreplay.memory.draws import (
        Grouped,
        Magnitude,
        NormTree,
        Resampled,
        Sweep,
        VectorTree,
    )
    from needreplay.tabular.agents import DynaQ, PrioritizedSweeping, QLearning
    from needreplay.tabular.play import play
    from needreplay.tabular.settings import DynaSettings, LearningSettings, SweepingSettings
    from needreplay.worlds import MazeEnv, as_discrete

_HOME_OF = {
    "DynaQ": "needreplay.tabular.agents",
    "DynaSettings": "needreplay.tabular.settings",
    "Episodes": "needreplay.memory",
    "Grouped": "needreplay.memory.draws",
    "LearningSettings": "needreplay.tabular.settings",
    "LinearBeta": "needreplay.memory",
    "Magnitude": "needreplay.memory.draws",
    "MazeEnv": "needreplay.worlds",
    "NormTree": "needreplay.memory.draws",
    "PrioritizedSweeping": "needreplay.tabular.agents",
    "Proportional": "needreplay.memory",
    "QLearning": "needreplay.tabular.agents",
    "RankBased": "needreplay.memory",
    "Replay": "needreplay.memory",
    "Resampled": "needreplay.memory.draws",
    "Sequence": "needreplay.memory",
    "Sweep": "needreplay.memory.draws",
    "SweepingSettings": "needreplay.tabular.settings",
    "Uniform": "needreplay.memory",
    "VectorTree": "needreplay.memory.draws",
    "as_discrete": "needreplay.worlds",
    "play": "needreplay.tabular.play",
}

__all__ = [
    "DynaQ",
    "DynaSettings",
    "Episodes",
    "Grouped",
    "LearningSettings",
    "LinearBeta",
    "Magnitude",
    "MazeEnv",
    "NeedReplayError",
    "NormTree",
    "PrioritizedSweeping",
    "Proportional",
    "QLearning",
    "RankBased",
    "Replay",
    "Resampled",
    "Sequence",
    "Sweep",
    "SweepingSettings",
    "Uniform",
    "VectorTree",
    "__version__",
    "as_discrete",
    "play",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'needreplay' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


# Gymnasium 1.x no longer looks for plugins: a package registers its worlds when it is imported.
# Where Gymnasium is there already this costs nothing; else `import needreplay.worlds` does it.
if "gymnasium" in sys.modules:
    import_module("needreplay.worlds.registration").register_worlds()
