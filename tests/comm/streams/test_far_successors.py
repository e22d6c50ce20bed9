"""Servers that are started again while clients on other hosts have requests open. All ends are in this process."""

import secrets
import threading
import time
from contextlib import closing, contextmanager

import pytest

from gmi_drl.comm.host_links import CLIENT, MESSAGE_BYTES, SERVER, stream_membership
from gmi_drl.comm.links.handshake import PeerListener, RankAddresses, connect_ranks, listen
from gmi_drl.comm.streams import StreamServer
from gmi_drl.comm.streams.far_client import far_client
from gmi_drl.comm.streams.slots import ANSWERED
from gmi_drl.errors import PeerDiedError, PeerSilentError
from tests.comm.streams.stream_ends import ends, post, serve, sizes_of, value_of
from tests.comm.streams.test_late_streams import Changes

FAR, OTHER = 2, 3
HANG_S = 5.0


class Home:
    """A server with clients on other hosts, which keep their addresses as long as it is started again."""

    def __init__(self, made, clients):
        self.made, self.clients, self.hang_s = made, clients, made.hang_s
        self.sockets = {client: (listen(), listen()) for client in clients}
        token, self.predecessors = secrets.token_hex(16), -1
        self.addresses = {
            client: RankAddresses(tuple(one.getsockname()[:2] for one in pair), token)
            for client, pair in self.sockets.items()
        }

    def start(self):
        """Another process of the server, to which nobody has connected."""
        self.predecessors += 1
        self.changes, self.accepted = Changes(), []
        more = {"far": dict.fromkeys(self.clients), "changes": self.changes, "predecessors": self.predecessors}
        self.server = StreamServer(*self.made.join(0), wait_s=0.0, awaits_successors=True, **more)
        return self.server

    def accept(self, client):
        """Accept a client once."""
        member = stream_membership(client, 0, SERVER, self.hang_s, self.predecessors)
        fd = self.sockets[client][SERVER].fileno()
        listener = PeerListener(member, self.addresses[client], fd, MESSAGE_BYTES)
        while not (came := listener.accept()):
            time.sleep(0.01)
        listener._listener._poll.close()  # as a process that is killed: nobody shuts it down
        self.changes.tell(client, came[0])
        self.accepted += came

    def die(self):
        """End as a process that is killed does."""
        for connection in self.accepted:
            connection.close()

    def again(self, client):
        def connect(most_s):
            member = stream_membership(client, 0, CLIENT, most_s)
            fd = self.sockets[client][CLIENT].fileno()
            return connect_ranks(member, self.addresses[client], fd, MESSAGE_BYTES)[SERVER]

        return connect

    @contextmanager
    def accepting(self, client):
        """Accept a connection of a client meanwhile."""
        thread = threading.Thread(target=self.accept, args=(client,))
        thread.start()
        yield
        thread.join()

    def join(self, client):
        """A client that connects to the server at once."""
        with self.accepting(client):
            connection = self.again(client)(self.hang_s)
        self.server._far.receive()
        return far_client(connection, client, self.made.sizes, self.hang_s, self.hang_s, self.again(client))

    def close(self):
        self.die()
        for one in (one for pair in self.sockets.values() for one in pair):
            one.close()


@contextmanager
def home(clients=(FAR,), members=1, hang_s=HANG_S, near=()):
    sizes = sizes_of(clients=((*near, *clients),), members=members)
    with ends(sizes, hang_s=hang_s, far=clients) as made, closing(Home(made, clients)) as here:
        here.start()
        yield here


@contextmanager
def answering(server, count):
    """Answers so many requests in a thread. Yields their slots."""
    slots = []

    def answer():
        while len(slots) < count:
            slots.extend(serve(server))

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield slots
    thread.join(20)
    assert not thread.is_alive(), slots


def test_an_open_request_is_answered_by_the_successor_and_no_other_once_more():
    """Of three members one has its answer, one has not fetched it, and one has none."""
    with home(members=3) as here:
        client = here.join(FAR)
        for member in range(2):
            post(client, 1.0 + member, member)
        with answering(here.server, 2):
            assert value_of(client.take(0)) == 2.0
            client._notifier.wait(lambda: client._words[client._lines[1] + ANSWERED] == 1, 0, "answered")
        post(client, 3.0, 2)
        here.die()
        server = here.start()
        coming = threading.Timer(0.1, here.accept, [FAR])
        coming.start()
        with answering(server, 1) as slots:
            assert value_of(client.take(2)) == 6.0
        assert slots == [2] and value_of(client.take(1)) == 4.0
        for member in range(3):
            post(client, 4.0 + member, member)
        with answering(server, 3):
            assert [value_of(client.take(member)) for member in range(3)] == [8.0, 10.0, 12.0]
        client.close()
        assert serve(server) == []


