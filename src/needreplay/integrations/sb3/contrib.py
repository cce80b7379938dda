"""QR-DQN, which is in sb3-contrib."""

from __future__ import annotations

from needreplay._core.errors import NeedReplayError
from needreplay.integrations.sb3 import check_version
from needreplay.integrations.sb3.algorithms import WithReplay

try:
    import sb3_contrib
except ImportError as missing:
    raise NeedReplayError(
        "QRDQN needs sb3-contrib, which is not installed; install it with: "
        "pip install stable-baselines3 sb3-contrib"
    ) from missing
check_version("sb3-contrib", sb3_contrib.__version__)


class QRDQN(WithReplay, sb3_contrib.QRDQN):
    """sb3-contrib's QR-DQN; the TD error is that of the mean over quantiles."""
