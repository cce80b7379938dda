"""Ways to learn need from pairs of a state and a later one, as a power of q(s) · v(s').

All learn p(s' in the future of s) / p(s' in the buffer), up to a factor that depends on s.
Contrastive learners count the future from the next step on, so that the present state itself has
no part in it; ``linear`` counts from the present one on. A loss takes
observations of the buffer and, for those with a known future, a later one.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from needreplay.need.form import NeedForm


class Learner(nn.Module, ABC):
    """Two vectors for each observation, over the layers of ``body`` or features that are given."""

    n_vector: int
    power = 1
    """need is max(0, q · v)^power"""
    is_contrastive = True
    """learn from a geometric future, not from the next step"""
    relative: tuple[bool, ...] = (True,)
    """which of M / p (True) and M (False) it can learn; the first is its default"""

    def __init__(self, body: Callable[[Tensor], Tensor], n_hidden: int) -> None:
        super().__init__()
        self.body, self.n_hidden = body, n_hidden

    def hidden(self, obs: Tensor) -> Tensor:
        """The features that both vectors are made of; those that are given are not trained."""
        if isinstance(self.body, nn.Module):
            return self.body(obs)  # type: ignore[no-any-return]
        with torch.no_grad():
            return self.body(obs)

    @abstractmethod
    def query(self, hidden: Tensor) -> Tensor:
        """q(s), one row for each of ``hidden``."""

    @abstractmethod
    def stored(self, hidden: Tensor) -> Tensor:
        """v(s), one row for each of ``hidden``."""

    @abstractmethod
    def loss(self, obs: Tensor, later: Tensor, which: Tensor, uniform: int) -> Tensor | None:
        """The loss, if any; ``later[k]`` is a later state of ``obs[which[k]]``.

        The first ``uniform`` of ``obs`` are uniform in the buffer.
        """


class Contrastive(Learner):
    """Learns from what sets a later state apart from uniform ones."""

    def loss(self, obs: Tensor, later: Tensor, which: Tensor, uniform: int) -> Tensor | None:
        """The contrast of the later state and the uniform ones of the batch."""
        if len(which) == 0 or uniform < 2:
            return None
        hidden = self.hidden(torch.cat((obs, later)))
        queries = self.query(hidden.index_select(0, which))
        rows = (uniform, len(obs) - uniform, len(later))
        others, _, own = self.stored(hidden).split(rows)  # type: ignore[no-untyped-call]
        products = torch.cat(((queries * own).sum(1, keepdim=True), queries @ others.T), 1)
        return self.contrast(products, which)

    @abstractmethod
    def contrast(self, products: Tensor, which: Tensor) -> Tensor:
        """The loss, of q · v of each state that looks: with its later one, then each uniform one.

        ``which`` are the places of those that look.
        """


def is_itself(which: Tensor, uniform: int) -> Tensor:
    """True where a contrast is the state that looks: it is no random sample for itself."""
    return which.unsqueeze(1) == torch.arange(-1, uniform, device=which.device)


def contrast_loss(logs: Tensor, which: Tensor) -> Tensor:
    """Which of these states is the later one, the first? From logarithms of need (InfoNCE).

    The others are uniform in the buffer. Then need is the density ratio at the optimum, whatever
    their number.
    """
    logs = logs.masked_fill(is_itself(which, logs.shape[1] - 1), -torch.inf)
    return functional.cross_entropy(logs, torch.zeros_like(which))


class Cosine(Contrastive):
    """A power of a cosine, contrastive: need = (|b| (1 + cos(u, b)) / 2)^6.

    u is of s and b of s'. As q · v it is q = (u / |u|, 1) / 2 and v = (b, |b|). A high power
    tells states apart with few numbers, and samplers take an exponent of need anyway. It is a
    restricted model of the ratio M / p: it falls off no faster than this power.
    In a ring of 200 states its best fit is 0.16 away from the ratio in total variation, with 40
    loops of 10 states 0.43: each of the 39 other loops keeps a 64th of the present one's need.
    """

    power = 6
    n_vector = 16

    def __init__(self, body: Callable[[Tensor], Tensor], n_hidden: int) -> None:
        super().__init__(body, n_hidden)
        self.forward_head = nn.Linear(n_hidden, self.n_vector - 1)
        # Both start the same: need begins as similarity, and few candidates are rejected then.
        self.backward_head = copy.deepcopy(self.forward_head)

    def query(self, hidden: Tensor) -> Tensor:
        """(u / |u|, 1) / 2."""
        vectors = self.forward_head(hidden)
        norms = torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp(min=1e-12)
        return torch.cat((vectors, norms), 1) / (2.0 * norms)  # type: ignore[no-any-return]

    def stored(self, hidden: Tensor) -> Tensor:
        """(b, |b|)."""
        vectors: Tensor = self.backward_head(hidden)
        norms = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
        return torch.cat((vectors, norms), 1)

    def contrast(self, products: Tensor, which: Tensor) -> Tensor:
        """Which of the states is the later one."""
        return contrast_loss(self.power * products.clamp(min=1e-4).log(), which)


class Spectral(Contrastive):
    """E (F(s) · B(s'))² − 2 E F(s) · B(s⁺): contrastive least squares for the ratio, of any sign.

    Its best fit is the ratio's 64 largest singular values: 0.10 away in total variation in a ring
    of 200 states, 0.11 with 40 loops of 10 states.
    """

    n_vector = 64

    def __init__(self, body: Callable[[Tensor], Tensor], n_hidden: int) -> None:
        super().__init__(body, n_hidden)
        self.forward_head = nn.Linear(n_hidden, self.n_vector)
        self.backward_head = nn.Linear(n_hidden, self.n_vector)

    def query(self, hidden: Tensor) -> Tensor:
        """F(s)."""
        vectors: Tensor = self.forward_head(hidden)
        return vectors

    def stored(self, hidden: Tensor) -> Tensor:
        """B(s)."""
        vectors: Tensor = self.backward_head(hidden)
        return vectors

    def contrast(self, products: Tensor, which: Tensor) -> Tensor:
        """The squares over pairs of different transitions."""
        others = ~is_itself(which, products.shape[1] - 1)
        others[:, 0] = False
        squares = (products.square() * others).sum() / others.sum()
        return squares - 2.0 * products[:, 0].mean()


class Linear(Learner):
    """Successor features in closed form: need = φ(s)ᵀ A⁻¹ φ(s'), A = E φ(s) (φ(s) − γ φ(s⁺))ᵀ.

    φ are the features that are given, or random layers. One-hot features give M / p exactly (M the
    successor representation, p the buffer's distribution): A = D (I − γ P). Where need is not
    relative to p, C = E φ(s) φ(s)ᵀ takes the division back: A⁻¹ C forward, C A⁻¹ C backward.
    """

    is_contrastive = False
    relative = (True, False)
    ridge = 1e-3
    """added to A's diagonal, as a share of its mean"""
    period = 50
    """updates between two inversions"""
    _moments: Tensor
    _inverse: Tensor
    _sums: Tensor
    _count: Tensor

    def __init__(
        self,
        body: Callable[[Tensor], Tensor],
        n_hidden: int,
        discount: float,
        form: NeedForm,
    ) -> None:
        super().__init__(body, n_hidden)
        self.n_vector, self.discount, self.form = n_hidden, discount, form
        self.requires_grad_(False)
        self.register_buffer("_sums", torch.zeros(n_hidden, n_hidden, dtype=torch.float64))
        self.register_buffer("_moments", torch.zeros(n_hidden, n_hidden, dtype=torch.float64))
        self.register_buffer("_inverse", torch.eye(n_hidden, dtype=torch.float64))
        self.register_buffer("_count", torch.zeros((), dtype=torch.int64))

    def query(self, hidden: Tensor) -> Tensor:
        """φ(s)ᵀ A⁻¹, or what takes its place."""
        return (hidden.double() @ self._inverse).float()

    def stored(self, hidden: Tensor) -> Tensor:
        """φ(s)."""
        return hidden

    @torch.no_grad()
    def loss(self, obs: Tensor, later: Tensor, which: Tensor, uniform: int) -> None:  # noqa: ARG002
        """Add the pairs to A, and now and then invert it."""
        hidden = self.hidden(torch.cat((obs, later))).double()
        before, after = hidden[: len(obs)], torch.zeros_like(hidden[: len(obs)])
        after[which] = hidden[len(obs) :]
        self._sums += before.T @ (before - self.discount * after) / len(obs)
        self._moments += before.T @ before / len(obs)
        self._count += 1
        if int(self._count) % self.period == 0:
            matrix = self._sums / self._count
            scale = self.ridge * matrix.diagonal().mean().clamp(min=1e-12)
            matrix = matrix + scale * torch.eye(len(matrix), device=matrix.device)
            inverse, moments = torch.linalg.inv(matrix), self._moments / self._count
            if not self.form.relative:
                inverse = inverse @ moments
                if self.form.direction == "backward":
                    inverse = moments @ inverse
            self._inverse.copy_(inverse)


LEARNERS: dict[str, type[Learner]] = {"cosine": Cosine, "spectral": Spectral, "linear": Linear}
"""By the name that ``NeedModel(learner=...)`` takes."""
