"""``NeedModel``: a learned need for any learner, in a form that samples exactly.

Need(s, s') = q(s) · v(s'), or a power of it. The buffer stores v of each transition, ``query`` is q
of the present state, and ``learners`` has the ways to learn the two. At its optimum need is
proportional to p(s' in the discounted future of s) / p(s' in the buffer): just the weight under
which samples from the buffer follow that future. The states that it is contrasted with are
therefore drawn uniformly from the buffer, by the model's own random numbers, and never from a
prioritized batch. For backward need the two vectors change places.
"""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Space
from torch import Tensor

from needreplay._core.checks import COUNT, check_number
from needreplay._core.devices import checked_device
from needreplay._core.errors import NeedReplayError, unknown, warn
from needreplay._core.files import replacing
from needreplay._core.rng import stream
from needreplay._core.types import BoolArray, Columns, FloatArray, IntArray, Observation
from needreplay.need.form import NeedForm
from needreplay.need.inputs import Inputs
from needreplay.need.learners import LEARNERS, Learner, Linear
from needreplay.need.networks import Standardized, given_features, need_layers
from needreplay.need.quality import (
    WITHHOLD,
    NeedQuality,
    NeedsOf,
    need_quality,
    withholds,
)
from needreplay.replay import Batch, ReplayBuffer
from needreplay.replay.samplers import FeatureNeedSampler
from needreplay.replay.samplers.need import CorrectFor, FeatureStore
from needreplay.replay.watch import FORGOTTEN

STATISTICS = 256
"""Frames whose mean and deviation standardize them, drawn at a model's first update."""
STALE = 10_000
"""So many batches and updates without a vector that was computed again are a mistake."""
NEWEST = 2_000
"""Half of the states that a contrastive model learns to see need from are among so many newest
transitions, and so are the states that need is seen from if the query is a recent one."""


