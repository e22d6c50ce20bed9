"""Clients whose server is on another host: here both ends of a connection are in this process."""

import socket
import threading
from collections import Counter
from contextlib import contextmanager, suppress
from random import Random

import pytest
from bad_bytes import bad_frames
from fuzz_ends import stream_frames

from gmi_drl.comm.host_links import MESSAGE_BYTES
from gmi_drl.comm.links.framing import FIRST_OTHER_KIND, FramedConnection
from gmi_drl.comm.memory import wait_clock
from gmi_drl.comm.streams import StreamServer, StreamSizes
from gmi_drl.comm.streams.far_client import ServerLink, far_client
from gmi_drl.comm.streams.slot_link import HALF, SlotLink
from gmi_drl.comm.streams.slots import PROCESSES, own_slots
from gmi_drl.errors import GmiError, PeerDiedError, PeerSilentError, UsageError
from gmi_drl.layout.experience import Kind
from tests.comm.streams.stream_ends import ANSWER, ends, post, serve, sizes_of, value_of

FAR = 2


@contextmanager
def far_fuzzed():
    """A server, and the socket of its client, which ends with its message."""
    with ends(sizes_of(clients=((FAR,),)), hang_s=0.01, far=(FAR,)) as made:
        here, other = socket.socketpair()
        server = StreamServer(*made.join(0), wait_s=0.0, far={FAR: FramedConnection(here, 1, MESSAGE_BYTES)})
        yield server, other
        server.close()
        other.close()


@contextmanager
def far_ends(near=(), members=1, hang_s=5.0, asked=None, **more):
    """The server 0 with clients on its host and client `FAR` on another: the ends, the server, and the far client."""
    with ends(sizes_of(clients=((*near, FAR),), members=members), hang_s=hang_s, far=(FAR,)) as made:
        here, there = (FramedConnection(one, 1) for one in socket.socketpair())
        server = StreamServer(*made.join(0), wait_s=0.0, far={FAR: here}, **more)
        client = far_client(there, FAR, asked or made.sizes, hang_s, hang_s)
        yield made, server, client
        client.close()
        server.close()


def test_a_request_over_hosts_is_answered_by_the_version_that_it_wants():
    with far_ends() as (_, server, client):
        for number in range(3):
            post(client, 1.5 + number, version=7)
            assert serve(server) == [0]
            answer = client.take(0)
            assert (answer.version, answer.rows, value_of(answer)) == (7, 2, 3.0 + 2 * number)
            assert 0 < answer.took_s < 5, "by one clock, though that of the server is another one"


class CountedSocket(socket.socket):
    """A socket whose system calls are counted, by what they do."""

    def __init__(self, one):
        super().__init__(fileno=one.detach())
        self.calls = Counter()

    def recv_into(self, buffer):
        self.calls["receive"] += 1
        return super().recv_into(buffer)

    def recvmsg_into(self, buffers):
        self.calls["receive"] += 1
        return super().recvmsg_into(buffers)

    def sendmsg(self, buffers):
        self.calls["send"] += 1
        return super().sendmsg(buffers)


def test_a_request_of_64_kb_takes_two_receives_and_an_answer_one():
    sizes = StreamSizes((Kind("obs", (2, 8192)),), ANSWER, 2, (0,), ((FAR,),), 1)
    with ends(sizes) as made:
        here, there = map(CountedSocket, socket.socketpair())
        server = StreamServer(*made.join(0), wait_s=0.0, far={FAR: FramedConnection(here, 1, MESSAGE_BYTES)})
        client = far_client(FramedConnection(there, 1), FAR, sizes, 5.0, 5.0)
        post(client, 0.0)
        assert serve(server) == [0] and value_of(client.take(0)) == 0.0  # the first tells that the client is there
        here.calls.clear()
        there.calls.clear()
        for number in range(3):
            post(client, 1.0 + number)
            assert serve(server) == [0] and value_of(client.take(0)) == 2.0 + 2 * number
        assert here.calls == {"receive": 6, "send": 3} and there.calls == {"receive": 3, "send": 3}
        client.close()
        server.close()


def test_large_requests_of_all_members_are_sent_while_the_client_does_other_things():
    sizes = StreamSizes((Kind("obs", (2, 8192)),), ANSWER, 2, (0,), ((FAR,),), 2)
    with ends(sizes) as made:
        here, there = socket.socketpair()
        there.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        server = StreamServer(*made.join(0), wait_s=0.0, far={FAR: FramedConnection(here, 1, MESSAGE_BYTES)})
        client = far_client(FramedConnection(there, 1), FAR, sizes, 5.0, 5.0)
        for member in range(2):
            post(client, 1.0 + member, member)
        assert not client._notifier._link.connection.is_sending
        answered = serve(server)
        while len(answered) < 2:
            answered += serve(server)
        assert [value_of(client.take(member)) for member in range(2)] == [2.0, 4.0]
        client.close()
        server.close()


