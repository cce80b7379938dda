"""QR-DQN, TQC and CrossQ, which are in sb3-contrib."""

from __future__ import annotations

from needreplay._core.errors import not_installed
from needreplay.integrations.sb3 import check_version
from needreplay.integrations.sb3.algorithms import WithReplay

try:
    import sb3_contrib
except ImportError as missing:
    raise not_installed("QRDQN, TQC and CrossQ need sb3-contrib", "sb3") from missing
check_version("sb3-contrib", sb3_contrib.__version__)


class QRDQN(WithReplay, sb3_contrib.QRDQN):
    """sb3-contrib's QR-DQN; the TD error is that of the mean over quantiles."""


class TQC(WithReplay, sb3_contrib.TQC):
    """sb3-contrib's TQC; the TD error of a critic is that of the mean over its quantiles."""


class CrossQ(WithReplay, sb3_contrib.CrossQ):
    """sb3-contrib's CrossQ with ``replay=``."""
