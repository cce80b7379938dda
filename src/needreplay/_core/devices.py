"""Devices of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from needreplay._core.errors import NeedReplayError

if TYPE_CHECKING:
    import torch

    from needreplay._core.types import Device

FAILURES = (AssertionError, NotImplementedError, RuntimeError, TypeError)
"""What torch raises for a device that it does not know or does not find."""


def checked_device(device: Device) -> torch.device:
    """``device``, if torch can use it here."""
    import torch

    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except FAILURES as error:
        raise NeedReplayError(
            f"device is {str(device)!r}, which torch cannot use here; pass 'cpu', or a device that "
            "this machine and its torch have."
        ) from error
    return found
