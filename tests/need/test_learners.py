"""The learners of need, against closed forms and hand-worked losses."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from needreplay import NeedModel, ReplayBuffer
from needreplay.need import model as need_model
from needreplay.need.form import NeedForm, tabular_need
from needreplay.need.learners import contrast_loss

from .walks import CHAIN, DISCOUNT, MAZE, N, walk


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


BY_CONTRAST = ["cosine", "spectral"]


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


@pytest.mark.parametrize("learner", BY_CONTRAST)
def test_states_are_contrasted_with_uniform_ones_alone(learner: str) -> None:
    """Rows 3 and 4 look; they are contrasted with rows 0 to 3, and row 3 not with itself."""
    model = NeedModel(spaces.Box(-9, 9, (3,)), learner=learner).learner
    generator = torch.Generator().manual_seed(0)
    obs, later = torch.randn(6, 3, generator=generator), torch.randn(2, 3, generator=generator)
    found = model.loss(obs, later, torch.tensor([3, 4]), 4)
    assert found is not None
    with torch.no_grad():
        queries = model.query(model.hidden(obs[3:5]))
        own = (queries * model.stored(model.hidden(later))).sum(1).numpy()
        others = (queries @ model.stored(model.hidden(obs[:4])).T).numpy()
    others[0, 3] = 0.0
    if learner == "cosine":
        need = np.maximum(np.column_stack([own, others]), 1e-4) ** 6
        need[0, 4] = 0.0
        expected = -np.log(need[:, 0] / need.sum(1)).mean()
    else:
        expected = np.square(others).sum() / 7 - 2.0 * own.mean()
    assert found.item() == pytest.approx(expected, rel=1e-4)


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
            assert isinstance(body, torch.nn.Module)
            layers = [each for each in body.modules() if isinstance(each, torch.nn.Conv2d)]
            part = 1 if learner == "linear" else 2
            assert [layer.out_channels for layer in layers] == [n // part for n in filters]


def test_units_of_models_by_contrast_cannot_all_fall_silent() -> None:
    """A shift of all units does not reach the last ReLU, since they are normalized before it."""
    space, rows = spaces.Box(-9, 9, (3,)), torch.randn(5, 3)
    for learner in ("cosine", "spectral", "linear"):
        model = NeedModel(space, learner=learner).learner
        assert isinstance(model.body, torch.nn.Module)
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
