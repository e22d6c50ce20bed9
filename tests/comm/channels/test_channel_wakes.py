"""Who waits in channels is woken by what it waits for: here nobody awakes by itself."""

import os
import subprocess
import threading
import time
from contextlib import closing
from dataclasses import replace

import pytest
import torch

from gmi_drl.comm.channels import create_memory, join_as_agent, join_as_trainer, packed_bytes
from gmi_drl.comm.channels.remote_protocol import GRANTED, LEASE, OPEN
from gmi_drl.comm.memory.mailbox_memory import MailboxMemory, create_mailboxes
from gmi_drl.errors import PeerDiedError
from tests.comm.channels.proxy_pair import AGENT, ProxyPair, opening
from tests.comm.channels.traced_rollouts import parameters, send, sizes_of

NAP_S = 600.0  # longer than anything here takes
WOKEN_S = 60


@pytest.fixture(autouse=True)
def long_naps(monkeypatch):
    monkeypatch.setattr("gmi_drl.comm.memory.notify._NAP_S", NAP_S)


class Run:
    """Trainers 0 and 1 and agents 2 and 3, of which the first trainer has published nothing yet."""

    def __init__(self, **sizes):
        self.sizes = sizes_of(agents=(2, 3), trainers=(0, 1), **sizes)
        self.mailboxes, self.memory = create_mailboxes(range(4)), create_memory()
        self.first, self.second = (
            join_as_trainer(self.memory, self.mailboxes, gmi, self.sizes, NAP_S) for gmi in (0, 1)
        )
        self.agent, self.other = (join_as_agent(self.memory, self.mailboxes, gmi, self.sizes, NAP_S) for gmi in (2, 3))

    def fill(self):
        """Every place of both trainers, by the other agent."""
        for _ in range(2 * self.sizes.places):
            send(self.other.lease(), 3)

    def close(self):
        for end in (self.first, self.second, self.agent, self.other):
            end.close()
        os.close(self.memory)
        self.mailboxes.close()


@pytest.fixture
def run():
    runs = []

    def start(**sizes):
        runs.append(Run(**sizes))
        return runs[-1]

    yield start
    for made in runs:
        made.close()


def woken(wait, deed):
    """What `wait` returns after a deed, or its error, when it was asleep before."""
    said = []

    def live():
        try:
            said.append(wait())
        except PeerDiedError as error:
            said.append(error)

    waiting = threading.Thread(target=live, daemon=True)
    waiting.start()
    time.sleep(0.1)
    assert not said
    deed()
    waiting.join(WOKEN_S)
    assert said, "slept on"
    return said[0]


def test_an_agent_without_a_place_by_one_that_comes_back(run):
    run = run(max_lag=0)
    run.first.parameters.publish(0, parameters())
    run.fill()
    run.first.take()
    run.first.parameters.publish(1, parameters(1))
    assert woken(run.agent.lease, run.first.give_back).number == 1


def test_an_agent_without_a_place_by_the_end(run):
    run = run(max_lag=0)
    run.fill()
    assert woken(run.agent.lease, run.second.end_experience) is None


def test_an_agent_without_a_place_by_one_whose_agent_has_ended(run):
    run = run(max_lag=0)
    process = subprocess.Popen(["sleep", "1000"])
    MailboxMemory(run.mailboxes.memory).set_pid(3, process.pid)
    for _ in range(2):  # which it leaves as they are
        run.other._place = None
        run.other.lease()
    trainer = threading.Thread(target=run.first.take, daemon=True)
    trainer.start()
    place = woken(run.agent.lease, process.kill)
    process.wait()
    send(place, 2)
    trainer.join(WOKEN_S)
    assert run.first.dropped == {"GMI 3 ended": 1} and not trainer.is_alive()


