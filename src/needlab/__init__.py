"""needlab: the laboratory of needreplay. Worlds, tabular and deep agents, studies, pages.

It uses the library, ``needreplay``, as anybody else would. Importing this package is instant; what
a name needs is loaded when the name is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from needreplay._core.lazy import has_torch, load_name

if TYPE_CHECKING:
    from needlab.deep import DeepAgent, DeepSettings, deep_preset
    from needlab.report.recording import record
    from needlab.report.statistics import mean_interval
    from needlab.tabular.agents import DynaQ, PrioritizedSweeping, QLearning, play
    from needlab.tabular.evb import EVB, EVBSettings, simulate
    from needlab.tabular.fit import compare_models, fit_events, read_data
    from needlab.tabular.replay_events import replay_table
    from needlab.tabular.rivals import simulate_model
    from needlab.tabular.settings import DynaSettings, LearningSettings, SweepingSettings
    from needlab.tabular.trial import run_trials
    from needlab.worlds import MazeEnv, TabularWorld, as_discrete, tabular_world

_HOME_OF = {
    "DeepAgent": "needlab.deep",
    "DeepSettings": "needlab.deep",
    "DynaQ": "needlab.tabular.agents",
    "DynaSettings": "needlab.tabular.settings",
    "EVB": "needlab.tabular.evb",
    "EVBSettings": "needlab.tabular.evb",
    "LearningSettings": "needlab.tabular.settings",
    "MazeEnv": "needlab.worlds",
    "PrioritizedSweeping": "needlab.tabular.agents",
    "QLearning": "needlab.tabular.agents",
    "SweepingSettings": "needlab.tabular.settings",
    "TabularWorld": "needlab.worlds",
    "as_discrete": "needlab.worlds",
    "compare_models": "needlab.tabular.fit",
    "deep_preset": "needlab.deep",
    "fit_events": "needlab.tabular.fit",
    "mean_interval": "needlab.report.statistics",
    "play": "needlab.tabular.agents",
    "read_data": "needlab.tabular.fit",
    "record": "needlab.report.recording",
    "replay_table": "needlab.tabular.replay_events",
    "run_trials": "needlab.tabular.trial",
    "simulate": "needlab.tabular.evb",
    "simulate_model": "needlab.tabular.rivals",
    "tabular_world": "needlab.worlds",
}

__all__ = [
    "EVB",
    "DeepAgent",
    "DeepSettings",
    "DynaQ",
    "DynaSettings",
    "EVBSettings",
    "LearningSettings",
    "MazeEnv",
    "PrioritizedSweeping",
    "QLearning",
    "SweepingSettings",
    "TabularWorld",
    "as_discrete",
    "compare_models",
    "deep_preset",
    "fit_events",
    "mean_interval",
    "play",
    "read_data",
    "record",
    "replay_table",
    "run_trials",
    "simulate",
    "simulate_model",
    "tabular_world",
]


if not has_torch():
    __all__ = [name for name in __all__ if _HOME_OF.get(name) != "needlab.deep"]


def __getattr__(name: str) -> Any:
    return load_name(__name__, globals(), _HOME_OF, name)


def __dir__() -> list[str]:
    return __all__


# Gymnasium 1.x no longer looks for plugins: a package registers its worlds when it is imported.
# Where Gymnasium is there already this costs nothing; else `import needlab.worlds` does it.
if "gymnasium" in sys.modules:
    import_module("needlab.worlds.registration").register_worlds()
