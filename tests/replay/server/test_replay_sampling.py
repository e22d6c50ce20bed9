"""Samples over a server: how many at once, who is cut off, and what is counted."""

import socket
import threading
import time

import pytest
import torch

from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.errors import GmiWarning, UsageError
from gmi_drl.replay import Client, Field, Fifo, Lifo, MinSize, Queue, Signature, Table, Uniform
from gmi_drl.replay.client import shared
from gmi_drl.replay.client.connection import ServerConnection, ServerLostError
from gmi_drl.replay.client.samples import Wish
from gmi_drl.replay.server.connection import Connection
from gmi_drl.replay.server.server import Server
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.words import INFO, SAMPLES_AT_ONCE
from tests.replay.servers import LONGEST, long_table, served, servers_of, steps
from tests.replay.signatures import MIXED, NUMBERED, mixed_steps
from tests.replay.tables import numbered_table

needs_shared = pytest.mark.skipif(not shared.is_possible(), reason="needs Linux on x86-64")


def fill(client, count):
    with client.writer("numbers") as writer:
        first = writer.append(steps(*range(count)))
        writer.create_items("numbers", torch.arange(first, first + count))


@pytest.mark.parametrize("placement", ["cpu", pytest.param("shared", marks=needs_shared)])
def test_a_batch_has_as_many_items_as_a_client_takes_and_no_more(placement):
    with served(numbered_table(storage=make_storage(NUMBERED, 4096, placement=placement))) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        assert len(client.sample("numbers", SAMPLES_AT_ONCE).keys) == SAMPLES_AT_ONCE
        with pytest.raises(UsageError, match="a batch has 1 to 65536 items of this size, not 65537"):
            client.sample("numbers", SAMPLES_AT_ONCE + 1)
        assert server.info()["tables"]["numbers"]["samples"] == SAMPLES_AT_ONCE


def test_a_batch_that_was_asked_for_before_longer_items_came_has_the_same_limit():
    """64 MiB: 1,024 items of one step of 64 KiB, half as many of two."""
    signature = Signature((Field("row", (2**16,), torch.uint8),))
    kinds = {"sampler": Uniform(), "remover": Fifo(), "limiter": MinSize(1), "max_size": 8}
    table, told = Table("rows", signature, storage=make_storage(signature, 32, longest=2), **kinds), []

    def ask():
        try:
            client.sample("rows", 1000, timeout_s=60)
        except UsageError as error:
            told.append(str(error))

    with served(table) as (server, client):
        thread = threading.Thread(target=ask)
        thread.start()
        deadline = time.monotonic() + 60
        while not server.info()["tables"]["rows"]["waiting_samples"]:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        client.insert({"row": torch.zeros(2, 2**16, dtype=torch.uint8)}, {"rows": 1.0})
        thread.join()
        assert told == ["table rows: a batch has 1 to 512 items of this size, not 1000"]


def test_a_sampler_begins_without_a_server_that_is_down_and_ends_where_all_are():
    servers = [Server([long_table()]) for _ in range(3)]
    with Client([server.address for server in servers]) as client:
        for number in range(3):
            client.insert(steps(number), {"numbers": 1.0})
        servers[1].stop()
        with pytest.warns(GmiWarning, match="the other servers go on") as told:
            sampler = client.sampler("numbers", 1, workers=2)
        with sampler:
            assert servers_of(sampler, {0, 2}) == {0, 2}
        client.sampler("numbers", 1).close()
        assert len(told) == 1
    for server in servers:
        server.stop()
    with pytest.warns(GmiWarning), pytest.raises(ServerLostError, match="none of the replay servers"):
        Client([server.address for server in servers]).sampler("numbers", 1)


def test_bytes_of_messages_count_as_read():
    ours, theirs = socket.socketpair()
    connection = Connection(FramedConnection(ours, 0), "a client", 1, {})
    with theirs:
        connection.send(INFO, [bytes(2**22)])
        connection.reading_since = -1.0
        theirs.recv(2**22)
        connection.framed.flush()
        connection.flushed()
        assert connection.framed.is_sending and connection.reading_since > 0
        connection.close()


