"""The draw of a deep agent, by its settings."""

from __future__ import annotations

from needreplay.deep.settings import DeepSettings
from needreplay.memory import Proportional, RankBased, Sequence, Uniform
from needreplay.memory.draws import NormTree, VectorTree
from needreplay.memory.draws.base import Draw


def make_draw(settings: DeepSettings, n_features: int) -> Draw:
    """Need scales the update in ``per-sr``, so that its draws are PER's."""
    if settings.draw == "uniform":
        return Uniform()
    if settings.draw == "rank":
        return RankBased(settings.gain_exponent)
    if settings.draw == "pser":
        return Sequence(settings.gain_exponent)
    if settings.draw == "per-sr-sampling":
        tree = NormTree if settings.feature_sign == "any" else VectorTree
        return tree(
            n_features,
            backward=settings.direction == "backward",
            gain_exponent=settings.gain_exponent,
            need_exponent=settings.need_exponent,
            corrects=settings.corrects,
        )
    return Proportional(settings.gain_exponent)
