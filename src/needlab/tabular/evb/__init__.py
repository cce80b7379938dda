"""The EVB agent of Mattar & Daw (2018): replay by gain x need."""

from needlab.tabular.evb.settings import EVB, EVBSettings, dyna, without_replay
from needlab.tabular.evb.simulation import (
    Simulation,
    new_agent,
    replay_once,
    simulate,
    simulation_table,
)

__all__ = [
    "EVB",
    "EVBSettings",
    "Simulation",
    "dyna",
    "new_agent",
    "replay_once",
    "simulate",
    "simulation_table",
    "without_replay",
]
