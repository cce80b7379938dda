"""Which need: from where it is seen, and which way it looks."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from needreplay import NeedModel, NeedReplayError, ReplayBuffer
from needreplay.need.form import NeedForm

from .walks import N, walk


@pytest.mark.parametrize("learner", ["cosine", "spectral"])
def test_backward_need_changes_the_places_of_the_two_vectors(learner: str) -> None:
    """How much s' leads to s is how much, seen from s', s follows; stored and sampled as such."""
    buffer, _, _ = walk()
    space = spaces.Discrete(N)
    forward = NeedModel(space, learner=learner)
    backward = NeedModel(space, learner=learner, form=NeedForm(direction="backward"))
    for _ in range(20):
        assert forward.learn(buffer) == backward.learn(buffer)
    all_states = np.arange(N)
    np.testing.assert_allclose(
        backward.needs(all_states, all_states),
        forward.needs(all_states, all_states).T,
        rtol=1e-4,
        atol=1e-6,
    )
    products = backward.features(all_states) @ backward.query(3)
    np.testing.assert_allclose(
        backward.need_of(products), backward.need(3, all_states), rtol=1e-5, atol=1e-7
    )


@pytest.mark.filterwarnings("ignore:Whenever an episode ended")  # states count on
def test_queries_are_of_the_states_that_the_form_names() -> None:
    """Of the present one, of the newest 2,000 (here the newest 10), of starts of episodes."""
    buffer = ReplayBuffer.for_spaces(spaces.Discrete(64), np.int64, capacity=60)
    for number in range(100):
        buffer.add(
            obs=number % 64,
            next_obs=(number + 1) % 64,
            action=0,
            reward=0.0,
            terminated=number % 9 == 8,
            truncated=False,
        )
    seen = {}
    for query in ("present", "recent", "start"):
        model = NeedModel(spaces.Discrete(64), form=NeedForm(query=query))
        views = model.views(buffer, 500, 7)
        found = model.queries(views)
        if query == "present":
            np.testing.assert_array_equal(found, model.query(7))
            continue
        assert found.shape == (500, model.n_features)
        codes = model._vectors(np.arange(64), model.learner.query)
        seen[query] = set(np.abs(found[:, None] - codes).sum(2).argmin(1).tolist())
        _, together = model.vectors_and_queries({"obs": np.array([1, 2])}, views)
        np.testing.assert_allclose(together, model._vectors(views, model.learner.query), atol=1e-6)
    assert seen["recent"] == {number % 64 for number in range(40, 100)}
    assert seen["start"] == {number % 64 for number in range(45, 100, 9)}
    # Where no start is among the newest, the search goes further back, and ends.
    for number in range(100, 157):
        buffer.add(obs=1, next_obs=1, action=0, reward=0.0, terminated=False, truncated=False)
        del number
    assert (model.views(buffer, 5, None) == 99 % 64).all()
    for _ in range(10):
        buffer.add(obs=1, next_obs=1, action=0, reward=0.0, terminated=False, truncated=False)
    with pytest.raises(NeedReplayError, match="No start of an episode is stored"):
        model.views(buffer, 5, 7)


def test_forms_that_a_learner_cannot_learn_are_named() -> None:
    space = spaces.Discrete(N)
    with pytest.raises(NeedReplayError, match=r"'cosine' learns M / p alone.*linear"):
        NeedModel(space, form=NeedForm(relative=False))
    assert NeedModel(space).form == NeedForm()


def test_a_query_of_several_observations() -> None:
    """Need is seen from one of them, by the model's own random numbers."""
    space = spaces.Box(-1.0, 1.0, (3,))
    space.seed(0)
    obs = np.stack([space.sample() for _ in range(3)])
    model = NeedModel(space)
    single = np.stack([model.query(one) for one in obs])
    before = model.state_dict()

    def drawn() -> list[int]:
        distances = np.array([np.abs(single - model.query(obs)).max(1) for _ in range(60)])
        assert distances.min(1).max() < 1e-6
        return distances.argmin(1).tolist()  # type: ignore[no-any-return]

    first = drawn()
    assert min(np.bincount(first, minlength=3)) > 8
    model.load_state_dict(before)
    assert drawn() == first
