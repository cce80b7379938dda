"""Models of replay that say how likely each backup is: EVB as a softmax, and its rivals.

``simulate_model`` lets an agent live whose replay follows one of ``MODELS``; the fit in
``needlab.tabular.fit`` uses the same chances.
"""

from needlab.tabular.rivals.parameters import MODELS, PARAMETERS, Model, Parameter
from needlab.tabular.rivals.simulation import simulate_model

__all__ = ["MODELS", "PARAMETERS", "Model", "Parameter", "simulate_model"]
