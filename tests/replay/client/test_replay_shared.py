"""Clients that map the memory of their server: the same answers, and no torn reads."""

import logging
import threading
import time
from pathlib import Path

import pytest
import torch

from gmi_drl.errors import MachineError
from gmi_drl.replay import Client, Field, Fifo, MinSize, Signature, Table, Uniform
from gmi_drl.replay.client import samples, shared
from gmi_drl.replay.client.connection import ServerConnection, ServerLostError
from gmi_drl.replay.client.shared import LeaseLostError
from gmi_drl.replay.server.connection import LEASES
from gmi_drl.replay.server.server import Server
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.words import PLACES, SAMPLE, SAMPLES, Sample, write
from tests.replay.servers import LONGEST, long_table, served, steps
from tests.replay.signatures import MIXED, NUMBERED, mixed_steps
from tests.replay.tables import numbered_table

pytestmark = pytest.mark.skipif(not shared.is_possible(), reason="needs Linux on x86-64")


def shared_table(max_size=100, steps=4096, longest=LONGEST):
    storage = make_storage(NUMBERED, steps, longest=longest, placement="shared")
    return numbered_table(max_size, storage=storage)


def test_memory_is_shared_where_that_is_possible_and_not_where_it_is_not_wanted():
    with served(shared_table()) as (server, _):
        for wanted, is_mapped in (("auto", True), (True, True), (False, False)):
            connection = ServerConnection(server.address, shared=wanted)
            assert (connection.memory is not None) == is_mapped
            connection.close()
    with served(long_table()) as (server, _):
        with pytest.raises(MachineError, match="no placement `shared`"):
            ServerConnection(server.address, shared=True)
        assert ServerConnection(server.address).memory is None


def test_samplers_map_rows_for_reading_only():
    def maps():
        return {line for line in Path("/proc/self/maps").read_text().splitlines() if "gmi-drl-replay (" in line}

    with served(shared_table()) as (_, client):
        others = maps()
        with client.sampler("numbers", 4):
            assert [line.split()[1] for line in maps() - others] == ["r--s"]
        others = maps()
        with client.writer("numbers"):
            assert [line.split()[1] for line in maps() - others] == ["rw-s"]


@pytest.mark.parametrize("at_once", [1, 300, 1000])
def test_items_across_blocks_have_the_steps_that_they_name(at_once):
    with served(shared_table(max_size=4000)) as (server, client), client.writer("numbers") as writer:
        assert writer._shared is not None and server.tables[0].storage.blocks.block_steps == 256
        for begin in range(0, 1001, at_once):
            first = writer.append({"number": torch.arange(begin, begin + at_once)})
            last = torch.arange(first, first + at_once)
            last = last[last >= LONGEST - 1]
            writer.create_items("numbers", last - (LONGEST - 1), LONGEST)
        count = writer.flush()
        for reader in (client, Client(server.address, shared=False)):
            rows = reader.sample("numbers", count, distinct=True).fields["number"]
            assert torch.equal(rows - rows[:, :1], torch.arange(LONGEST).expand_as(rows))
            assert sorted(rows[:, 0].tolist()) == list(range(count))
            reader.close()


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("width", [4, 40_000])
def test_large_and_small_steps_are_taken_before_append_returns(is_shared, width):
    """Large ones are sent from where they are; tensors may change, and may need gradients."""
    signature = Signature([Field("x", (width,))])
    storage = make_storage(signature, 64, placement="shared")
    made = {"sampler": Fifo(), "remover": Fifo(), "limiter": MinSize(1), "storage": storage, "max_times_sampled": 1}
    with (
        Server([Table("wide", signature, max_size=60, **made)]) as server,
        Client(server.address, shared=is_shared) as client,
        client.writer("wide") as writer,
    ):
        value = torch.zeros(3, width, requires_grad=True)
        for number in range(12):
            with torch.no_grad():
                value.fill_(number)
            writer.create_items("wide", writer.append({"x": value}) + torch.arange(3))
        writer.flush()
        rows = client.sample("wide", 36, distinct=True).fields["x"][:, 0]
        assert rows[:, 0].tolist() == [number for number in range(12) for _ in range(3)]
        assert torch.equal(rows, rows[:, :1].expand_as(rows))


