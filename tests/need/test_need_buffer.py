"""``NeedBuffer``: what it does by itself is what one would do by hand, and nothing is forgotten."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from needreplay import (
    NeedBuffer,
    NeedForm,
    NeedModel,
    NeedReplayError,
    ProportionalSampler,
    ReplayBuffer,
)
from needreplay.need import buffer as module
from needreplay.need import model as of_model
from needreplay.replay import watch

SPACE = spaces.Box(-10.0, 10.0, (3,), np.float32)


def steps(count: int, seed: int = 0, length: int = 25) -> list[dict[str, Any]]:
    """Random walks, in episodes of ``length`` steps."""
    rng = np.random.default_rng(seed)
    made, obs = [], rng.normal(size=3).astype(np.float32)
    for i in range(1, count + 1):
        after = (obs + 0.3 * rng.normal(size=3)).astype(np.float32)
        made.append(
            {"obs": obs, "action": 0, "reward": 0.0, "next_obs": after,
             "terminated": i % length == 0, "truncated": False}
        )  # fmt: skip
        obs = rng.normal(size=3).astype(np.float32) if i % length == 0 else after
    return made


def made(**options: Any) -> NeedBuffer:
    options = {"capacity": 200, "seed": 3, **options}
    return NeedBuffer.for_spaces(SPACE, spaces.Discrete(2), **options)


def test_it_tells_what_is_not_the_default() -> None:
    """Need is the sixth power of a cosine: part of the sampler's exponent, not of the user's."""
    said, size = repr(made()), f"{made().buffer.nbytes:,} bytes>"
    assert said == f"<NeedBuffer: 0 of 200 transitions, {made().model!r}, {size}"
    assert repr(made().model) == "<NeedModel: cosine, discount=0.9, 0 updates>"
    own = {"alpha": 0.5, "need_alpha": 2.0, "refresh": 8, "shuffle": True}
    said = repr(made(**own, model=NeedModel(SPACE, form=NeedForm("recent"))))
    assert "0.9, NeedForm(query='recent'), 0 updates>, alpha=0.5, need_alpha=2.0, ref" in said
    assert "refresh=8, shuffle=True, " in said


def test_it_does_what_one_would_do_by_hand() -> None:
    """Same samples as a ReplayBuffer with a NeedModel, with every call written out."""
    ours = made(learn_every=3, refresh=5)
    need = NeedModel(SPACE, seed=3)
    plain = ReplayBuffer.for_spaces(
        SPACE,
        spaces.Discrete(2),
        capacity=200,
        sampler=need.sampler(alpha=0.6, uniform_mix=0.25),
        seed=3,
    )
    rng = np.random.default_rng(1)
    for i, step in enumerate(steps(120), start=1):
        ours.add(**step)
        plain.add(**step, features=need.features(step["obs"]))
        batch = ours.sample(8, step["next_obs"], beta=0.5)
        expected = plain.sample(8, need=need.query(step["next_obs"]), beta=0.5)
        np.testing.assert_array_equal(batch.ids, expected.ids)
        np.testing.assert_allclose(batch.weights, expected.weights, rtol=1e-5)
        if i % 3 == 0:
            need.learn(plain)
            ids = np.concatenate([expected.ids, plain.next_to_refresh(15)])
            plain.set_features(ids, need.features(plain.read(ids)["obs"]))
        errors = rng.random(8) + 0.01
        ours.update_priorities(batch.ids, errors)
        plain.update_priorities(batch.ids, errors)
    assert need.updates == 40


def test_every_stored_transition_has_its_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many were added since the last batch, in parts of 32, after a wrap-around."""
    monkeypatch.setattr(module, "MOST_ROWS", 32)
    ours = made(learn_every=1_000)
    for step in steps(10):
        ours.add(**step)
    ours.sample(4, np.zeros(3, np.float32))
    for step in steps(333, seed=1):
        ours.add(**step)
    ours.sample(4, np.zeros(3, np.float32))
    ids = np.arange(ours.buffer.oldest_id, ours.buffer.next_id)
    assert len(ids) == 200
    expected = ours.model.vectors(ours.buffer.read(ids))
    np.testing.assert_allclose(ours.buffer.features(ids), expected, rtol=1e-5, atol=1e-6)


