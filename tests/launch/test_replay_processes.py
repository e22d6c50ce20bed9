"""`gmi-drl replay` with real processes: killed servers, killed and stopped clients, checkpoints."""

import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil
import pytest
import torch

from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.launch.replay import ReplayOptions, _addresses, _Shard, serve_tables
from gmi_drl.replay import Client
from gmi_drl.replay.client.connection import ServerLostError
from gmi_drl.replay.server.loop import Loop
from tests.replay.servers import servers_of

TABLES = """
version: 1
storages:
  steps: {fields: {number: {dtype: int64}}, steps: 2000, placement: PLACEMENT}
tables:
  numbers: {storage: steps, max_size: 2000}
  queue: {storage: steps, max_size: 100, sampler: {kind: fifo}, limiter: {kind: queue, size: 50}, max_times_sampled: 1}
"""
GMI_DRL = [sys.executable, "-c", "from gmi_drl.cli import main; main()"]

CLIENT = """
import os, signal, sys, torch
from gmi_drl.replay import Client
from gmi_drl.comm.links.framing import DATA
from gmi_drl.replay.words import STEPS, Steps, write
client, kind = Client(sys.argv[1]), sys.argv[2]
writer = client.writer("numbers")
first = writer.append({"number": torch.arange(10)})
writer.create_items("numbers", torch.arange(first, first + 10))
writer.flush()
if kind == "half a frame":
    writer._connection.framed.send_together([(STEPS, write(Steps(0, 4, 0, 1.0)))])
    writer._connection.framed._socket.send(b"\\4" + bytes(7) + b"\\x20" + bytes(7) + b"half")
elif kind == "samples":
    sampler = client.sampler("numbers", 512, max_in_flight=100_000)
    sampler._ask(sampler._lines[0])
print("up", flush=True)
if kind == "parked":
    client.sample("queue", 1)
signal.pause()
"""


@contextmanager
def serving(folder, *options, stop=signal.SIGTERM, placement="cpu"):
    """`gmi-drl replay serve`, and its addresses."""
    (folder / "tables.yaml").write_text(TABLES.replace("PLACEMENT", placement))
    command = [*GMI_DRL, "replay", "serve", str(folder / "tables.yaml"), *map(str, options)]
    shards = int(options[options.index("--shards") + 1]) if "--shards" in options else 1
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        addresses = [process.stdout.readline().decode().strip() for _ in range(shards)]
        if not addresses[-1]:
            raise AssertionError(process.stderr.read().decode())
        yield process, addresses
    finally:
        process.send_signal(stop)
        process.wait(120)


def insert(client, numbers, table="numbers"):
    with client.writer(table) as writer:
        first = writer.append({"number": torch.as_tensor(list(numbers))})
        writer.create_items(table, torch.arange(first, writer.step))


def numbers_in(client):
    """All numbers, each once."""
    count = client.info()[0]["tables"]["numbers"]["items"]
    return sorted(client.sample("numbers", count, distinct=True).fields["number"].flatten().tolist())


def test_a_killed_server_loses_what_came_after_its_checkpoint_and_tells_who_inserted(tmp_path):
    with serving(tmp_path, "--checkpoints", tmp_path / "kept", stop=signal.SIGKILL) as (process, (address,)):
        client = Client(address)
        insert(client, range(100))
        (folder,) = client.checkpoint(7)
        insert(client, range(100, 150))
        writer = client.writer("numbers")
        process.kill()
        process.wait()
        with pytest.raises(GmiError, match="0 items are in"):
            for number in range(10_000):
                writer.create_items("numbers", writer.append({"number": torch.tensor([number])}))
                writer.flush()
    with serving(tmp_path, "--restore", folder, "--checkpoints", tmp_path / "kept") as (_, (address,)):
        client = Client(address)
        assert numbers_in(client) == list(range(100)), "all that was acknowledged before, nothing twice"
        insert(client, [500])
    with serving(tmp_path, "--restore", tmp_path / "kept" / "last") as (_, (address,)):
        assert numbers_in(Client(address)) == [*range(100), 500], "the end wrote a checkpoint"


