"""The draw of a deep agent, by its settings."""

from __future__ import annotations

from needreplay.deep.settings import DeepSettings
from needreplay.replay import ProportionalSampler, PSERSampler, RankSampler, UniformSampler
from needreplay.replay.samplers import FeatureNeedSampler
from needreplay.replay.samplers.base import Sampler


def make_sampler(settings: DeepSettings, n_features: int) -> Sampler:
    """Need scales the update in ``per-sr``, so that its draws are PER's."""
    if settings.sampler == "uniform":
        return UniformSampler()
    if settings.sampler == "rank":
        return RankSampler(settings.alpha)
    if settings.sampler == "pser":
        return PSERSampler(settings.alpha)
    if settings.sampler == "per-sr-sampling":
        return FeatureNeedSampler(
            n_features,
            nonnegative=settings.feature_sign == "nonnegative",
            backward=settings.direction == "backward",
            alpha=settings.alpha,
            need_alpha=settings.need_alpha,
            correct_for=settings.corrects,
        )
    return ProportionalSampler(settings.alpha)
