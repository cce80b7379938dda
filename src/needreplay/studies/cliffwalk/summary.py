"""``summary.csv``: each method at each size, with what did not converge said beside it."""

from __future__ import annotations

from collections.abc import Sequence

from needreplay.core.tables import Table
from needreplay.studies.cliffwalk.compare import centre_interval
from needreplay.studies.cliffwalk.runs import Found


def summary_table(found: Sequence[Found], seed: int) -> Table:
    """Mean and median updates with intervals; trials that did not converge count as their budget.

    So a mean is a lower bound where ``not_converged`` is above 0, and a median where it is half of
    ``trials`` or more: ``mean_is_bound`` and ``median_is_bound`` say so.
    """
    means = [centre_interval(f, "mean", seed) for f in found]
    medians = [centre_interval(f, "median", seed) for f in found]
    return Table(
        {
            "preset": [f.label for f in found],
            "method": [f.method for f in found],
            "states": [f.states for f in found],
            "transitions": [f.transitions for f in found],
            "budget": [f.budget for f in found],
            "trials": [len(f.trials) for f in found],
            "not_converged": [f.censored for f in found],
            "diverged": [sum(f.diverged) for f in found],
            "mean": [round(i.estimate, 1) for i in means],
            "mean_low": [round(i.low, 1) for i in means],
            "mean_high": [round(i.high, 1) for i in means],
            "mean_is_bound": [f.censored > 0 for f in found],
            "median": [round(i.estimate, 1) for i in medians],
            "median_low": [round(i.low, 1) for i in medians],
            "median_high": [round(i.high, 1) for i in medians],
            "median_is_bound": [2 * f.censored >= len(f.trials) for f in found],
        }
    )
