"""One process has the proxies of several agents of another host."""

import os
import re
import socket
import threading
from contextlib import closing
from pathlib import Path
from select import POLLIN, poll

import pytest

from gmi_drl.comm.channels import create_memory, join_as_agent, join_as_trainer
from gmi_drl.comm.channels.proxy import AgentProxy
from gmi_drl.comm.channels.proxy_host import ProxyHost
from gmi_drl.comm.channels.remote_protocol import GRANTED, LEASE, OPEN, READY
from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.comm.memory.leases import ROLLOUTS_OF_ONE
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.errors import PeerSilentError
from gmi_drl.launch.known_rooms import EACH_PROXY_BYTES
from tests.comm.channels.proxy_pair import ProxyPair, opening
from tests.comm.channels.traced_rollouts import parameters, pieces, rollouts_in, send, sizes_of, write
from tests.comm.ranks import FORK

HANG_S = 60.0


class TwoAgents:
    """A trainer, and two agents of another host whose proxies are in one process: this one, as threads."""

    def __init__(self, **sizes):
        self.sizes = sizes_of(agents=(1, 2), **sizes)
        self.mailboxes, self.memory = create_mailboxes(range(3)), create_memory()
        self.trainer = join_as_trainer(self.memory, self.mailboxes, 0, self.sizes, HANG_S)
        self.trainer.parameters.publish(0, parameters())
        self.host = ProxyHost(self.memory, self.mailboxes, HANG_S)
        self.pairs = {gmi: ProxyPair(gmi) for gmi in self.sizes.agents}
        self.threads = {
            gmi: pair.serving(self.memory, self.mailboxes, HANG_S, host=self.host) for gmi, pair in self.pairs.items()
        }
        self.agents = {gmi: pair.agent_end(self.sizes, HANG_S) for gmi, pair in self.pairs.items()}

    def die(self, gmi):
        """Its connection ends, as by the kernel of a host whose process was killed."""
        self.agents.pop(gmi)._sender.close()
        self.threads[gmi].join(HANG_S)
        assert not self.threads[gmi].is_alive()

    def met_again(self, gmi, predecessors):
        """Another process of an agent, and its proxy: where they meet."""
        self.pairs[gmi].close()
        self.pairs[gmi] = pair = ProxyPair(gmi, predecessors)
        self.threads[gmi] = pair.serving(self.memory, self.mailboxes, HANG_S, host=self.host)
        return pair

    def start_again(self, gmi, predecessors=1):
        self.agents[gmi] = self.met_again(gmi, predecessors).agent_end(self.sizes, HANG_S)

    def see(self):
        """The trainer looks who has ended, and who has come."""
        self.trainer._notifier.poll_ended(self.sizes.agents)
        self.trainer._process_events()

    def close(self):
        for end in (*self.agents.values(), self.trainer):
            end.close()
        for thread in self.threads.values():
            thread.join(HANG_S)
        for pair in self.pairs.values():
            pair.close()
        os.close(self.memory)
        self.mailboxes.close()


@pytest.fixture
def two():
    made = []

    def start(**sizes):
        made.append(TwoAgents(**sizes))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_one_agent_dies_and_the_other_goes_on_by_the_same_process(two):
    run = two(rollouts=2, max_lag=1)
    send(run.agents[1].lease(), 1)
    place = run.agents[1].lease()
    for kind, step in pieces()[:9]:
        write(place, 1, kind, step)
    run.die(1)
    send(run.agents[2].lease(), 2)
    run.see()
    assert run.trainer.dropped == {"GMI 1 ended": 1} and run.trainer._living == [2]
    send(run.agents[2].lease(), 2)
    assert rollouts_in(run.trainer.take()) == [(1, 0), (2, 1)], "the place of the half was leased again"


@pytest.mark.parametrize("is_end_seen", [True, False], ids=["death seen first", "successor seen first"])
def test_an_agent_that_is_started_again_fills_what_was_left_and_what_was_whole_counts(two, is_end_seen):
    run = two(rollouts=2, max_lag=0)
    send(run.agents[1].lease(), 1)
    write(run.agents[1].lease(), 1, *pieces()[0])
    run.die(1)
    if is_end_seen:
        run.see()
        assert run.trainer._living == [2]
    run.start_again(1)
    run.see()
    assert run.trainer.dropped == {"GMI 1 ended": 1} and sorted(run.trainer._living) == [1, 2]
    send(run.agents[1].lease(), 1)
    assert rollouts_in(run.trainer.take()) == [(1, 0), (1, ROLLOUTS_OF_ONE)]


