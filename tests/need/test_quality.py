"""The quality of need: known needs have the numbers they must have; trivial ones do not pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from needreplay._core.errors import NeedReplayError
from needreplay.need import NeedModel, need_quality, withholds
from needreplay.need import quality as quality_module
from needreplay.need.form import accurate_need
from needreplay.need.quality import NeedQuality, Scores, auc
from needreplay.replay import ReplayBuffer


def one_in_five(episodes: Any) -> Any:
    return episodes % 5 == 1


def clock_buffer(episodes: int = 50, length: int = 40) -> ReplayBuffer:
    """Observations are 100 x the episode + the step."""
    buffer = ReplayBuffer.for_spaces((np.float64, (1,)), np.int64, capacity=episodes * length)
    for number in (100 * e + t for e in range(episodes) for t in range(length)):
        buffer.add(
            obs=[number],
            next_obs=[number + 1],
            action=0,
            reward=0.0,
            terminated=number % 100 == length - 1,
            truncated=False,
        )
    return buffer


def measured(score: Any, direction: Any = "forward", buffer: ReplayBuffer | None = None) -> Any:
    """The quality of a need that is a function of how far ahead a state is."""

    def needs_of(obs: Any, columns: Any) -> Any:
        return score(columns["obs"][:, 0] - obs)

    return need_quality(
        buffer or clock_buffer(),
        needs_of,
        np.random.default_rng(0),
        withheld=one_in_five,
        direction=direction,
        queries=64,
    )


def next_ten(ahead: Any) -> Any:
    return ((ahead > 0) & (ahead <= 10)).astype(float)


def numbers(quality: NeedQuality) -> tuple[float, ...]:
    return quality.auc, quality.auc_past, quality.auc_last, quality.auc_time


def test_auc_by_hand() -> None:
    assert auc(np.array([3.0, 1.0]), np.array([0.0, 1.0])) == 0.875
    assert math.isnan(auc(np.array([3.0]), np.zeros(0)))


def test_quality_of_known_need() -> None:
    """A clock as observation: perfect, flat and reversed need have the AUCs they must have."""
    perfect = measured(next_ten)
    assert numbers(perfect) == (1.0, 1.0, 1.0, 1.0)
    assert perfect.is_accurate
    flat = measured(np.ones_like)
    assert numbers(flat) == (0.5, 0.5, 0.5, 0.5)
    assert flat.variation == pytest.approx(0.0, abs=1e-9)
    assert flat.effective == pytest.approx(2_000)
    assert flat.nearness == pytest.approx(0.0, abs=1e-9)
    assert not flat.is_accurate
    near = measured(lambda ahead: np.exp(-np.abs(ahead - 5) / 5))
    assert near.auc == near.auc_last == 1.0
    assert near.nearness > 0.8
    assert 10 < near.effective < 200
    assert numbers(measured(lambda ahead: (np.abs(ahead) < 40).astype(float))) == (1, 0.5, 0.5, 1)
    clock = measured(lambda ahead: np.isin(ahead % 100, range(1, 11)).astype(float))
    assert (clock.auc_past, clock.auc_last, clock.auc_time) == (1.0, 1.0, 0.5)
    # Nearness alone does not know the last 10 states from the next 10, but it knows older ones.
    around = measured(lambda ahead: (np.abs(ahead) <= 10).astype(float))
    assert around.auc_last == 0.5
    assert 0.6 < around.auc_past < 0.9
    assert measured(lambda ahead: -next_ten(ahead)).auc == 0.0


def test_trivial_scores_beside_need() -> None:
    """Recency is at chance against states that are as old, and always right in its own episode."""
    quality = measured(next_ten)
    recency = quality.baselines["recency"]
    assert (recency.auc, recency.auc_past, recency.auc_last) == (0.5, 1.0, 1.0)
    # By construction, so it does not count there. The clock does not count anywhere.
    assert quality.baselines["clock"].auc_past > 0.75
    assert quality.best_baseline("auc_past") == quality.baselines["similarity"].auc_past
    # All episodes are as long: a state of another episode is at the same time as often as not.
    assert 0.7 < quality.baselines["clock"].auc < 0.95
    known = {name: s for name, s in quality.baselines.items() if name != "clock"}
    assert quality.best_baseline("auc_time") == max(s.auc_time for s in known.values())
    assert quality.baselines["clock"].auc_time == pytest.approx(0.5, abs=0.1)
    # The observations are the clock itself: those near in time are similar.
    assert quality.baselines["similarity"].auc == 1.0
    assert quality.baselines["similarity"].auc_last == pytest.approx(0.5, abs=0.1)
    assert quality.baselines["other query"].auc == pytest.approx(0.5, abs=0.1)
    assert "untrained" not in quality.baselines


@pytest.mark.parametrize(
    ("name", "expected"), [("recency", 0.5), ("noise", 0.5), ("clock", 0.75), ("reversed", 0.0)]
)
def test_a_need_that_does_not_know_the_future_does_not_pass(name: str, expected: float) -> None:
    """The old measure gave recency .98: queries were the newest, the others of any age."""
    rng, buffer = np.random.default_rng(0), clock_buffer()

    def needs_of(obs: Any, columns: Any) -> Any:
        ahead = columns["obs"][:, 0] - obs
        steps = columns["obs"][:, 0] % 100
        return {
            "recency": np.broadcast_to(columns["ids"], ahead.shape),
            "noise": rng.random(ahead.shape),
            "clock": -np.abs(steps - obs % 100),
            "reversed": np.where(ahead < 0, 1.0 / (1.0 + np.abs(ahead)), -np.abs(ahead)),
        }[name]

    quality = need_quality(
        buffer, needs_of, np.random.default_rng(0), withheld=one_in_five, queries=64
    )
    known = quality.auc_last if name == "reversed" else quality.auc
    assert known == pytest.approx(expected, abs=0.1)
    assert not quality.is_accurate
    assert "conclude nothing" in quality.text()


def ring_buffer(rng: np.random.Generator, *, shuffled: bool) -> ReplayBuffer:
    """Walks along a ring of 120 states with random codes; shuffled: from anywhere to anywhere."""
    codes = rng.normal(size=(120, 16)).astype(np.float32)
    buffer = ReplayBuffer.for_spaces((np.float32, (16,)), np.int64, capacity=4_000)
    for _ in range(100):
        path = rng.integers(120) + np.arange(41)
        if shuffled:
            path = rng.integers(120, size=41)
        for t in range(40):
            buffer.add(
                obs=codes[path[t] % 120],
                next_obs=codes[path[t + 1] % 120],
                action=0,
                reward=0.0,
                terminated=False,
                truncated=t == 39,
            )
    return buffer


def test_similarity_of_images_is_measured_blurred_and_by_planes_too() -> None:
    """A dot that moves a cell a step has no pixel in common but is near; a plane is a flag."""
    buffer = ReplayBuffer.for_spaces((np.uint8, (2, 8, 40)), np.int64, capacity=1_600)
    for episode in range(40):
        for t in range(40):
            obs = np.zeros((2, 8, 40), np.uint8)
            obs[0, episode % 8, t] = 1
            obs[1] = episode % 3 == 0
            buffer.add(
                obs=obs,
                next_obs=obs,
                action=0,
                reward=0.0,
                terminated=False,
                truncated=t == 39,
            )

    def flat(obs: Any, columns: Any) -> Any:
        return np.ones((len(obs), len(columns["ids"])))

    rng = np.random.default_rng(0)
    found = need_quality(buffer, flat, rng, withheld=one_in_five, queries=200).baselines
    assert found["blurred similarity"].auc_past > found["similarity"].auc_past + 0.1
    assert found["brightness"].auc > 0.65
    assert found["brightness"].auc_past == 0.5


def test_how_many_transitions_recent_queries_select_together() -> None:
    """Need selects the own episode, 40 of 2,000; the newest 2,000 are 50 episodes."""
    quality = measured(lambda ahead: (np.abs(ahead) < 40).astype(float) + 1e-12)
    assert quality.effective < 200
    assert quality.effective_recent > 800


@pytest.mark.parametrize("learner", ["cosine", "spectral"])
def test_a_model_passes_where_there_is_a_future_to_know_and_not_on_noise(learner: str) -> None:
    passed = {}
    for shuffled in (False, True):
        buffer = ring_buffer(np.random.default_rng(0), shuffled=shuffled)
        model = NeedModel(spaces.Box(-9.0, 9.0, (16,)), learner=learner)
        before = model.quality(buffer)
        for _ in range(1_000):
            model.learn(buffer)
        quality = model.quality(buffer)
        trivial = {"recency", "clock", "similarity", "untrained", "other query"}
        assert set(quality.baselines) == trivial
        assert quality.baselines["untrained"].auc == before.auc
        assert not before.is_accurate
        passed[shuffled] = quality.is_accurate
        if shuffled:
            assert quality.auc == pytest.approx(0.5, abs=0.07)
    assert passed == {False: True, True: False}


def test_withheld_episodes_are_never_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as queries, not as their future, not as what they are compared with."""
    buffer = clock_buffer()
    read: list[Any] = []
    original = ReplayBuffer.read

    def noted(self: ReplayBuffer, ids: Any) -> Any:
        read.append(ids)
        return original(self, ids)

    monkeypatch.setattr(ReplayBuffer, "read", noted)
    for withhold, expected in ((20, {5, 25, 45}), (2, set(range(1, 50, 2))), (0, set())):
        read.clear()
        model = NeedModel(spaces.Box(-9.0, 9.0, (1,)), withhold=withhold)
        for _ in range(100):
            model.learn(buffer)
        learned = set(buffer.episodes(np.concatenate(read))[0].tolist())
        assert learned == set(range(50)) - expected
    assert withholds(np.arange(46)).nonzero()[0].tolist() == [5, 25, 45]


