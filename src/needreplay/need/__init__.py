"""Need: how soon the agent will be where a transition began, learned from any buffer (torch)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from needreplay._core.errors import not_installed
from needreplay.need.controls import ShuffledNeed
from needreplay.need.form import (
    LEARN_EVERY,
    LOWEST_AUC,
    MARGIN,
    REFRESH,
    UNIFORM_MIX,
    Direction,
    NeedForm,
    Query,
    accurate_need,
    tabular_need,
)
from needreplay.need.protocol import Need
from needreplay.need.quality import NeedQuality, need_quality, withholds

if TYPE_CHECKING:
    from needreplay.need.buffer import NeedBuffer
    from needreplay.need.diagnosis import Diagnosis, diagnose
    from needreplay.need.model import NeedModel

__all__ = [
    "LEARN_EVERY",
    "LOWEST_AUC",
    "MARGIN",
    "REFRESH",
    "UNIFORM_MIX",
    "Diagnosis",
    "Direction",
    "Need",
    "NeedBuffer",
    "NeedForm",
    "NeedModel",
    "NeedQuality",
    "Query",
    "ShuffledNeed",
    "accurate_need",
    "diagnose",
    "need_quality",
    "tabular_need",
    "withholds",
]


def __getattr__(name: str) -> Any:
    if name not in ("Diagnosis", "NeedBuffer", "NeedModel", "diagnose"):
        raise AttributeError(f"module 'needreplay.need' has no attribute {name!r}")
    try:
        from needreplay.need.buffer import NeedBuffer
        from needreplay.need.diagnosis import Diagnosis, diagnose
        from needreplay.need.model import NeedModel
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise not_installed(f"{name} needs torch", "deep") from missing
    globals().update(
        Diagnosis=Diagnosis, NeedBuffer=NeedBuffer, NeedModel=NeedModel, diagnose=diagnose
    )
    return globals()[name]
