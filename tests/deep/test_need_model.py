"""``NeedModel`` against closed forms, on every kind of observation, and its quality."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from needlab.worlds import make_table
from needreplay import NeedModel, NeedReplayError, ReplayBuffer, UniformSampler
from needreplay.need import model as need_model
from needreplay.need.form import NeedForm, tabular_need
from needreplay.need.learners import contrast_loss

N = 6
DISCOUNT = 0.8


CHAIN = np.clip(np.arange(N)[:, None] + [-1, 1, 1], 0, N - 1)
"""What three equally likely moves lead to."""
MAZE = make_table("S...\n.##.\n...G").next_state
"""Around a wall of two cells; four moves."""


def walk(moves: Any = CHAIN) -> tuple[ReplayBuffer, Any, Any]:
    """A random walk that may end anywhere; p of its states, and M of what it really did."""
    rng = np.random.default_rng(0)
    n = len(moves)
    buffer = ReplayBuffer.for_spaces(
        spaces.Discrete(n), np.int64, capacity=3_000, sampler=UniformSampler()
    )
    state, counts = 0, np.zeros((n, n))
    visits = np.zeros(n)
    for _ in range(3_000):
        after = int(rng.choice(moves[state]))
        ends = bool(rng.random() < 0.1)
        visits[state] += 1
        counts[state, after] += not ends
        buffer.add(
            obs=state, action=0, reward=0.0, next_obs=after, terminated=ends, truncated=False
        )
        state = 0 if ends else after
    p_next = counts / np.maximum(1, visits)[:, None]
    successor = np.linalg.inv(np.eye(n) - DISCOUNT * p_next)
    return buffer, visits / visits.sum(), (p_next, successor)


@pytest.mark.parametrize(
    ("moves", "learner", "updates", "rate", "size"),
    [
        (CHAIN, "cosine", 400, 0.03, 1024),
        (CHAIN, "spectral", 800, 0.02, 128),
        (CHAIN, "linear", 400, 0, 128),
        (MAZE, "cosine", 800, 0.03, 512),
        (MAZE, "linear", 400, 0, 128),
    ],
)
def test_need_is_the_future_over_the_buffer(
    moves: Any,
    learner: str,
    updates: int,
    rate: float,
    size: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # M is that of the whole walk, so all of it is new.
    monkeypatch.setattr(need_model, "NEWEST", 3_000)
    buffer, p, (p_next, successor) = walk(moves)
    model = NeedModel(
        spaces.Discrete(len(moves)),
        discount=DISCOUNT,
        learner=learner,
        features=lambda codes: codes,
        batch_size=size,
        learning_rate=rate,
        withhold=0,
    )
    for update in range(updates):
        if model.optimizer is not None:
            model.optimizer.param_groups[0]["lr"] = rate * (1.0 - update / updates)
        model.learn(buffer)
    visited = np.flatnonzero(p)
    # The pairs start with the next state; the closed form of M with the present one.
    expected = (successor if learner == "linear" else p_next @ successor)[:, visited] / p[visited]
    for state in visited:
        assert np.corrcoef(model.need(state, visited), expected[state])[0, 1] > 0.99


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("relative", [True, False])
def test_linear_learns_every_form_of_need(direction: Any, relative: bool) -> None:
    """In closed form, against the table's own: M / p and M, of what follows and what leads here."""
    buffer, p, (_, successor) = walk(CHAIN)
    form = NeedForm(direction=direction, relative=relative)
    model = NeedModel(
        spaces.Discrete(N),
        discount=DISCOUNT,
        learner="linear",
        form=form,
        features=lambda codes: codes,
        batch_size=512,
        withhold=0,
    )
    for _ in range(400):
        model.learn(buffer)
    visited = np.flatnonzero(p)
    for state in visited:
        expected = tabular_need(successor, p, int(state), form)[visited]
        assert np.corrcoef(model.need(state, visited), expected)[0, 1] > 0.99


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
        backward.from_products(products), backward.need(3, all_states), rtol=1e-5, atol=1e-7
    )


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
        found = model.queries(buffer, 500, 7)
        if query == "present":
            np.testing.assert_array_equal(found, model.query(7))
            continue
        assert found.shape == (500, model.n_features)
        codes = model._vectors(np.arange(64), model.learner.query)
        seen[query] = set(np.abs(found[:, None] - codes).sum(2).argmin(1).tolist())
        views = model.drawn_views(buffer, 500)
        _, together = model.features_and_queries(np.array([1, 2]), views)
        np.testing.assert_allclose(together, model._vectors(views, model.learner.query), atol=1e-6)
    assert seen["recent"] == {number % 64 for number in range(40, 100)}
    assert seen["start"] == {number % 64 for number in range(45, 100, 9)}
    # Where no start is among the newest, the search goes further back, and ends.
    for number in range(100, 157):
        buffer.add(obs=1, next_obs=1, action=0, reward=0.0, terminated=False, truncated=False)
        del number
    assert (model.drawn_views(buffer, 5) == 99 % 64).all()
    for _ in range(10):
        buffer.add(obs=1, next_obs=1, action=0, reward=0.0, terminated=False, truncated=False)
    with pytest.raises(NeedReplayError, match="No start of an episode is stored"):
        model.queries(buffer, 5, 7)


