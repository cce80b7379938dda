"""Where states look alike and recur: both measures by hand, and the test against ranks."""

from __future__ import annotations

import numpy as np
import pytest

from needlab.core.tables import long_table
from needlab.studies.deep.similar_states import (
    claims_of,
    draw,
    key_of,
    rank_test,
    recurrence,
    similarity,
)


def test_similarity_is_the_correlation_of_frames_far_apart() -> None:
    rng = np.random.default_rng(0)
    frame = rng.random((1, 5, 5))
    assert similarity(np.repeat(frame, 50, axis=0), rng, apart=10) == pytest.approx(1.0)
    halves = np.concatenate([np.repeat(frame, 25, axis=0), np.repeat(1.0 - frame, 25, axis=0)])
    assert similarity(halves, rng, apart=25) == pytest.approx(-1.0)
    assert abs(similarity(rng.random((400, 30, 30)), rng, apart=10)) < 0.01
    assert similarity(np.zeros((40, 5, 5)), rng, apart=10) == 0.0


def test_recurrence_counts_what_was_there_long_ago() -> None:
    """Steps 2 to 5, at least two steps apart: b a c a. Of these a (step 0), a (step 0) recur."""
    assert recurrence([b"a", b"b", b"b", b"a", b"c", b"a"], apart=2) == 0.5
    assert recurrence([b"%d" % (step % 3) for step in range(30)], apart=3) == 1.0
    assert recurrence([b"%d" % step for step in range(30)], apart=3) == 0.0


def test_an_atari_frame_is_compared_in_coarse_cells() -> None:
    """One pixel less bright by 30 changes no cell of 49 pixels by a level; a bright cell does."""
    frame = np.full((84, 84), 144, np.uint8)
    near, far = frame.copy(), frame.copy()
    near[3, 3] -= 30
    far[:7, :7] = 255
    assert key_of("atari/Pong", near) == key_of("atari/Pong", frame)
    assert key_of("atari/Pong", far) != key_of("atari/Pong", frame)
    assert key_of("minatar/asterix", near) != key_of("minatar/asterix", frame)


def test_claims_follow_the_ranks() -> None:
    """Recurrence has the order of both outcomes, similarity none."""
    n = 15
    rows = {
        f"atari/{i}": {
            "similarity": float((7 * i) % n),
            "recurrence": float(i),
            "change_best": float(i**3),
            "change_last": float(np.exp(-i)),
        }
        for i in range(n)
    }
    rows["minatar/x"] = dict.fromkeys(rows["atari/0"], np.nan) | {"similarity": 0.0}
    data = long_table(("world",), rows)
    claims = claims_of(data, 0)
    assert [claim.verdict for claim in claims] == [
        "undecided", "undecided", "holds", "does not hold",
    ]  # fmt: skip
    assert "over 15 games 1.00" in claims[2].measured
    assert rank_test(np.arange(9.0), -np.arange(9.0), np.random.default_rng(0))[0] == -1.0
    assert len(draw(data).axes) == 3
