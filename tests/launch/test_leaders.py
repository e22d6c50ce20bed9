"""In which iterations the policies of a run stop and save."""

from collections import deque
from random import Random

import pytest

from gmi_drl.launch import leaders as module
from gmi_drl.launch.leaders import BEYOND, Leaders
from gmi_drl.roles.launcher.protocol import Hold, Holds, Save, Stop

MAX_LAG = 1


@pytest.fixture
def now(monkeypatch):
    """The time in seconds, which stands still."""
    seconds = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: seconds[0])
    return seconds


def leaders_of(ids, said, done=(), every_s=60.0):
    return Leaders(ids, lambda *word: said.append(word), lambda gmi: gmi in done, MAX_LAG, every_s)


def test_policies_stop_and_save_in_the_same_iteration_that_none_has_reached(now):
    said = []
    leaders = leaders_of((2, 4), said)
    leaders.look()
    now[0] = 60.0
    leaders.look()
    leaders.look()
    assert said == [(2, Hold())]
    leaders.stop()
    assert said == [(2, Hold())], "it is asked once"
    leaders.tell(Holds(9))
    after = 9 + MAX_LAG + BEYOND
    assert said[1:] == [(4, Save(after)), (4, Stop(after)), (2, Save(after)), (2, Stop(after))]


def test_another_is_asked_to_hold_if_one_is_done(now):
    said, done = [], {2}
    leaders = leaders_of((2, 4, 6), said, done)
    leaders.stop()
    leaders.look()
    done.add(4)
    leaders.look()
    leaders.look()
    assert said == [(4, Hold()), (6, Hold())]
    done.add(6)
    leaders.look()
    assert said == [(4, Hold()), (6, Hold())]


@pytest.mark.parametrize(("ids", "every_s"), [((0,), 60.0), ((0, 1), None)], ids=["one policy", "no time is set"])
def test_what_is_not_asked_for(now, ids, every_s):
    """A single policy stops at once, and knows itself how much time has passed."""
    said = []
    leaders = leaders_of(ids, said, every_s=every_s)
    now[0] = 1000.0
    leaders.look()
    assert said == []
    leaders.stop()
    assert said == [(0, Stop() if len(ids) == 1 else Hold())]


class Policy:
    """A trainer and its channel: rollouts that were leased, those that are there, and those that it has given back."""

    def __init__(self):
        self.leased = self.there = self.given_back = 0
        self.iteration, self.inbox, self.asked = 1, deque(), []
        self.holds = self.is_over = False

    def can_lease(self):
        return not self.is_over and self.leased - self.given_back <= MAX_LAG

    def steps(self, outbox):
        """What a trainer does, as `ChannelReplica.iterate` and `Holistic._decide`; yields where it may wait."""
        while not self.is_over:
            while self.there < self.iteration:
                yield False
            yield True
            words = [self.inbox.popleft() for _ in range(len(self.inbox))]
            if Hold() in words:
                outbox.append(Holds(self.iteration))
                while not self.inbox:
                    yield False
                words += [self.inbox.popleft() for _ in range(len(self.inbox))]
            self.asked += [word for word in words if isinstance(word, Stop)]
            yield True
            self.given_back += 1
            self.is_over = any(word.after <= self.iteration for word in self.asked)
            self.iteration += not self.is_over


def actor(policies):
    """Leases a place of each policy that is not over, in order, and plays for all at once."""
    while not all(one.is_over for one in policies):
        for one in policies:
            while not one.is_over and not one.can_lease():
                yield False
            one.leased += not one.is_over
            yield True
        for one in policies:
            one.there += 1
        yield True


@pytest.mark.parametrize("seed", range(100))
def test_all_policies_end_in_the_same_iteration_however_slow_the_launcher_is(seed):
    """A schedule of chance, in which updates take no time and the launcher seldom has its turn."""
    random, policies, outbox = Random(seed), [Policy() for _ in range(3)], deque()
    leaders = Leaders(range(3), lambda gmi, word: policies[gmi].inbox.append(word), lambda _: False, MAX_LAG, None)
    running = {number: one.steps(outbox) for number, one in enumerate(policies)} | {"actor": actor(policies)}
    weights = {name: random.random() for name in running}
    stop_at = random.randrange(1000)
    for turn in range(100_000):  # the end comes far before, unless they wait for each other
        if turn == stop_at:
            leaders.stop()
        if outbox and random.random() < 0.01:
            leaders.tell(outbox.popleft())
        name = random.choices(list(running), [weights[one] for one in running])[0]
        if next(running[name], None) is None:
            del running[name]
        if not running:
            break
    assert not running and len({one.iteration for one in policies}) == 1
