"""The presets of the deep agents: ours (``default``), and the paper's text and code.

``printed`` is the paper's text, ``released`` its code, ``corrected`` its code without its faults:
these three have the paper's need. Each preset is made of two parts that do not overlap: how an
agent learns, and the sizes that suit a kind of world. ``docs/deep_agent.md`` numbers the
differences.
"""

from __future__ import annotations

from typing import Any

from needlab.core.presets import changed
from needlab.core.types import Values
from needlab.deep.settings import DeepSettings, Network
from needreplay._core.errors import unknown
from needreplay.need import UNIFORM_MIX

DEFAULT = "default"
"""The preset where none is named: that of the evidence, with a need model."""

_PAPER: Values = {"need_learner": "successor", "learn_every": 1}
_RMSPROP = {"optimizer": "rmsprop", "learning_rate": 2.5e-4, "rms_decay": 0.95}

LEARNING: dict[str, Values] = {
    "printed": {
        "base": "double-dqn",
        "gain": "abs",
        "gain_floor": 0.0,
        "alpha": 0.6,
        "beta_start": 0.4,
        "beta_end": 1.0,
        "feature_sign": "any",
        "successor_action": "greedy",
        "successor_terminal": "last",
        "pixel_loss": "squared",
        "need_row": "previous",
        "negative": "offset",
        "scale": "raw",
        **_PAPER,
        **_RMSPROP,
    },
    "released": {
        "base": "dqn",
        "gain": "sqrt-huber",
        "alpha": 1.0,
        "beta_start": 0.5,
        "beta_end": 0.5,
        "feature_sign": "any",
        "successor_action": "stored",
        "successor_target_period": 0,
        "successor_terminal": "unmasked",
        "successor_moves_features": True,
        "successor_batch": "another",
        "pixel_loss": "huber",
        "need_row": "greedy",
        "negative": "offset",
        "scale": "raw",
        "need_moves_features": True,
        **_PAPER,
        **_RMSPROP,
    },
    "corrected": _PAPER,
    DEFAULT: {},
}
"""How an agent learns, by preset, where it is not as ``DeepSettings`` has it; what does not depend
on the size of the world."""

_NATURE: dict[str, Values] = {
    "printed": {
        "optimizer_eps": 1e-5,
        "min_history": 50_000,
        "target_period": 10_000,
        "epsilon_end": 0.1,
        "epsilon_steps": 1_000_000,
        "eval_epsilon": 0.05,
        "successor_target_period": 5_000,
    },
    "released": {
        "optimizer_eps": 1e-5,
        "min_history": 20_000,
        "target_period": 8_000,
        "epsilon_end": 0.01,
        "epsilon_steps": 250_000,
    },
    "corrected": {
        "learning_rate": 6.25e-5,
        "optimizer_eps": 1.5e-4,
        "min_history": 20_000,
        "target_period": 8_000,
        "epsilon_end": 0.01,
        "epsilon_steps": 250_000,
        "eval_epsilon": 0.001,
        "successor_target_period": 8_000,
    },
}
_NATURE_SIZE = {"capacity": 1_000_000, "frame_stack": 4, "update_period": 4, "features": 512}

_MINATAR_RMSPROP = {"learning_rate": 2.5e-4, "optimizer_eps": 0.01}
_MINATAR: dict[str, Values] = {
    "printed": {**_MINATAR_RMSPROP, "successor_target_period": 1_000},
    "released": _MINATAR_RMSPROP,
    "corrected": {"learning_rate": 2.5e-4, "optimizer_eps": 3.125e-4},
}
_MINATAR_SIZE = {
    "capacity": 100_000,
    "min_history": 5_000,
    "target_period": 1_000,
    "update_period": 4,
    "epsilon_end": 0.1,
    "epsilon_steps": 100_000,
    "features": 64,
}

_VECTOR: dict[str, Values] = {
    "printed": {"learning_rate": 5e-4, "optimizer_eps": 0.01, "successor_target_period": 500},
    "released": {"learning_rate": 5e-4, "optimizer_eps": 0.01},
    "corrected": {
        "learning_rate": 1e-3,
        "optimizer_eps": 1e-8,
        "successor_target_period": 500,
    },
}
_VECTOR_SIZE = {
    "capacity": 50_000,
    "min_history": 1_000,
    "target_period": 500,
    "update_period": 1,
    "epsilon_end": 0.05,
    "epsilon_steps": 5_000,
    "features": 64,
    "reward_clip": False,
}

SIZES: dict[Network, tuple[dict[str, Any], dict[str, Values]]] = {
    "nature": (_NATURE_SIZE, _NATURE),
    "minatar": (_MINATAR_SIZE, _MINATAR),
    "vector": (_VECTOR_SIZE, _VECTOR),
}
"""What suits a kind of world: the same for all presets, and by preset (``default`` has the sizes of
``corrected``)."""

AGENTS: dict[str, Values] = {
    "dqn": {"base": "dqn", "sampler": "uniform"},
    "double-dqn": {"base": "double-dqn", "sampler": "uniform"},
    "uniform": {"sampler": "uniform"},
    "per": {"sampler": "per"},
    "rank": {"sampler": "rank"},
    "pser": {"sampler": "pser"},
    "per-recency": {"sampler": "per-recency"},
    "per-sr": {"sampler": "per-sr"},
    "per-sr-sampling": {"sampler": "per-sr-sampling"},
}
"""Agents by name. All but the first two take their base from the preset."""

_BASELINES: dict[str, Values] = {
    "rank": {"gain": "abs", "alpha": 0.7, "beta_start": 0.5, "beta_end": 1.0},
    "pser": {"gain": "sqrt-huber", "alpha": 1.0, "beta_start": 0.5, "beta_end": 0.5},
}
"""Where a baseline's own paper chose differently, in every preset."""


def deep_preset(
    name: str, network: Network, agent: str = "per", **overrides: object
) -> DeepSettings:
    """The settings of a preset for a kind of world and an agent, with any field changed.

    In ``default`` a quarter of the probability of ``per-sr-sampling`` is uniform.

    >>> deep_preset("corrected", "minatar", "per-sr", scale="raw").scale
    'raw'
    >>> deep_preset("default", "minatar", "per-sr-sampling").uniform_mix
    0.25
    """
    if name not in LEARNING:
        raise unknown("preset", name, LEARNING)
    if network not in SIZES:
        raise unknown("network", network, SIZES)
    if agent not in AGENTS:
        raise unknown("agent", agent, AGENTS)
    size, by_preset = SIZES[network]
    by_size = by_preset["corrected" if name == DEFAULT else name]
    parts = {**LEARNING[name], **size, **by_size, **_BASELINES.get(agent, {})}
    if name == DEFAULT and agent == "per-sr-sampling":
        parts["uniform_mix"] = UNIFORM_MIX
    return changed(DeepSettings(), **{**parts, **AGENTS[agent], "network": network, **overrides})
