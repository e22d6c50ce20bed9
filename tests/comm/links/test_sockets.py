"""Links between ranks, here threads of one process: nothing in them is shared."""

import os
import secrets
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
import torch

from gmi_drl.comm.links.handshake import RankAddresses, connect_ranks, listen
from gmi_drl.comm.links.sockets import SocketLink
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.reductions.rings import Ring
from gmi_drl.errors import PeerDiedError, PeerSilentError, UsageError


@pytest.fixture
def listeners():
    made = [listen() for _ in range(3)]
    yield made
    for listener in made:
        listener.close()


def apart(rank, hang_s=60.0):
    """A rank of three, each on a device of its own."""
    return Membership(rank, [[0], [1], [2]], hang_s=hang_s)


def addresses_at(listeners):
    return RankAddresses(tuple(listener.getsockname() for listener in listeners), secrets.token_hex(16))


def together(listeners, job):
    """What `job(link)` gives on each rank; nobody leaves before all are done."""
    addresses, all_are_done = addresses_at(listeners), threading.Barrier(len(listeners))

    def live(rank):
        with closing(SocketLink(apart(rank), addresses, listeners[rank].fileno())) as link:
            given = job(link)
            all_are_done.wait(60)
            return given

    with ThreadPoolExecutor(len(listeners)) as pool:
        return list(pool.map(live, range(len(listeners))))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.float64], ids=str)
def test_numbers_of_any_dtype_arrive_as_they_are(listeners, dtype):
    def job(link):
        into = torch.zeros(2, 2, dtype=dtype)
        link.exchange(torch.tensor([[0, 1], [1, link.rank]]).to(dtype), (link.rank + 1) % 3, into, (link.rank - 1) % 3)
        return into

    for rank, into in enumerate(together(listeners, job)):
        assert into.equal(torch.tensor([[0, 1], [1, (rank - 1) % 3]]).to(dtype))


def test_more_than_sockets_hold_goes_both_ways_at_once(listeners):
    def job(link):
        into = torch.empty(3_000_000)
        link.exchange(torch.full_like(into, link.rank), (link.rank + 1) % 3, into, (link.rank - 1) % 3)
        return into.unique().tolist(), link.sent

    assert together(listeners, job) == [([(rank - 1) % 3], {(rank, (rank + 1) % 3): 12_000_000}) for rank in range(3)]


def test_what_comes_before_it_is_asked_for_waits_in_order(listeners):
    everyone_has_sent = threading.Barrier(3)

    def job(link):
        if link.rank == 0:
            everyone_has_sent.wait(60)
            link.sync(1)  # reads all that has come
            got = torch.empty(2, 3)
            for row in got:
                link.receive(row, 1)
            link.receive(torch.empty(0), 2)
            return got.tolist()
        for number in (1.0, 2.0):
            link.send(torch.full((3,), number), 0) if link.rank == 1 else None
        everyone_has_sent.wait(60)
        link.sync(1)
        return None

    assert together(listeners, job)[0] == [[1.0] * 3, [2.0] * 3]


@pytest.mark.parametrize("numel", [0, 1, 7, 100, 200_001])
def test_rings(listeners, numel):
    def job(link):
        ring = Ring(link, [2, 0, 1])
        vector = torch.arange(numel).float() * (link.rank + 1)
        ring.all_reduce(vector)
        summed = vector.equal(torch.arange(numel).float() * 6)
        ring.broadcast(vector.fill_(link.rank), 1)
        return bool(summed), vector.unique().tolist()

    assert together(listeners, job) == [(True, [1.0] * (numel > 0))] * 3