def test_the_batch_and_others_in_turn_are_renewed_when_the_model_has_learned() -> None:
    ours = made(learn_every=2, refresh=3)
    for step in steps(100):
        ours.add(**step)
    present = np.zeros(3, np.float32)
    ours.sample(4, present)
    old = ours.buffer.features(np.arange(100))
    batch = ours.sample(4, present)  # the second batch: the model learns
    new = ours.model.vectors(ours.buffer.read(np.arange(100)))
    stored = ours.buffer.features(np.arange(100))
    renewed = np.flatnonzero((stored != old).any(1))
    assert set(renewed) == set(batch.ids.tolist()) | set(range(6))
    np.testing.assert_allclose(stored[renewed], new[renewed], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [2, 57, 260])
def test_shuffled_need_is_that_of_another_transition(count: int) -> None:
    """The same vectors on wrong transitions: a permutation without fixed points."""
    ours = made(learn_every=1_000, shuffle=True)
    for i, step in enumerate(steps(count)):
        ours.add(**step)
        if i % 7 == 0:
            ours.sample(2, step["next_obs"])
    ours.sample(2, np.zeros(3, np.float32))
    ids = np.arange(ours.buffer.oldest_id, ours.buffer.next_id)
    own = ours.model.vectors(ours.buffer.read(ids))
    stored = ours.buffer.features(ids)
    distances = np.abs(stored[:, None] - own[None]).max(2)
    donors = distances.argmin(1)
    assert distances[np.arange(len(ids)), donors].max() < 1e-5
    assert sorted(donors) == list(range(len(ids)))
    assert (donors != np.arange(len(ids))).all()


def test_quality_is_that_of_the_stored_vectors() -> None:
    """Not that of the model, which may have learned since they were stored."""
    ours = made(capacity=3_000, learn_every=1)
    for step in steps(3_000, length=60):
        ours.add(**step)
    for _ in range(300):
        ours.model.learn(ours.buffer)
    assert ours.quality().auc > 0.8
    ids = np.arange(ours.buffer.oldest_id, ours.buffer.next_id)
    noise = np.random.default_rng(0).normal(size=(len(ids), 16))
    ours.buffer.set_features(ids, noise)
    assert abs(ours.quality().auc - 0.5) < 0.1
    assert isinstance(ours.model, NeedModel)
    assert ours.model.quality(ours.buffer).auc > 0.8


@pytest.mark.parametrize("how", ["file", "pickle", "copy"])
def test_a_saved_buffer_goes_on_as_before(how: str, tmp_path: Path) -> None:
    ours, walk = made(), steps(150)
    for step in walk[:80]:
        ours.add(**step)
        ours.sample(4, step["next_obs"])
    ours.add(**walk[80])  # without a vector yet
    if how == "file":
        ours.save(tmp_path / "buffer")
        other = made()
        other.load(tmp_path / "buffer")
    else:
        other = pickle.loads(pickle.dumps(ours)) if how == "pickle" else copy.deepcopy(ours)
    for step in walk[81:]:
        batches = []
        for each in (ours, other):
            each.add(**step)
            batches.append(each.sample(4, step["next_obs"]))
            each.update_priorities(batches[-1].ids, [0.1, 0.2, 0.3, 0.4])
        np.testing.assert_array_equal(batches[0].ids, batches[1].ids)
    assert isinstance(other.model, NeedModel)
    assert other.model.updates == 37


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("capacity", [40, 200, 300])
def test_another_capacity_or_alpha(capacity: int, shuffle: bool, tmp_path: Path) -> None:
    """Rows, priorities and the model are those of the file; every vector is the model's."""
    ours, walk = made(), steps(130)
    for step in walk[:120]:
        ours.add(**step)
        batch = ours.sample(4, step["next_obs"])
        ours.update_priorities(batch.ids, np.arange(1.0, 5.0))
    ours.save(tmp_path / "buffer")
    other = made(capacity=capacity, alpha=0.9, shuffle=shuffle, learn_every=10**6, refresh=0)
    with pytest.raises(NeedReplayError, match=r"capacity|alpha"):
        other.load(tmp_path / "buffer")
    other.add(**walk[0])
    other.load(tmp_path / "buffer", strict=False)
    kept = min(capacity, 120)
    assert len(other) == kept
    np.testing.assert_array_equal(other.buffer[:]["obs"], ours.buffer[120 - kept :]["obs"])
    held: Any = [each.buffer.sampler for each in (other, ours)]
    np.testing.assert_array_equal(held[0].priorities[:kept], held[1].priorities[120 - kept : 120])
    for step in walk[120:]:
        other.add(**step)
        assert len(other.sample(4, step["next_obs"])) == 4
    ids, columns = other._source_of(np.arange(other.buffer.oldest_id, other.buffer.next_id))
    vectors = other.model.vectors(columns)
    np.testing.assert_allclose(other.buffer.features(ids), vectors, rtol=1e-5, atol=1e-6)
    assert isinstance(other.model, NeedModel)
    assert other.model.updates == 30


