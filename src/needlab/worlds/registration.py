"""The ids under which Gymnasium makes our worlds."""

from __future__ import annotations

from gymnasium.envs.registration import register, registry

ENTRY_POINTS = {
    "needreplay/DynaMaze-v1": "needlab.worlds.env:MazeEnv",
    "needreplay/BlindCliffwalk-v1": "needlab.worlds.env:BlindCliffwalkEnv",
    "needreplay/ContinuousMaze-v1": "needlab.worlds.continuous:ContinuousMazeEnv",
}


def register_worlds() -> None:
    """Register every world that is not registered yet.

    Importing ``needlab.worlds`` calls this. Gymnasium 1.0 and later no longer look for entry
    points of other packages; they import the module named before the colon in
    ``gymnasium.make("needlab.worlds:needreplay/DynaMaze-v1")``.
    """
    for name, entry_point in ENTRY_POINTS.items():
        if name not in registry:
            register(id=name, entry_point=entry_point)
