"""Types of arrays, observations, columns and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]
AnyDtype: TypeAlias = np.dtype[Any]
Observation: TypeAlias = Any
"""What an environment shows: an array, a number, or a dict of these; or a batch of them."""
Env: TypeAlias = Any
"""An environment of Gymnasium or of Stable-Baselines3, or a vector of them."""
Columns: TypeAlias = dict[str, Any]
"""Values by column: arrays, or dicts of these for Dict spaces."""
Device: TypeAlias = "str | torch.device"
"""Where a tensor of torch is."""
