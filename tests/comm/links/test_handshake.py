"""Who is let in where ranks of a group, and both ends of a proxy_pair, meet."""

import secrets
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from select import select

import pytest

from gmi_drl.comm.host_links import proxy_membership
from gmi_drl.comm.links import handshake
from gmi_drl.comm.links.handshake import PeerListener, RankAddresses, connect_ranks, listen
from gmi_drl.comm.links.token_listener import greeting
from gmi_drl.comm.membership import Membership
from gmi_drl.errors import MachineError, PeerDiedError, PeerSilentError

TOKEN, WRONG = secrets.token_hex(16), secrets.token_hex(16)

DOORS = {
    "group": lambda rank: Membership(rank, [[0], [1]], hang_s=60.0),
    "crossing": lambda rank: proxy_membership(3, rank, "home", 60.0),
}


def said_by(rank, token, pid=1, predecessors=0):
    """What a rank of two says first."""
    return greeting(token, struct.pack("<IIQI", rank, 2, pid, predecessors))


@pytest.fixture(params=DOORS)
def member(request):
    return DOORS[request.param]


@pytest.fixture
def listeners():
    with listen() as first, listen() as second:
        yield [first, second]


def met(member, listeners):
    """What each rank has of the other."""
    addresses = RankAddresses(tuple(one.getsockname() for one in listeners), TOKEN)
    with ThreadPoolExecutor(2) as pool:
        connections = list(
            pool.map(lambda rank: connect_ranks(member(rank), addresses, listeners[rank].fileno()), range(2))
        )
    for of_rank in connections:
        for connection in of_rank.values():
            connection.close()
    return [list(of_rank) for of_rank in connections]


def test_a_stranger_in_the_form_of_a_rank_with_a_wrong_token_is_turned_away(member, listeners):
    with socket.create_connection(listeners[0].getsockname()) as stranger:
        stranger.sendall(said_by(1, WRONG))
        assert met(member, listeners) == [[1], [0]]
        stranger.settimeout(60)
        with suppress(ConnectionResetError):  # what it had said was not read to its end
            assert stranger.recv(1) == b""


def test_whoever_answers_with_a_wrong_token_is_no_rank(member, listeners):
    addresses = RankAddresses(tuple(one.getsockname() for one in listeners), TOKEN)
    with ThreadPoolExecutor(1) as pool:
        meets = pool.submit(connect_ranks, member(1), addresses, listeners[1].fileno())
        accepted, _ = listeners[0].accept()
        with accepted:
            accepted.sendall(said_by(0, WRONG))
            with pytest.raises(PeerDiedError, match="it does not have the token; its log says why"):
                meets.result(60)


@pytest.mark.parametrize(
    "said",
    [said_by(0, TOKEN), said_by(2, TOKEN), greeting(TOKEN, b""), greeting(TOKEN, b"x" * 20)],
    ids=["rank 0", "no such rank", "no rank", "a rank of nonsense"],
)
def test_who_has_the_token_and_is_no_rank_above_is_turned_away(listeners, said):
    with socket.create_connection(listeners[0].getsockname()) as stranger:
        stranger.sendall(said)
        assert met(DOORS["group"], listeners) == [[1], [0]]


def test_silent_strangers_displace_no_rank_and_nobody_can_connect_after_the_last(member, listeners):
    with ExitStack() as life:
        for _ in range(200):
            life.enter_context(socket.create_connection(listeners[0].getsockname()))
        assert met(member, listeners) == [[1], [0]]
        for listener in listeners:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(listener.getsockname())


def test_an_address_that_this_machine_has_not_is_told():
    with pytest.raises(MachineError, match=r"cannot listen at 192\.0\.2\.1: Cannot assign .*: is its interface up"):
        listen("192.0.2.1")


def test_a_rank_is_accepted_as_often_as_it_connects_and_its_death_meanwhile_is_a_line(listeners, capfd):
    addresses, member = RankAddresses(tuple(one.getsockname() for one in listeners), TOKEN), DOORS["crossing"](0)
    listener = PeerListener(member, addresses, listeners[0].fileno(), 64)
    for pid in (5, 6):
        with socket.create_connection(listeners[0].getsockname()) as peer:
            peer.sendall(said_by(1, TOKEN, pid))
            assert select([listener], [], [], 60)[0]
            (connection,) = listener.accept()
            assert connection.pid == pid and len(peer.recv(100)) == len(said_by(0, TOKEN))
            connection.close()
    with socket.create_connection(listeners[0].getsockname()) as dead:
        dead.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # what it has not read is reset
        dead.sendall(said_by(1, TOKEN))
    assert select([listener], [], [], 60)[0] and listener.accept() == []
    assert capfd.readouterr().err.startswith("GMI 3 ended before the proxy of GMI 3 with its trainers on node home")
    with socket.create_connection(listeners[0].getsockname()) as stranger:
        stranger.sendall(said_by(0, TOKEN))
        assert select([listener], [], [], 60)[0] and listener.accept() == []
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(listeners[0].getsockname())


def test_processes_of_a_rank_are_served_in_turn_and_say_how_many_were_before_them(listeners):
    """The second is not waited for with a deadline, and not seen before the first is done with."""
    addresses = RankAddresses(tuple(one.getsockname() for one in listeners), TOKEN)
    seen = []

    def serve():
        with closing(PeerListener(proxy_membership(3, 0, "home", 60.0), addresses, listeners[0].fileno(), 64)) as door:
            for connection in door.in_turn():
                seen.append(connection.predecessors)
                connection.close()
                if len(seen) == 2:
                    return

    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        for predecessors in range(2):
            member = proxy_membership(3, 1, "home", 60.0, predecessors)
            (connection,) = connect_ranks(member, addresses, listeners[1].fileno()).values()
            while connection.is_open:
                list(connection.read())
            connection.close()
        served.result(60)
    assert seen == [0, 1]


def test_who_succeeds_a_process_that_has_closed_its_listener_sleeps_until_it_is_answered(listeners, monkeypatch):
    """Such a listener is always ready."""
    addresses, looks, look = RankAddresses(tuple(one.getsockname() for one in listeners), TOKEN), [], handshake.poll
    monkeypatch.setattr(handshake, "poll", lambda: looks.append(1) or look())
    listeners[1].shutdown(socket.SHUT_RDWR)
    with ThreadPoolExecutor(1) as pool:
        member = proxy_membership(3, 1, "home", 60.0, predecessors=1)
        meets = pool.submit(connect_ranks, member, addresses, listeners[1].fileno())
        accepted, _ = listeners[0].accept()
        time.sleep(0.5)
        with accepted:
            accepted.sendall(said_by(0, TOKEN))
            (connection,) = meets.result(60).values()
        assert len(looks) < 50
        connection.close()


def test_nobody_comes_and_that_is_an_error_after_a_while(listeners):
    addresses = RankAddresses(tuple(one.getsockname() for one in listeners), TOKEN)
    door = PeerListener(proxy_membership(3, 0, "home", 0.1), addresses, listeners[0].fileno(), 64)
    silent = r"^GMI 3 has not connected for 0\.1 s .* while the proxy of GMI 3"
    with closing(door), pytest.raises(PeerSilentError, match=silent):
        next(door.in_turn())
