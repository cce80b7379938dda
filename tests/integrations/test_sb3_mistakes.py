"""Mistakes that would make replay wrong in silence: each is an error or one warning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from torch.nn import functional as F  # noqa: N812

from needreplay import NeedReplayError, NeedReplayWarning
from needreplay.integrations import sb3
from needreplay.integrations.sb3 import PrioritizedReplay, PrioritizedReplayBuffer, UniformReplay

from .sb3_models import Walk, assert_same, priorities, small


class Own(stable_baselines3.DQN):
    """A DQN with a ``train`` that forgets priorities."""

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:  # noqa: ARG002
        buffer: Any = self.replay_buffer
        data = buffer.sample(batch_size, env=self._vec_normalize_env)
        q = self.q_net(data.observations).gather(1, data.actions)
        loss = F.mse_loss(q, data.rewards)
        self.policy.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.policy.optimizer.step()


def with_loss(body: str) -> Any:
    """A class of ours over one of Stable-Baselines3 whose ``train`` is ``body``."""
    names: dict[str, Any] = {"F": F}
    exec(f"def train(self, gradient_steps, batch_size=100):{body}", names)
    theirs = type("Theirs", (stable_baselines3.DQN,), {"train": names["train"]})
    return type("WithLoss", (sb3.WithReplay, theirs), {})


BODY = """
    data = self.replay_buffer.sample(batch_size)
    q = self.q_net(data.observations).gather(1, data.actions)
    loss = {loss}
    self.policy.optimizer.zero_grad()
    loss.backward()
    self.policy.optimizer.step()
