"""Linear Q-learning on given features: one-hot, tile, coarse and radial codes.

``encodings`` turns states and observations into features. It knows no torch.
"""

from needlab.linear.agent import LinearQ
from needlab.linear.encodings import (
    CellCodes,
    CoarseCodes,
    Code,
    Encoding,
    FeatureTable,
    Grid,
    OneHot,
    RadialCodes,
    TileCodes,
    board_grid,
    encode_space,
    encode_world,
    feature_matrix,
)
from needlab.linear.settings import LINEAR_AGENTS, LinearSettings, ReplayBy, linear_settings

__all__ = [
    "LINEAR_AGENTS",
    "CellCodes",
    "CoarseCodes",
    "Code",
    "Encoding",
    "FeatureTable",
    "Grid",
    "LinearQ",
    "LinearSettings",
    "OneHot",
    "RadialCodes",
    "ReplayBy",
    "TileCodes",
    "board_grid",
    "encode_space",
    "encode_world",
    "feature_matrix",
    "linear_settings",
]
