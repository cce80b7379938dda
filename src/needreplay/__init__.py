"""needreplay: experience replay prioritized by gain x need.

Importing this package is instant: numba, gymnasium, matplotlib and the rest load when a name that
needs them is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from needreplay._version import __version__
from needreplay.core.errors import NeedReplayError

if TYPE_CHECKING:
    from needreplay.deep import DeepAgent, DeepSettings, NeedModel, deep_preset
    from needreplay.replay import (
        Episodes,
        LinearBeta,
        ProportionalSampler,
        PSERSampler,
        RankSampler,
        RecencySampler,
        ReplayBuffer,
        UniformSampler,
    )
    from needreplay.replay.samplers import (
        ExhaustiveNeedSampler,
        FeatureNeedSampler,
        StateNeedSampler,
    )
    from needreplay.rules.need import NeedForm
    from needreplay.tabular.agents import DynaQ, PrioritizedSweeping, QLearning, play
    from needreplay.tabular.settings import DynaSettings, LearningSettings, SweepingSettings
    from needreplay.worlds import MazeEnv, as_discrete

_HOME_OF = {
    "DeepAgent": "needreplay.deep",
    "DeepSettings": "needreplay.deep",
    "deep_preset": "needreplay.deep",
    "DynaQ": "needreplay.tabular.agents",
    "DynaSettings": "needreplay.tabular.settings",
    "Episodes": "needreplay.replay",
    "StateNeedSampler": "needreplay.replay.samplers",
    "LearningSettings": "needreplay.tabular.settings",
    "LinearBeta": "needreplay.replay",
    "NeedForm": "needreplay.rules.need",
    "NeedModel": "needreplay.deep",
    "MazeEnv": "needreplay.worlds",
    "FeatureNeedSampler": "needreplay.replay.samplers",
    "PrioritizedSweeping": "needreplay.tabular.agents",
    "ProportionalSampler": "needreplay.replay",
    "QLearning": "needreplay.tabular.agents",
    "RankSampler": "needreplay.replay",
    "RecencySampler": "needreplay.replay",
    "ReplayBuffer": "needreplay.replay",
    "PSERSampler": "needreplay.replay",
    "ExhaustiveNeedSampler": "needreplay.replay.samplers",
    "SweepingSettings": "needreplay.tabular.settings",
    "UniformSampler": "needreplay.replay",
    "as_discrete": "needreplay.worlds",
    "play": "needreplay.tabular.agents",
}

__all__ = [
    "DeepAgent",
    "DeepSettings",
    "DynaQ",
    "DynaSettings",
    "Episodes",
    "ExhaustiveNeedSampler",
    "FeatureNeedSampler",
    "LearningSettings",
    "LinearBeta",
    "MazeEnv",
    "NeedForm",
    "NeedModel",
    "NeedReplayError",
    "PSERSampler",
    "PrioritizedSweeping",
    "ProportionalSampler",
    "QLearning",
    "RankSampler",
    "RecencySampler",
    "ReplayBuffer",
    "StateNeedSampler",
    "SweepingSettings",
    "UniformSampler",
    "__version__",
    "as_discrete",
    "deep_preset",
    "play",
]


def _has_torch() -> bool:
    try:
        return find_spec("torch") is not None
    except (ImportError, ValueError):  # an import hook, or None in sys.modules, hides it
        return False


if not _has_torch():  # names that cannot be imported would stop ``import *`` and pydoc
    __all__ = [name for name in __all__ if _HOME_OF.get(name) != "needreplay.deep"]


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
