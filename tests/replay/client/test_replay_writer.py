"""A writer tells what is in and what is not, at each call after its connection has ended, and of each call alone."""

import socket
import threading
from contextlib import contextmanager

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay import Field, Fifo, MinSize, Queue, ReplayTimeoutError, Signature, Table, Uniform
from gmi_drl.replay.client.connection import ServerLostError
from gmi_drl.replay.server.server import Server
from gmi_drl.replay.storage import make_storage
from tests.replay.servers import long_table, served, steps
from tests.replay.signatures import NUMBERED
from tests.replay.tables import numbered_table


def queue(size, steps):
    storage = make_storage(NUMBERED, steps)
    return numbered_table(1000, limiter=Queue(size), sampler=Fifo(), max_times_sampled=1, storage=storage)


def test_a_writer_whose_rows_found_no_room_says_so_at_each_call():
    table = queue(size=1000, steps=64)
    with served(table) as (_, client):
        writer = client.writer("numbers", timeout_s=0.05)
        words = "no free block after 0.05 s: of .* are free: sample or delete items, or .*; 64 items are in"
        with pytest.raises(ReplayTimeoutError, match=words):
            for number in range(200):
                writer.create_items("numbers", writer.append(steps(number)))
            writer.flush()
        calls = (writer.flush, writer.end_episode, lambda: writer.append(steps(1)), writer.send)
        for call in (*calls, lambda: writer.create_items("numbers", 0), writer.close):
            with pytest.raises(ReplayTimeoutError, match="64 items are in") as late:
                call()
            assert late.value.done == 64
        assert table.size == 64


def test_what_the_caller_writes_over_before_items_are_sent_does_not_change_them():
    """As in a loop that has one buffer of priorities."""
    table = long_table()
    with served(table) as (_, client):
        writer, lengths, priorities = client.writer("numbers"), torch.tensor([1, 1]), torch.tensor([2.0, 3.0])
        first = writer.append(steps(1, 2))
        writer.create_items("numbers", torch.tensor([first, first + 1]), lengths, priorities.double())
        lengths += 70
        buffer = torch.tensor([5.0, 7.0], dtype=torch.float64)
        writer.create_items("numbers", torch.tensor([first, first + 1]), 1, buffer)
        buffer.zero_()
        with pytest.raises(UsageError, match="3 priorities for 2 items"):
            writer.create_items("numbers", torch.tensor([first, first + 1]), 1, torch.ones(3))
        writer.flush()
        assert sorted(table.sample(200).priorities.unique().tolist()) == [2, 3, 5, 7]


def test_a_writer_of_a_server_that_ended_says_so_at_each_call():
    with Server([long_table()]) as server, server.client() as client:
        writer = client.writer("numbers")
        writer.create_items("numbers", writer.append(steps(1)))
        assert writer.flush() == 1
    for _ in range(3):
        with pytest.raises(ServerLostError, match="1 items are in"):
            writer.create_items("numbers", writer.append(steps(2)))
            writer.send()
    with pytest.raises(ServerLostError, match="1 items are in"):
        writer.append(steps(2))


def test_a_server_that_ends_while_a_writer_waits_is_told():
    with served(queue(size=1, steps=64)) as (server, client):
        writer = client.writer("numbers", timeout_s=60)
        for number in range(2):
            writer.create_items("numbers", writer.append(steps(number)))
        stopped = threading.Timer(0.2, server.stop)
        stopped.start()
        with pytest.raises(ServerLostError, match="1 items are in"):
            writer.flush()
        stopped.join()


def test_an_insert_that_is_late_tells_what_is_in_of_this_call_alone():
    with served(queue(size=3, steps=64)) as (_, client):
        for number in range(3):
            client.insert(steps(number), {"numbers": 1.0})
        words = "0 items are in, 1 were refused, 0 are not"
        with pytest.raises(ReplayTimeoutError, match=words) as late:
            client.insert(steps(3), {"numbers": 1.0}, timeout_s=0.05)
        assert late.value.done == 0