def test_a_file_that_cannot_be_loaded_changes_nothing(tmp_path: Path) -> None:
    ours = made()
    for step in steps(60):
        ours.add(**step)
        ours.sample(4, step["next_obs"])
    ours.save(tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    other = made()
    other.add(**steps(1)[0])
    assert isinstance(other.model, NeedModel)
    before = copy.deepcopy(other.model.state_dict())
    flipped = bytearray(good)
    flipped[-100] ^= 1
    plain = ReplayBuffer.for_spaces(SPACE, spaces.Discrete(2), capacity=200)
    plain.save(tmp_path / "plain")
    for data in (good[:40], good[:-1], bytes(flipped), b"", (tmp_path / "plain").read_bytes()):
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(NeedReplayError):
            other.load(tmp_path / "bad")
    spectral = made(model=NeedModel(SPACE, learner="spectral"))
    with pytest.raises(NeedReplayError, match="learner"):
        spectral.load(tmp_path / "good")
    assert len(other) == 1
    after = other.model.state_dict()
    assert before["rng"] == after["rng"]
    for name, value in before["network"].items():
        assert torch.equal(value, after["network"][name])


def test_need_seen_from_elsewhere_takes_no_observation() -> None:
    for query in ("recent", "start"):
        ours = made(model=NeedModel(SPACE, form=NeedForm(query=query)))
        for step in steps(60):
            ours.add(**step)
        assert len(ours.sample(5)) == 5
        assert ours.query is not None
        assert ours.query.shape == (5, 16)
    ours = made()
    ours.add(**steps(1)[0])
    with pytest.raises(NeedReplayError, match="obs is None"):
        ours.sample(5)


def test_several_environments() -> None:
    """Need is seen from one of them, another one each time."""
    env = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="sync")
    ours = NeedBuffer.for_env(env, capacity=90)
    obs, _ = env.reset(seed=0)
    env.action_space.seed(0)
    queries = []
    for _ in range(40):
        action = env.action_space.sample()
        after, reward, terminated, truncated, _ = env.step(action)
        ours.add(
            obs=obs, action=action, reward=reward, next_obs=after, terminated=terminated,
            truncated=truncated,
        )  # fmt: skip
        obs = after
        ours.sample(4, obs)
        assert ours.query is not None
        queries.append(np.abs(ours.model.queries(obs) - ours.query).max(1))
    env.close()
    before_learning = [row for i, row in enumerate(queries, start=1) if i % 4]
    assert all(row.min() < 1e-5 for row in before_learning)
    assert {int(row.argmin()) for row in before_learning} == {0, 1, 2}


