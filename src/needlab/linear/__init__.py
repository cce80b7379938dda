"""Linear Q-learning on given features: one-hot, tile, coarse and radial codes.

``encodings`` turns states and observations into features. It knows no torch.
"""

from needlab.linear.encodings import (
    CoarseCodes,
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

__all__ = [
    "CoarseCodes",
    "Encoding",
    "FeatureTable",
    "Grid",
    "OneHot",
    "RadialCodes",
    "TileCodes",
    "board_grid",
    "encode_space",
    "encode_world",
    "feature_matrix",
]
