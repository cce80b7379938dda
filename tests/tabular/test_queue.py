"""The queue against a plain list of pairs, under every order of operations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from needlab.tabular.arrays import BLOCK_SHIFT, INSERTED, QUEUED, new_arrays
from needlab.tabular.queue import (
    insert,
    largest_product,
    largest_product_of_any_sign,
    refresh_keys,
    remove,
)

# Sixteenths: products of them are exact, so that equal products are equal in any order of work.
GAINS = st.integers(1, 6).map(lambda n: n / 16)
NEEDS = st.integers(-3, 3).map(lambda n: n / 16)


class QueueMachine(RuleBasedStateMachine):
    """Insert, pop, remove and change of need, each done twice: in the kernel and in a dict."""

    @initialize(n_states=st.integers(1, 70), n_actions=st.integers(1, 5))
    def begin(self, n_states: int, n_actions: int) -> None:
        self.n_states, self.n_actions = n_states, n_actions
        self.agent = new_arrays(n_states, n_actions)
        self.queued: dict[int, tuple[float, int]] = {}
        self.need = [1.0] * n_states
        self.inserted = 0

    def product(self, pair: int) -> float:
        return self.queued[pair][0] * self.need[pair // self.n_actions]

    def first_of_largest(self) -> int:
        return min(self.queued, key=lambda pair: (-self.product(pair), self.queued[pair][1]))

    def forget(self, pair: int) -> None:
        remove(self.agent, pair)
        del self.queued[pair]

    @rule(where=st.one_of(st.integers(0, 7), st.integers(0, 349)), gain=GAINS)
    def insert(self, where: int, gain: float) -> None:
        pair = where % (self.n_states * self.n_actions)
        insert(self.agent, pair, gain)
        if pair not in self.queued:
            self.queued[pair] = gain, self.inserted
            self.inserted += 1
        else:
            before, number = self.queued[pair]
            self.queued[pair] = max(gain, before), number

    @rule()
    def pop_the_largest_positive_product(self) -> None:
        popped = largest_product(self.agent)
        if self.queued and self.product(self.first_of_largest()) > 0.0:
            assert popped == self.first_of_largest()
            self.forget(popped)
        else:
            assert popped == -1

    @rule()
    def pop_the_largest_product_of_any_sign(self) -> None:
        popped = largest_product_of_any_sign(self.agent)
        if self.queued:
            assert popped == self.first_of_largest()
            self.forget(popped)
        else:
            assert popped == -1

    @precondition(lambda self: self.queued)
    @rule(where=st.floats(0, 1, exclude_max=True))
    def remove_one_that_is_not_the_best(self, where: float) -> None:
        self.forget(sorted(self.queued)[int(where * len(self.queued))])

    @rule(needs=st.lists(NEEDS, min_size=1, max_size=8))
    def change_need(self, needs: list[float]) -> None:
        self.need = [needs[state % len(needs)] for state in range(self.n_states)]
        self.agent.need[: self.n_states] = self.need
        refresh_keys(self.agent)

    @invariant()
    def everything_kept_beside_the_pairs_is_right(self) -> None:
        if not hasattr(self, "agent"):
            return
        agent = self.agent
        assert agent.counts[QUEUED] == len(self.queued)
        assert agent.counts[INSERTED] == self.inserted
        gains = agent.pairs["gain"]
        assert {int(pair): gains[pair] for pair in np.flatnonzero(gains)} == {
            pair: gain for pair, (gain, _) in self.queued.items()
        }
        for state in range(self.n_states):
            own = [pair for pair in self.queued if pair // self.n_actions == state]
            if not own:
                assert agent.best[state] == agent.key[state] == 0.0
                continue
            best = min(own, key=lambda pair: (-self.queued[pair][0], self.queued[pair][1]))
            assert agent.states["best_pair"][state] == best
            assert agent.best[state] == self.queued[best][0]
            assert agent.key[state] == agent.best[state] * self.need[state]
        blocks = agent.key.reshape(-1, 1 << agent.counts[BLOCK_SHIFT])
        assert (agent.block == np.maximum(blocks.max(axis=1), 0.0)).all()


def test_the_queue_against_a_plain_list(uncompiled: bool) -> None:
    effort = settings(
        max_examples=25 if uncompiled else 60,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
    )
    run_state_machine_as_test(QueueMachine, settings=effort)


def test_by_hand() -> None:
    agent = new_arrays(3, 2)
    agent.need[:3] = [1.0, 2.0, -1.0]
    refresh_keys(agent)
    assert largest_product(agent) == -1
    insert(agent, 1, 3.0)  # state 0: product 3
    insert(agent, 2, 1.5)  # state 1: product 3, queued later
    insert(agent, 5, 9.0)  # state 2: product -9
    assert largest_product(agent) == 1
    insert(agent, 3, 2.0)  # state 1: product 4
    insert(agent, 3, 1.0)  # smaller: changes nothing
    assert largest_product(agent) == 3
    for pair in (3, 1, 2):
        assert largest_product(agent) == pair
        assert largest_product_of_any_sign(agent) == pair
        remove(agent, pair)
    assert largest_product(agent) == -1
    assert largest_product_of_any_sign(agent) == 5


def test_raising_a_gain_keeps_its_place_among_equals() -> None:
    agent = new_arrays(2, 1)
    insert(agent, 0, 1.0)
    insert(agent, 1, 2.0)
    insert(agent, 0, 2.0)
    assert largest_product(agent) == 0


def test_of_equal_gains_in_one_state_the_first_queued_is_its_best() -> None:
    raised = new_arrays(1, 2)
    insert(raised, 0, 1.0)
    insert(raised, 1, 2.0)
    insert(raised, 0, 2.0)
    assert largest_product(raised) == 0
    left = new_arrays(1, 3)
    insert(left, 1, 1.0)
    insert(left, 0, 1.0)
    insert(left, 2, 3.0)
    remove(left, 2)
    assert largest_product(left) == 1


def test_of_equal_negative_products_the_first_queued_is_popped() -> None:
    agent = new_arrays(2, 1)
    agent.need[:2] = -1.0
    refresh_keys(agent)
    insert(agent, 1, 1.0)
    insert(agent, 0, 1.0)
    assert largest_product_of_any_sign(agent) == 1
    agent.need[:2] = -np.inf
    refresh_keys(agent)
    assert largest_product_of_any_sign(agent) == 1


def test_a_pair_queued_again_after_its_pop_goes_to_the_end() -> None:
    agent = new_arrays(2, 1)
    insert(agent, 0, 1.0)
    insert(agent, 1, 1.0)
    remove(agent, 0)
    insert(agent, 0, 1.0)
    assert largest_product(agent) == 1


@pytest.mark.parametrize("n_states", [1, 2, 3, 54, 5400])
def test_blocks_have_about_as_many_states_as_there_are_blocks(n_states: int) -> None:
    agent = new_arrays(n_states, 1)
    size = 1 << int(agent.counts[BLOCK_SHIFT])
    assert len(agent.block) * size == len(agent.key) >= n_states
    assert len(agent.key) - n_states < size
    assert 0.4 <= size / np.sqrt(n_states) <= 1.5