def test_an_agent_whose_queue_is_full_by_room(run):
    run = run(rollouts=4, max_lag=0)
    for ring in run.agent._rings:
        while ring.has_room():
            ring.reserve()
            ring.write(0, 0, 0, 0, 0)

    def drain():
        list(run.first._rings[2].read_all())
        run.first._notifier.notify(2)

    assert woken(run.agent.lease, drain).trainer == 0


def test_taking_rings_for_who_waits_for_room(run):
    run = run()
    send(run.agent.lease(), 2)
    with pytest.raises(BlockingIOError):
        os.eventfd_read(run.mailboxes.eventfds[2])
    run.first._process_events()
    assert os.eventfd_read(run.mailboxes.eventfds[2]) == 1


def test_a_trainer_by_the_last_record_of_a_batch(run):
    run = run()
    place = run.agent.lease()
    *others, last = place.views
    for kind in others:
        place.wrote_whole(kind)
    assert woken(run.first.take, lambda: place.wrote_whole(last)).agents == (2,)


def test_a_trainer_by_the_end_of_the_last_agent(run):
    run = run()
    memory, agents = MailboxMemory(run.mailboxes.memory), [subprocess.Popen(["sleep", "1000"]) for _ in range(2)]
    for gmi, agent in zip((2, 3), agents, strict=True):
        memory.set_pid(gmi, agent.pid)
    agents[0].kill()
    error = woken(run.first.take, agents[1].kill)
    for agent in agents:
        agent.wait()
    assert "all agents (GMIs 2, 3) ended" in str(error)


def test_a_trainer_that_gives_back_by_the_new_version(run):
    run = run(max_lag=0)
    run.first.parameters.publish(0, parameters())
    run.fill()
    run.second.take()
    woken(run.second.give_back, lambda: run.first.parameters.publish(1, parameters(1)))
    assert run.agent.lease().number == 1


def test_first_published_version_wakes_reader(run):
    run = run()
    assert (
        woken(
            lambda: run.agent.parameters.read_into(parameters()), lambda: run.first.parameters.publish(7, parameters())
        )
        == 7
    )


def test_early_agent_is_woken_when_memory_is_created():
    sizes, mailboxes, memory = sizes_of(), create_mailboxes(range(2)), create_memory()
    ends = []
    ends.append(
        woken(
            lambda: join_as_agent(memory, mailboxes, 1, sizes, NAP_S),
            lambda: ends.append(join_as_trainer(memory, mailboxes, 0, sizes, NAP_S)),
        )
    )
    for end in ends:
        end.close()
    os.close(memory)
    mailboxes.close()


def test_large_parameters_go_out_while_a_place_is_waited_for():
    """By a proxy whose connection takes all of them only bit by bit."""
    numbers = torch.arange(2**23, dtype=torch.float32)
    sizes = replace(sizes_of(max_lag=0), parameter_bytes=packed_bytes([numbers]))
    mailboxes, memory, proxy_pair = create_mailboxes(range(2)), create_memory(), ProxyPair(1)
    trainer = join_as_trainer(memory, mailboxes, 0, sizes, NAP_S)
    trainer.parameters.publish(0, [numbers])
    thread = proxy_pair.serving(memory, mailboxes, NAP_S)
    connection, came = proxy_pair._connection(AGENT), torch.empty_like(numbers)
    with closing(trainer), closing(connection):
        for kind, text in ((OPEN, opening(sizes)), (LEASE, b"")):
            connection.send_frame(kind, text)
        until(lambda: GRANTED in (kind for kind, _ in connection.read()))  # reads no further
        connection.receive_data(came.numpy().data.cast("B"))
        connection.send_frame(LEASE)  # there is no other place
        time.sleep(0.2)
        until(lambda: [*connection.read(), not connection.is_receiving][-1])
    assert came.equal(numbers)
    thread.join(WOKEN_S)
    assert not thread.is_alive()
    proxy_pair.close()
    os.close(memory)
    mailboxes.close()


def until(is_done):
    deadline = time.monotonic() + WOKEN_S
    while not is_done():
        assert time.monotonic() < deadline, "slept on"
        time.sleep(0.001)