def test_what_does_not_fit_is_named() -> None:
    plain = ReplayBuffer.for_spaces(
        SPACE, spaces.Discrete(2), capacity=10, sampler=ProportionalSampler()
    )
    with pytest.raises(NeedReplayError, match=r"proportional sampler; make it with sampler=model"):
        NeedBuffer(plain, NeedModel(SPACE))
    with pytest.raises(NeedReplayError, match="no option 'sampler'"):
        made(sampler=ProportionalSampler())
    for name, value in {"learn_every": 0, "refresh": -1, "shuffle": 2}.items():
        with pytest.raises(NeedReplayError, match=f"{name} is"):
            made(**{name: value})
    with pytest.raises(NeedReplayError, match="empty"):
        made().sample(1, np.zeros(3, np.float32))
    ours = made()
    ours.add(**steps(1)[0])
    with pytest.raises(NeedReplayError, match="shape"):
        ours.sample(1, np.zeros(4, np.float32))


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("form", ["row", "dict"])
def test_a_query_on_another_scale_than_what_is_stored_is_named(form: str, scale: float) -> None:
    """Such as raw observations beside normalized ones; what is stored later is never named."""
    space: Any = SPACE if form == "row" else spaces.Dict({"a": SPACE, "b": spaces.Discrete(2)})
    ours = NeedBuffer.for_spaces(space, spaces.Discrete(2), capacity=5_000, n_step=3)
    caught = []
    for step in steps(200):
        present = np.asarray(step["next_obs"] * scale, np.float64)
        if form == "dict":
            step |= {name: {"a": step[name], "b": 1} for name in ("obs", "next_obs")}
        ours.add(**step)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            if len(ours):
                ours.sample(2, present if form == "row" else {"a": present, "b": 1})
                ours.update_priorities([0], [1.0])
        caught += found
    assert len(caught) == (scale != 1.0)
    assert all("exactly as you store it" in str(each.message) for each in caught)


def test_a_query_at_resets_and_many_batches_between_steps_are_fine() -> None:
    """The first observation of an episode is stored by the step after it; warnings are errors."""
    ours, walk = made(capacity=1_000, learn_every=100), steps(200, length=2)
    for step, following in itertools.pairwise(walk):
        ours.add(**step)
        for _ in range(3):
            batch = ours.sample(2, following["obs"])
        ours.update_priorities(batch.ids, [1.0, 1.0])
    assert ours._views.is_done


def test_priorities_that_are_never_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "FORGOTTEN", 10)
    for options, expected in (({}, 1), ({"alpha": 0.0}, 0)):
        ours = made(**options)
        ours.add(**steps(1)[0])
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for _ in range(30):
                ours.sample(2, np.zeros(3, np.float32))
        assert [str(each.message)[:24] for each in found] == ["10 batches were sampled,"] * expected


def test_a_model_that_never_learns_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: ``NeedBuffer`` lets it learn."""
    monkeypatch.setattr(of_model, "FORGOTTEN", 10)
    for learns in (True, False):
        model, obs = NeedModel(SPACE), np.zeros(3, np.float32)
        plain = ReplayBuffer.for_spaces(
            SPACE, spaces.Discrete(2), capacity=50, sampler=model.sampler()
        )
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for step in steps(30):
                plain.add(**step, features=model.features(step["obs"]))
                plain.sample(2, need=model.query(obs))
                if learns:
                    model.learn(plain)
        said = [str(each.message) for each in found]
        assert len(said) == (not learns)
        assert learns or "10 times, and the model was never updated" in said[0]


def test_vectors_that_are_never_computed_again_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_model, "STALE", 20)
    for renews in (True, False):
        model = NeedModel(SPACE)
        plain = ReplayBuffer.for_spaces(
            SPACE, spaces.Discrete(2), capacity=50, sampler=model.sampler()
        )
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for step in steps(100):
                plain.add(**step, features=model.features(step["obs"]))
                plain.sample(2, need=model.query(step["obs"]))
                model.learn(plain)
                if renews:
                    ids = plain.next_to_refresh(1)
                    plain.set_features(ids, model.vectors(plain.read(ids)))
        said = [str(each.message) for each in found]
        assert len(said) == (not renews)
        assert renews or "no stored vector was computed again since" in said[0]
