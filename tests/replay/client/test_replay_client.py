"""Clients of several servers, writers across blocks, and checkpoints that clients ask for."""

import threading
import warnings
from pathlib import Path

import pytest
import torch

from gmi_drl.errors import GmiWarning, MachineError, UsageError
from gmi_drl.replay import Client
from gmi_drl.replay.client.connection import ServerLostError
from gmi_drl.replay.server import checkpoints
from gmi_drl.replay.server.server import Server
from tests.replay.servers import LONGEST, long_table, served, servers_of, steps


def test_when_one_of_three_servers_ends_the_others_go_on_and_it_is_told_once():
    servers = [Server([long_table()]) for _ in range(3)]
    with Client([server.address for server in servers]) as client:
        for number in range(6):
            client.insert(steps(number), {"numbers": 1.0})
        assert [server.tables[0].size for server in servers] == [2, 2, 2]
        with client.sampler("numbers", 1, max_in_flight=1) as sampler:
            assert servers_of(sampler, {0, 1, 2}) == {0, 1, 2}
            servers[1].stop()
            with pytest.warns(GmiWarning, match="the others") as told:
                servers_of(sampler, {0, 2}, is_over=lambda: len(told) > 0)  # what server 1 had sent may come first
            assert len(told) == 1 and servers_of(sampler, {0, 2}) == {0, 2}
        with pytest.warns(GmiWarning, match="the other servers go on") as told:
            for number in range(6):
                client.insert(steps(number), {"numbers": 1.0})
                client.sample("numbers", 1)
        assert len(told) == 1 and servers[0].tables[0].size + servers[2].tables[0].size == 10
        for server in servers:
            server.stop()
        with warnings.catch_warnings(), pytest.raises(ServerLostError, match="none of the replay servers"):
            warnings.simplefilter("ignore")
            for _ in range(3):
                client.insert(steps(1), {"numbers": 1.0})


@pytest.mark.parametrize("at_once", [1, 7, 300, 1000])
def test_items_across_blocks_have_the_steps_that_they_name(at_once):
    """A block has 256 steps: items of 3 begin in one and end in the next."""
    with served(long_table(max_size=4000)) as (server, client), client.writer("numbers") as writer:
        assert server.tables[0].storage.blocks.block_steps == 256
        for begin in range(0, 1001, at_once):
            number = torch.arange(begin, begin + at_once)
            first = writer.append({"number": number})
            last = torch.arange(first, first + at_once)
            last = last[last >= LONGEST - 1]
            writer.create_items("numbers", last - (LONGEST - 1), LONGEST)
        count = writer.flush()
        batch = client.sample("numbers", count, distinct=True)
        rows = batch.fields["number"]
        assert torch.equal(rows - rows[:, :1], torch.arange(LONGEST).expand_as(rows))
        assert sorted(rows[:, 0].tolist()) == list(range(count))


def test_items_of_steps_that_are_gone_or_of_another_episode_are_refused():
    with served(long_table()) as (_, client), client.writer("numbers") as writer:
        writer.append(steps(1, 2))
        writer.end_episode()
        first = writer.append(steps(3, 4))
        for wrong in ((first - 1, 2), (first, 3), (first, 0), (first + 1, 2), (first, 4)):
            with pytest.raises(UsageError, match="items have 1 to 3 steps, of those from 2 to 3"):
                writer.create_items("numbers", *wrong)
        with pytest.raises(UsageError, match="no table 'others'"):
            writer.create_items("others", first)
        writer.create_items("numbers", first, 2)
        assert writer.flush() == 1 and client.sample("numbers", 1).fields["number"].tolist() == [[3, 4]]


def test_several_threads_insert_and_sample_and_no_item_is_lost_or_doubled():
    def insert(client, begin):
        with client.writer("numbers", max_in_flight_items=8) as writer:
            for number in range(begin, begin + 200):
                writer.create_items("numbers", writer.append(steps(number)))

    with served(long_table(max_size=10_000)) as (_, client):
        threads = [threading.Thread(target=insert, args=(client, 1000 * number)) for number in range(4)]
        for thread in threads:
            thread.start()
        seen = [client.sample("numbers", 3).fields["number"] for _ in range(20)]
        for thread in threads:
            thread.join()
        assert all(int(number) % 1000 < 200 for batch in seen for number in batch.flatten())
        there = client.sample("numbers", 800, distinct=True).fields["number"].flatten().tolist()
        assert sorted(there) == [1000 * who + number for who in range(4) for number in range(200)]