def test_columns_episodes_and_calls_are_as_over_a_network():
    storage = make_storage(MIXED, 600, longest=4, placement="shared")
    made = {"sampler": Uniform(), "remover": Fifo(), "limiter": MinSize(1)}
    with served(Table("mixed", MIXED, max_size=10, storage=storage, **made)) as (server, client):
        for count in (4, 2):
            client.insert(mixed_steps(count), {"mixed": 1.0})
        wanted = mixed_steps(4)
        with client.sampler("mixed", 16, max_in_flight=64) as sampler:
            batch = next(sampler)
            assert sampler.unused == 0, "nothing is asked for ahead"
        for name, value in batch.fields.items():
            assert torch.equal(value[:, :2], wanted[name][:2].expand(16, *wanted[name][:2].shape))
        assert set(batch.lengths["image"].tolist()) == {2, 4}
        short = batch.lengths["image"] == 2
        assert not batch.fields["image"][short, 2:].any() and batch.fields["image"][~short, 2:].any()
        assert set(client.sample("mixed", 2, columns=("image",)).fields) == {"image"}
        assert not server._loop.waiting() and storage.blocks.free >= storage.blocks.count - 2


def test_a_reader_that_stands_still_holds_up_no_writer_and_never_mixes_rows(monkeypatch):
    """The gather of a batch stands still until everything was written over, and is then done again."""
    gather, written, rounds = samples.gather_items, threading.Event(), []

    def slow(*arguments):
        rounds.append(len(rounds))
        if len(rounds) == 1:
            started.set()
            assert written.wait(60)
        return gather(*arguments)

    started = threading.Event()
    monkeypatch.setattr(samples, "gather_items", slow)
    with served(shared_table(max_size=400, steps=512, longest=1)) as (server, client):
        with client.writer("numbers") as writer:
            number = torch.arange(400)
            writer.create_items("numbers", writer.append({"number": number}) + number)
        got = []
        thread = threading.Thread(target=lambda: got.append(client.sample("numbers", 400)))
        thread.start()
        assert started.wait(60)
        with server.client() as other, other.writer("numbers", timeout_s=60) as writer:
            for begin in range(1000, 3000, 100):
                number = torch.arange(100)
                writer.create_items("numbers", writer.append({"number": begin + number}) + number)
            writer.flush()
        written.set()
        thread.join()
        assert len(rounds) == 2 and bool((got[0].fields["number"] >= 2600).all())


def test_a_sampler_with_a_limit_replaces_batches_that_were_taken_back(monkeypatch):
    gather, rounds = samples.gather_items, []

    def lost_once(*arguments):
        rounds.append(len(rounds))
        if len(rounds) == 2:
            raise LeaseLostError("taken back")
        return gather(*arguments)

    monkeypatch.setattr(samples, "gather_items", lost_once)
    with served(shared_table()) as (_, client):
        client.insert(steps(1), {"numbers": 1.0})
        with client.sampler("numbers", 4, most=10) as sampler:
            assert [len(batch.records) for batch in sampler] == [4, 4, 2]
            assert (sampler.asked, sampler.unused) == (14, 4)


def test_a_client_that_ends_gives_back_what_it_read_and_wrote():
    with served(shared_table()) as (server, client):
        blocks = server.tables[0].storage.blocks
        client.insert(steps(1), {"numbers": 1.0})
        connection = ServerConnection(server.address)
        message = write(Sample(1, 0, 4, PLACES, 1, -1, 1.0))
        came = []
        connection.framed.send_together([(SAMPLE, message)])
        connection.wait(lambda: bool(came), lambda kind, _: came.append(kind), 1e12, "a sample")
        client.reset("numbers")
        assert blocks.free < blocks.count
        connection.close()
        client.close()
        for _ in range(600):
            if blocks.free == blocks.count:
                break
            threading.Event().wait(0.1)
        assert blocks.free == blocks.count


def test_places_are_told_to_nobody_who_does_not_map_the_memory(caplog):
    with caplog.at_level(logging.WARNING), served(shared_table()) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        connection = ServerConnection(server.address, shared=False)
        connection.framed.send_together([(SAMPLE, write(Sample(1, 0, 1, PLACES, 1, -1, 1.0)))])
        with pytest.raises(Exception, match="closed the connection"):
            connection.wait(lambda: False, lambda *_: None, 1e12, "a sample")
        assert "does not share the memory" in caplog.text


def test_a_client_that_gives_nothing_back_is_closed(caplog):
    with caplog.at_level(logging.WARNING), served(shared_table()) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        connection, came = ServerConnection(server.address), []
        for number in range(LEASES + 1):
            connection.framed.send_together([(SAMPLE, write(Sample(number + 1, 0, 1, PLACES, 1, -1, 1.0)))])
        with pytest.raises(ServerLostError, match="closed the connection"):
            connection.wait(lambda: False, lambda kind, _: came.append(kind), time.monotonic() + 10, "a sample")
        assert came == [SAMPLES] * LEASES and "it keeps 64 batches that it was lent: 64 are the most" in caplog.text
        connection.close()
