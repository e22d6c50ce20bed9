"""The migrator's words, also when an agent is killed between any two stores of a lease."""

import os
from collections import Counter
from contextlib import closing

import pytest

from gmi_drl.comm.memory.leases import OWNERS, Leases, agent_of, owner_word
from gmi_drl.comm.memory.segment import create_empty
from gmi_drl.comm.memory.shared_lock import SharedLock

TRAINERS, PLACES = 2, 2


class KilledError(Exception):
    """Where a process would be no more."""


class Mortal:
    """A table whose user is killed before its next store but so many."""

    def __init__(self, table, stores):
        self.table, self.stores = table, stores

    def __getitem__(self, place):
        return self.table[place]

    def __setitem__(self, place, value):
        if not self.stores:
            raise KilledError
        self.stores -= 1
        self.table[place] = value


@pytest.fixture
def leases():
    tables = [memoryview(bytearray(8 * (OWNERS + PLACES))).cast("q") for _ in range(TRAINERS)]
    ends, descriptor = [], create_empty("leases")
    with closing(SharedLock(descriptor, memoryview(bytearray(8)).cast("q"), 0, hang_s=1)) as lock:
        yield Leases(tables, PLACES, lock, lambda: bool(ends), lambda: ends.append(1))
    os.close(descriptor)


def test_an_owner_is_an_agent_and_its_rollout():
    words = {owner_word(agent, rollout) for agent in (0, 1, 500) for rollout in (0, 1, 2**40)}
    assert len(words) == 9 and 0 not in words
    assert agent_of(owner_word(500, 2**40)) == 500 and agent_of(0) == -1


def test_places_go_round_the_trainers_until_all_are_leased(leases):
    assert [leases.lease(0, rollout) for rollout in range(5)] == [(0, 0), (1, 0), (0, 1), (1, 1), None]
    assert [leases.owner(0, place) for place in (0, 1, 2)] == [owner_word(0, 0), owner_word(0, 2), 0]
    leases.give_back(1, 2)
    assert leases.lease(1, 0) == (1, 2) and leases.leased(1) == 3


def test_what_was_given_up_comes_first_and_the_oldest_of_it(leases):
    for rollout in range(3):
        leases.lease(0, rollout)
    leases.give_up(0, [0, 1])
    assert [leases.lease(1, rollout) for rollout in range(4)] == [(0, 0), (0, 1), (1, 1), None]
    assert leases.owner(0, 1) == owner_word(1, 1)


def test_after_the_end_there_is_nothing_to_lease(leases):
    leases.end()
    assert leases.lease(0, 0) is None


@pytest.mark.parametrize(("stores", "given_up"), [(0, []), (1, []), (0, [0])])  # one given up takes a single store
def test_an_agent_that_is_killed_while_it_leases_costs_no_place(leases, stores, given_up):
    leases.lease(0, 0)
    leases.give_up(0, given_up)
    real = leases._tables
    leases._tables = [Mortal(table, stores) for table in real]
    with pytest.raises(KilledError):
        leases.lease(0, 1)
    leases._tables = real
    for trainer in (0, 1):  # as its trainers do when they see its end
        left = [place for place in range(leases.leased(trainer)) if agent_of(leases.owner(trainer, place)) == 0]
        leases.give_up(trainer, left)
    came = Counter()
    while lease := leases.lease(1, len(came)):
        came[lease] += 1
    assert came == Counter([(0, 0), (0, 1), (1, 0), (1, 1)])
