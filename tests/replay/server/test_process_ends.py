import os
import subprocess
import sys
import time

from gmi_drl.replay.client.client import Client
from tests.replay.servers import long_table, served, steps

FORKS = """
import os, sys, torch
from gmi_drl.replay import Client
writer = Client(sys.argv[1], shared=False).writer("numbers")
writer.append({"number": torch.arange(3)})
writer.send()
if os.fork() == 0:
    os.close(1)
    os.read(0, 1)  # until the test is over
else:
    print("up", flush=True)
    os.read(0, 1)
os._exit(0)
"""


def until(is_so):
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_that_ends_is_seen_where_its_child_keeps_the_connection():
    with served(long_table()) as (server, _):
        blocks = server.tables[0].storage.blocks
        code = [sys.executable, "-c", FORKS, server.address]
        with subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"up\n"
            until(lambda: blocks.free == blocks.count - 1)
            process.kill()
            until(lambda: blocks.free == blocks.count and not server._loop.connections)


def test_descriptors_of_processes_are_closed_with_their_connections():
    def count():
        return len(os.listdir("/proc/self/fd"))

    with served(long_table()) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        before = count()
        for _ in range(5):
            with Client(server.address) as other:
                other.info()
        until(lambda: len(server._loop.connections) == 1)
        assert count() == before


def test_another_host_with_the_same_number_is_no_process_of_this_one(monkeypatch):
    monkeypatch.setattr("gmi_drl.replay.client.connection.this_host", lambda: "elsewhere")
    with served(long_table()) as (server, client):
        client.insert(steps(1), {"numbers": 1.0})
        assert not server._loop._process_ends._descriptors
