"""Gain x need: features are stored, need is that of the present, the need model learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from needreplay import NeedForm, NeedReplayError
from needreplay.integrations.sb3 import NeedReplay, PrioritizedReplay

from .sb3_models import ALGORITHMS, Walk, assert_same, env_for, priorities, small


@pytest.mark.parametrize("learner", ["cosine", "spectral"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_samples_by_gain_x_need(name: str, learner: str) -> None:
    """Probabilities as priorities and need say, seen from one of two environments."""
    env = make_vec_env(lambda: env_for(name), 2)
    options = {"discount": 0.8, "learner": learner}
    replay = NeedReplay(learn_every=2, model_options=options, uniform_mix=0.0)
    model = small(name, env, replay=replay).learn(48)
    need: Any = model.replay_buffer.need
    inner = need.buffer
    assert inner.batches == model._n_updates
    assert need.model.updates == inner.batches // 2
    fallbacks = inner.sampler.fallbacks
    if learner == "cosine":  # spectral need can be 0 everywhere, and then priorities decide
        assert fallbacks.by_score + fallbacks.exhaustive == 16 * inner.batches
    need.renew(np.arange(48))
    batch = need.sample(8, model._last_obs)
    obs, ids = inner.read(np.arange(48))["obs"], batch.ids
    ratios = []
    for row in model._last_obs:
        of_each = np.maximum(need.model.need(row, obs), 0.0)
        expected = inner.sampler.priorities[:48] ** 0.6 * (of_each if of_each.any() else 1.0)
        if expected[ids].all():
            ratios.append(batch.probabilities / expected[ids])
    assert min(ratio.max() / ratio.min() for ratio in ratios) < 1.001


@pytest.mark.parametrize("n_steps", [1, 3])
def test_shuffled_need_is_that_of_other_transitions(n_steps: int) -> None:
    """Partly filled and long full, and after renewing; the second learn cuts episodes."""
    env = make_vec_env(lambda: Walk(length=9), 2)
    replay = NeedReplay(shuffle=True, refresh=48, learn_every=1)
    model = small("DQN", env, n_steps=n_steps, learning_starts=8, buffer_size=48, replay=replay)
    for _ in range(5):
        need: Any = model.learn(20).replay_buffer.need
        need.sample(4, model._last_obs)
        inner = need.buffer
        ids = np.arange(inner.oldest_id, inner.next_id)
        donors = need.shuffled.donors(ids)
        assert sorted(donors) == ids.tolist()
        assert (donors != ids).all()
        stored = inner.features(ids)
        expected = need.model.vectors(inner.read(donors))
        np.testing.assert_allclose(stored, expected, atol=1e-5)
    assert inner.oldest_id > 0
    assert need.model.updates > 10


@pytest.mark.parametrize("query", ["recent", "start"])
def test_need_is_seen_from_where_the_form_says(query: Any) -> None:
    """One query for each row; all rows are sampled by score."""
    env = make_vec_env(lambda: Walk(length=9), 2)
    form = NeedForm(query=query, direction="backward")
    replay = NeedReplay(model_options={"form": form})
    held = small("DQN", env, replay=replay).learn(48).replay_buffer
    assert held.need.model.form == form
    assert held.need.look(8).shape == (8, held.need.model.n_features)
    fallbacks = held.buffer.sampler.fallbacks
    assert fallbacks.by_score + fallbacks.exhaustive == 16 * held.buffer.batches


@pytest.mark.parametrize("n_steps", [1, 3])
def test_need_of_zero_exponent_is_prioritized_replay(n_steps: int) -> None:
    """The same samples, and so the same network, bit for bit."""
    replays = (
        NeedReplay(need_alpha=0.0, uniform_mix=0.0, beta=0.5),
        PrioritizedReplay(stratified=False, beta=0.5),
    )
    need, per = (small("DQN", n_steps=n_steps, replay=replay).learn(150) for replay in replays)
    assert need._n_updates == per._n_updates > 30
    assert_same(need, per)
    np.testing.assert_array_equal(priorities(need), priorities(per))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(4),
        spaces.MultiBinary(3),
        spaces.Dict({"a": spaces.Box(-1.0, 1.0, (2,)), "b": spaces.Discrete(3)}),
    ],
    ids=str,
)
def test_observations_of_any_kind(space: Any) -> None:
    policy = "MultiInputPolicy" if isinstance(space, spaces.Dict) else "MlpPolicy"
    model = small("DQN", Walk(obs=space), policy=policy, n_steps=2, replay=NeedReplay()).learn(80)
    assert model.replay_buffer.need.model.updates == model._n_updates // 4 > 0


def test_need_sees_observations_before_vecnormalize() -> None:
    """At the end of an episode the present is the first observation of the next."""
    env = VecNormalize(make_vec_env(lambda: Walk(length=4), 1))
    model = small("DQN", env, replay=NeedReplay()).learn(32)
    present: Any = env.get_original_obs()
    assert not np.allclose(present, model._last_obs)
    np.testing.assert_array_equal(model.replay_buffer.present, present)
    assert present[0, 0] == 0.0


@pytest.mark.parametrize(
    "replay", [PrioritizedReplay(), NeedReplay(shuffle=True)], ids=["per", "need"]
)
def test_a_saved_buffer_grows_with_what_is_stored(replay: Any, tmp_path: Path) -> None:
    """Of 100,000 slots 60 are in use: 1.7 MB and 12.5 MB if all were written."""
    model = small("DQN", replay=replay, buffer_size=100_000).learn(60)
    model.save_replay_buffer(tmp_path / "buffer.pkl")
    assert (tmp_path / "buffer.pkl").stat().st_size < 700_000
    other = small("DQN", replay=replay, buffer_size=100_000)
    other.load_replay_buffer(tmp_path / "buffer.pkl")
    for _ in range(5):
        batches = [each.replay_buffer.sample(16) for each in (model, other)]
        np.testing.assert_array_equal(batches[0].ids, batches[1].ids)
        np.testing.assert_array_equal(batches[0].weights, batches[1].weights)


def test_a_buffer_of_another_replay_is_rejected(tmp_path: Path) -> None:
    """Else a control would quietly be none."""
    small("DQN", replay=NeedReplay()).learn(40).save_replay_buffer(tmp_path / "buffer")
    model = small("DQN", replay=NeedReplay(shuffle=True))
    model.load_replay_buffer(tmp_path / "buffer")
    with pytest.raises(NeedReplayError, match=r"shuffle=True\).* saved with .*shuffle=False"):
        model.learn(40)


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(NeedReplayError, match="shuffle is 'false'"):
        NeedReplay(shuffle="false")  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="learn_every is 0"):
        NeedReplay(learn_every=0)
    with pytest.raises(NeedReplayError, match="no option of NeedModel 'seed'"):
        NeedReplay(model_options={"seed": 1})
    with pytest.raises(NeedReplayError, match="learner of need"):
        small("DQN", replay=NeedReplay(model_options={"learner": "none"}))
    with pytest.raises(NeedReplayError, match=r"discount is 1\.0"):
        small("DQN", replay=NeedReplay(model_options={"discount": 1.0}))


def test_what_weights_correct_for_is_checked_when_it_is_set() -> None:
    for words in ("gain", "both"):
        assert NeedReplay(correct_for=words).correct_for == words
    with pytest.raises(NeedReplayError, match="correct_for 'need'; choose from: both, gain"):
        NeedReplay(correct_for="need")  # type: ignore[arg-type]