def test_near_and_far_requests_of_all_members_make_one_batch():
    with far_ends(near=(1,), members=2) as (made, server, far):
        near = made.client(1)
        for number, client in enumerate((near, far)):
            for member in range(2):
                post(client, 10 * number + member, member)
        answered = serve(server)
        while len(answered) < 4:
            answered += serve(server)
        assert sorted(answered) == [0, 1, 2, 3]
        assert [value_of(client.take(member)) for client in (near, far) for member in range(2)] == [0, 2, 20, 22]


def test_a_server_sleeps_until_a_far_request_comes_and_ends_when_the_client_has_left():
    with far_ends() as (_, server, client):
        asker = threading.Timer(0.05, post, (client, 4.0))
        asker.start()
        assert serve(server) == [0]
        asker.join()
        assert value_of(client.take(0)) == 8.0
        client.close()
        assert serve(server) == []


def test_the_end_of_a_far_client_is_told_unless_it_has_left():
    with far_ends() as (_, server, client):
        client._notifier._link.connection.close()
        with pytest.raises(PeerDiedError, match=r"all actors of GMI 0 have left or ended \(GMI 2\)"):
            serve(server)


def test_the_end_of_the_server_and_its_silence_are_told_by_its_name():
    with far_ends(hang_s=0.1) as (_, server, client):
        post(client, 1.0)
        with pytest.raises(PeerSilentError, match=r"GMI 0 on another host has not answered a request for 0\.1 s"):
            client.take(0)
        server.close()
        with pytest.raises(PeerDiedError, match="GMI 0 on another host ended and has not answered a request for GMI 2"):
            client.take(0)
        server._far = None  # closed once


def test_a_far_client_that_is_silent_is_named():
    with (
        far_ends(hang_s=0.1) as (_, server, _),
        pytest.raises(PeerSilentError, match=r"GMI 2 lives but has not posted a request for 0\.1 s"),
    ):
        serve(server)


@pytest.mark.parametrize("seed", range(200))
def test_frames_of_chance_are_refused_or_answered(seed):
    """Nothing that comes over the wire is reserved for, waited for or raised as anything but an error of ours."""
    with far_fuzzed() as (server, other):
        random = Random(seed)
        other.sendall(bad_frames(random, stream_frames(random, server.sizes)))
        with suppress(GmiError):
            serve(server)


@pytest.mark.parametrize("process", [2, -1, 2**62])
def test_a_client_that_says_it_succeeds_another_on_its_connection_is_dropped(process):
    with far_ends() as (_, server, client):
        client._words[client._lines[0] + PROCESSES] = process
        post(client, 1.0)
        with pytest.raises(PeerDiedError, match=f"GMI 2 on another host: words of its process {process} came"):
            serve(server)


def test_other_sizes_and_frames_that_no_end_sends_are_refused():
    with (
        pytest.raises(UsageError, match=r"GMI 0 has other sizes than this GMI's: rows 2 and 3"),
        far_ends(asked=sizes_of(clients=((FAR,),), rows=3)),
    ):
        pass
    with far_ends() as (_, server, client):
        client._notifier._link.connection.send_frame(FIRST_OTHER_KIND + 9)
        with pytest.raises(GmiError, match=r"GMI 2 on another host: .*which no end of a stream sends"):
            serve(server)
    with far_ends() as (_, server, client):
        client._notifier._link.connection.send_frame(HALF, b"x")
        with pytest.raises(GmiError, match="1 bytes came, which no end of a stream sends"):
            serve(server)


@pytest.mark.parametrize(
    "send", [lambda one: one.send_frame(FIRST_OTHER_KIND + 9), lambda one: one.send_frame(HALF, b"x")]
)
def test_a_client_that_sends_what_it_may_not_is_dropped_by_name_and_the_others_are_served(capfd, send):
    with far_ends(near=(1,)) as (made, server, far):
        near = made.client(1)
        post(far, 1.0)
        post(near, 2.0)
        answered = serve(server)
        while len(answered) < 2:
            answered += serve(server)
        assert value_of(far.take(0)) == 2.0 and value_of(near.take(0)) == 4.0
        send(far._notifier._link.connection)
        post(near, 3.0)
        assert serve(server) == [0] and value_of(near.take(0)) == 6.0
        post(far, 4.0)
        with pytest.raises(PeerDiedError, match="GMI 0 on another host ended"):
            far.take(0)
        near.close()
        assert serve(server) == []
        told = capfd.readouterr().err
        assert told.startswith("GMI 2 on another host: ") and told.count("its connection was closed") == 1


def test_a_client_that_leaves_names_the_server_that_takes_nothing(monkeypatch, caplog):
    monkeypatch.setattr(wait_clock, "SLOW_S", 0.0)
    sizes = sizes_of(servers=(4,), clients=((FAR,),))
    here, there = socket.socketpair()
    connection = FramedConnection(here, 1)
    while not connection.is_sending:
        connection.send_frame(FIRST_OTHER_KIND, bytes(2**20))
    ServerLink(SlotLink(connection, own_slots(sizes), range(1), 4, is_client=True), FAR, 0.1).close()
    assert "GMI 2 waits until GMI 4 on another host has received what is left" in caplog.text
    there.close()