def test_withhold_is_checked() -> None:
    with pytest.raises(NeedReplayError, match="withhold is 1"):
        NeedModel(spaces.Box(-9.0, 9.0, (1,)), withhold=1)
    with pytest.raises(NeedReplayError, match="withhold"):
        NeedModel(spaces.Box(-9.0, 9.0, (1,)), withhold=-2)


def test_backward_need_is_measured_on_the_past() -> None:
    last_ten = measured(lambda ahead: next_ten(-ahead), "backward")
    assert numbers(last_ten) == (1.0, 1.0, 1.0, 1.0)
    assert numbers(measured(next_ten, "backward"))[2] == 0.0
    assert last_ten.baselines["recency"].auc_past == 1.0


def test_the_gate() -> None:
    assert accurate_need(0.8, 0.7)
    assert not accurate_need(0.79, 0.5)
    assert not accurate_need(0.85, 0.76)
    # Near 1 a margin of .1 is not there to be had: half of what is left counts.
    assert accurate_need(0.97, 0.94)
    assert not accurate_need(0.96, 0.94)
    assert not accurate_need(math.nan, 0.5)
    assert not accurate_need(0.9, math.nan)
    nothing = Scores(math.nan, 0.6, 0.6, 0.6)
    quality = NeedQuality(0.9, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0, 1.0, {"similarity": nothing})
    assert not quality.is_accurate
    assert quality.best_baseline("auc_time") == 0.6


