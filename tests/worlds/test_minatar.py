"""MinAtar's games: spaces, seeds, what the package slips on, pictures."""

from __future__ import annotations

import sys
from typing import Literal

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from needlab.worlds.minatar import GAMES, MinAtarEnv
from needreplay._core.errors import NeedReplayError
from needreplay._core.types import AnyArray

pytest.importorskip("minatar")


def walked(env: MinAtarEnv, seed: int, steps: int = 60) -> list[AnyArray]:
    actions = np.random.default_rng(0).integers(int(env.action_space.n), size=steps)  # type: ignore[attr-defined]
    seen = [env.reset(seed=seed)[0]]
    for action in actions:
        obs, _, terminated, _, _ = env.step(int(action))
        seen.append(obs)
        if terminated:
            break
    return seen


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("actions", ["full", "minimal"])
@pytest.mark.filterwarnings("ignore:.*spec:UserWarning")
def test_gymnasium_finds_no_fault(game: str, actions: Literal["full", "minimal"]) -> None:
    check_env(MinAtarEnv(game, actions=actions), skip_render_check=True)


@pytest.mark.parametrize("game", GAMES)
def test_observations_are_bytes_with_channels_first(game: str) -> None:
    env = MinAtarEnv(game)
    obs, _ = env.reset(seed=0)
    assert obs.dtype == np.uint8
    assert obs.shape[1:] == (10, 10)
    assert set(np.unique(obs)) <= {0, 1}
    assert obs.any()
    assert obs.flags.c_contiguous


def test_both_action_sets() -> None:
    assert MinAtarEnv("breakout", actions="full").action_space.n == 6  # type: ignore[attr-defined]
    assert MinAtarEnv("breakout", actions="minimal").action_space.n == 3  # type: ignore[attr-defined]


def test_a_minimal_action_is_the_games_own() -> None:
    """Breakout's are nothing, left and right, which the package numbers 0, 1 and 3."""
    full, minimal = (
        MinAtarEnv("breakout", actions=actions, sticky=0.0) for actions in ("full", "minimal")
    )
    full.reset(seed=3)
    minimal.reset(seed=3)
    for own, theirs in ((2, 3), (1, 1), (0, 0)):
        assert np.array_equal(minimal.step(own)[0], full.step(theirs)[0])


def test_the_package_keeps_its_last_action_across_a_reset_and_we_do_not() -> None:
    from minatar import Environment

    theirs = Environment("breakout", sticky_action_prob=1.0)
    theirs.last_action = 3
    theirs.reset()
    assert theirs.last_action == 3, "if the package mends this, the wrapper need not"

    env = MinAtarEnv("breakout", sticky=1.0)
    env._game.last_action = 3
    paddle = np.argmax(env.reset(seed=0)[0][0, 9])
    assert np.argmax(env.step(0)[0][0, 9]) == paddle, "nothing was done before, so nothing repeats"


@pytest.mark.parametrize("game", GAMES)
def test_an_episode_follows_from_its_seed_alone_whatever_was_played_before(game: str) -> None:
    fresh, used = MinAtarEnv(game), MinAtarEnv(game)
    walked(used, seed=5)
    first, second = walked(fresh, seed=9), walked(used, seed=9)
    assert len(first) == len(second)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_every_seed_has_an_episode_of_its_own() -> None:
    env = MinAtarEnv("asterix")
    assert len({b"".join(each.tobytes() for each in walked(env, seed=k)) for k in range(20)}) == 20


def test_a_picture_has_a_cell_for_each_cell() -> None:
    env = MinAtarEnv("breakout", render_mode="rgb_array")
    obs, _ = env.reset(seed=0)
    picture = env.render()
    assert picture is not None
    assert picture.shape == (160, 160, 3)
    assert picture.dtype == np.uint8
    drawn = picture[::16, ::16].any(axis=2)
    assert np.array_equal(drawn, obs.any(axis=0))
    assert MinAtarEnv("breakout").render() is None


def test_without_the_package_one_sentence_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "minatar", None)
    with pytest.raises(NeedReplayError, match=r"pip install 'needreplay\[minatar\]'"):
        MinAtarEnv("breakout")


def test_what_is_unknown_raises_with_what_is_known() -> None:
    with pytest.raises(NeedReplayError, match="no MinAtar game 'pong'; choose from: asterix"):
        MinAtarEnv("pong")
    with pytest.raises(NeedReplayError, match="no action set 'all'; choose from: full, minimal"):
        MinAtarEnv("breakout", actions="all")  # type: ignore[arg-type]
