"""The study of rivals: what it measures, and its claims."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from needlab.studies import rivals
from needlab.studies.rivals import PHENOMENA, Case, run_events, simulated
from needlab.studies.study import Options
from needlab.tabular.evb import EVB
from needlab.tabular.replay_events import replay_events

F, R, BEFORE, AFTER = 0, 1, 0, 1


class HereRunner:
    """Runs trials in this process."""

    def run(self, function: Any, cases: Any, trials: int, **_: Any) -> Any:
        rows = {case: [function(case, i) for i in range(trials)] for case in cases}
        return {
            case: {name: np.stack([np.asarray(row[name]) for row in own]) for name in own[0]}
            for case, own in rows.items()
        }


def test_phenomena_are_the_differences_that_they_name() -> None:
    own = {"events": np.zeros((3, 2, 2, 2)), "away": np.full(3, 0.5)}
    # Reward 0: forward before 4, forward after 1, reverse before 2, reverse after 3.
    own["events"][:, 0] = [[4.0, 1.0], [2.0, 3.0]]
    # Reward 1: reverse after 9, forward before 6.
    own["events"][:, 1] = [[6.0, 0.0], [0.0, 9.0]]
    found = {one.name: float(np.asarray(one.measure(own))[0]) for one in PHENOMENA}
    assert found["forward before, track"] == found["forward before, field"] == 4 - 2
    assert found["reverse after, track"] == 3 - 1
    assert found["away, track"] == pytest.approx(0.5 - 0.1 * 25)
    assert found["more reverse after 4"] == 9 - 5
    assert found["fewer reverse after 0"] == 5 - 9
    assert found["forward changes less"] == (9 - 6) - (5 - 5)


def test_events_are_counted_by_reward_direction_and_time() -> None:
    case = Case("recency", "track, 1 or 4")
    columns = run_events(case, 0)
    found = simulated(case, 0, EVB["published"], rivals.EPISODES)
    counted = 0
    for pause in found.pauses:
        part = found.backups[pause["first"] : pause["first"] + pause["count"]]
        world = rivals._world(case.world)[0]
        for event in replay_events(part["state"], part["action"], world.next_state, permutations=0):
            # Back and forth between fewer than five cells is no event.
            counted += len(set(part["state"][event["first"] : event["last"] + 1].tolist())) >= 5
    assert counted > 0
    # Two classes of reward, each divided by half of the episodes.
    assert np.sum(columns["events"]) == pytest.approx(counted / (rivals.EPISODES / 2))
    assert 0 <= float(np.asarray(columns["away"])) <= counted / rivals.EPISODES


def test_the_study_answers_for_every_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "AGENTS", {"recency": "recency", "random": "uniform"})
    monkeypatch.setattr(rivals, "EPISODES", 10)
    estimates = np.array([[1.0, 0.9, 1.1], [1.0, 1.05, 1.2], [0.0, 0.0, 0.1]])
    monkeypatch.setattr(rivals, "run_fit", lambda *_: {"estimates": estimates})
    options = Options(("default",), trials=6, seed=0, workers=1, size="quick")
    result = rivals.run(options, HereRunner())  # type: ignore[arg-type]
    explains = result.tables["explains"]
    assert len(explains) == 2 * len(PHENOMENA)
    random = explains.where(agent="random", phenomenon="forward before, track")
    # Random replay of single backups has no events of five states.
    assert random["difference"].tolist() == [0.0]
    recovery = result.tables["recovery"]
    own = recovery.where(simulated="1.0, 1.0, 0.0")
    assert own["inside"].tolist() == [1, 0, 1]
    assert len(result.claims) == 2 * len(PHENOMENA) + 3


def test_sfma_also_replays_as_much_as_its_authors_let_it() -> None:
    """20 backups at most, as Mattar & Daw; or 32, the default of its authors' code."""
    for agent, most in (("SFMA", 20), ("SFMA, 32", 32)):
        found = simulated(Case(agent, "linear track"), 0, EVB["published"], 5)
        assert found.pauses["count"].max() == most


def test_nearly_as_fast_is_nearer_to_evb_than_to_random_replay() -> None:
    steps = {"EVB": 10.0, "SFMA": 14.0, "SFMA, 32": 16.0, "random": 20.0}
    found = {
        rivals.Case(agent, world): {"steps": np.full(6, steps.get(agent, 20.0))}
        for agent in rivals.AGENTS
        for world in rivals.LEARNING_WORLDS
    }
    claims = {claim.statement: claim for claim in rivals._learning_claims(found, 0)}
    own = claims[
        "SFMA: learns nearly as fast as EVB: nearer to it than to random replay (labyrinth)"
    ]
    # 6 steps are saved against random replay, 4 are lost against EVB.
    assert "2.00 (95% interval 2.00 to 2.00)" in own.measured
    assert own.verdict == "holds"
    longer = own.statement.replace("SFMA", "SFMA, 32")
    # 4 steps are saved, 6 are lost.
    assert claims[longer].verdict == "does not hold"
    assert "-2.00" in claims[longer].measured
    lost = claims["recency: learns faster than with random replay (linear track)"]
    assert lost.verdict != "holds"