def test_an_agent_that_is_started_again_and_still_loads_is_not_waited_for(two):
    """Nor is one that dies then. A third process is there as soon as it has opened its end."""
    run = two(rollouts=1, max_lag=0)
    run.die(1)
    run.see()
    sender = run.met_again(1, predecessors=1).sender()
    run.see()
    assert run.trainer._living == [2]
    sender.close()
    run.threads[1].join(HANG_S)
    run.see()
    assert run.trainer._living == [2]
    run.start_again(1, predecessors=2)
    run.see()
    assert run.trainer._living == [2, 1]
    send(run.agents[1].lease(), 1)
    assert rollouts_in(run.trainer.take()) == [(1, 2 * ROLLOUTS_OF_ONE)]


def test_a_trainer_that_waits_for_the_one_that_dies_is_woken_though_the_process_goes_on(two):
    run, came = two(rollouts=1, max_lag=0), []
    place = run.agents[1].lease()
    waiting = threading.Thread(target=lambda: came.append(rollouts_in(run.trainer.take())), daemon=True)
    waiting.start()
    write(place, 1, *pieces()[0])
    run.die(1)
    send(run.agents[2].lease(), 2)
    waiting.join(HANG_S)
    assert came == [[(2, 0)]]


def test_an_agent_that_has_not_come_yet_is_not_blamed():
    sizes, mailboxes, memory = sizes_of(agents=(1, 2)), create_mailboxes(range(3)), create_memory()
    trainer = join_as_trainer(memory, mailboxes, 0, sizes, hang_s=0.2)
    agent = join_as_agent(memory, mailboxes, 1, sizes, hang_s=0.2)
    with pytest.raises(PeerSilentError, match=r"^GMI 1 \(process \d+\) lives but has not sent experience"):
        trainer.take()
    for end in (agent, trainer):
        end.close()
    os.close(memory)
    mailboxes.close()


def test_all_send_the_same_copy_of_the_newest_parameters(two):
    run = two(rollouts=2, max_lag=1)
    for gmi in (1, 2):
        send(run.agents[gmi].lease(), gmi)
    seen = [run.host.newest(run.trainer.parameters, run.sizes.parameter_bytes) for _ in range(2)]
    assert seen[0][0] == seen[1][0] == 0 and seen[0][1] is seen[1][1]
    run.trainer.take()
    run.trainer.parameters.publish(1, parameters(1))
    run.trainer.give_back()
    assert run.host.newest(run.trainer.parameters, run.sizes.parameter_bytes)[0] == 1


FEW, MANY = 4, 36


def test_a_process_grows_by_little_with_each_proxy():
    """Each with a place leased, and the parameters sent."""
    sizes = sizes_of(agents=tuple(range(1, MANY + 1)), max_lag=1, rollouts=MANY)
    mailboxes, memory = create_mailboxes(range(MANY + 1)), create_memory()
    trainer = join_as_trainer(memory, mailboxes, 0, sizes, HANG_S)
    trainer.parameters.publish(0, parameters())
    pairs = {gmi: socket.socketpair() for gmi in sizes.agents}

    def serve(host, gmi):
        with closing(AgentProxy(FramedConnection(pairs[gmi][1], 0), host, gmi, print)) as proxy:
            proxy.serve()

    def live():
        for here, _ in pairs.values():
            here.close()
        host = ProxyHost(memory, mailboxes, HANG_S)
        threads = [threading.Thread(target=serve, args=(host, gmi)) for gmi in sizes.agents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os._exit(0)

    process = FORK.Process(target=live)
    process.start()
    connections, taken = {}, []
    for gmi, (here, there) in pairs.items():
        there.close()
        connections[gmi] = connection = FramedConnection(here, 0)
        connection.send_frame(OPEN, opening(sizes))
        await_frame(connection, READY)
        connection.send_frame(LEASE)
        await_frame(connection, GRANTED)
        if gmi in (FEW, MANY):
            taken.append(anonymous_bytes(process.pid))
    assert (taken[1] - taken[0]) / (MANY - FEW) < EACH_PROXY_BYTES / 2
    for connection in connections.values():
        connection.close()
    process.join(HANG_S)
    assert process.exitcode == 0
    trainer.close()
    os.close(memory)
    mailboxes.close()


def await_frame(connection, kind):
    polling = poll()
    polling.register(connection, POLLIN)
    while kind not in [came for came, _ in connection.read()]:
        assert connection.is_open and polling.poll(1000 * HANG_S)


def anonymous_bytes(pid):
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * int(re.search(r"Anonymous: *(\d+) kB", rollup)[1])
