"""needreplay: experience replay prioritized by gain x need.

Importing this package is instant: kernels and torch load when a name that needs them is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from needreplay._core.errors import NeedReplayError, NeedReplayWarning
from needreplay._core.lazy import has_torch, load_name
from needreplay._version import __version__

if TYPE_CHECKING:
    from needreplay.need import NeedBuffer, NeedModel
    from needreplay.need.form import NeedForm
    from needreplay.replay import (
        Episodes,
        Hindsight,
        LinearBeta,
        ProportionalSampler,
        PSERSampler,
        RankSampler,
        RecencySampler,
        ReplayBuffer,
        Sequences,
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
    "Hindsight": "needreplay.replay",
    "LinearBeta": "needreplay.replay",
    "NeedBuffer": "needreplay.need",
    "NeedForm": "needreplay.need",
    "NeedModel": "needreplay.need",
    "PSERSampler": "needreplay.replay",
    "ProportionalSampler": "needreplay.replay",
    "RankSampler": "needreplay.replay",
    "RecencySampler": "needreplay.replay",
    "ReplayBuffer": "needreplay.replay",
    "Sequences": "needreplay.replay",
    "StateNeedSampler": "needreplay.replay.samplers",
    "UniformSampler": "needreplay.replay",
}

__all__ = [
    "Episodes",
    "ExhaustiveNeedSampler",
    "FeatureNeedSampler",
    "Hindsight",
    "LinearBeta",
    "NeedBuffer",
    "NeedForm",
    "NeedModel",
    "NeedReplayError",
    "NeedReplayWarning",
    "PSERSampler",
    "ProportionalSampler",
    "RankSampler",
    "RecencySampler",
    "ReplayBuffer",
    "Sequences",
    "StateNeedSampler",
    "UniformSampler",
    "__version__",
]


if not has_torch():
    __all__ = [name for name in __all__ if name not in _NEEDS_TORCH]


def __getattr__(name: str) -> Any:
    return load_name(__name__, globals(), _HOME_OF, name)


def __dir__() -> list[str]:
    return __all__
