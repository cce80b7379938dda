"""The hint to the memory: it is really given, and changes nothing."""

from __future__ import annotations

import platform
import re
from typing import Any

import numba
import numpy as np
import pytest

from needreplay.replay.prefetch import prefetch

UNCOMPILED = bool(getattr(numba.config, "DISABLE_JIT", False))


@numba.njit
def hinted_sum(numbers: Any, offset: int) -> float:
    """Σ, with a hint for what ``offset`` says."""
    prefetch(numbers, offset)
    total = 0.0
    for number in numbers:
        total += number
    return total


@pytest.mark.parametrize("offset", [0, 64, 10**9, -(10**9)])
def test_a_hint_changes_nothing_even_outside_of_the_array(offset: int) -> None:
    assert hinted_sum(np.arange(100.0), offset) == 4950.0


@pytest.mark.skipif(UNCOMPILED, reason="looks at machine code")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="other machines name it otherwise")
def test_a_hint_is_an_instruction_of_the_machine() -> None:
    hinted_sum(np.arange(4.0), 0)
    (code,) = hinted_sum.inspect_asm().values()
    assert re.search(r"^\s+prefetch", code, re.MULTILINE)
