"""What the draws by gain and need have in common: raw gains, and masses that stay finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from needreplay.errors import NeedReplayError
from needreplay.memory.admit import LARGEST_GAIN
from needreplay.memory.draws import Grouped, NormTree, Sweep, VectorTree

MAKERS: dict[str, Callable[..., Any]] = {
    "grouped": lambda **options: Grouped(2, **options),
    "sweep": lambda **options: Sweep(n_states=2, **options),
    "vector tree": lambda **options: VectorTree(2, **options),
    "norm tree": lambda **options: NormTree(2, **options),
}


def made(name: str, **options: Any) -> Any:
    """Three slots of five, each of a state of its own or half of it."""
    draw = MAKERS[name](**options)
    draw.allocate(5)
    slots = np.array([0, 2, 3])
    draw.set_gain(slots, np.array([1.0, 4.0, 0.25]))
    if hasattr(draw, "set_features") and name != "sweep":
        draw.set_features(slots, np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    else:
        draw.set_state(slots, np.array([0, 1, 0]))
    return draw


@pytest.mark.parametrize("name", MAKERS)
def test_raw_gains_are_kept(name: str) -> None:
    draw = made(name, gain_exponent=0.5)
    assert draw.gain.tolist() == [1.0, -1.0, 4.0, 0.25, -1.0]
    assert draw.gain.dtype == np.float64
    draw.set_gain(np.array([2]), np.array([9.0]))
    draw.clear(np.array([0]))
    assert draw.gain.tolist() == [-1.0, -1.0, 9.0, 0.25, -1.0]
    draw.check_valid()


@pytest.mark.parametrize("name", MAKERS)
def test_a_gain_that_is_not_its_mass_is_seen(name: str) -> None:
    draw = made(name)
    draw.check_valid()
    draw.gain[2] = 5.0
    with pytest.raises(NeedReplayError, match="mass is not its gain"):
        draw.check_valid()


@pytest.mark.parametrize("name", MAKERS)
def test_an_exponent_above_one_is_refused(name: str) -> None:
    with pytest.raises(NeedReplayError, match="gain_exponent is 2"):
        MAKERS[name](gain_exponent=2.0)


@pytest.mark.parametrize("name", MAKERS)
def test_the_largest_gain_leaves_everything_finite(name: str) -> None:
    draw = made(name, gain_exponent=1.0, need_exponent=1.0)
    draw.set_gain(np.array([0, 2, 3]), np.full(3, LARGEST_GAIN))
    drawn = draw.sample(30, np.random.default_rng(0), np.array([1.0, 1.0]))
    assert np.isfinite(drawn.probabilities).all()
    assert set(drawn.slots) == {0, 2, 3}
    draw.check_valid()
