import os
import time
from contextlib import contextmanager, suppress

import pytest

from gmi_drl.errors import MachineError, PeerSilentError
from gmi_drl.roles.launcher.connection import LauncherConnection, encode, socket_pair
from gmi_drl.roles.launcher.protocol import Lost, Stop
from gmi_drl.roles.workers.late_clients import LateClients


class Connection:
    """Of an actor that a test lets come."""

    is_open = True

    def __init__(self, predecessors=0):
        self.predecessors = predecessors

    def close(self):
        self.is_open = False


class Listener:
    """Stands for a `PeerListener`."""

    def __init__(self):
        self._coming, self._eventfd = [], os.eventfd(0, os.EFD_NONBLOCK)

    def fileno(self):
        return self._eventfd

    def come(self, *connections):
        self._coming += connections
        os.eventfd_write(self._eventfd, 1)

    def close(self):
        os.close(self._eventfd)

    def accept(self):
        with suppress(BlockingIOError):  # it is asked once a second also when nobody comes
            os.eventfd_read(self._eventfd)
        came, self._coming = self._coming, []
        if MachineError in came:
            raise MachineError("no descriptors")
        return came


@contextmanager
def late_clients(*clients):
    launcher, ours = socket_pair()
    listeners = {client: Listener() for client in clients}
    late = LateClients(listeners, LauncherConnection(ours.detach()))
    yield late, listeners, launcher
    late.close()
    launcher.close()


def told(late):
    assert late._poll.poll(60)
    return late.take()


def test_who_comes_comes_again_and_is_lost_is_told_once():
    with late_clients(3, 4) as (late, listeners, launcher):
        assert late._poll.poll(0) == []
        for _ in range(2):
            connection = Connection()
            listeners[3].come(connection)
            assert told(late) == {3: connection} and connection.is_open
        for client in (4, 5):
            launcher.send(encode(Lost(client, 0)))
        launcher.send(encode(Stop()))
        assert told(late) == {4: None, 5: None}
        assert late._poll.poll(0) == [] and late.take() == {}


def test_a_connection_that_a_later_one_or_a_loss_follows_in_one_call_is_closed():
    with late_clients(3, 4) as (late, listeners, launcher):
        one, other, lost = Connection(), Connection(), Connection()
        launcher.send(encode(Lost(4, 0)))
        listeners[3].come(one, other)
        listeners[4].come(lost)
        while late._came.qsize() < 3:  # until the thread has accepted all
            time.sleep(0.001)
        assert late.take() == {3: other, 4: None}
        assert not one.is_open and not lost.is_open and other.is_open


def test_the_actors_that_must_be_there_have_one_deadline_and_all_that_are_missing_are_named():
    with late_clients(3, 4, 5, 6) as (late, listeners, _):
        early, late_one = Connection(), Connection()
        listeners[4].come(early)
        listeners[6].come(late_one)
        with pytest.raises(PeerSilentError, match=r"^GMI 3, GMI 5 have not connected for 0\.01 s .* GMI 1 waited"):
            late.await_all((3, 4, 5), 1, 0.01)
        with pytest.raises(PeerSilentError, match=r"^GMI 5 has not connected"):
            listeners[3].come(Connection())
            late.await_all((3, 4, 5), 1, 0.01)
        assert late.await_all((4,), 1, 60.0) == {4: early}
        assert late.take()[6] is late_one, "it came while the others were waited for"


def test_a_connection_that_nobody_has_taken_is_closed_at_the_end_and_nobody_comes_any_more():
    with late_clients(3, 4) as (late, listeners, _):
        one, other = Connection(), Connection()
        listeners[3].come(one)
        listeners[4].come(other)
        while late._came.qsize() < 2:
            time.sleep(0.001)
    assert not one.is_open and not other.is_open and not late._accepting.is_alive()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.eventfd_write(listeners[3].fileno(), 1)


def test_a_lack_of_descriptors_is_a_line_in_the_log(capfd):
    with late_clients(3) as (late, listeners, _):
        listeners[3].come(MachineError)
        late._accepting.join(60)
        assert capfd.readouterr().err == "no further actors are accepted: no descriptors\n"


@pytest.mark.parametrize("is_read_together", [True, False])
def test_a_loss_that_is_read_late_does_not_close_the_connection_of_a_later_process(is_read_together):
    with late_clients(3) as (late, listeners, launcher):
        again = Connection(predecessors=2)
        listeners[3].come(again)
        if is_read_together:
            while late._came.empty():
                time.sleep(0.001)
        else:
            assert told(late) == {3: again}
        launcher.send(encode(Lost(3, 1)))
        assert told(late) == ({3: again} if is_read_together else {}) and again.is_open
        launcher.send(encode(Lost(3, 2)))
        assert told(late) == {3: None}


@pytest.mark.parametrize("lost", [True, False])
def test_a_connection_of_a_process_that_was_lost_or_succeeded_is_closed(lost):
    with late_clients(3) as (late, listeners, launcher):
        newest, old = Connection(predecessors=1), Connection()
        if lost:
            launcher.send(encode(Lost(3, 0)))
            assert told(late) == {3: None}
        else:
            listeners[3].come(newest)
            assert told(late) == {3: newest}
        listeners[3].come(old)
        assert told(late) == {} and not old.is_open and newest.is_open
