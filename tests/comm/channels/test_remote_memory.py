"""What an agent of another host and its proxy keep of rollouts that are on their way."""

import os
import threading
import time
from collections import deque
from contextlib import closing, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmi_drl.comm.channels import create_memory, join_as_trainer
from gmi_drl.comm.channels.remote_agent import RemoteAgentEnd
from gmi_drl.comm.channels.remote_protocol import GRANT, GRANTED, READY
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.errors import GmiError, PeerSilentError
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.spaces import continuous, vector
from tests.comm.channels.proxy_pair import PROXY, ProxyPair
from tests.comm.channels.traced_rollouts import parameters, send, sizes_of, some_sizes

HANG_S = 60.0


def test_memory_is_not_written_again_before_it_was_sent():
    """To a proxy that reads nothing: the third rollout waits for the memory of the first."""
    proxy_pair, connections = ProxyPair(1), []
    thread = threading.Thread(target=lambda: connections.append(proxy_pair._connection(PROXY)))
    thread.start()
    sender = proxy_pair.sender()
    thread.join()
    sizes = sizes_of(form=RolloutForm(horizon=8, num_env=1024, observation=vector(1000), action=continuous(1)))
    connections[0].send_frame(READY)
    end = RemoteAgentEnd(sender, sizes, 1.0, 3, HANG_S)
    for place in range(2):
        connections[0].send_frame(GRANTED, GRANT.pack(0, place, 0, 0))
        leased = end.lease()
        for kind in leased.views:
            leased.wrote_whole(kind)
        leased.commit()
    connections[0].send_frame(GRANTED, GRANT.pack(0, 2, 0, 0))
    with pytest.raises(PeerSilentError, match="has not received experience for 1 s"):
        end.lease()
    assert len(sender._pieces) < 2 * records_of(sizes), "the connection has one of them"
    end.close()
    connections[0].close()
    proxy_pair.close()


def records_of(sizes):
    """What is told of a rollout, piece by piece."""
    return sum(-(-sizes.steps_of(kind) // sizes.steps_of_transfer(kind)) for kind in sizes.form.kinds)


class Watched(deque):
    """A queue that knows how long it was."""

    most = 0

    def append(self, item):
        super().append(item)
        self.most = max(self.most, len(self))

    def appendleft(self, item):
        super().appendleft(item)
        self.most = max(self.most, len(self))


class FarAgent:
    """An agent that acts as fast as it may, and its proxy, as threads, with every queue between them."""

    def __init__(self, gmi, sizes, memory, mailboxes, rests_s):
        self.gmi, self.sizes, self.memory, self.mailboxes, self.rests_s = gmi, sizes, memory, mailboxes, rests_s
        self.proxy_pair = ProxyPair(gmi)
        self.rollouts = self.left = 0
        self.of_agent, self.of_connections, self.words, self.inbox = (Watched() for _ in range(4))
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._serve_proxy, self._act)]
        for thread in self.threads:
            thread.start()

    def _serve_proxy(self):
        with suppress(GmiError), closing(self.proxy_pair.made_proxy(self.memory, self.mailboxes, HANG_S)) as proxy:
            proxy._connection._inbox = self.inbox
            proxy.serve()
            self.left += len(proxy._unfinished)

    def _act(self):
        sender = self.proxy_pair.sender()
        sender._pieces, sender._messages, sender._connection._unsent = self.of_agent, self.words, self.of_connections
        with closing(RemoteAgentEnd(sender, self.sizes, HANG_S, 3, HANG_S)) as end:
            while place := end.lease():
                send(place, self.gmi)
                self.rollouts += 1
                time.sleep(self.rests_s)
        self.left += len(sender._unsent)

    def join(self):
        for thread in self.threads:
            thread.join(HANG_S)
            assert not thread.is_alive()
        self.proxy_pair.close()


@st.composite
def runs(draw):
    """Sizes of a run, and how long agents rest after each rollout and trainers before each update, in seconds."""
    sizes = draw(some_sizes(most_agents=4, most_trainers=2, most_lag=4))
    agents = draw(st.lists(st.sampled_from([0.0, 0.01]), min_size=len(sizes.agents), max_size=len(sizes.agents)))
    return sizes, agents, draw(st.lists(st.floats(0, 0.02), max_size=6))


@settings(max_examples=15)
@given(runs())
def test_queues_on_the_way_hold_no_more_than_the_places_that_were_leased(drawn):
    """A far agent is two rollouts ahead at most, of those for which there is room."""
    sizes, rests_of_agents, rests = drawn
    mailboxes, memory = create_mailboxes(range(len(sizes.agents + sizes.trainers))), create_memory()
    trainers = [join_as_trainer(memory, mailboxes, gmi, sizes, HANG_S) for gmi in sizes.trainers]
    trainers[0].parameters.publish(0, parameters())
    agents = [FarAgent(gmi, sizes, memory, mailboxes, s) for gmi, s in zip(sizes.agents, rests_of_agents, strict=True)]
    for version, rest in enumerate(rests, 1):
        time.sleep(rest)
        for trainer in trainers:
            trainer.take()
        trainers[0].parameters.publish(version, parameters(version))
        for trainer in trainers:
            trainer.give_back()
    time.sleep(0.01)
    for trainer in trainers:
        trainer.end_experience()
    for agent in agents:
        agent.join()
    places = sizes.places * len(sizes.trainers)
    for agent in agents:
        assert agent.of_agent.most <= min(2, places) * records_of(sizes)
        assert agent.words.most <= 2, "what it opens, or a lease, and the last word"
        assert agent.of_connections.most <= 4, "a piece: what it is and its numbers, each behind a head"
        assert agent.inbox.most == 0, "numbers go where they belong as they come"
        assert agent.left == 0, "nothing is remembered of what was passed on"
    assert sum(agent.rollouts for agent in agents) <= places + len(rests) * sizes.rollouts * len(sizes.trainers)
    for trainer in trainers:
        trainer.close()
    os.close(memory)
    mailboxes.close()
