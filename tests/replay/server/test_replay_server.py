"""A replay server does for its clients what tables do, lets them wait, and tells what is wrong."""

import json
import logging
import socket
import struct
import threading
import time
from contextlib import suppress

import fuzz_replay
import pytest
import torch

from gmi_drl.comm.links.framing import DATA
from gmi_drl.comm.links.token_listener import greeting
from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.replay import Extension, Fifo, MinSize, Queue, ReplayTimeoutError, Table, Uniform
from gmi_drl.replay.client.client import Client
from gmi_drl.replay.client.connection import ServerLostError
from gmi_drl.replay.server.handling import Handler
from gmi_drl.replay.server.server import Server
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.words import DONE, ITEMS, NO_TOKEN, SAMPLE, STEPS, Items, Sample, Steps, this_host, write
from tests.replay.servers import long_table, served, steps
from tests.replay.signatures import MIXED, mixed_steps
from tests.replay.tables import numbered_table

TOKEN = "a" * 32


def until(is_true, seconds=60):
    """Wait for something that another thread does."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def stranger(server, token=NO_TOKEN, **more):
    """A bare socket that has greeted as a client does, and what the server has answered."""
    connection = socket.create_connection((server.host, server.port), timeout=60)
    connection.sendall(greeting(token, json.dumps({"version": 1, "pid": 7} | more).encode()))
    return connection


def frame(kind, *pieces):
    body = b"".join(map(bytes, pieces))
    return struct.pack("<QQ", kind, len(body)) + body


def test_what_is_inserted_is_sampled_with_all_of_its_numbers():
    with served(long_table()) as (_, client):
        client.insert(steps(4, 5, 6), {"numbers": 2.0})
        batch = client.sample("numbers", 2)
        assert batch.fields["number"].tolist() == [[4, 5, 6]] * 2
        assert batch.priorities.tolist() == [2.0, 2.0] and batch.probabilities.tolist() == [1.0, 1.0]
        assert batch.table_size == 1 and batch.times_sampled.max() == 2 and batch.lengths["step"].tolist() == [3, 3]
        assert client.update("numbers", torch.cat((batch.keys[:1], torch.tensor([99]))), 0.5) == 1
        assert client.sample("numbers", 1).priorities.tolist() == [0.5]
        assert client.delete("numbers", batch.keys) == 1
        assert client.info()[0]["tables"]["numbers"]["items"] == 0


def test_columns_come_alone_and_large_items_without_a_copy():
    storage = make_storage(MIXED, 600, longest=600)
    made = {"sampler": Uniform(), "remover": Fifo(), "limiter": MinSize(1)}
    table = Table("mixed", MIXED, max_size=10, storage=storage, **made)
    with served(table) as (_, client):
        client.insert(mixed_steps(400), {"mixed": 1.0})
        for columns in (None, ("image",), ("step",)):
            batch = client.sample("mixed", 3, columns=columns)
            wanted = mixed_steps(400)
            assert set(batch.fields) == set(wanted) if columns is None else len(batch.fields) in (1, 4)
            for name, value in batch.fields.items():
                assert torch.equal(value, wanted[name].expand(3, *wanted[name].shape))
        with pytest.raises(UsageError, match="no column 'picture'"):
            client.sample("mixed", 1, columns=("picture",))


def test_tables_of_one_storage_get_the_same_steps():
    storage = make_storage(numbered_table().signature, 100)
    first, second = numbered_table(storage=storage), numbered_table(max_size=3, storage=storage)
    second.name = "others"
    with served(first, second) as (_, client):
        with client.writer("numbers") as writer:
            begin = writer.append(steps(*range(8)))
            for table in ("numbers", "others"):
                writer.create_items(table, torch.arange(begin, begin + 8))
        assert first.size == 8 and second.size == 3


def test_a_sample_waits_for_items_and_others_go_on_meanwhile():
    with served(long_table()) as (server, client):
        got = []
        thread = threading.Thread(target=lambda: got.append(client.sample("numbers", 1, timeout_s=60)))
        thread.start()
        until(lambda: server.info()["tables"]["numbers"]["waiting_samples"] == 1)
        assert "samples wait: 0 items" in server.info()["tables"]["numbers"]["why"]
        assert client.update("numbers", torch.tensor([5]), 1.0) == 0, "other calls are served"
        client.insert(steps(7), {"numbers": 1.0})
        thread.join()
        assert got[0].fields["number"].tolist() == [[7]]


def test_an_insert_waits_for_samples_and_tells_after_its_time_how_many_are_in():
    with served(numbered_table(limiter=Queue(3), sampler=Fifo(), max_times_sampled=1)) as (server, client):
        words = r"2 inserts were not allowed after 0.05 s.*3 items are in"
        with pytest.raises(ReplayTimeoutError, match=words) as late, client.writer("numbers", timeout_s=0.05) as writer:
            first = writer.append(steps(*range(5)))
            writer.create_items("numbers", torch.arange(first, first + 5))
        assert late.value.done == 3 and server.tables[0].size == 3
        with client.writer("numbers") as writer:
            first = writer.append(steps(5, 6))
            writer.create_items("numbers", torch.arange(first, first + 2))
            until(lambda: server.info()["tables"]["numbers"]["waiting_inserts"] == 0)
            writer.send()
            until(lambda: server.info()["tables"]["numbers"]["waiting_inserts"] == 1)
            assert client.sample("numbers", 2).fields["number"].flatten().tolist() == [0, 1]
            assert writer.flush() == 2


def test_steps_wait_for_a_block_and_go_in_when_one_is_free():
    table = numbered_table(max_size=16, limiter=Queue(1000), max_times_sampled=1, sampler=Fifo(), storage=None)
    with served(table) as (_, client), client.writer("numbers") as writer:
        for number in range(48):  # more than there is room for: samples make some
            first = writer.append(steps(number))
            writer.create_items("numbers", first)
            writer.flush()
            if number >= 8:
                assert client.sample("numbers", 1).fields["number"].item() == number - 8


def test_a_timeout_ends_an_iteration_and_what_was_not_used_is_told():
    with served(numbered_table(limiter=Queue(100), sampler=Fifo(), max_times_sampled=1)) as (_, client):
        with client.writer("numbers") as writer:
            first = writer.append(steps(*range(9)))
            writer.create_items("numbers", torch.arange(first, first + 9))
        with client.sampler("numbers", 2, max_in_flight=4, timeout_s=0.2) as sampler:
            numbers = [batch.fields["number"].flatten().tolist() for batch in sampler]
        assert numbers == [[0, 1], [2, 3], [4, 5], [6, 7]], "in the order of the server, the last one was not full"
        assert sampler.used == 8 and sampler.unused >= 2
        with client.sampler("numbers", 5, timeout_s=0.2, flexible=True) as sampler:
            assert [len(batch.keys) for batch in sampler] == [1]


def test_one_in_flight_means_that_none_is_asked_for_before_the_last_is_used():
    with served(long_table()) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        with client.sampler("numbers", 1, max_in_flight=1) as sampler:
            next(sampler)
            assert server.info()["tables"]["numbers"]["samples"] == 1 and sampler.unused == 0
        with client.sampler("numbers", 1, max_in_flight=5) as sampler:
            next(sampler)
            until(lambda: server.info()["tables"]["numbers"]["samples"] == 6)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda client: client.sample("number", 1), UsageError, "no table 'number'; did you mean 'numbers'"),
        (lambda client: client.insert(steps(1), {"numbers": -1.0}), UsageError, "0 or more, not -1"),
        (lambda client: client.insert(steps(1), {"numbers": float("nan")}), UsageError, "0 or more, not nan"),
        (lambda client: client.insert({"number": torch.zeros(1)}, {"numbers": 1.0}), UsageError, "is float32"),
        (lambda client: client.insert(steps(1, 2, 3, 4), {"numbers": 1.0}), UsageError, "items have 1 to 3 steps"),
        (lambda client: client.update("numbers", torch.tensor([1]), -2.0), UsageError, "0 or more, not -2"),
        (lambda client: client.sample("numbers", 10**8), UsageError, "a batch has 1 to"),
        (lambda client: client.checkpoint(3), UsageError, "start it with --checkpoints"),
    ],
)
def test_mistakes_are_told_and_the_server_goes_on(call, error, words):
    with served(long_table()) as (_, client):
        with pytest.raises(error, match=words):
            call(client)
        client.insert(steps(1), {"numbers": 1.0})
        assert client.sample("numbers", 1).fields["number"].item() == 1


class Failing(Extension):
    """Raises when it is told of samples."""

    def sampled(self, slots):
        raise RuntimeError("this extension is wrong")


def test_an_extension_that_raises_is_told_to_who_caused_it_and_the_server_goes_on():
    with served(numbered_table(extensions=[Failing()])) as (_, client):
        client.insert(steps(1), {"numbers": 1.0})
        with pytest.raises(GmiError, match="RuntimeError: this extension is wrong"):
            client.sample("numbers", 1)
        client.insert(steps(2), {"numbers": 1.0})
        assert client.info()[0]["tables"]["numbers"]["items"] == 2


class Refusing(Extension):
    """Raises when it is told of the third batch of items."""

    batches = 0

    def inserted(self, slots):
        self.batches += 1
        if self.batches == 3:
            raise RuntimeError("no third batch")


def test_items_that_an_extension_refuses_are_not_in_and_the_answer_counts_those_that_are():
    with served(numbered_table(max_size=2, extensions=[Refusing()])) as (server, client):
        writer = client.writer("numbers")
        first = writer.append(steps(*range(8)))
        writer.create_items("numbers", torch.arange(first, first + 8))
        with pytest.raises(GmiError, match="no third batch; 4 items are in, 4 were refused"):
            writer.flush()
        assert server.tables[0].info()["inserts"] == 4
        writer.create_items("numbers", torch.arange(first + 4, first + 8))
        assert writer.flush() == 8 and server.tables[0].info()["inserts"] == 8


def test_a_server_that_stops_ends_waits_with_a_named_error_and_a_client_finds_the_next_one():
    table = long_table()
    with Server([table]) as server:
        port, client, told = server.port, server.client(), []

        def wait():
            try:
                client.sample("numbers", 1)
            except GmiError as error:
                told.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: server.info()["tables"]["numbers"]["waiting_samples"] == 1)
        assert client.info()[0]["clients"] == 2
    thread.join()
    assert isinstance(told[0], ServerLostError) and f"127.0.0.1:{port}: it ended" in str(told[0])
    with pytest.raises(ServerLostError, match=r"cannot be reached.*does it run"):
        client.info()
    with Server([table], port=port):
        client.insert(steps(1), {"numbers": 1.0})
        assert client.sample("numbers", 1).fields["number"].item() == 1
    client.close()


def test_a_wrong_token_another_version_and_a_taken_port_are_refused():
    with served(long_table(), token=TOKEN) as (server, client):
        assert client.info()
        for token in (None, "b" * 32):
            with pytest.raises(ServerLostError, match="is the token right"):
                Client(server.address, token).info()
        with stranger(server, TOKEN) as old:
            assert b"block_steps" in old.recv(4096)
        with socket.create_connection((server.host, server.port), timeout=60) as old:
            old.sendall(greeting(TOKEN, json.dumps({"version": 99}).encode()))
            assert b"version 1 of the protocol, the client 99" in old.recv(4096)
        with pytest.raises(MachineError, match=f"cannot listen at 127.0.0.1:{server.port}"):
            Server([long_table()], port=server.port)
    with pytest.raises(UsageError, match="give a token"):
        Server([long_table()], host="0.0.0.0")
    with pytest.raises(UsageError, match="twice: numbers"):
        Server([long_table(), long_table()])
    with pytest.raises(UsageError, match="no address"):
        Client("localhost").info()


@pytest.mark.parametrize("pid", [2**31, 2**64, 0, -1, "7", None])
def test_a_greeting_with_a_number_of_no_process_ends_nobody(pid):
    with served(long_table()) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        with stranger(server, pid=pid, host=this_host()) as connection:
            assert b"block_steps" in connection.recv(4096)
        assert client.sample("numbers", 1).fields["number"].item() == 1


def test_a_client_that_cannot_be_greeted_is_closed_alone(monkeypatch, caplog):
    def welcome(_):
        raise RuntimeError("a fault of ours")

    with served(long_table()) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        with monkeypatch.context() as patch:
            patch.setattr(Handler, "welcome", welcome)
            with stranger(server) as connection:
                assert connection.recv(4096) == b""
        assert "RuntimeError: a fault of ours" in caplog.text
        assert client.sample("numbers", 1).fields["number"].item() == 1 == client.info()[0]["clients"]


def good_steps(count=2):
    return frame(STEPS, *write(Steps(0, count, 0, 1.0))) + frame(DATA, bytes(8 * count))


def bad_items(first, length, count=1, table=0, columns=1):
    numbers = [torch.full((count, columns), first), torch.full((count, columns), length), torch.ones(count).double()]
    return frame(ITEMS, *write(Items(1, table, count, columns, 0, 1.0), *numbers))


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (struct.pack("<QQ", 2**40, 2**60), "65536 are the most"),
        (struct.pack("<QQ", DATA, 8), "8 bytes of data came where 0 were expected"),
        (frame(DONE), "there is no request of kind"),
        (frame(STEPS, b"short"), "Steps has 5 bytes, 20 are the least"),
        (frame(STEPS, *write(Steps(9, 1, 0, 1.0))), "no storage 9"),
        (frame(STEPS, *write(Steps(0, 2**31, 0, 1.0))), "rows came where"),
        (frame(STEPS, *write(Steps(0, 1, 0, 1.0)), bytes(8)), "8 bytes of numbers came where 0"),
        (frame(STEPS, *write(Steps(0, 1, 0, float("nan")))), "a wait of nan s"),
        (frame(STEPS, *write(Steps(0, 1, 0, 1.0))) + frame(DATA, bytes(7)), "7 bytes of data came where 8"),
        (bad_items(0, 1), "not in the 0 blocks"),
        (good_steps() + bad_items(0, 3), "not in the 1 blocks"),
        (good_steps() + bad_items(2**62, 1), "not in the 1 blocks"),
        (good_steps() + bad_items(-1, 1), "not in the 1 blocks"),
        (good_steps() + bad_items(0, 0), "not in the 1 blocks"),
        (good_steps() + bad_items(0, 2**62), "not in the 1 blocks"),
        (good_steps() + bad_items(0, 1, columns=2), "2 stretches each, of 1 columns"),
        (good_steps() + bad_items(0, 1, table=7), "no table 7"),
        (frame(ITEMS, *write(Items(1, 0, 5, 1, 0, 1.0))), "0 bytes of numbers came where 120"),
        (frame(SAMPLE, *write(Sample(1, 0, 1, 0, 4, -1, 1.0))), "columns 100 of 1"),
        (frame(STEPS, *write(Steps(0, 1, 0, 1.0))) * 2, f"a message of kind {STEPS} came where rows were expected"),
    ],
    ids=range(20),
)
def test_a_client_that_lies_is_closed_with_its_reason_in_the_log(lie, reason, caplog):
    with caplog.at_level(logging.WARNING), served(long_table()) as (server, client):
        with stranger(server) as connection:
            connection.sendall(lie)
            with suppress(ConnectionResetError):
                while connection.recv(65536):
                    pass
        assert reason in caplog.text and "process 7" in caplog.text
        free = server.tables[0].storage.blocks
        until(lambda: free.free == free.count)
        client.insert(steps(1), {"numbers": 1.0})
        assert client.sample("numbers", 1).fields["number"].item() == 1


def test_nothing_that_strangers_send_harms_the_others():
    reasons = fuzz_replay.run(200, seed=4)
    assert len(reasons) > 5 and not [reason for reason in reasons if "Error" in reason]