def test_shards_are_sampled_together_and_have_checkpoints_of_their_number(tmp_path):
    with serving(tmp_path, "--shards", 2, "--checkpoints", tmp_path / "kept", stop=signal.SIGINT) as (_, addresses):
        client = Client(addresses)
        for number in range(6):
            insert(client, [number])
        assert [server["tables"]["numbers"]["items"] for server in client.info()] == [3, 3]
        with client.sampler("numbers", 4, max_in_flight=8) as sampler:
            assert servers_of(sampler, {0, 1}) == {0, 1}
        batch = client.sample("numbers", 1)
        assert client.update("numbers", batch.keys, 5.0, server=batch.server) == 1
    assert sorted(path.name for path in (tmp_path / "kept" / "last").iterdir()) == ["shard_0", "shard_1"]
    refused = subprocess.run(
        [*GMI_DRL, "replay", "serve", str(tmp_path / "tables.yaml"), "--restore", str(tmp_path / "kept" / "last")],
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 2 and "is of 2 servers, not 1: give --shards 2" in refused.stderr


def test_a_folder_without_a_checkpoint_is_told_as_such(tmp_path):
    with pytest.raises(UsageError, match="there is no checkpoint of a replay server in it"):
        serve_tables(ReplayOptions(tables=str(tmp_path / "tables.yaml"), restore=str(tmp_path)), None, print)


@pytest.mark.parametrize(
    ("kind", "placement"), [("half a frame", "cpu"), ("samples", "cpu"), ("parked", "cpu"), ("samples", "shared")]
)
def test_clients_that_stand_still_or_are_killed_hold_nobody_up(tmp_path, kind, placement):
    with serving(tmp_path, placement=placement) as (_, (address,)):
        client = Client(address)
        free = client.info()[0]["tables"]["numbers"]["storage"]["free_blocks"]
        others = [
            subprocess.Popen([sys.executable, "-c", CLIENT, address, kind], stdout=subprocess.PIPE) for _ in range(2)
        ]
        for other in others:
            assert other.stdout.readline() == b"up\n"
        others[0].send_signal(signal.SIGSTOP)
        for round in range(3):
            insert(client, range(2000))  # evicts and overwrites everything
            assert client.sample("numbers", 4).fields["number"].shape == (4, 1)
            if round == 1:
                others[1].kill()
        assert client.info()[0]["clients"] >= 2
        for other in others:
            other.kill()
            other.wait()
        client.reset("numbers")
        deadline = time.monotonic() + 60
        while client.info()[0]["tables"]["numbers"]["storage"]["free_blocks"] < free - 1:
            assert time.monotonic() < deadline, client.info()
            time.sleep(0.02)
        assert client.info()[0]["clients"] == 1


def test_commands_tell_what_servers_are_at(tmp_path, command_line):
    with serving(tmp_path) as (_, (address,)):
        insert(Client(address), range(3))
        code, out, _ = command_line("replay", "info", address)
        assert code == 0 and "3 of 2,000" in out
        code, out, _ = command_line("status")
        assert code == 0 and address in out and "3 of 2,000" in out and "wait" not in out.splitlines()[-1]
        code, _, err = command_line("replay", "checkpoint", address, "--step", 3)
        assert code == 2 and "--checkpoints FOLDER" in err
        secret = tmp_path / "secret"
        secret.write_text("x" * 32)
        secret.chmod(0o644)
        code, _, err = command_line("replay", "info", address, "--token-file", secret)
        assert code == 2 and "chmod 600" in err
        secret.chmod(0o600)
        code, _, err = command_line("replay", "info", address, "--token-file", secret)
        assert code == 1 and "is the token right" in err
    with pytest.raises(ServerLostError):
        Client(address).info()
    assert address not in command_line("status")[1]
    code, _, err = command_line("replay", "serve", tmp_path / "tables.yaml", "--host", "0.0.0.0")
    assert code == 2 and "give a token" in err
    code, _, err = command_line("replay", "serve", tmp_path / "tables.yaml", "--checkpoint-every", 5)
    assert code == 2 and "--checkpoints FOLDER" in err


def test_a_shard_ends_with_the_process_that_started_it(tmp_path):
    with serving(tmp_path, "--shards", 2, stop=signal.SIGKILL) as (process, addresses):
        process.kill()
        process.wait()
        deadline = time.monotonic() + 60
        for address in addresses:
            while True:
                try:
                    Client(address).info()
                except ServerLostError:
                    break
                assert time.monotonic() < deadline
                time.sleep(0.05)


def test_shards_that_are_told_twice_to_end_write_their_checkpoints(tmp_path):
    """As by a manager of jobs that stops all processes, beside the one that has started the shards."""
    for number in range(3):
        options = ("--shards", 2, "--checkpoints", tmp_path / "kept")
        with serving(tmp_path, *options, stop=signal.SIGINT) as (process, addresses):
            insert(Client(addresses), [number])
            for shard in psutil.Process(process.pid).children():
                shard.terminate()
                shard.terminate()
        written = list((tmp_path / "kept" / "last").glob("shard_*"))
        assert len(written) == 2
        shutil.rmtree(tmp_path / "kept")


def test_a_shard_that_ends_is_told_while_another_does_not_start_up():
    def shard(number, *words):
        one = object.__new__(_Shard)
        one.shard, one.process = number, subprocess.Popen(words, stdout=subprocess.PIPE)
        return one

    slow, ended = shard(0, "sleep", "600"), shard(1, "sh", "-c", "exit 4")
    try:
        with pytest.raises(MachineError, match="replay server 1 did not start"):
            list(_addresses([slow, ended]))
    finally:
        for one in (slow, ended):
            one.process.kill()
            one.process.wait()
            one.process.stdout.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_server_that_ends_by_a_fault_is_told_as_an_error(tmp_path, monkeypatch):
    def look(*_):
        raise RuntimeError("it cannot look")

    (tmp_path / "tables.yaml").write_text(TABLES.replace("PLACEMENT", "cpu"))
    monkeypatch.setattr(Loop, "_look", look)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)  # this process has other tests, too
    with pytest.raises(GmiError, match=r"ended by a fault of ours \(RuntimeError: it cannot look\)"):
        serve_tables(ReplayOptions(str(tmp_path / "tables.yaml")), None, lambda _: None)
