"""The Cliffwalk's settings in plain words, for pictures and sentences; tables have their names."""

from __future__ import annotations

_ROWS = {"policy": "rows sum to 1", "faulty": "rows sum to more than 1"}

WORDS: dict[str, tuple[str, dict[str, str]]] = {
    "successor_step_size": ("M's step size", {}),
    "successor_discount": ("M's γ", {}),
    "trace_reset": (
        "trace set to 0",
        {
            "never": "never",
            "episode": "after an episode",
            "return": "on each return to the start",
        },
    ),
    "negative_need": ("negative need", {"zero": "counts as 0", "shift": "shifts its row"}),
    "random_need": ("random policy's T", _ROWS),
    "optimal_need": (
        "optimal need's T",
        {"greedy": "greedy now", "true": "of the true optimum", "faulty": _ROWS["faulty"]},
    ),
    "discount_offset": ("the task's γ", {"0": "1 − 1/n", "1": "1 − 1/(n + 1)"}),
    "fall": ("a fall", {"ends": "ends the episode", "teleports": "teleports to the start"}),
    "right_actions": ("right action", {"alternate": "alternates", "first": "always the first"}),
    "strings": ("buffer's strings", {"until_fall": "end at a fall", "whole": "are whole"}),
    "q_start_std": ("spread of Q at the start", {}),
    "priority_floor": ("smallest gain", {}),
    "need_from": ("need is read", {"before": "before the step", "after": "after the step"}),
    "epsilon": ("walker's ε", {}),
    "judged": (
        "error",
        {"mean_of_all": "mean over all Q", "sum_of_right": "sum over right actions"},
    ),
    "tested": ("tested", {"update": "at each update", "goal": "at the goal"}),
    "oracle": ("oracle takes", {"pair": "the largest |δ|", "right": "right action's largest δ"}),
}


def in_words(setting: str, value: str) -> str:
    """A setting and its value as a reader of the paper would say them."""
    name, values = WORDS[setting]
    return f"{name}: {values.get(value, value)}"
