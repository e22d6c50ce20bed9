"""An agent whose process has died, and the one that goes on as it; all ends are in this process."""

import os
import subprocess
import time
from collections import Counter

import pytest

from gmi_drl.comm.channels import create_memory, join_as_agent, join_as_trainer
from gmi_drl.comm.memory.leases import ROLLOUTS_OF_ONE
from gmi_drl.comm.memory.mailbox_memory import MailboxMemory, create_mailboxes
from gmi_drl.errors import PeerDiedError, PeerSilentError
from tests.comm.channels.traced_rollouts import parameters, pieces, rollouts_in, send, sizes_of, write

HANG_S, SOON_S = 20.0, 0.05
AGENT, OTHER = 2, 3


class Run:
    """Two trainers, and agents of which each has a process that does nothing, so that it may end."""

    def __init__(self, hang_s=HANG_S, awaits_successors=True, agents=(AGENT,), **channels):
        self.sizes = sizes_of(agents=agents, trainers=(0, 1), **channels)
        self.mailboxes, self.memory = create_mailboxes(range(4)), create_memory()
        rest = self.sizes, hang_s, "cpu", awaits_successors
        self.trainers = [join_as_trainer(self.memory, self.mailboxes, gmi, *rest) for gmi in (0, 1)]
        self.trainers[0].parameters.publish(0, parameters())
        self.processes, self.ends = [], []

    def agent(self, gmi=AGENT, predecessors=0):
        self.ends.append(join_as_agent(self.memory, self.mailboxes, gmi, self.sizes, HANG_S, predecessors=predecessors))
        self.processes.append(subprocess.Popen(["sleep", "1000"]))
        MailboxMemory(self.mailboxes.memory).set_pid(gmi, self.processes[-1].pid)
        return self.ends[-1]

    def kill(self, number=-1):
        self.processes[number].kill()
        os.waitid(os.P_PID, self.processes[number].pid, os.WEXITED | os.WNOWAIT)

    def see(self):
        """Trainers look who has ended, and who has come."""
        for trainer in self.trainers:
            trainer._notifier.poll_ended(trainer._living)
            trainer._process_events()

    def learn(self, version):
        """What the trainers do with their next batches: who was in them, by trainer."""
        came = [rollouts_in(trainer.take()) for trainer in self.trainers]
        self.trainers[0].parameters.publish(version, parameters(version))
        for trainer in self.trainers:
            trainer.give_back()
        return came

    @property
    def dropped(self):
        return sum((trainer.dropped for trainer in self.trainers), Counter())

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for end in (*self.trainers, *self.ends):
            end.close()
        os.close(self.memory)
        self.mailboxes.close()


@pytest.fixture
def start():
    runs = []

    def begin(**more):
        runs.append(Run(**more))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


def begin_to_send(end):
    """The first piece of a rollout, which stays unfinished."""
    write(end.lease(), AGENT, *pieces()[0])


@pytest.mark.parametrize("is_end_seen", [True, False], ids=["death seen first", "successor seen first"])
def test_a_successor_fills_what_was_left_and_what_was_whole_counts(start, is_end_seen):
    run = start(max_lag=0)
    first = run.agent()
    send(first.lease(), AGENT)
    begin_to_send(first)
    if is_end_seen:
        run.kill()
        run.see()
        assert run.dropped == {f"GMI {AGENT} ended": 1}
    second = run.agent(predecessors=1)
    if not is_end_seen:
        run.kill(0)
        assert second.lease_now() is None, "its predecessor holds all places until the trainers have looked"
        run.see()
    send(second.lease(), AGENT)
    assert run.learn(1) == [[(AGENT, 0)], [(AGENT, ROLLOUTS_OF_ONE)]]
    assert run.dropped == {f"GMI {AGENT} ended": 1}


def test_what_a_successor_has_begun_is_not_taken_for_its_predecessors(start):
    """It leases before the trainers have seen anything of it."""
    run = start(max_lag=1)
    begin_to_send(run.agent())
    run.kill()
    second = run.agent(predecessors=1)
    place = second.lease()
    for kind, step in pieces()[:3]:
        write(place, AGENT, kind, step)
    run.see()
    for kind, step in pieces()[3:]:
        write(place, AGENT, kind, step)
    place.commit()
    send(second.lease(), AGENT)
    assert sorted(run.learn(1)) == [[(AGENT, ROLLOUTS_OF_ONE)], [(AGENT, ROLLOUTS_OF_ONE + 1)]]
    assert run.dropped == {f"GMI {AGENT} ended": 1}


def test_the_death_of_a_successor_is_seen_and_the_next_one_has_numbers_of_its_own(start):
    run, came = start(max_lag=0), []
    for predecessors in range(3):
        end = run.agent(predecessors=predecessors)
        if predecessors:
            run.see()
        send(end.lease(), AGENT)
        send(end.lease(), AGENT)
        came += [divmod(number, ROLLOUTS_OF_ONE) for ((_, number),) in run.learn(predecessors + 1)]
        begin_to_send(end)
        run.kill()
        run.see()
        assert run.dropped == {f"GMI {AGENT} ended": predecessors + 1}
    assert came == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


def test_a_successor_that_comes_while_a_trainer_waits_is_waited_for_beside_the_others(start):
    """The place is nobody's when the wait begins, and the agent that lives has no room: only the successor fills it."""
    run = start(max_lag=0, hang_s=0.5, agents=(AGENT, OTHER))
    begin_to_send(run.agent())
    send(run.agent(OTHER).lease(), OTHER)
    run.kill(0)
    run.see()
    waiting, wait_for = run.trainers[0], run.trainers[0]._notifier.wait_for

    def come_then_wait(*arguments):
        waiting._notifier.wait_for = wait_for
        send(run.agent(predecessors=1).lease(), AGENT)
        wait_for(*arguments)

    waiting._notifier.wait_for = come_then_wait
    assert rollouts_in(waiting.take()) == [(AGENT, ROLLOUTS_OF_ONE)]


def test_a_successor_that_comes_when_experience_has_ended_has_nothing_to_do(start):
    run = start()
    begin_to_send(run.agent())
    run.kill()
    for trainer in run.trainers:
        trainer.end_experience()
    assert run.agent(predecessors=1).lease() is None


@pytest.mark.parametrize(("awaits", "error"), [(False, PeerDiedError), (True, PeerSilentError)])
def test_trainers_wait_for_a_successor_only_where_one_may_come_and_not_for_ever(start, awaits, error):
    run = start(hang_s=SOON_S, awaits_successors=awaits)
    run.agent()
    run.kill()
    began = time.monotonic()
    with pytest.raises(error, match=rf"all agents \(GMIs {AGENT}\) ended while GMI 0 waited"):
        run.trainers[0].take()
    assert time.monotonic() - began < HANG_S


def test_others_go_on_meanwhile(start):
    run = start(agents=(AGENT, OTHER), max_lag=0)
    begin_to_send(run.agent(AGENT))
    living = run.agent(OTHER)
    run.kill(0)
    run.see()
    for version in (1, 2, 3):
        send(living.lease(), OTHER)
        send(living.lease(), OTHER)
        assert sorted(run.learn(version)) == [[(OTHER, 2 * version - 2)], [(OTHER, 2 * version - 1)]]
    assert run.dropped == {f"GMI {AGENT} ended": 1}