def test_items_that_are_in_are_acknowledged_while_the_others_of_their_message_wait():
    queue = long_table(sampler=Fifo(), limiter=Queue(2), max_times_sampled=1)
    with served(queue) as (_, client), client.writer("numbers") as writer:
        assert writer.room == 0 and writer.block_steps == 256
        writer.create_items("numbers", torch.arange(4) + writer.append(steps(1, 2, 3, 4)))
        assert writer.flush(60, left=2) == 2 and writer.in_flight == 2 and writer.room == 252
        assert client.sample("numbers", 3, flexible=True).fields["number"].flatten().tolist() == [1, 2]
        assert writer.flush(60) == 4 and writer.in_flight == 0


def test_a_writer_too_many_is_told_the_remedy():
    table, writers = queue(size=1000, steps=64), []
    with served(table) as (_, client):
        for number in range(table.storage.blocks.count):
            writers.append(client.writer("numbers"))
            writers[-1].create_items("numbers", writers[-1].append(steps(number)))
            writers[-1].flush()
        writer, words = client.writer("numbers"), "each needs one: close some, or make a storage of more steps; 0 items"
        with pytest.raises(UsageError, match=words):
            writer.create_items("numbers", writer.append(steps(1)))
            writer.flush()
        with pytest.raises(UsageError, match=words):
            writer.append(steps(2))


def test_items_with_a_stretch_for_each_of_many_columns_are_sent_in_as_many_messages_as_they_need():
    signature = Signature(tuple(Field(name, (), torch.int64, column=name) for name in "abcd"))
    kinds = {"sampler": Uniform(), "remover": Fifo(), "limiter": MinSize(1)}
    table = Table("four", signature, max_size=2000, storage=make_storage(signature, 4096), **kinds)
    with served(table) as (_, client), client.writer("four") as writer:
        first = writer.append(dict.fromkeys("abcd", torch.arange(1024)))
        writer.create_items("four", first + torch.arange(1024)[:, None].expand(1024, 4))
        assert writer.flush() == 1024
        fields = client.sample("four", 1024, distinct=True).fields
        assert all(sorted(value.flatten().tolist()) == list(range(1024)) for value in fields.values())


WIDE = Signature((Field("row", (512,), torch.int64),))


def wide_steps(first, count):
    """Steps of 4 kB: many of them are sent from where they lie."""
    return {"row": torch.arange(first, first + count)[:, None].expand(count, 512).contiguous()}


@contextmanager
def held_up(timeout_s):
    """A client, and its writer: one of its three items waits, and its socket takes little."""
    storage, kinds = make_storage(WIDE, 4096), {"sampler": Fifo(), "remover": Fifo(), "max_times_sampled": 1}
    with served(Table("wide", WIDE, max_size=100, limiter=Queue(2), storage=storage, **kinds)) as (_, client):
        writer = client.writer("wide", timeout_s=timeout_s)
        writer._connection.framed._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        writer.create_items("wide", torch.arange(3) + writer.append(wide_steps(0, 3)))
        writer.send()
        yield client, writer


def test_items_that_are_refused_while_steps_are_sent_are_told_at_the_next_call_and_the_writer_goes_on():
    with held_up(timeout_s=0.2) as (client, writer):
        assert writer.append(wide_steps(3, 2000)) == 3 and writer.step == 2003
        with pytest.raises(ReplayTimeoutError, match="2 items are in, 1 were refused"):
            writer.flush()
        assert client.sample("wide", 2).fields["row"][:, 0, 0].tolist() == [0, 1]
        writer.create_items("wide", 2002)
        writer.create_items("wide", writer.append(wide_steps(2003, 1)))
        assert writer.flush() == 4
        assert client.sample("wide", 2).fields["row"][:, 0].tolist() == [[2002] * 512, [2003] * 512]


def test_a_server_that_takes_no_steps_in_time_is_told_and_the_connection_is_closed(monkeypatch):
    monkeypatch.setattr("gmi_drl.replay.client.writer.ANSWER_S", -59.5)
    with held_up(timeout_s=60) as (_, writer):
        with pytest.raises(ReplayTimeoutError, match="2 items are in, 0 were refused, 1 are not acknowledged after"):
            writer.append(wide_steps(3, 2000))
        with pytest.raises(ServerLostError, match="2 items are in"):
            writer.append(wide_steps(3, 1))
