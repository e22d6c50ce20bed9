"""Clients on other hosts that come late, are lost, or come again: both ends of a connection are in this process."""

import os
import select
import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from gmi_drl.comm.links.framing import FIRST_OTHER_KIND, FramedConnection
from gmi_drl.comm.streams import StreamServer
from gmi_drl.comm.streams.far_client import far_client
from gmi_drl.errors import PeerDiedError, PeerSilentError
from tests.comm.streams.stream_ends import ends, post, serve, sizes_of, value_of

FAR = 2


class Changes:
    """Clients that come and are lost as a test wants it."""

    def __init__(self):
        self.told, self._eventfd = {}, os.eventfd(0, os.EFD_NONBLOCK)

    def fileno(self):
        return self._eventfd

    def tell(self, client, connection):
        self.told[client] = connection
        os.eventfd_write(self._eventfd, 1)

    def close(self):
        os.close(self._eventfd)

    def take(self):
        os.eventfd_read(self._eventfd)
        told, self.told = self.told, {}
        return told


@contextmanager
def served(clients, far, hang_s=5.0):
    with ends(sizes_of(clients=(clients,)), hang_s=hang_s) as made:
        changes = Changes()
        server = StreamServer(*made.join(0), wait_s=0.0, far=dict.fromkeys(far), changes=changes)
        yield made, server, changes
        server.close()


def late_client(made, server, changes, client):
    """The end of a client that comes now, once the server has seen that."""
    here, there = (FramedConnection(one, 1) for one in socket.socketpair())
    changes.tell(client, here)
    server._far.receive()
    return far_client(there, client, made.sizes, 5.0, 5.0)


def test_nobody_waits_for_a_client_that_has_not_come_and_it_is_answered_when_it_comes():
    with served((1, FAR), [FAR]) as (made, server, changes):
        near = made.client(1)
        assert server._living == [1]
        post(near, 1.0)
        assert serve(server) == [0] and value_of(near.take(0)) == 2.0
        late = late_client(made, server, changes, FAR)
        post(late, 2.0)
        post(near, 3.0)
        answered = serve(server)
        while len(answered) < 2:
            answered += serve(server)
        assert sorted(answered) == [0, 1] and value_of(late.take(0)) == 4.0 and value_of(near.take(0)) == 6.0
        late.close()
        near.close()
        assert serve(server) == []


def test_a_late_client_is_told_sizes_that_its_connection_does_not_take_at_once():
    with served((1, FAR), [FAR]) as (_, server, changes):
        here, there = socket.socketpair()
        connection = FramedConnection(here, 1)
        while not connection.is_sending:  # as the sizes of many clients, or a network that is busy
            connection.send_frame(FIRST_OTHER_KIND, bytes(2**20))
        changes.tell(FAR, connection)
        server._far.receive()
        there.setblocking(False)
        with suppress(BlockingIOError):
            while there.recv(2**20):
                pass
        assert select.select([server._far._poll.fileno()], [], [], 10)[0], "nobody sends the rest"
        there.close()


def test_a_server_waits_for_the_first_client_and_ends_with_those_that_came():
    with served((FAR, 3), [FAR, 3], hang_s=0.1) as (made, server, changes):
        with pytest.raises(PeerSilentError, match=r"GMI 2, GMI 3 lives but has not posted a request for 0\.1 s"):
            serve(server)
        late = late_client(made, server, changes, FAR)
        post(late, 2.0)
        assert serve(server) == [0]
        late.close()
        assert serve(server) == []


def test_a_client_that_is_lost_with_its_host_is_not_waited_for_and_the_others_end_in_order():
    """Its connection stays open: nobody has heard of its end."""
    with served((1, FAR), [FAR]) as (made, server, changes):
        near, late = made.client(1), late_client(made, server, changes, FAR)
        post(near, 1.0)
        assert serve(server) == [0] and value_of(near.take(0)) == 2.0
        changes.tell(FAR, None)
        post(near, 2.0)
        assert serve(server) == [0]
        near.close()
        assert serve(server) == [] and server._living == []
        late._notifier._link.connection.close()


def test_what_was_left_to_be_sent_to_a_lost_client_is_not_of_the_next_with_its_descriptor():
    """Else the server never wakes up to send the rest of a long answer."""
    with served((1, FAR), [FAR]) as (made, server, changes):
        late, far = late_client(made, server, changes, FAR), server._far
        connection = far._links[FAR].connection
        while not connection.is_sending:
            connection.send_frame(FIRST_OTHER_KIND, bytes(2**20))
        far._watch(connection)
        assert far._sending == {connection.fileno()}
        changes.tell(FAR, None)
        far.receive()
        assert far._sending == set()
        late._notifier._link.connection.close()


