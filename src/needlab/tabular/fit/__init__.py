"""Fit models of replay to recorded events: which parameters, how certain, which model."""

from needlab.tabular.fit.data import ReplayData, data_from, data_of, read_data, write_data
from needlab.tabular.fit.fit import compare_models, fit_choices, fit_events
from needlab.tabular.fit.likelihood import Likelihood, likelihood
from needlab.tabular.fit.results import Comparison, Estimate, Fit

__all__ = [
    "Comparison",
    "Estimate",
    "Fit",
    "Likelihood",
    "ReplayData",
    "compare_models",
    "data_from",
    "data_of",
    "fit_choices",
    "fit_events",
    "likelihood",
    "read_data",
    "write_data",
]