def test_different_calls_are_refused_in_the_same_words(listeners):
    def job(link):
        with pytest.raises(UsageError) as caught:
            link.sync(link.rank // 2)
        return str(caught.value)

    (said,) = set(together(listeners, job))
    assert "rank 0 waits at a barrier, rank 2 gathers 0 numbers" in said


def test_of_ranks_that_wait_for_each_other_the_one_is_named_that_does_not(listeners):
    others_are_done = threading.Barrier(3)

    def job(link):
        if link.rank == 2:
            others_are_done.wait(60)
            return None
        if link.rank == 0:
            link._monitor._hang_s = 0.1
        with pytest.raises(PeerSilentError) as caught:
            link.receive(torch.empty(1), link.rank + 1)
        others_are_done.wait(60)
        return str(caught.value)

    first, second, _ = together(listeners, job)
    assert first == second and first.startswith(f"rank 2 (process {os.getpid()}) lives but")


def test_a_slow_rank_is_told_of_and_waited_for(listeners, monkeypatch, caplog):
    monkeypatch.setattr("gmi_drl.comm.memory.wait_clock.SLOW_S", 0.2)

    def job(link):
        if link.rank == 1:
            time.sleep(1.0)
        link.sync(1)
        return link.rank

    assert together(listeners, job) == [0, 1, 2]
    told = {record.getMessage() for record in caplog.records}
    assert any(message.startswith(f"rank 0 waits for rank 1 (process {os.getpid()}), for ") for message in told), told


def test_ranks_that_get_on_with_something_long_are_waited_for(listeners):
    """Rank 0 waits longer than `hang_s` for rank 1, which exchanges one vector after the other with rank 2."""

    def job(link):
        if link.rank == 0:
            link._monitor._hang_s = 0.1
            link.receive(torch.empty(1), 1)
            return 0
        other = 3 - link.rank
        for _ in range(8):
            time.sleep(0.6)
            link.exchange(torch.ones(1000), other, torch.empty(1000), other)
        if link.rank == 1:
            link.send(torch.ones(1), 0)
        return link.rank

    assert together(listeners, job) == [0, 1, 2]


def test_a_rank_that_waits_elsewhere_for_somebody_slow_is_waited_for(listeners, monkeypatch):
    monkeypatch.setattr("gmi_drl.comm.links.liveness._ANSWER_S", 0.3)

    def job(link):
        link._monitor._hang_s, heard = 0.7, []
        if link.rank == 1:
            for _ in range(150):
                time.sleep(0.02)
                for tell in link._member.keepalives.send:
                    tell()
        else:
            link._member.keepalives.received.append(lambda: heard.append(link.rank))
        link.sync(1)
        return set(heard)

    assert together(listeners, job) == [{0}, set(), {2}]


def test_strangers_are_turned_away(listeners):
    with ExitStack() as stack:
        for said in (b"", b"GET / HTTP/1.1\r\n", b"x" * 48, b"x" * 4000):
            stranger = stack.enter_context(socket.create_connection(listeners[0].getsockname()))
            stranger.sendall(said)
        assert together(listeners, lambda link: link.size) == [3, 3, 3]


def test_who_does_not_come_is_named(listeners):
    with pytest.raises(PeerSilentError, match=r"rank 1, rank 2 has not connected for 0\.1 s"):
        connect_ranks(apart(0, hang_s=0.1), addresses_at(listeners), listeners[0].fileno())


def test_who_has_ended_before_it_came_is_named(listeners):
    addresses = addresses_at(listeners)
    listeners[1].close()
    with pytest.raises(PeerDiedError, match="rank 1 ended before rank 2 connected to it: Connection refused"):
        connect_ranks(apart(2), addresses, listeners[2].fileno())


def test_who_dies_before_it_answers_is_named(listeners):
    addresses = addresses_at(listeners)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(connect_ranks, apart(1), addresses, listeners[1].fileno())
        accepted, _ = listeners[0].accept()
        accepted.close()
        with pytest.raises(PeerDiedError, match="rank 0 ended before rank 1 connected to it"):
            waits.result(60)


def test_address_count_must_match_group(listeners):
    with pytest.raises(UsageError, match="a group of 2 ranks needs as many addresses, not 3"):
        connect_ranks(Membership(0, [range(2)]), addresses_at(listeners), listeners[0].fileno())
    assert "token" not in repr(addresses_at(listeners))


def test_addresses_survive_descriptor(listeners):
    addresses = addresses_at(listeners)
    with open(addresses.to_descriptor(), "rb+") as paper:
        assert RankAddresses.from_descriptor(paper.fileno()) == addresses
        paper.truncate(10)
        with pytest.raises(UsageError, match=rf"descriptor {paper.fileno()} has no rank addresses"):
            RankAddresses.from_descriptor(paper.fileno())
