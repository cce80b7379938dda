"""The sweep by hand: it is the oracle of the other need draws, so it is worked out on its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from needreplay.errors import NeedReplayError
from needreplay.memory.draws.sweep import Sweep, slots_at
from needreplay.rng import stream

SLOTS = np.arange(3)
GAIN = np.array([1.0, 4.0, 9.0])


def test_need_per_slot_by_hand() -> None:
    draw = Sweep(gain_exponent=0.5, need_exponent=0.5)
    draw.allocate(4)
    draw.set_gain(SLOTS, GAIN)
    # 1 * 2, 2 * 1, 3 * 0 and an empty slot
    p = draw.probabilities(np.array([4.0, 1.0, -1.0, 7.0]))
    np.testing.assert_allclose(p, [0.5, 0.5, 0.0, 0.0])


def test_need_per_state_by_hand() -> None:
    draw = Sweep(n_states=3, gain_exponent=1.0, need_exponent=1.0)
    draw.allocate(3)
    draw.set_gain(SLOTS, GAIN)
    draw.set_state(np.array([0, 1]), np.array([2, 2]))
    np.testing.assert_allclose(draw.probabilities(np.array([9.0, 9.0, 2.0])), [0.2, 0.8, 0.0])
    draw.place(np.array([1]), np.array([-1]))
    np.testing.assert_allclose(draw.probabilities(np.array([9.0, 9.0, 2.0])), [1.0, 0.0, 0.0])


def test_the_uniform_number_says_which_slot() -> None:
    scores = np.array([0.0, 1.0, 0.0, 3.0, 0.0])
    uniforms = np.array([0.0, 0.2499, 0.25, 0.9999, np.nextafter(1.0, 0.0), 1.0])
    np.testing.assert_array_equal(slots_at(scores, uniforms), [1, 1, 3, 3, 3, 3])


@pytest.mark.parametrize("told_by", ["slot", "state", "features"])
def test_drawn_by_its_distribution(told_by: str) -> None:
    gain = np.array([0.5, 0.0, 3.0, 1.0, 1.0, 0.25, 2.0, 4.0])
    need = np.array([1.0, 2.0, 0.0, 0.25, 4.0, 2.0, -1.0, 0.5])
    slots, size = np.arange(8), 64_000
    options: dict[str, Any] = {"slot": {}, "state": {"n_states": 8}, "features": {"n_features": 8}}
    draw = Sweep(**options[told_by], gain_exponent=0.7, need_exponent=0.4)
    draw.allocate(8)
    draw.set_gain(slots, gain)
    query = need
    if told_by == "state":
        draw.set_state(slots, slots[::-1])
        query = need[::-1]
    if told_by == "features":
        draw.set_features(slots, 2.0 * np.eye(8))
        query = 2.0 * need
    scores = gain**0.7 * np.maximum(0.0, need) ** 0.4
    expected, possible = scores / scores.sum(), scores > 0
    drawn = draw.sample(size, stream(1, "sweep", told_by), query)
    np.testing.assert_allclose(drawn.probabilities, expected[drawn.slots], rtol=1e-12)
    counts = np.bincount(drawn.slots, minlength=8)
    assert counts[~possible].sum() == 0
    wanted = expected[possible] * size
    statistic = ((counts[possible] - wanted) ** 2 / wanted).sum()
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], possible.sum() - 1)
    assert low < statistic < high


def test_fallbacks() -> None:
    draw = Sweep()
    draw.allocate(3)
    draw.set_gain(SLOTS, np.array([0.0, 0.0, 2.0]))
    rng = stream(0, "sweep")
    assert set(draw.sample(5, rng, np.array([1.0, 1.0, 0.0])).slots) == {2}
    draw.set_gain(SLOTS, np.zeros(3))
    np.testing.assert_allclose(draw.probabilities(np.ones(3)), 1 / 3)
    with pytest.warns(RuntimeWarning, match="Every gain"):
        draw.sample(7, rng, np.ones(3))
    assert draw.fallbacks == (0, 5, 7, 0)
    draw.check_valid()


def test_refusals() -> None:
    with pytest.raises(NeedReplayError, match="not both"):
        Sweep(n_states=2, n_features=2)
    for none in (0, -1, 1.5, True, "x"):
        for name in ("n_states", "n_features"):
            with pytest.raises(NeedReplayError, match=f"{name} is"):
                Sweep(**{name: none})  # type: ignore[arg-type]
    draw = Sweep(n_features=2)
    draw.allocate(3)
    with pytest.raises(NeedReplayError, match="empty"):
        draw.sample(1, stream(0, "sweep"), np.ones(2))
    with pytest.raises(NeedReplayError, match="shape"):
        draw.set_features(SLOTS, np.ones((3, 3)))
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(NeedReplayError, match="Nothing was changed"):
            draw.set_features(SLOTS, np.array([[1.0, 1.0], [1.0, bad], [1.0, 1.0]]))
    assert draw.arrays()["vectors"].sum() == 0.0