class NeedModel:
    """Learns need from the transitions of a buffer, whoever acts and however it learns.

        model = NeedModel(env.observation_space, discount=0.9)
        buffer = NeedBuffer.for_env(env, capacity=100_000, model=model)  # does all that need takes
        batch = buffer.sample(256, obs)  # gain x need, exactly

    With a plain ``ReplayBuffer`` these are yours to do: ``add(features=model.features(obs))``,
    ``sample(need=model.query(obs))``, ``model.learn(buffer)``, and now and then ``set_features`` of
    older transitions.

    Args:
        observation_space: of one environment: Box (rows, images, stacks), Discrete, MultiDiscrete,
            MultiBinary, or a Dict of these, which is flattened to a row.
        discount: γ of need: it looks about 1 / (1 - γ) steps ahead.
        learner: ``cosine``, ``spectral`` or ``linear``; see ``needreplay.need.learners``.
        form: which need: seen from where, forward or backward, M / p or M. Contrastive learners
            learn M / p, ``linear`` either. Default: the present state, forward, M / p.
        features: your own features of observations, a function from a tensor (a row for each
            observation, floats) to a tensor with two axes. It is not trained. Default: layers of
            the model's own.
        batch_size: uniform states that an update learns from, at least 2. A contrastive model sees
            need from half as many, and compares each with all.
        learning_rate: step size of Adam.
        withhold: one in so many episodes is not learned from, for ``quality``; 0: none.
        seed: decides the initial layers and the transitions that the model learns from.
        device: where the layers are.
    """

    def __init__(
        self,
        observation_space: Space[Observation],
        *,
        discount: float = 0.9,
        learner: str = "cosine",
        form: NeedForm | None = None,
        features: Callable[[Tensor], Tensor] | None = None,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        withhold: int = WITHHOLD,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        check_number("withhold", withhold, int, COUNT)
        if withhold == 1:
            raise NeedReplayError(
                "withhold is 1, which leaves no episode to learn from; pass 2 or more, or 0 to "
                "withhold none."
            )
        check_number("discount", discount, float, (0.0, 1.0))
        check_number("batch_size", batch_size, int, (2, math.inf))
        if discount >= 1.0:
            raise NeedReplayError(f"discount is {discount}; need takes one from 0 to below 1.")
        if learner not in LEARNERS:
            raise unknown("learner of need", learner, LEARNERS)
        self.form = _checked_form(form, learner)
        self.discount, self.batch_size, self.withhold = float(discount), batch_size, withhold
        self._made_with = {
            "discount": discount, "learner": learner, "form": form, "features": features,
            "seed": seed, "device": device,
        }  # fmt: skip
        self._space = observation_space
        self.device = checked_device(device)
        self.learner_name, self.updates = learner, 0
        self._queries, self._has_looked = 0, False
        self._inputs = Inputs(observation_space, self.device)
        shape = self._inputs.shape
        self._rng = stream(seed, "need model")
        self._query_rng = stream(seed, "need query")
        # Layers are initialized on the CPU, so that a seed means the same on every device.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(stream(seed, "need networks").integers(2**62)))
            contrastive = LEARNERS[learner].is_contrastive
            body, n_hidden = (
                need_layers(shape, contrastive=contrastive)
                if features is None
                else given_features(features, torch.zeros(1, *shape, device=self.device))
            )
            self.learner: Learner = (
                Linear(body, n_hidden, self.discount, self.form)
                if learner == "linear"
                else LEARNERS[learner](body, n_hidden)
            ).to(self.device)
        parameters = list(self.learner.parameters())
        fused = self.device.type in ("cpu", "cuda")
        self.optimizer = (
            torch.optim.Adam(parameters, lr=learning_rate, fused=fused) if parameters else None
        )

    def __repr__(self) -> str:
        usual = _checked_form(None, self.learner_name)
        form = "" if self.form == usual else f"{self.form}, "
        return (
            f"<NeedModel: {self.learner_name}, discount={self.discount}, {form}"
            f"{self.updates:,} updates>"
        )

    @property
    def n_features(self) -> int:
        """Numbers that the buffer stores for each transition."""
        return self.learner.n_vector

    def sampler(
        self,
        *,
        alpha: float = 0.6,
        need_alpha: float = 1.0,
        correct_for: CorrectFor = "gain",
        uniform_mix: float = 0.0,
    ) -> FeatureNeedSampler:
        """A sampler by gain and this model's need; the arguments are ``FeatureNeedSampler``'s.

        If need is a power of q · v, that is part of the sampler's own ``need_alpha``.
        """
        check_number("need_alpha", need_alpha, float, (0.0, math.inf))
        return FeatureNeedSampler(
            self.n_features,
            raw=True,
            alpha=alpha,
            need_alpha=need_alpha * self.learner.power,
            correct_for=correct_for,
            uniform_mix=uniform_mix,
        )

    # Using ---------------------------------------------------------------------------------------

    def features(self, obs: Observation) -> FloatArray:
        """v of one observation or of a batch: what ``add(features=...)`` takes."""
        return self._vectors(obs, self._stored_of)

    def query(self, obs: Observation) -> FloatArray:
        """q of one observation: what ``sample(need=...)`` of a ``ReplayBuffer`` takes."""
        return self.queries(self._one_of(obs))

    def views(self, buffer: ReplayBuffer, size: int, obs: Observation) -> Observation:
        """The observations that need is seen from, by ``form``.

        The present one (of several environments one of theirs, drawn at random), or ``size`` of
        ``buffer``: recent ones, or starts of episodes.
        """
        if self.form.query == "present":
            if obs is None:
                raise NeedReplayError(
                    "obs is None, but need is seen from the present state; pass the observation "
                    "that the agent acts on next, or those of all environments."
                )
            return self._one_of(obs)
        first, end = buffer.oldest_id, buffer.next_id
        if self.form.query == "recent":
            ids = self._query_rng.integers(max(first, end - NEWEST), end, size)
        else:
            ids = self._query_rng.choice(_starts(buffer, first, end), size)
        return buffer.read(ids)["obs"]

    def _one_of(self, obs: Observation) -> Observation:
        """One observation of a batch of several environments'; any other as it is."""
        arrays, is_batch = self._inputs.arrays(obs)
        if not is_batch:
            return obs
        return _row(obs, int(self._query_rng.integers(len(arrays[0]))))

    def queries(self, views: Observation) -> FloatArray:
        """q of one observation, or of each of a batch."""
        self._count_query()
        return self._vectors(views, self._query_of)

    def vectors(self, columns: Columns) -> FloatArray:
        """v of transitions with these columns: what ``set_features`` takes."""
        return self.features(columns["obs"])

    @torch.no_grad()
    def vectors_and_queries(
        self, columns: Columns, views: Observation
    ) -> tuple[FloatArray, FloatArray]:
        """``vectors`` and ``queries``, in one pass through the layers."""
        self._count_query()
        rows, (seen, is_batch) = self._inputs.tensor(columns["obs"])[0], self._inputs.tensor(views)
        hidden = self.learner.hidden(torch.cat((rows, seen)))
        vectors = self._stored_of(hidden[: len(rows)])
        queries = self._query_of(hidden[len(rows) :])
        return vectors.cpu().numpy(), (queries if is_batch else queries[0]).cpu().numpy()

    def loss(self, batch: Batch, passed: object = None) -> None:
        """None: the model learns on its own, by ``learn``, and never from a prioritized batch."""

    def _count_query(self) -> None:
        """Warn, once, where need is asked for and never learned."""
        self._queries += 1
        if self._queries == FORGOTTEN and not self.updates:
            warn(
                f"Need was asked for {FORGOTTEN:,} times, and the model was never updated, so need "
                "is that of random layers. Call model.learn(buffer) as you train, or use "
                "NeedBuffer, which does."
            )

    def _look_at_vectors(self, buffer: ReplayBuffer) -> None:
        """Warn, once, where the buffer has the vectors of what was learned long ago."""
        features: FeatureStore | None = getattr(buffer.sampler, "features", None)
        if features is None or features.oldest_age < STALE:
            return
        self._has_looked = True
        if features.are_first(np.arange(buffer.oldest_id, buffer.next_id) % buffer.capacity):
            warn(
                f"The model was updated {self.updates:,} times, and no stored vector was computed "
                "again since, so need is that of earlier layers. At each update take ids = "
                "buffer.next_to_refresh(16) and call buffer.set_features(ids, model.vectors("
                "buffer.read(ids))), or use NeedBuffer, which does."
            )

    @property
    def _stored_of(self) -> Callable[[Tensor], Tensor]:
        """What the buffer stores; backward need changes the places of the two vectors."""
        backward = self.form.direction == "backward"
        return self.learner.query if backward else self.learner.stored

    @property
    def _query_of(self) -> Callable[[Tensor], Tensor]:
        backward = self.form.direction == "backward"
        return self.learner.stored if backward else self.learner.query

    def need(self, obs: Observation, others: Observation) -> FloatArray:
        """The need of a batch of observations ``others``, seen from ``obs``.

        Use it to scale updates; it is known up to a factor that depends on ``obs``. Negative
        values, which ``cosine`` never has, stand for 0.
        """
        return self.need_of(self.features(others) @ self.query(obs))

    def needs(self, obs: Observation, others: Observation) -> FloatArray:
        """[i, j]: the need of observation j of a batch, seen from the i-th of the batch ``obs``."""
        return self.need_of(self.queries(obs) @ self.features(others).T)

    def needs_of(self, views: Observation, columns: Columns) -> FloatArray:
        """Need of transitions with these columns, seen from one observation or each of a batch."""
        return self.needs(views, columns["obs"])

    def need_of(self, products: FloatArray) -> FloatArray:
        """Need, from inner products of queries and features."""
        power = self.learner.power
        needs: FloatArray = products if power == 1 else np.maximum(products, 0.0) ** power
        return needs

    @torch.no_grad()
    def _vectors(self, obs: Observation, of: Callable[[Tensor], Tensor]) -> FloatArray:
        rows, is_batch = self._inputs.tensor(obs)
        vectors: FloatArray = of(self.learner.hidden(rows)).cpu().numpy()
        return vectors if is_batch else vectors[0]

    # Learning ------------------------------------------------------------------------------------

    def learn(self, buffer: ReplayBuffer) -> float:
        """One update from transitions of ``buffer``; returns the loss (NaN: nothing to learn yet).

        Transitions are drawn uniformly, but for withheld episodes. A contrastive model sees need
        from a quarter of them and as many of the newest, since need is asked for where the agent
        is, a geometric number of steps ahead, at least one. A future beyond the end of an episode
        does not count, which makes need that of the successor representation.
        """
        if not isinstance(buffer, ReplayBuffer):
            raise NeedReplayError(
                f"learn takes the buffer, not a {type(buffer).__name__}: need draws transitions "
                "of its own, whatever the sampler of the learner prefers."
            )
        if len(buffer) < 2:
            return math.nan
        if self.updates == 0 and isinstance(self.learner.body, Standardized):
            some = self._draw(buffer, buffer.oldest_id, buffer.next_id, STATISTICS)
            self.learner.body.fit(self._inputs.tensor(buffer.read(some)["obs"])[0])
        first, end = buffer.oldest_id, buffer.next_id
        ids = self._draw(buffer, first, end, self.batch_size)
        size = looks = len(ids)
        if size < 2:
            return math.nan
        steps: int | IntArray = 1
        if self.learner.is_contrastive:
            half = max(1, self.batch_size // 4)
            new = self._draw(buffer, max(first, end - NEWEST), end, half)
            ids, looks = np.concatenate([ids, new]), min(half, size) + len(new)
            steps = self._rng.geometric(1.0 - self.discount, looks)
        skipped = len(ids) - looks
        later = buffer.future(ids[skipped:], steps)
        known = np.flatnonzero(later >= 0)
        rows, _ = self._inputs.tensor(buffer.read(np.concatenate([ids, later[known]]))["obs"])
        which = torch.from_numpy(known + skipped).to(self.device)
        loss = self.learner.loss(rows[: len(ids)], rows[len(ids) :], which, size)
        self.updates += 1
        if not self._has_looked and self.updates % STALE == 0:
            self._look_at_vectors(buffer)
        if loss is None:
            return math.nan
        if self.optimizer is not None:
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        return float(loss.detach())

    def _draw(self, buffer: ReplayBuffer, first: int, end: int, count: int) -> IntArray:
        """At most ``count`` transitions from ``first`` to ``end``, none of a withheld episode."""
        if not self.withhold:
            return self._rng.integers(first, end, count)
        ids = self._rng.integers(first, end, count + count // 4 + 4)
        return ids[~self.withholds(buffer.episodes(ids)[0])][:count]

    def withholds(self, episodes: IntArray) -> BoolArray:
        """Of numbers of episodes: which ones are not learned from."""
        return withholds(episodes, self.withhold)

    def quality(
        self,
        buffer: ReplayBuffer,
        *,
        queries: int = 32,
        seed: int | np.random.Generator = 0,
        new: bool = False,
        needs_of: NeedsOf | None = None,
    ) -> NeedQuality:
        """How accurate need is on the withheld episodes of ``buffer``; see ``NeedQuality``.

        Args:
            buffer: with episodes.
            queries: states that need is seen from.
            seed: chooses them; a number, or a generator of random numbers.
            new: all episodes of ``buffer`` are new to the model, not only the withheld ones.
            needs_of: the need to measure, such as that of stored vectors; by default the model's.
        """
        untrained = NeedModel(self._space, **self._made_with)  # type: ignore[arg-type]
        ours, theirs = self.learner.body, untrained.learner.body
        if isinstance(ours, Standardized) and isinstance(theirs, Standardized):
            theirs.mean, theirs.deviation = ours.mean, ours.deviation
        return need_quality(
            buffer,
            needs_of or self.needs_of,
            stream(seed, "need quality") if isinstance(seed, int) else seed,
            withheld=(lambda n: np.ones(len(n), np.bool_)) if new else self.withholds,
            untrained=untrained.needs_of,
            direction=self.form.direction,
            queries=queries,
        )

    # Saving --------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Layers, optimizer, random state and counts: tensors and plain values alone."""
        optimizer = None if self.optimizer is None else self.optimizer.state_dict()
        streams = (self._rng, self._query_rng)
        return {
            "learner": self.learner_name,
            "network": self.learner.state_dict(),
            "optimizer": optimizer,
            "rng": json.dumps([each.bit_generator.state for each in streams]),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what ``state_dict`` of a model with the same settings returned."""
        if (found := state.get("learner")) != self.learner_name:
            saved = f"the learner {found!r}" if found else "an earlier version"
            raise NeedReplayError(
                f"This state is of {saved}; make the model with what it was made with "
                f"(learner is {self.learner_name!r} here)."
            )
        before = copy.deepcopy(self.state_dict())
        try:
            self._set_state(state)
        except BaseException:
            self._set_state(before)
            raise

    def _set_state(self, state: Mapping[str, Any]) -> None:
        self.learner.load_state_dict(state["network"])
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        states = json.loads(state["rng"])
        for each, random in zip((self._rng, self._query_rng), states, strict=True):
            each.bit_generator.state = random
        self.updates = int(state["updates"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``state_dict`` to a file, atomically."""
        with replacing(path) as file:
            torch.save(self.state_dict(), file)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Load what ``save`` wrote; loading runs no code of the file."""
        try:
            self.load_state_dict(torch.load(path, map_location=self.device, weights_only=True))
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise NeedReplayError(
                f"{os.fspath(path)!r} is not what save of a need model with these settings wrote: "
                f"{reason}"
            ) from error


def _checked_form(form: NeedForm | None, learner: str) -> NeedForm:
    known: tuple[bool, ...] = LEARNERS[learner].relative
    if form is None:
        return NeedForm(relative=known[0])
    if form.relative not in known:
        learned, others = ("M / p", "M") if known[0] else ("M", "M / p")
        can = [name for name, kind in LEARNERS.items() if form.relative in kind.relative]
        raise NeedReplayError(
            f"form asks for {others} (relative={form.relative}), but the learner {learner!r} "
            f"learns {learned} alone; pass relative={known[0]}, or choose a learner that can: "
            f"{', '.join(can)}."
        )
    return form


def _row(obs: Observation, index: int) -> Observation:
    """One row of a batch of observations."""
    if isinstance(obs, Mapping):
        return {key: _row(part, index) for key, part in obs.items()}
    return np.asarray(obs)[index]


def _starts(buffer: ReplayBuffer, first: int, end: int) -> IntArray:
    """First transitions of episodes among the newest transitions, or of the last one before."""
    reach = NEWEST
    while True:
        ids = np.arange(max(first, end - reach), end)
        starts: IntArray = ids[buffer.episodes(ids)[1] == 0]
        if len(starts):
            return starts
        if len(ids) == end - first:
            raise NeedReplayError(
                "No start of an episode is stored any more, so need cannot be seen from one; make "
                "the buffer larger than the longest episode."
            )
        reach *= 8