@pytest.mark.parametrize("steps", [0, 20, 21, 22])
def test_quality_of_an_episode_with_nothing_beside_it_is_unknown(steps: int) -> None:
    buffer = ReplayBuffer.for_spaces((np.float64, (1,)), np.int64, capacity=64)
    for number in range(steps):
        buffer.add(
            obs=[number],
            next_obs=[number + 1],
            action=0,
            reward=0.0,
            terminated=False,
            truncated=number == steps - 1,
        )

    def needs_of(obs: Any, columns: Any) -> Any:
        return columns["obs"][:, 0] - obs

    def everything(episodes: Any) -> Any:
        return np.ones(len(episodes), bool)

    rng = np.random.default_rng(0)
    quality = need_quality(buffer, needs_of, rng, withheld=everything)
    # There is no other episode; the own past is there from 21 steps on.
    assert math.isnan(quality.auc)
    assert math.isnan(quality.auc_past) == (steps < 21)
    assert math.isnan(need_quality(buffer, needs_of, rng, withheld=withholds).auc_past)


@pytest.mark.parametrize("n_step", [1, 3])
def test_quality_with_two_environments_in_a_full_ring(
    n_step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Episodes of 40 and 55 steps, side by side: none takes states of the other for its own."""
    buffer = ReplayBuffer.for_spaces(
        (np.float64, (1,)),
        np.int64,
        capacity=1_500,
        n_envs=2,
        n_step=n_step,
        autoreset="same_step",
    )
    lengths = np.array([40, 55])
    for step in range(1_200):
        episode, time = np.divmod(step, lengths)
        number = 100.0 * episode + time + [0.0, 50_000.0]
        buffer.add(
            obs=number[:, None],
            next_obs=number[:, None] + 1.0,
            action=np.zeros(2, np.int64),
            reward=np.zeros(2),
            terminated=time == lengths - 1,
            truncated=np.zeros(2, bool),
        )
    cases: list[Any] = []
    found = quality_module._cases

    def noted(*args: Any, **options: Any) -> Any:
        cases.extend(found(*args, **options))
        return cases

    monkeypatch.setattr(quality_module, "_cases", noted)
    assert numbers(measured(next_ten, buffer=buffer)) == (1.0, 1.0, 1.0, 1.0)
    earlier = [buffer.read(c.past)["obs"] - buffer.read([c.now])["obs"] for c in cases]
    assert len(earlier) == 64
    assert -55 < np.min(earlier) < -30
    assert np.max(earlier) < 0
    for case in cases:
        numbers_of, _ = buffer.episodes(np.concatenate([[case.now], case.others]))
        assert numbers_of[0] not in numbers_of[1:]
        # In pairs, one as much older than a next state as the other is newer.
        half = len(case.others) // 2
        middle = (case.others[:half] + case.others[half:]) / 2
        assert len(case.others) == 2 * half <= 40
        assert set(middle.tolist()) <= set(case.future.tolist())