def test_a_checkpoint_has_what_was_acknowledged_before_its_call_and_nothing_later(tmp_path, monkeypatch):
    begun, may_write, write = threading.Event(), threading.Event(), checkpoints._write

    def held_up(*arguments):
        begun.set()
        assert may_write.wait(60)
        write(*arguments)

    monkeypatch.setattr(checkpoints, "_write", held_up)
    folders = []
    with served(long_table(), checkpoints=tmp_path) as (_, client):
        client.insert(steps(1, 2), {"numbers": 3.0})
        thread = threading.Thread(target=lambda: folders.extend(client.checkpoint(5)))
        thread.start()
        assert begun.wait(60)
        client.insert(steps(7), {"numbers": 1.0})
        with pytest.raises(UsageError, match="is being written"):
            client.checkpoint(6)
        may_write.set()
        thread.join()
        monkeypatch.setattr(checkpoints, "_write", write)
        for step in (6, 7):
            client.checkpoint(step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000000006", "000000000007"], "the newest two"
    monkeypatch.undo()
    assert folders == [str(tmp_path / "000000000005")]


def test_a_restored_server_has_the_items_of_the_moment_of_the_call(tmp_path):
    with served(long_table(), checkpoints=tmp_path) as (_, client):
        client.insert(steps(1, 2), {"numbers": 3.0})
        (folder,) = client.checkpoint(5)
        client.insert(steps(7), {"numbers": 1.0})
    with served(long_table(), restore=Path(folder)) as (server, client):
        batch = client.sample("numbers", 1)
        assert server.tables[0].size == 1 and batch.fields["number"].tolist() == [[1, 2]]
        client.insert(steps(8), {"numbers": 1.0})
    with pytest.raises(UsageError, match=r"is of another source: .*max_size was 100, is 50"):
        Server([long_table(max_size=50)], restore=Path(folder))


def test_a_checkpoint_that_cannot_be_written_is_told_and_the_server_goes_on(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with served(long_table(), checkpoints=tmp_path / "file") as (_, client):
        with pytest.raises(MachineError, match="cannot be written"):
            client.checkpoint(5)
        client.insert(steps(1), {"numbers": 1.0})
        assert client.sample("numbers", 1).fields["number"].item() == 1


def test_what_was_put_aside_when_a_server_was_killed_is_restored_and_written_over(tmp_path):
    with served(long_table(), checkpoints=tmp_path) as (_, client):
        client.insert(steps(1, 2), {"numbers": 3.0})
        folder = Path(client.checkpoint(5)[0])
    (folder / "shard_0").rename(folder / ".shard_0.former")
    assert checkpoints.shards_in(folder) == 1
    with served(long_table(), restore=folder, checkpoints=tmp_path) as (server, client):
        assert server.tables[0].size == 1
        client.checkpoint(5)
    assert [path.name for path in folder.iterdir()] == ["shard_0"]


def test_what_more_servers_have_written_before_is_removed(tmp_path):
    for shard in range(3):
        with Server([long_table()], checkpoints=tmp_path, shard=shard, shards=3) as server:
            server.checkpoint()
    assert checkpoints.shards_in(tmp_path / "last") == 3
    with Server([long_table()], checkpoints=tmp_path, shard=1, shards=2) as server:
        server.checkpoint()
    assert sorted(path.name for path in (tmp_path / "last").iterdir()) == ["shard_0", "shard_1"]
    with pytest.raises(UsageError, match="shard 2 is none of 2"):
        Server([long_table()], shard=2, shards=2)


def test_a_server_that_ends_takes_no_samples_with_it_that_it_has_not_sent():
    """The first has nothing yet, so that what it was asked for waits there."""
    tables = [long_table(), long_table()]
    with Server([tables[0]]) as empty, Server([tables[1]]) as full:
        with Client([full.address]) as client:
            client.insert(steps(1), {"numbers": 1.0})
        with (
            Client([empty.address, full.address]) as client,
            client.sampler("numbers", 4, max_in_flight=8, timeout_s=30, most=24) as sampler,
        ):
            first = len(next(sampler).keys)
            empty.stop()
            with pytest.warns(GmiWarning, match="ended: samples come from the others"):
                assert first + sum(len(batch.keys) for batch in sampler) == 24
            assert sampler.unused == 0


def test_a_sampler_whose_servers_have_all_ended_names_the_last():
    with served(long_table()) as (server, client), client.sampler("numbers", 1, timeout_s=30) as sampler:
        server.stop()
        with pytest.raises(ServerLostError, match=f"the replay server at {server.address} ended or closed"):
            next(sampler)


def test_a_sampler_asks_for_as_many_as_are_wanted_in_all():
    with served(long_table()) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        with client.sampler("numbers", 4, max_in_flight=100, workers=2, most=10) as sampler:
            assert sorted(len(batch.keys) for batch in sampler) == [2, 4, 4]
            assert next(sampler, None) is None and sampler.unused == 0
        assert server.tables[0].info()["samples"] == 10