"""


def learned(loss: str, steps: int = 60) -> Any:
    return small("DQN", cls=with_loss(BODY.format(loss=loss))).learn(steps)


def test_a_loss_that_names_the_target_first_is_the_same() -> None:
    first, second = learned("F.mse_loss(data.rewards, q)"), learned("F.mse_loss(q, data.rewards)")
    assert_same(first, second)
    np.testing.assert_array_equal(priorities(first), priorities(second))


def test_a_loss_without_a_target_is_rejected() -> None:
    for loss in ("F.mse_loss(q, 2 * q)", "q.mean() + F.mse_loss(data.rewards, data.rewards)"):
        with pytest.raises(NeedReplayError, match="cannot tell the prediction from the target"):
            learned(loss)


@pytest.mark.parametrize(
    ("auxiliary", "message"),
    [
        ("F.mse_loss(q, data.dones)", "TD errors of 2 critics, but there are 1"),
        ("F.mse_loss(q[:3], data.dones[:3])", "of 3 rows is not that of the 16 transitions"),
    ],
)
def test_an_auxiliary_loss_is_no_td_error(auxiliary: str, message: str) -> None:
    with pytest.raises(NeedReplayError, match=message):
        learned(f"F.mse_loss(q, data.rewards) + {auxiliary}")


def test_another_name_keeps_an_auxiliary_loss_out() -> None:
    auxiliary = "0.0 * __import__('torch').nn.functional.mse_loss(q, data.dones)"
    model = learned(f"F.mse_loss(q, data.rewards) + {auxiliary}")
    np.testing.assert_array_equal(
        priorities(model), priorities(learned("F.mse_loss(q, data.rewards)"))
    )


@pytest.mark.parametrize("how", ["own train", "sb3's class loads ours"])
def test_priorities_that_are_never_updated(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("needreplay.replay.watch.FORGOTTEN", 5)
    if how == "own train":
        kwargs = {"replay_buffer_class": PrioritizedReplayBuffer}
        model = small("DQN", cls=Own, **kwargs)
    else:
        small("DQN").learn(20).save(tmp_path / "model")
        model = stable_baselines3.DQN.load(tmp_path / "model", env=Walk())
    with pytest.warns(NeedReplayWarning, match="update_priorities was never called") as caught:
        model.learn(80)
    assert len(caught) == 1
    for replay in (PrioritizedReplay(), sb3.NeedReplay()):
        small("DQN", replay=replay).learn(80)  # ours: no warning, which would be an error


@pytest.mark.parametrize("changed", ["n_envs", "observation_space", "replay"])
def test_a_buffer_of_another_environment_is_rejected_when_it_is_loaded(
    changed: str, tmp_path: Path
) -> None:
    small("DQN", make_vec_env(lambda: Walk(), 2)).learn(40).save_replay_buffer(tmp_path / "b")
    obs = spaces.Box(0.0, 1.0, (3,)) if changed == "observation_space" else None
    env = make_vec_env(lambda: Walk(obs=obs), 3 if changed == "n_envs" else 2)
    replay = UniformReplay() if changed == "replay" else PrioritizedReplay()
    model = small("DQN", env, replay=replay)
    before = model.replay_buffer
    message = "does not fit replay" if changed == "replay" else f"has {changed} "
    with pytest.raises(NeedReplayError, match=message):
        model.load_replay_buffer(tmp_path / "b")
    assert model.replay_buffer is before


@pytest.mark.parametrize("n_steps", [1, 3])
def test_a_model_of_sb3_is_loaded_with_prioritized_replay(n_steps: int, tmp_path: Path) -> None:
    theirs = small("DQN", cls=stable_baselines3.DQN, n_steps=n_steps).learn(60)
    theirs.save(tmp_path / "model")
    model = sb3.DQN.load(tmp_path / "model", env=Walk())
    assert_same(theirs, model)
    assert isinstance(model.replay_buffer, PrioritizedReplayBuffer)
    assert model.replay_buffer.n_steps == n_steps
    updates = model._n_updates
    assert model.learn(60)._n_updates > updates
    assert (priorities(model)[: len(model.replay_buffer.buffer)] != 1.0).any()


@pytest.mark.parametrize("saving", [False, True], ids=["", "optimize_memory_usage"])
@pytest.mark.parametrize("steps", [32, 132])
def test_a_buffer_of_sb3_is_converted(steps: int, saving: bool) -> None:
    """Partly filled, and after a wrap-around: the same transitions in the same order."""
    extra: dict[str, Any] = {"replay_buffer_kwargs": {"handle_timeout_termination": not saving}}
    options: dict[str, Any] = {"buffer_size": 100, "learning_starts": 10**6, **extra}
    theirs = small(
        "DQN",
        make_vec_env(lambda: Walk(), 2),
        cls=stable_baselines3.DQN,
        optimize_memory_usage=saving,
        **options,
    )
    other: Any = theirs.learn(2 * steps).replay_buffer
    mine = small("DQN", make_vec_env(lambda: Walk(), 2), **options).replay_buffer
    mine.fill_from(other)
    count = 2 * other.size()
    begin = other.pos if other.full else 0
    rows = (np.arange(other.size()) + begin) % other.buffer_size
    found = mine.buffer.read(np.arange(mine.buffer.oldest_id, mine.buffer.next_id))
    assert len(mine.buffer) == count == min(100, 2 * steps)
    np.testing.assert_array_equal(found["obs"].reshape(-1, 2, 2), other.observations[rows])
    np.testing.assert_array_equal(found["reward"].reshape(-1, 2), other.rewards[rows])
    terminal = other.dones[rows] * (1 - other.timeouts[rows])
    np.testing.assert_array_equal(found["discount"].reshape(-1, 2) == 0.0, terminal == 1.0)
    if not saving:
        after = other.next_observations[rows]
        np.testing.assert_array_equal(found["next_obs"].reshape(-1, 2, 2), after)
    with pytest.raises(NeedReplayError, match="has n_envs 2"):
        small("DQN").replay_buffer.fill_from(other)
    assert isinstance(other, ReplayBuffer)


def test_facts_of_need_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("needreplay.integrations.sb3.algorithms.LOG_EVERY", 5)
    monkeypatch.setattr("needreplay.integrations.sb3.algorithms.MEASURE_EVERY", 20)
    model = small("DQN", replay=sb3.NeedReplay(), train_freq=1)
    logged: dict[str, list[float]] = {}
    model.set_logger(configure(None, []))
    record = model.logger.record

    def kept(name: str, value: Any, *args: Any, **options: Any) -> None:
        logged.setdefault(name, []).append(value)
        record(name, value, *args, **options)

    model.logger.record = kept
    model.learn(120)
    assert len(logged["need/auc"]) == len(logged["need/auc_baseline"]) == model._n_updates // 20
    assert len(logged["need/acceptance"]) == model._n_updates // 5
    assert 0.0 < logged["need/acceptance"][-1] <= 1.0
    assert logged["need/without_vector"][-1] == 0.0
    assert 0 < logged["need/oldest_vector"][-1] <= model._n_updates
    assert torch.get_num_threads() == 1