@pytest.mark.parametrize("is_told", [True, False])
def test_a_client_that_was_started_again_is_answered_as_one_that_is_new(is_told):
    """Its predecessor has left a request open, and may not be seen to have ended yet."""
    with served((1, FAR), [FAR]) as (made, server, changes):
        near, late = made.client(1), late_client(made, server, changes, FAR)
        for number in range(3):
            post(late, 1.0 + number)
            assert serve(server) == [1] and value_of(late.take(0)) == 2.0 + 2 * number
        post(late, 9.0)
        server._far.receive()
        assert server._waiting() == [1]
        if is_told:
            changes.tell(FAR, None)
            server._far.receive()
            server._has_news()
            assert server._living == [1]
        again = late_client(made, server, changes, FAR)
        server._has_news()
        assert server._living == [1, FAR] and server._waiting() == []
        with pytest.raises(PeerDiedError, match="GMI 0 on another host ended"):
            late.take(0)
        post(again, 5.0)
        post(near, 6.0)
        answered = serve(server)
        while len(answered) < 2:
            answered += serve(server)
        assert sorted(answered) == [0, 1] and value_of(again.take(0)) == 10.0 and value_of(near.take(0)) == 12.0
        again.close()
        near.close()
        assert serve(server) == []


def test_one_that_failed_after_it_had_left_may_come_again():
    with served((1, FAR), [FAR]) as (made, server, changes):
        late = late_client(made, server, changes, FAR)
        late.close()
        server._far.receive()
        assert server._has_news() and server._left == 1
        again = late_client(made, server, changes, FAR)
        assert server._has_news() and server._left == 0 and server._living == [1, FAR]
        again.close()


def test_a_client_that_was_lost_before_it_came_is_not_waited_for_until_it_comes():
    with served((FAR,), [FAR]) as (made, server, changes):
        changes.tell(FAR, None)
        server._far.receive()
        server._has_news()
        assert server._far.absent == set() and server._living == []
        with pytest.raises(PeerDiedError, match=r"all actors of GMI 0 have left or ended \(GMI 2\)"):
            serve(server)
        late = late_client(made, server, changes, FAR)
        post(late, 2.0)
        assert serve(server) == [0] and value_of(late.take(0)) == 4.0
        late.close()


def test_a_server_whose_last_client_is_started_again_waits_for_it():
    with ends(sizes_of(clients=((FAR,),))) as made:
        changes = Changes()
        server = StreamServer(*made.join(0), wait_s=0.0, far={FAR: None}, changes=changes, awaits_successors=True)
        late_client(made, server, changes, FAR)._notifier._link.connection.close()
        came = []

        def come():
            here, there = (FramedConnection(one, 1) for one in socket.socketpair())
            changes.tell(FAR, here)
            came.append(far_client(there, FAR, made.sizes, 5.0, 5.0))
            post(came[0], 3.0)

        coming = threading.Timer(0.05, come)
        coming.start()
        assert serve(server) == [0]
        coming.join()
        assert value_of(came[0].take(0)) == 6.0
        came[0].close()
        server.close()


@contextmanager
def serving(server):
    """Answers one batch in a thread. Yields a list that gets its slots, or nothing at the end of all."""
    served_slots = []
    thread = threading.Thread(target=lambda: served_slots.append(serve(server)), daemon=True)
    thread.start()
    yield served_slots
    thread.join(20)
    assert not thread.is_alive(), "it waits for nobody"


def test_while_it_waits_for_those_who_come_later_the_loss_of_one_does_not_end_the_server():
    with served((FAR, 3), [FAR, 3]) as (made, server, changes):
        with serving(server) as slots:
            changes.tell(FAR, None)
            while server._far.absent != {3}:
                pass
            here, there = (FramedConnection(one, 1) for one in socket.socketpair())
            changes.tell(3, here)
            client = far_client(there, 3, made.sizes, 5.0, 5.0)
            post(client, 4.0)
            assert value_of(client.take(0)) == 8.0
        assert slots == [[1]]
        client.close()


def test_a_batch_whose_only_request_was_of_a_client_that_comes_again_is_waited_for_no_more():
    with ends(sizes_of(clients=((1, FAR),)), hang_s=1.0) as made:
        changes = Changes()
        server = StreamServer(*made.join(0), wait_s=30.0, far={FAR: None}, changes=changes)
        near, far = made.client(1), late_client(made, server, changes, FAR)
        post(far, 1.0)
        server._has_news()
        with serving(server) as slots:
            while not server._far._links[FAR].ready and not slots and server._words[server._lines[1]] == 0:
                pass  # until its request has come
            here, there = socket.socketpair()
            changes.tell(FAR, FramedConnection(here, 1))
            there.close()
            near.close()
        assert slots == [[]]
        server.close()
