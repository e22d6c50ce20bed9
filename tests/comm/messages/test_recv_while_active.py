"""Waits for a GMI that itself waits for others, in seconds that these tests count."""

import threading
from contextlib import contextmanager

import pytest

from gmi_drl.comm.membership import Keepalives
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.comm.messages.messages import Messages
from gmi_drl.errors import PeerSilentError

SIMULATOR, AGENT, TRAINER = range(3)
LONG = 20  # seconds; every wait here is for 2 at most


@contextmanager
def ends(hang_s=1.0):
    """The ends of three GMIs."""
    mailboxes = create_mailboxes(range(3))
    opened = [Messages(mailboxes, gmi_id, hang_s, Keepalives()) for gmi_id in range(3)]
    try:
        yield opened
    finally:
        for end in opened:
            end.close()
        mailboxes.close()


@pytest.fixture
def each_second(monkeypatch):
    """Calls what is given whenever a second of the one wait has passed, which takes no time."""
    events = []

    def look(waiting):
        waiting.seconds += 1.0
        events.pop(0)()
        return waiting.seconds

    monkeypatch.setattr("gmi_drl.comm.memory.notify._NAP_S", 0.0)
    monkeypatch.setattr(WaitClock, "look", look)
    return events


def nothing():
    pass


def test_who_waits_for_a_gmi_that_hears_others_waits_on_and_tells_so(each_second):
    with ends() as (simulator, agent, trainer):
        told = []
        trainer._keepalives.send.append(lambda: told.append(1))

        def step():
            simulator.send("step", AGENT)
            agent.recv_while_active(SIMULATOR)

        each_second += [step] * LONG + [lambda: agent.send("rollout", TRAINER)]
        assert trainer.recv_while_active(AGENT, patience=2) == "rollout"
        assert len(told) == LONG + 1, "once for each step, of which the trainer has learnt, and for the rollout"


def test_a_gmi_that_hears_nothing_any_more_is_silent(each_second):
    with ends() as (simulator, agent, trainer):
        simulator.send("step", AGENT)
        agent.recv_while_active(SIMULATOR)
        each_second += [nothing] * LONG
        with pytest.raises(PeerSilentError, match=r"GMI 1 .* has not sent a message for 2 s \(2 x hang_s\)"):
            trainer.recv_while_active(AGENT, patience=2)
        assert len(each_second) == LONG - 3


def test_what_one_learns_of_goes_on_to_those_that_wait_for_it(each_second):
    """The simulator waits for the agent, which waits for its trainer, which hears of other ranks."""
    with ends() as (simulator, agent, trainer):

        def rank_renews():
            (heard,) = trainer._keepalives.received
            heard()

        known = [simulator._memory.activity_ns(AGENT)]
        each_second += [rank_renews, lambda: known.append(simulator._memory.activity_ns(AGENT))] * LONG
        each_second += [lambda: trainer.send("collect", AGENT)]
        assert agent.recv_while_active(TRAINER, patience=2) == "collect"
        assert known == sorted(set(known)) and len(known) == LONG + 1, "newer after each renewal"


def test_who_only_receives_tells_nobody_of_it(each_second):
    with ends() as (simulator, agent, trainer):

        def step():
            simulator.send("step", AGENT)
            agent.recv(SIMULATOR)

        each_second += [step] * LONG
        with pytest.raises(PeerSilentError):
            trainer.recv_while_active(AGENT, patience=2)


def test_gmis_that_wait_for_each_other_renew_no_wait_for_ever():
    with ends(hang_s=0.3) as (simulator, agent, trainer):
        simulator.send("step", AGENT)
        simulator.send("step", TRAINER)
        lost = []

        def wait(end, peer):
            end.recv_while_active(SIMULATOR)
            try:
                end.recv_while_active(peer)
            except PeerSilentError as error:
                lost.append(str(error))

        pair = [threading.Thread(target=wait, args=args) for args in ((agent, TRAINER), (trainer, AGENT))]
        for thread in pair:
            thread.start()
        for thread in pair:
            thread.join(timeout=60)
        assert len(lost) == 2
