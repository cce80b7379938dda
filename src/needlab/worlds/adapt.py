"""A user's Gymnasium environment as the networks take it: rows of numbers, or images.

Images become (channels, rows, columns); Dict, Tuple, Discrete, MultiDiscrete and MultiBinary
observations become one row, discrete values as one-hot codes, small images in a Dict as numbers.
Text in a Dict (the mission of MiniGrid) is left out. The rest raises.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.wrappers import (
    FilterObservation,
    FlattenObservation,
    TransformAction,
    TransformObservation,
)

from needlab.core.types import Env
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray

SMALLEST_IMAGE = 3
"""Rows and columns that the smallest convolution needs."""
LARGE_IMAGE = 36
"""Rows and columns from which on the network of Mnih et al. (2015) can be used."""
_SUPPORTED = (
    "Supported are Box (a row of numbers, or images), Discrete, MultiDiscrete, MultiBinary, and "
    f"Dict and Tuple of these with images below {LARGE_IMAGE} x {LARGE_IMAGE} pixels at most"
)


def adapted(env: Env, world: str) -> Env:
    """Wrap ``env`` for a deep agent, or raise and say what is supported."""
    try:
        return _observations(_actions(env, world), world)
    except NeedReplayError:
        env.close()
        raise


def _actions(env: Env, world: str) -> Env:
    space = env.action_space
    if not isinstance(space, Discrete):
        raise NeedReplayError(
            f"The world {world!r} has the action space {space}, but a DQN needs Discrete actions; "
            "map a choice of actions to numbers with gymnasium.wrappers.TransformAction and "
            "register the result."
        )
    first = int(space.start)
    if first == 0:
        return env
    return TransformAction(env, lambda action: action + first, Discrete(int(space.n)))


def _observations(env: Env, world: str) -> Env:
    space = env.observation_space
    if isinstance(space, Dict):
        kept = [name for name, part in space.items() if np.dtype(part.dtype).kind != "U"]
        if 0 < len(kept) < len(space):
            env = FilterObservation(env, kept)
            space = env.observation_space
    if not _can_flatten(space) or 0 in (space.shape or ()):
        raise NeedReplayError(
            f"The world {world!r} has the observation space {space}. {_SUPPORTED}; turn the rest "
            "into these with gymnasium.wrappers.TransformObservation (or leave parts of a Dict out "
            "with FilterObservation) and register the result."
        )
    if not isinstance(space, Box):
        env = FlattenObservation(env)
        row: Any = env.observation_space
        if row.dtype.kind not in "iu" or row.high.max() <= 1:
            return env
        floats = Box(row.low.astype(np.float32), row.high.astype(np.float32))
        return TransformObservation(env, lambda obs: obs.astype(np.float32), floats)
    if _is_image(space):
        return _images(env, space, world)
    return env if len(space.shape) == 1 else FlattenObservation(env)


def _can_flatten(space: gymnasium.Space[Any], *, inside: bool = False) -> bool:
    if isinstance(space, Dict):
        return all(_can_flatten(part, inside=True) for part in space.values())
    if isinstance(space, Tuple):
        return all(_can_flatten(part, inside=True) for part in space)
    if isinstance(space, Box):
        # Large images beside other numbers would need an encoder of their own.
        large = _is_image(space) and sorted(space.shape)[-2] >= LARGE_IMAGE
        return len(space.shape) <= 3 and not (inside and large)
    return isinstance(space, Discrete | MultiDiscrete | MultiBinary)


def _is_image(space: Box) -> bool:
    return len(space.shape) == 3 or (len(space.shape) == 2 and space.dtype == np.uint8)


def _images(env: Env, space: Box, world: str) -> Env:
    """Channels first; bytes of 0 to 255 stay bytes where large, other numbers become floats.

    As in Stable-Baselines3, channels are last unless the first axis is the shortest. Networks
    divide large images of bytes by 255 themselves; here whole numbers are divided by their bound.
    """
    flat = len(space.shape) == 2
    first = flat or int(np.argmin(space.shape)) == 0

    def turned(image: AnyArray) -> AnyArray:
        image = np.asarray(image)
        return image[None] if flat else image if first else np.moveaxis(image, -1, 0)

    low, high = turned(space.low), turned(space.high)
    rows, columns = low.shape[1:]
    if min(rows, columns) < SMALLEST_IMAGE:
        raise NeedReplayError(
            f"The world {world!r} has images of {rows} x {columns} pixels; they need at least "
            f"{SMALLEST_IMAGE} x {SMALLEST_IMAGE}, or flatten them to a row with "
            "gymnasium.wrappers.FlattenObservation and register the result."
        )
    pixels = space.dtype == np.uint8 and int(high.max()) == np.iinfo(np.uint8).max
    if pixels and min(rows, columns) >= LARGE_IMAGE:
        return TransformObservation(env, turned, Box(low, high, dtype=np.uint8))
    most = 1.0
    if np.issubdtype(space.dtype, np.integer):
        most = max(1.0, float(np.abs(high.astype(np.float64)).max()))

    def scaled(image: AnyArray) -> AnyArray:
        return turned(image).astype(np.float32) / np.float32(most)

    return TransformObservation(env, scaled, Box(scaled(space.low), scaled(space.high)))
