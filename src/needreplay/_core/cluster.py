"""Connecting to Ray, which is imported when it is first used."""

from __future__ import annotations

import os
from typing import Any

from needreplay._core.errors import NeedReplayError, not_installed
from needreplay._version import __version__


def imported(who_needs_it: str) -> Any:
    """The module ``ray``, or a sentence that names what to install."""
    # Ray would look for a server for its usage statistics; we report nothing to anyone.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Silences a warning of Ray 2 about GPUs that does not concern us.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as missing:
        raise not_installed(f"{who_needs_it} needs Ray", "ray") from missing
    return ray


def connect(ray: Any, address: str | None, **settings: Any) -> None:
    """Connect to the cluster at ``address``, or start one here.

    Args:
        ray: the module.
        address: "auto": the cluster on this machine; ``None`` starts one, which ends with us.
        **settings: of a cluster that is started, such as ``num_cpus``.
    """
    always = {"log_to_driver": False, "logging_level": "ERROR"}
    own = {"include_dashboard": False, **settings} if address is None else {}
    try:
        ray.init(address=address or "local", **always, **own)
    except Exception as error:
        if address is None:
            raise NeedReplayError(f"Ray does not start on this machine: {error}") from error
        raise NeedReplayError(
            f"No Ray cluster answers at {address}: {error} If Ray reports InvalidAuthToken "
            "above, copy the head's ~/.ray/auth_token to this machine and put "
            "RAY_AUTH_MODE=token before the command."
        ) from error


def check_version(version: str, where: str) -> None:
    """Raise unless ``version``, that of the learner, is the one here."""
    if version != __version__:
        raise NeedReplayError(
            f"{where}: the learner has needreplay {version}, but this machine has {__version__}; "
            "install the same version on every machine."
        )