def test_a_client_that_leaves_after_its_open_request_has_no_other_answered_once_more():
    with home(members=2) as here:
        client = here.join(FAR)
        post(client, 1.0, 0)
        with answering(here.server, 1):
            assert value_of(client.take(0)) == 2.0
        post(client, 2.0, 1)
        here.die()
        server = here.start()
        with here.accepting(FAR), answering(server, 1) as slots:
            assert value_of(client.take(1)) == 4.0
        client.close()
        assert slots == [1] and serve(server) == []


def test_a_client_whose_server_dies_again_before_it_answers_waits_for_the_next():
    with home() as here:
        client = here.join(FAR)
        post(client, 1.0)
        here.die()
        here.start()

        def come_twice():
            here.accept(FAR)
            here.die()
            with answering(here.start(), 1):
                here.accept(FAR)

        coming = threading.Thread(target=come_twice)
        coming.start()
        assert value_of(client.take(0)) == 2.0
        coming.join()
        client.close()


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_server_that_nobody_succeeds_is_named_after_hang_s(is_refused):
    """Its host may still listen for a successor, or not."""
    with home(hang_s=0.5) as here:
        client = here.join(FAR)
        post(client, 1.0)
        here.die()
        if is_refused:
            here.sockets[FAR][SERVER].close()
        ended = "GMI 0 on another host ended and has not answered a request for GMI 2: its log says why"
        began = time.monotonic()
        with pytest.raises(PeerSilentError, match=f"^{ended}, and no successor has come for 0.5 s") as caught:
            client.take(0)
        assert 0.4 < time.monotonic() - began < 3.0
        assert str(caught.value.__cause__) not in (ended, "None"), "the last attempt's error"
        client.close()


def test_a_successor_that_is_connected_and_does_not_answer_is_named_after_hang_s():
    with home(hang_s=0.5) as here:
        client = here.join(FAR)
        post(client, 1.0)
        here.die()
        here.start()
        silent = pytest.raises(PeerSilentError, match=r"GMI 0 on another host has not answered a request for 0\.5 s")
        with here.accepting(FAR), silent:
            client.take(0)
        client.close()


def test_a_server_that_has_closed_the_connection_and_lives_is_not_asked_again():
    """It has said no: a client that asks again would be refused for ever."""
    with home() as here:
        client = here.join(FAR)
        post(client, 1.0)
        here.die()
        with here.accepting(FAR), pytest.raises(PeerDiedError, match="GMI 0 on another host ended"):
            client.take(0)
        client.close()


def test_what_a_client_had_open_at_the_predecessor_is_not_answered_before_it_comes():
    with home() as here:
        client = here.join(FAR)
        post(client, 1.0)
        here.server._far.receive()
        assert here.server._waiting() == [0]
        here.die()
        server = here.start()
        assert server._waiting() == [] and server._absent() == {FAR} and server._living == []


def test_a_successor_waits_for_those_that_have_not_come_when_others_have_left_and_not_for_those_that_had():
    with home((FAR, OTHER)) as here:
        far, other = here.join(FAR), here.join(OTHER)
        post(far, 1.0)
        here.server._far.receive()
        here.die()
        server = here.start()
        coming = threading.Thread(target=here.accept, args=(FAR,))
        coming.start()
        with answering(server, 1):
            assert value_of(far.take(0)) == 2.0
        far.close()
        post(other, 2.0)
        coming = threading.Timer(0.2, here.accept, [OTHER])
        coming.start()
        with answering(server, 1):
            assert value_of(other.take(0)) == 4.0
        server._has_news()
        assert server._left == 1
        here.die()
        assert here.start()._absent() == {OTHER}
        other.close()


def test_a_successor_ends_in_order_when_one_that_it_does_not_hear_of_has_left_without_a_word():
    with home((FAR, OTHER), hang_s=0.5) as here:
        far, other = here.join(FAR), here.join(OTHER)
        post(far, 1.0)
        here.server._far.receive()
        here.die()
        server = here.start()
        coming = threading.Thread(target=here.accept, args=(FAR,))
        coming.start()
        other.close()
        with answering(server, 1):
            assert value_of(far.take(0)) == 2.0
        far.close()
        assert serve(server) == []
