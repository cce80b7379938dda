"""Linear agents learn; broken ones do not reach these scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from needlab import play
from needlab.linear import LinearQ, encode_world, linear_settings
from needlab.worlds import MazeEnv, tabular_world


@pytest.mark.parametrize("code", ["one-hot", "tile", "coarse"])
def test_the_dyna_maze(code: Any) -> None:
    """Median steps of episodes 21 to 30: 14 to 25 with six seeds; without learning, hundreds."""
    encoding = encode_world(code, tabular_world("dyna-maze"), width=1.5, tilings=4)
    agent = LinearQ(encoding, 4, linear_settings("linear-per-sr", step_size=0.5))
    assert np.median(play(agent, MazeEnv(), 30).steps[-10:]) < 40.0