def test_forms_that_a_learner_cannot_learn_are_named() -> None:
    space = spaces.Discrete(N)
    with pytest.raises(NeedReplayError, match=r"'cosine' learns M / p alone.*linear"):
        NeedModel(space, form=NeedForm(relative=False))
    assert NeedModel(space).form == NeedForm()


@pytest.mark.parametrize(
    ("learner", "looks", "new"),
    [("cosine", 64, 32), ("spectral", 64, 32), ("linear", 128, 4)],
)
def test_models_by_contrast_look_from_the_newest_half_of_the_time(
    learner: str, looks: int, new: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 of 3,000 transitions are new. All are contrasted with 128 of the whole buffer."""
    monkeypatch.setattr(need_model, "NEWEST", 100)
    buffer, _, _ = walk()
    model = NeedModel(spaces.Discrete(N), learner=learner, features=lambda c: c, batch_size=128)
    looked: list[int] = []
    read: list[Any] = []
    future, columns = buffer.future, buffer.read
    monkeypatch.setattr(buffer, "future", lambda i, k: looked.extend(i) or future(i, k))  # type: ignore[func-returns-value]
    monkeypatch.setattr(buffer, "read", lambda i: read.append(i) or columns(i))  # type: ignore[func-returns-value]
    for _ in range(20):
        model.learn(buffer)
    newest = buffer.next_id - 100
    assert np.mean(np.array(looked) >= newest) * looks == pytest.approx(new, abs=3)
    assert len(looked) == 20 * looks
    uniform = np.concatenate([ids[:128] for ids in read])
    assert np.mean(uniform >= newest) == pytest.approx(1 / 30, abs=0.015)


BY_CONTRAST = ["cosine", "spectral"]


@pytest.mark.parametrize("learner", BY_CONTRAST)
def test_states_are_contrasted_with_uniform_ones_alone(learner: str) -> None:
    """Rows 4 and 5 are the newest: they look, and no other state is compared with them."""
    model = NeedModel(spaces.Box(-9, 9, (3,)), learner=learner).learner
    generator = torch.Generator().manual_seed(0)
    obs, later = torch.randn(6, 3, generator=generator), torch.randn(2, 3, generator=generator)

    def loss(changed: int, by: float = 1.0) -> float:
        rows = obs.clone()
        rows[changed] += by
        value = model.loss(rows, later, torch.tensor([3, 4]), 4)
        assert value is not None
        return value.item()

    unchanged = loss(0, by=0.0)
    assert loss(5) == unchanged
    assert all(loss(row) != unchanged for row in range(5))


def test_a_state_is_not_contrasted_with_itself() -> None:
    """Hand-worked: −log 2 / (2 + 3 + 5), without the 7 of the state that looks."""
    logs = torch.tensor([[2.0, 3.0, 7.0, 5.0]]).log()
    assert contrast_loss(logs, torch.tensor([1])).item() == pytest.approx(np.log(5.0))
    assert contrast_loss(logs, torch.tensor([3])).item() == pytest.approx(np.log(8.5))


def test_the_density_ratio_is_the_optimum_of_the_contrast() -> None:
    p_later, p_buffer = torch.tensor([0.1, 0.2, 0.7]), torch.tensor([0.5, 0.3, 0.2])

    def slope(need: Any) -> float:
        """Of the expected loss over all draws of a later state and two others."""
        logs = need.log().double().requires_grad_()
        total = torch.zeros((), dtype=torch.float64)
        for rows in itertools.product(range(3), repeat=3):
            own, *others = rows
            share = p_later[own] * p_buffer[others].prod()
            total = total + share * contrast_loss(logs[list(rows)][None], torch.tensor([9]))
        total.backward()  # type: ignore[no-untyped-call]
        assert logs.grad is not None
        return float(logs.grad.abs().max())

    assert slope(p_later / p_buffer) < 1e-6
    assert slope((p_later / p_buffer).sqrt()) > 1e-2


def test_need_is_a_power_of_the_product_and_sampled_so() -> None:
    space = spaces.Box(-1.0, 1.0, (3,))
    space.seed(0)
    model = NeedModel(space)
    power = model.learner.power
    assert power > 1
    others, one = np.stack([space.sample() for _ in range(40)]), space.sample()
    products = model.features(others) @ model.query(one)
    np.testing.assert_allclose(model.need(one, others), products**power, rtol=1e-5)
    again = model.needs(others[:2], others)[1]
    np.testing.assert_allclose(again, model.need(others[1], others), rtol=1e-4)
    # |b| (1 + cos(u, b)) / 2
    b, u = model.features(others)[:, :-1], model.query(one)[:-1]
    cosines = b @ u / np.linalg.norm(b, axis=1) / np.linalg.norm(u)
    lengths = np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(products, lengths * (1.0 + cosines) / 2.0, rtol=1e-5)
    assert model.sampler(need_alpha=0.5).need_alpha == power / 2


def test_a_query_of_several_observations() -> None:
    """The mean where that is the mean of needs; one of them where need is a power."""
    space = spaces.Box(-1.0, 1.0, (3,))
    space.seed(0)
    obs = np.stack([space.sample() for _ in range(3)])
    linear, cosine = NeedModel(space, learner="spectral"), NeedModel(space)
    mean = np.mean([linear.query(one) for one in obs], axis=0)
    np.testing.assert_allclose(linear.query(obs), mean, rtol=1e-4, atol=1e-6)
    single = np.stack([cosine.query(one) for one in obs])
    before = cosine.state_dict()

    def drawn() -> list[int]:
        return [int(np.abs(single - cosine.query(obs)).max(1).argmin()) for _ in range(60)]

    first = drawn()
    assert min(np.bincount(first, minlength=3)) > 8
    cosine.load_state_dict(before)
    assert drawn() == first


def test_a_state_of_another_learner_is_refused(tmp_path: Path) -> None:
    space = spaces.Box(-1.0, 1.0, (3,))
    NeedModel(space, learner="spectral").save(tmp_path / "need")
    with pytest.raises(NeedReplayError, match=r"learner 'spectral'.*'cosine' here"):
        NeedModel(space).load(tmp_path / "need")
    earlier = {k: v for k, v in NeedModel(space).state_dict().items() if k != "learner"}
    with pytest.raises(NeedReplayError, match="earlier version"):
        NeedModel(space).load_state_dict(earlier)


def test_what_a_sampler_cannot_take_is_named_as_it_was_given() -> None:
    model = NeedModel(spaces.Box(-1.0, 1.0, (3,)))
    with pytest.raises(NeedReplayError, match=r"need_alpha is -1"):
        model.sampler(need_alpha=-1.0)
    with pytest.raises(NeedReplayError, match="batch_size is 1"):
        NeedModel(spaces.Box(-1.0, 1.0, (3,)), batch_size=1)


def test_only_own_layers_of_models_by_contrast_are_normalized() -> None:
    space, rows = spaces.Box(-9, 9, (3,)), torch.randn(5, 3) + 2.0
    for learner in ("cosine", "spectral", "linear"):
        normalizes = learner != "linear"
        own = NeedModel(space, learner=learner).learner.hidden(rows)
        assert bool(own.mean(1).abs().max() < 1e-5) is normalizes
        assert bool((own.var(1, correction=0) - 1.0).abs().max() < 1e-2) is normalizes
        given = NeedModel(space, learner=learner, features=lambda x: 2.0 * x).learner
        assert torch.equal(given.hidden(rows), 2.0 * rows)


def test_convolutions_of_models_by_contrast_have_half_the_filters() -> None:
    for shape, filters in (((4, 10, 10), [16]), ((4, 84, 84), [32, 64, 64])):
        for learner in ("cosine", "spectral", "linear"):
            body = NeedModel(spaces.Box(0, 1, shape), learner=learner).learner.body
            layers = [each for each in body.modules() if isinstance(each, torch.nn.Conv2d)]
            part = 1 if learner == "linear" else 2
            assert [layer.out_channels for layer in layers] == [n // part for n in filters]


def test_units_of_models_by_contrast_cannot_all_fall_silent() -> None:
    """A shift of all units does not reach the last ReLU, since they are normalized before it."""
    space, rows = spaces.Box(-9, 9, (3,)), torch.randn(5, 3)
    for learner in ("cosine", "spectral", "linear"):
        model = NeedModel(space, learner=learner).learner
        *_, last = (layer for layer in model.body.modules() if isinstance(layer, torch.nn.Linear))
        with torch.no_grad():
            last.bias.sub_(100.0)
        told_apart = bool(model.hidden(rows).std(0).max() > 0.0)
        assert told_apart is (learner != "linear")


def test_need_by_cosine_begins_as_similarity() -> None:
    """Before any update nothing is nearer to a state than itself, and then the two heads part."""
    buffer = walk()[0]
    model = NeedModel(spaces.Discrete(N))

    def similarity() -> Any:
        """(1 + cos(u, b)) / 2, of state 0 and all states."""
        vectors = model.features(np.arange(N))
        return vectors @ model.query(0) / vectors[:, -1]

    assert similarity()[0] == pytest.approx(1.0, rel=1e-5)
    assert similarity()[1:].max() < 0.999
    for _ in range(20):
        model.learn(buffer)
    assert similarity()[0] < 0.999


def test_sampling_by_it_follows_the_discounted_future() -> None:
    buffer, p, (_, successor) = walk()
    model = NeedModel(
        spaces.Discrete(N),
        discount=DISCOUNT,
        learner="linear",
        features=lambda codes: codes,
        batch_size=256,
    )
    for _ in range(400):
        model.learn(buffer)
    by_need = ReplayBuffer.for_spaces(
        spaces.Discrete(N), np.int64, capacity=3_000, sampler=model.sampler()
    )
    columns = buffer.read(np.arange(3_000))
    for obs in columns["obs"]:
        by_need.add(
            obs=obs,
            action=0,
            reward=0.0,
            next_obs=obs,
            terminated=False,
            truncated=False,
            features=model.features(obs),
        )
    batch = by_need.sample(20_000, need=model.query(2))
    shares = np.bincount(batch["obs"], minlength=N) / 20_000
    np.testing.assert_allclose(shares, successor[2] / successor[2].sum(), atol=0.03)
    assert np.abs(p - shares).max() > 0.1


SPACES: dict[str, Any] = {
    "row": spaces.Box(-1.0, 1.0, (3,)),
    "planes": spaces.Box(0, 1, (4, 10, 10), np.uint8),
    "bool planes": spaces.Box(0, 1, (4, 10, 10), np.bool_),
    "pixels, channels last": spaces.Box(0, 255, (12, 12, 3), np.uint8),
    "stack of frames": spaces.Box(0, 255, (4, 40, 40), np.uint8),
    "matrix": spaces.Box(-1.0, 1.0, (2, 3), np.float64),
    "numbered": spaces.Discrete(5, start=1),
    "several numbered": spaces.MultiDiscrete([2, 3]),
    "bits": spaces.MultiBinary(4),
    "dict": spaces.Dict({"a": spaces.Box(-1.0, 1.0, (2, 2)), "b": spaces.Discrete(3)}),
}


def _stacked(space: Any, given: list[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: np.stack([each[key] for each in given]) for key in space.spaces}
    return np.stack(given)


@pytest.mark.parametrize("name", SPACES)
def test_every_kind_of_observation(name: str) -> None:
    space = SPACES[name]
    space.seed(0)
    model = NeedModel(space, batch_size=32)
    buffer = ReplayBuffer.for_spaces(
        space,
        spaces.Box(-1.0, 1.0, (2,)),
        capacity=16,
        n_envs=2,
        autoreset="same_step",
        sampler=model.sampler(),
    )
    losses: list[float] = []
    for t in range(20):
        obs, after = (_stacked(space, [space.sample() for _ in range(2)]) for _ in range(2))
        buffer.add(
            obs=obs,
            next_obs=after,
            action=np.zeros((2, 2), np.float32),
            reward=np.zeros(2),
            terminated=np.full(2, t % 7 == 6),
            truncated=np.zeros(2, bool),
            features=model.features(obs),
        )
        losses.append(model.learn(buffer))
    assert np.isfinite(losses).sum() > 10
    one = space.sample()
    batch = buffer.sample(8, need=model.query(one))
    needs = model.need(one, batch["obs"])
    assert needs.shape == (8,)
    assert (needs > 0.0).all()
    model.refresh(buffer, count=5)
    model.refresh(buffer, ids=batch.ids)
    # A batch of observations is as many single ones.
    pair = _stacked(space, [one, space.sample()])
    np.testing.assert_allclose(model.features(pair)[0], model.features(one), rtol=1e-4)
    assert model.query(pair).shape == model.query(one).shape == (model.n_features,)


def test_probabilities_are_priority_times_need() -> None:
    """The stored inner products are the model's own."""
    space = SPACES["row"]
    space.seed(0)
    model = NeedModel(space)
    buffer = ReplayBuffer.for_spaces(space, np.int64, capacity=32, sampler=model.sampler(alpha=1.0))
    for _ in range(32):
        obs = space.sample()
        buffer.add(
            obs=obs,
            next_obs=obs,
            action=0,
            reward=0.0,
            terminated=False,
            truncated=False,
            features=model.features(obs),
        )
    priorities = np.linspace(0.1, 1.0, 32)
    buffer.update_priorities(np.arange(32), priorities)
    one = space.sample()
    batch = buffer.sample(64, need=model.query(one))
    scores = priorities * model.need(one, buffer.read(np.arange(32))["obs"])
    factors = batch.probabilities * scores.sum() / scores[batch.ids]
    if batch.normalized:
        assert factors[0] == pytest.approx(1.0, rel=1e-4)
    np.testing.assert_allclose(factors, factors[0], rtol=1e-4)


def test_saved_and_loaded_it_learns_the_same(tmp_path: Path) -> None:
    buffer, _, _ = walk()
    first, second = (NeedModel(spaces.Discrete(N), seed=seed) for seed in (3, 4))
    for _ in range(3):
        first.learn(buffer)
    first.save(tmp_path / "need.pt")
    second.load(tmp_path / "need.pt")
    assert second.updates == 3
    losses = [[model.learn(buffer) for _ in range(3)] for model in (first, second)]
    assert losses[0] == losses[1]
    again = NeedModel(spaces.Discrete(N), seed=3)
    assert [again.learn(buffer) for _ in range(6)][3:] == losses[0]
    with pytest.raises(NeedReplayError, match="is not what save"):
        NeedModel(spaces.Discrete(N + 1)).load(tmp_path / "need.pt")


def test_refusals() -> None:
    buffer, _, _ = walk()
    space = SPACES["row"]
    with pytest.raises(NeedReplayError, match="learn takes the buffer"):
        NeedModel(spaces.Discrete(N)).learn(buffer.sample(4))  # type: ignore[arg-type]
    with pytest.raises(NeedReplayError, match="below 1"):
        NeedModel(space, discount=1.0)
    with pytest.raises(NeedReplayError, match="cosine"):
        NeedModel(space, learner="magic")
    with pytest.raises(NeedReplayError, match="'mission'"):
        NeedModel(spaces.Dict({"mission": spaces.Text(10)}))
    with pytest.raises(NeedReplayError, match=r"\(4,\)"):
        NeedModel(space).query(np.zeros(4))
    with pytest.raises(NeedReplayError, match="a row of numbers"):
        NeedModel(space, features=lambda obs: obs.sum())


def test_need_sees_a_small_thing_that_moves_in_a_large_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in Atari: on frames as they are, need stays near chance."""
    space = spaces.Box(0, 255, (1, 36, 36), np.uint8)
    rng = np.random.default_rng(0)
    background = rng.integers(0, 200, (36, 36))

    def frame(time: int) -> Any:
        picture = background.astype(np.uint8)
        angle = 2.0 * np.pi * time / 60.0
        row, column = int(17 + 12 * np.sin(angle)), int(17 + 12 * np.cos(angle))
        picture[row : row + 2, column : column + 2] = 255
        return picture[None]

    buffer = ReplayBuffer.for_spaces(space, spaces.Discrete(2), capacity=1_200)
    for start in rng.integers(60, size=20):
        for time in range(start, start + 60):
            buffer.add(
                obs=frame(time),
                next_obs=frame(time + 1),
                action=0,
                reward=0.0,
                terminated=False,
                truncated=time == start + 59,
            )
    model = NeedModel(space, batch_size=32)
    for _ in range(150):
        model.learn(buffer)
    assert model.quality(buffer).auc > 0.8
    # Its picture of the frames is saved with it.
    again = NeedModel(space, batch_size=32)
    again.load_state_dict(model.state_dict())
    assert again.learn(buffer) == model.learn(buffer)
    monkeypatch.setattr(need_model._Standardized, "fit", lambda *_: None)
    raw = NeedModel(space, batch_size=32)
    for _ in range(150):
        raw.learn(buffer)
    assert raw.quality(buffer).auc < 0.65


def test_a_model_trains_beside_an_environment() -> None:
    """The usage that the docstring shows, in a vector environment with continuous actions."""
    torch.manual_seed(0)
    envs = gymnasium.make_vec("Pendulum-v1", num_envs=3)
    need = NeedModel(envs.single_observation_space, discount=0.9)
    buffer = ReplayBuffer.for_spaces(
        envs.single_observation_space,
        envs.single_action_space,
        capacity=500,
        n_envs=3,
        autoreset="next_step",
        sampler=need.sampler(),
    )
    obs, _ = envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(60):
        action = envs.action_space.sample()
        after, reward, terminated, truncated, _ = envs.step(action)
        buffer.add(
            obs=obs,
            action=action,
            reward=reward,
            next_obs=after,
            terminated=terminated,
            truncated=truncated,
            features=need.features(obs),
        )
        obs = after
        need.learn(buffer)
        batch = buffer.sample(16, need=need.query(obs))
        need.refresh(buffer, count=8)
    assert len(batch) == 16
    # Of one open episode none is withheld; a buffer that is all new to the model has some.
    assert np.isnan(need.quality(buffer).auc)
    assert "not measured yet" in need.quality(buffer).text()
    assert 0.0 <= need.quality(buffer, queries=4, new=True).auc <= 1.0


@pytest.mark.parametrize("learner", ["cosine", "spectral"])
def test_given_layers_are_not_trained(learner: str) -> None:
    layer = torch.nn.Linear(4, 10)
    before = layer.weight.detach().clone()
    space = spaces.Box(-1.0, 1.0, (4,))
    model = NeedModel(space, learner=learner, features=layer)
    assert (
        model.n_features
        == NeedModel(space, learner=learner, features=lambda x: layer(x)).n_features
    )
    buffer = ReplayBuffer.for_spaces(space, spaces.Discrete(2), capacity=100)
    rows = np.random.default_rng(0).uniform(-1, 1, (101, 4)).astype(np.float32)
    for now, then in itertools.pairwise(rows):
        buffer.add(obs=now, action=0, reward=0.0, next_obs=then, terminated=False, truncated=False)
    for _ in range(3):
        model.learn(buffer)
    assert torch.equal(layer.weight, before)
