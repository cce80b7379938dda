"""Atari's games: frames, seeds, lost lives, idle starts, and what raises."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from needlab.worlds.named import WorldSettings, make_world
from needreplay._core.errors import NeedReplayError

pytest.importorskip("ale_py")

PLAIN = WorldSettings(sticky=0.0)


def walked(env: Any, seed: int, steps: int = 30) -> list[Any]:
    """Observations of one episode under the same actions."""
    actions = np.random.default_rng(0).integers(int(env.action_space.n), size=steps)
    return [env.reset(seed=seed)[0], *(env.step(int(action))[0] for action in actions)]


def test_observations_are_stacks_of_four_grey_frames() -> None:
    env = make_world("atari/Pong", PLAIN)
    first, _ = env.reset(seed=0)
    assert (first.shape, first.dtype) == ((4, 84, 84), np.uint8)
    assert not first[:3].any(), "before the first frame there is nothing"
    second = env.step(0)[0]
    assert np.array_equal(second[2], first[3]), "frames move on by one"
    assert env.action_space.n == 6  # type: ignore[attr-defined]
    assert make_world("atari/Pong", WorldSettings(action_set="full")).action_space.n == 18  # type: ignore[attr-defined]


def test_a_game_follows_from_its_seed_alone_whatever_was_played_before() -> None:
    settings = WorldSettings(sticky=0.25, noops=30)
    fresh, used = (make_world("atari/Breakout", settings) for _ in range(2))
    walked(used, seed=1, steps=17)
    first, second = walked(fresh, seed=2), walked(used, seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    other = walked(used, seed=3)
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_lost_life_is_reported_and_the_game_continues() -> None:
    env = make_world("atari/Breakout", WorldSettings(sticky=0.0, life_loss_ends=True))
    _, info = env.reset(seed=0)
    lives, lost, terminated = [info["lives"]], 0, False
    obs = None
    while not terminated:
        before = obs
        obs, _, terminated, truncated, info = env.step(1)
        assert not truncated
        if before is not None:
            assert np.array_equal(before[1:], obs[:-1]), "the stack never starts again"
        lives.append(info["lives"])
        assert info["life_lost"] == (0 < lives[-1] < lives[-2])
        lost += info["life_lost"]
    assert (lives[0], lives[-1], lost) == (5, 0, 4), "the last life is the game's end"


def test_without_the_setting_a_lost_life_is_not_reported() -> None:
    env = make_world("atari/Breakout", PLAIN)
    env.reset(seed=0)
    assert "life_lost" not in env.step(1)[4]


def test_the_cap_is_in_steps_and_only_ours() -> None:
    env = make_world("atari/Pong", WorldSettings(episode_cap=5))
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(5)] == [False] * 4 + [True]
    free = make_world("atari/Pong", WorldSettings(episode_cap=0))
    assert free.unwrapped.ale.getInt("max_num_frames_per_episode") == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("game", "said"),
    [
        ("pong", "There is no Atari game 'pong'; did you mean Pong"),
        ("space_invaders", "did you mean SpaceInvaders"),
        ("qqqqqq", "choose from: Adventure, AirRaid, "),
    ],
)
def test_an_unknown_game_raises_with_those_spelt_alike(game: str, said: str) -> None:
    with pytest.raises(NeedReplayError, match=said):
        make_world(f"atari/{game}", PLAIN)


def test_the_emulators_own_id_leads_to_ours() -> None:
    with pytest.raises(NeedReplayError, match="use atari/Pong instead"):
        make_world("ALE/Pong-v5", PLAIN)


@pytest.mark.parametrize("package", ["ale_py", "cv2"])
def test_without_a_package_one_sentence_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NeedReplayError, match=r"pip install 'needreplay\[atari\]'"):
        make_world("atari/Pong", PLAIN)
