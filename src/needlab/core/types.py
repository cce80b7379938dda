"""Names for types that many modules share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import gymnasium

Env: TypeAlias = "gymnasium.Env[Any, Any]"
Info: TypeAlias = dict[str, Any]
"""What a Gymnasium environment returns beside an observation."""
JsonObject: TypeAlias = dict[str, Any]
"""An object of a JSON file, by its names; also a row of metrics, which becomes one."""
Values: TypeAlias = Mapping[str, object]
"""Values of settings by name."""
