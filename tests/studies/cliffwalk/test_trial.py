"""Whole trials of vanilla PER-SR."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from needlab.studies.cliffwalk.agent import CliffwalkResult, run_trial
from needlab.studies.cliffwalk.settings import METHODS, Method, cliffwalk_preset
from needlab.studies.cliffwalk.task import true_values
from needlab.worlds.cliffwalk import cliffwalk_world
from needreplay._core.errors import NeedReplayError


def trial_of(
    method: Method, n: int = 3, preset: str = "released", trial: int = 0, **overrides: Any
) -> CliffwalkResult:
    settings = cliffwalk_preset(preset, **overrides)
    table = cliffwalk_world(n, settings.fall, settings.right_actions)
    return run_trial(table, settings, method, trial=trial)


@pytest.mark.parametrize("preset", ["printed", "released", "corrected"])
@pytest.mark.parametrize("method", METHODS)
def test_what_converged_is_right(method: Method, preset: str) -> None:
    settings = cliffwalk_preset(preset)
    table = cliffwalk_world(3, settings.fall, settings.right_actions)
    found = run_trial(table, settings, method)
    if not found.converged:
        assert method == "gain"  # greedy draws come to rest
        return
    discount = 1 - 1 / (3 + settings.discount_offset)
    off = found.q - true_values(table, discount)[:3]
    if preset == "printed":
        assert np.square(off).mean() < 1e-3
    else:
        assert np.square(off[:, 0]).sum() < 1e-3
    assert 0 < found.updates <= found.steps <= found.updates + 1
    assert found.transitions == (14 if preset == "printed" else 24)


def test_the_oracle_by_hand() -> None:
    # n = 2, γ = 2/3: always the larger of δ(1, 0) = 1 − q1 and δ(0, 0) = 2/3 q1 − q0
    q0 = q1 = 0.0
    for _ in range(8):
        if 1 - q1 >= 2 / 3 * q1 - q0:
            q1 += 0.25 * (1 - q1)
        else:
            q0 += 0.25 * (2 / 3 * q1 - q0)
    found = trial_of("oracle", 2, threshold=0.0, least_budget=1, budget_per_transition=1)
    assert (found.updates, found.converged) == (8, False)
    np.testing.assert_allclose(found.q, [[q0, 0.0], [q1, 0.0]], rtol=1e-12)


def test_need_alpha_0_takes_the_samples_of_per() -> None:
    for preset in ("printed", "released"):
        per = trial_of("per", 4, preset)
        for method in ("need", "need-random", "need-backward"):
            found = trial_of(method, 4, preset, need_alpha=0.0)
            assert found.updates == per.updates
            np.testing.assert_array_equal(found.q, per.q)


def test_without_need_a_scaled_update_is_pers() -> None:
    per = trial_of("per", 4)
    scaled = trial_of("need-magnitude", 4, need_alpha=0.0)
    np.testing.assert_allclose(scaled.q, per.q, rtol=1e-12)


def test_a_trial_that_cannot_converge_stops_at_its_budget_and_says_so() -> None:
    found = trial_of("uniform", threshold=0.0, least_budget=50, budget_per_transition=3)
    assert (found.updates, found.converged, found.diverged) == (72, False, False)
    found = trial_of("uniform", threshold=0.0, least_budget=500, budget_per_transition=1)
    assert (found.updates, found.budget) == (500, 500)


def test_need_that_never_leaves_the_start_cannot_converge() -> None:
    # Greedy falls at the start and never explores: M's row there is the start's alone.
    settings = {"epsilon": 0.0, "least_budget": 400, "budget_per_transition": 1}
    trials = [trial_of("need-optimal", 3, "printed", trial, **settings) for trial in range(6)]
    stuck = [found for found in trials if not found.converged]
    assert stuck
    for found in stuck:
        assert found.updates == 400
        np.testing.assert_array_equal(found.M[0], [1.0, 0.0, 0.0, 0.0])


def test_a_greedy_sampler_at_rest_is_given_up_early() -> None:
    trials = [trial_of("gain", 3, trial=trial) for trial in range(8)]
    stuck = [found for found in trials if not found.converged]
    assert stuck
    assert all(found.updates < found.budget for found in stuck)


def test_an_overflow_is_reported_not_raised() -> None:
    found = trial_of("need", 3, threshold=0.0, successor_step_size=1.0, trace_decay=1.0)
    assert found.diverged
    assert not found.converged
    assert found.largest_entry > 1e300


def test_released_diverges_for_a_while_and_corrected_stays_an_occupancy() -> None:
    released = [trial_of("need", 5, trial=trial) for trial in range(2)]
    assert max(found.largest_entry for found in released) > 50.0
    assert max(found.negative_rows for found in released) > 0.3
    for trial in range(2):
        found = trial_of("need", 5, "corrected", trial)
        assert found.negative_rows == 0.0
        assert found.largest_entry < 6.0  # no occupancy is above 1 / (1 − γ)


@pytest.mark.parametrize(
    "options",
    [
        {"minibatch": 3, "batch_step": "mean"},
        {"minibatch": 2, "weights_correct": "gain"},
        {"replay_period": 3},
        {"need_from": "before", "trace_reset": "episode"},
        {"oracle": "global", "tested": "update", "judged": "mean_of_all"},
        {"optimal_need": "greedy", "fall": "ends", "strings": "until_fall"},
    ],
)
def test_options_converge_too(options: dict[str, Any]) -> None:
    for method in ("per", "need", "oracle", "rank", "need-optimal"):
        found = trial_of(method, 3, "corrected", **options)
        assert found.converged or method == "need-optimal"


def test_a_replay_period_spends_steps() -> None:
    found = trial_of("per", replay_period=4)
    assert found.steps // 4 == found.updates


def test_a_table_that_contradicts_its_settings_raises() -> None:
    released = cliffwalk_preset("released")
    printed = cliffwalk_preset("printed")
    with pytest.raises(NeedReplayError, match=r'have fall="teleports", but .* cliffwalk_world\('):
        run_trial(cliffwalk_world(3, "ends", "first"), released, "per")
    with pytest.raises(NeedReplayError, match='have fall="ends", but'):
        run_trial(cliffwalk_world(3, "teleports", "alternate"), printed, "per")
    with pytest.raises(NeedReplayError, match='have right_actions="first", but'):
        run_trial(cliffwalk_world(3, "teleports", "alternate"), released, "per")
    with pytest.raises(NeedReplayError, match='have right_actions="alternate", but'):
        run_trial(cliffwalk_world(3, "ends", "first"), printed, "per")
    table = cliffwalk_world(3, "ends", "first")
    wide = table._replace(
        next_state=np.c_[table.next_state, table.next_state[:, 1]],
        ends=np.c_[table.ends, table.ends[:, 1]],
    )
    with pytest.raises(NeedReplayError, match="it is no cliffwalk"):
        run_trial(wide, cliffwalk_preset("printed", right_actions="first"), "per")


def test_a_seed_or_a_trial_that_is_no_number_raises() -> None:
    settings = cliffwalk_preset("printed")
    table = cliffwalk_world(3, settings.fall, settings.right_actions)
    with pytest.raises(NeedReplayError, match=r"^seed is -1; it must be a whole number, 0 or more"):
        run_trial(table, settings, "per", seed=-1)
    with pytest.raises(NeedReplayError, match=r"^trial is 0.5; it must be a whole number"):
        run_trial(table, settings, "per", trial=0.5)  # type: ignore[arg-type]


def test_a_buffer_that_would_not_fit_raises() -> None:
    settings = cliffwalk_preset("released")
    with pytest.raises(NeedReplayError, match=r"^40 states are a buffer of up to 43,980,"):
        run_trial(cliffwalk_world(40, settings.fall, settings.right_actions), settings, "per")


def test_an_unknown_method_raises() -> None:
    with pytest.raises(NeedReplayError, match="no method 'x'"):
        trial_of("x")  # type: ignore[arg-type]


_EVERYTHING = """
import json
from needlab.studies.cliffwalk.settings import METHODS, cliffwalk_preset
from needlab.studies.cliffwalk.agent import run_trial
from needlab.worlds.cliffwalk import cliffwalk_world

found = {}
for preset in ("printed", "released"):
    settings = cliffwalk_preset(preset, least_budget=300, budget_per_transition=1)
    table = cliffwalk_world(4, settings.fall, settings.right_actions)
    for method in METHODS:
        trial = run_trial(table, settings, method, trial=1)
        found[preset + method] = [
            [trial.updates, trial.converged], trial.q.tolist(), trial.M.tolist()
        ]
print(json.dumps(found))
"""


@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="compares with compiled kernels"
)
def test_compiled_trials_are_uncompiled_ones_up_to_rounding() -> None:
    answers = []
    for disabled in ("0", "1"):
        answer = subprocess.run(
            [sys.executable, "-c", _EVERYTHING],
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(json.loads(answer.stdout))
    compiled, plain = answers
    for name, (counts, q, M) in compiled.items():
        assert counts == plain[name][0], name
        np.testing.assert_allclose(q, plain[name][1], rtol=1e-9, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(M, plain[name][2], rtol=1e-9, atol=1e-12, err_msg=name)