def test_who_was_idle_for_long_has_its_time_from_when_an_answer_begins():
    with served(numbered_table()) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        connection = ServerConnection(server.address)
        seen = list(server._loop.connections.values())[-1]
        seen.framed._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        seen.reading_since = -1e9
        wish, came = Wish("numbers", SAMPLES_AT_ONCE), []
        request = wish.ask(connection)
        deadline = time.monotonic() + 60
        while seen not in server._loop._sending:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(0.15)  # the loop looks after 0.05 s

        def handle(_, message):
            came.append(wish.receive(connection, message, request, 0))

        connection.wait(lambda: bool(came) and not connection.framed.is_receiving, handle, deadline, "a sample")
        assert bool((came[0].fields["number"] == 1).all())
        connection.close()


def test_a_flexible_sampler_counts_what_came():
    with served(numbered_table(limiter=Queue(100), sampler=Fifo(), max_times_sampled=1)) as (_, client):
        fill(client, 3)
        with client.sampler("numbers", 8, max_in_flight=1, timeout_s=60, flexible=True) as sampler:
            assert len(next(sampler).keys) == sampler.used == sampler.asked == 3 and sampler.unused == 0


@pytest.fixture
def lost_lease(monkeypatch):
    """The first batch that is read in shared memory is taken back meanwhile."""
    rounds = []

    def check(memory, ticket):
        rounds.append(ticket)
        if len(rounds) == 1:
            raise shared.LeaseLostError("it stood still")

    monkeypatch.setattr(shared.SharedMemory, "check", check)


@needs_shared
@pytest.mark.usefixtures("lost_lease")
def test_a_client_that_stood_still_loses_no_items_of_a_queue():
    """What is deleted by its last sample is sent as a copy: a lease that was taken back would lose it."""
    storage = make_storage(NUMBERED, 4096, placement="shared")
    table = numbered_table(limiter=Queue(100), sampler=Fifo(), max_times_sampled=1, storage=storage)
    with served(table) as (_, client):
        fill(client, 4)
        assert client.sample("numbers", 2).fields["number"].flatten().tolist() == [0, 1]
        with client.sampler("numbers", 2) as sampler:
            assert next(sampler).fields["number"].flatten().tolist() == [2, 3]


@needs_shared
@pytest.mark.usefixtures("lost_lease")
def test_samples_that_are_asked_for_again_count_as_asked():
    with served(numbered_table(storage=make_storage(NUMBERED, 4096, placement="shared"))) as (server, client):
        fill(client, 4)
        with client.sampler("numbers", 2) as sampler:
            next(sampler)
            assert sampler.asked == 4 == server.info()["tables"]["numbers"]["samples"] and sampler.unused == 2


@pytest.fixture(scope="module")
def uneven():
    """A served table of one item: three steps in the column `step`, one in the column `image`."""
    storage = make_storage(MIXED, 64, longest=LONGEST)
    kinds = {"sampler": Fifo(), "remover": Lifo(), "limiter": MinSize(1)}
    table = Table("mixed", MIXED, max_size=8, storage=storage, **kinds)
    with served(table) as (_, client):
        with client.writer("mixed") as writer:
            first = writer.append(mixed_steps(6))
            writer.create_items("mixed", torch.tensor([[first, first + 3]]), torch.tensor([[3, 1]]))
        yield table, client


@pytest.mark.parametrize("columns", [None, ("image",), ("step",)], ids=str)
@pytest.mark.parametrize("count", [1, 20])
def test_columns_of_other_lengths_come_as_the_table_itself_gives_them(uneven, count, columns):
    table, client = uneven
    came, own = client.sample("mixed", count, columns=columns).fields, table.sample(count, columns=columns).fields
    assert came.keys() == own.keys()
    assert {name: came[name].tolist() for name in came} == {name: own[name].tolist() for name in own}
