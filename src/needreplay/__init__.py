"""needreplay: experience replay prioritized by gain x need.

Importing this package is instant: kernels and torch load when a name that needs them is first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from needreplay._core.errors import NeedReplayError
from needreplay._version import __version__

if TYPE_CHECKING:
    from needreplay.need import NeedBuffer, NeedModel
    from needreplay.need.form import NeedForm
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

_NEEDS_TORCH = {"NeedBuffer", "NeedModel"}
_HOME_OF = {
    "Episodes": "needreplay.replay",
    "ExhaustiveNeedSampler": "needreplay.replay.samplers",
    "FeatureNeedSampler": "needreplay.replay.samplers",
    "LinearBeta": "needreplay.replay",
    "NeedBuffer": "needreplay.need",
    "NeedForm": "needreplay.need",
    "NeedModel": "needreplay.need",
    "PSERSampler": "needreplay.replay",
    "ProportionalSampler": "needreplay.replay",
    "RankSampler": "needreplay.replay",
    "RecencySampler": "needreplay.replay",
    "ReplayBuffer": "needreplay.replay",
    "StateNeedSampler": "needreplay.replay.samplers",
    "UniformSampler": "needreplay.replay",
}

__all__ = [
    "Episodes",
    "ExhaustiveNeedSampler",
    "FeatureNeedSampler",
    "LinearBeta",
    "NeedBuffer",
    "NeedForm",
    "NeedModel",
    "NeedReplayError",
    "PSERSampler",
    "ProportionalSampler",
    "RankSampler",
    "RecencySampler",
    "ReplayBuffer",
    "StateNeedSampler",
    "UniformSampler",
    "__version__",
]


def _has_torch() -> bool:
    try:
        return find_spec("torch") is not None
    except (ImportError, ValueError):  # an import hook, or None in sys.modules, hides it
        return False


if not _has_torch():  # names that cannot be imported would stop ``import *`` and pydoc
    __all__ = [name for name in __all__ if name not in _NEEDS_TORCH]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'needreplay' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
