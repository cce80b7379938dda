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
from needreplay.integrations.sb3 import NeedReplay

from .sb3_models import ALGORITHMS, Walk, env_for, small


@pytest.mark.parametrize("learner", ["cosine", "spectral"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_samples_by_gain_x_need(name: str, learner: str) -> None:
    """Probabilities as priorities and need say: the mean of two environments' or one's."""
    env = make_vec_env(lambda: env_for(name), 2)
    replay = NeedReplay(learn_every=2, discount=0.8, learner=learner)
    model = small(name, env, replay=replay).learn(48)
    held = model.replay_buffer
    inner, need = held.buffer, held.need
    assert inner.batches == model._n_updates
    assert need.updates == (inner.batches + 1) // 2
    fallbacks = inner.sampler.fallbacks
    assert fallbacks.by_score + fallbacks.exhaustive == 16 * inner.batches
    held.present = model._last_obs
    need.refresh(inner, ids=np.arange(48))
    batch = inner.sample(8, need=need.query(model._last_obs))
    obs, ids = inner.read(np.arange(48))["obs"], batch.ids
    of_each = [need.need(row, obs) for row in model._last_obs]
    seen = of_each if learner == "cosine" else [np.mean(of_each, axis=0)]
    ratios = [batch.probabilities / (inner.sampler.priorities[:48] ** 0.6 * n)[ids] for n in seen]
    assert min(ratio.max() / ratio.min() for ratio in ratios) < 1.001


@pytest.mark.parametrize("n_steps", [1, 3])
def test_shuffled_need_is_that_of_other_transitions(n_steps: int) -> None:
    """Partly filled and long full, before anything is renewed; the second learn cuts episodes."""
    env = make_vec_env(lambda: Walk(length=9), 2)
    replay = NeedReplay(shuffle_need=True, refresh=0)
    model = small("DQN", env, n_steps=n_steps, learning_starts=10**6, buffer_size=48, replay=replay)
    for _ in range(5):
        model.learn(20)
        held = model.replay_buffer
        inner = held.buffer
        ids = np.arange(inner.oldest_id, inner.next_id)
        donors = held._shuffled.donors(ids)
        assert sorted(donors) == ids.tolist()
        assert (donors != ids).all()
        stored = inner.sampler.features.vectors[ids % inner.capacity]
        expected = held.need.features(inner.read(donors)["obs"])
        np.testing.assert_allclose(stored, expected, atol=1e-5)
    assert inner.oldest_id > 0


def test_shuffled_need_stays_shuffled_when_it_is_renewed() -> None:
    replay = NeedReplay(shuffle_need=True, refresh=48)
    model = small("DQN", make_vec_env(lambda: Walk(length=9), 2), buffer_size=48, replay=replay)
    held = model.learn(80).replay_buffer
    held.sample(8)
    ids = np.arange(held.buffer.oldest_id, held.buffer.next_id)
    donors = held._shuffled.donors(ids)
    stored = held.buffer.sampler.features.vectors[ids % 48]
    expected = held.need.features(held.buffer.read(donors)["obs"])
    np.testing.assert_allclose(stored, expected, atol=1e-5)


@pytest.mark.parametrize("query", ["recent", "start"])
def test_need_is_seen_from_where_the_form_says(query: Any) -> None:
    """One query for each row; all rows are sampled by score."""
    env = make_vec_env(lambda: Walk(length=9), 2)
    form = NeedForm(query=query, direction="backward")
    model = small("DQN", env, replay=NeedReplay(form=form, uniform_mix=0.25)).learn(48)
    held = model.replay_buffer
    assert held.need.form == form
    assert held._learn_need(8).shape == (8, held.need.n_features)
    fallbacks = held.buffer.sampler.fallbacks
    assert fallbacks.by_score + fallbacks.exhaustive == 16 * held.buffer.batches


def test_need_of_zero_exponent_is_prioritized_replay() -> None:
    model = small("DQN", replay=NeedReplay(need_alpha=0.0)).learn(40)
    assert model.replay_buffer.buffer.sampler.need_alpha == 0.0


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
    model = small("DQN", Walk(obs=space), policy=policy, n_steps=2, replay=NeedReplay()).learn(32)
    assert model.replay_buffer.need.updates == model._n_updates > 0


def test_need_sees_observations_before_vecnormalize() -> None:
    """At the end of an episode the present is the first observation of the next."""
    env = VecNormalize(make_vec_env(lambda: Walk(length=4), 1))
    model = small("DQN", env, replay=NeedReplay()).learn(32)
    present: Any = env.get_original_obs()
    assert not np.allclose(present, model._last_obs)
    np.testing.assert_array_equal(model.replay_buffer.present, present)
    assert present[0, 0] == 0.0


def test_a_buffer_of_another_replay_is_refused(tmp_path: Path) -> None:
    """Else a control would quietly be none."""
    small("DQN", replay=NeedReplay()).learn(40).save_replay_buffer(tmp_path / "buffer")
    model = small("DQN", replay=NeedReplay(shuffle_need=True))
    model.load_replay_buffer(tmp_path / "buffer")
    with pytest.raises(NeedReplayError, match=r"need=True\).* saved with .*need=False"):
        model.learn(40)


def test_refused() -> None:
    with pytest.raises(NeedReplayError, match="shuffle_need is 'false'"):
        NeedReplay(shuffle_need="false")  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="learn_every is 0"):
        NeedReplay(learn_every=0)
    with pytest.raises(NeedReplayError, match="learner of need"):
        small("DQN", replay=NeedReplay(learner="none"))
    with pytest.raises(NeedReplayError, match=r"discount is 1\.0"):
        small("DQN", replay=NeedReplay(discount=1.0))


def test_what_weights_correct_for_is_checked_when_it_is_set() -> None:
    for words in ("gain", "both"):
        assert NeedReplay(correct_for=words).correct_for == words
    with pytest.raises(NeedReplayError, match="correct_for 'need'; choose from: both, gain"):
        NeedReplay(correct_for="need")  # type: ignore[arg-type]
