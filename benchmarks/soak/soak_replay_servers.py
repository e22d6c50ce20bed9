"""Soak: replay servers and clients that are killed and stopped at random, again and again.

    python benchmarks/soak/soak_replay_servers.py --faults 1000

Three servers, six clients that insert and sample, over TCP and in shared memory. After each fault every client has to
go on. Each row tells who wrote it and when: an item that mixes two writes ends the soak. A server that was killed
begins with its last checkpoint. At the end every block must be free again, and no server may know a client.
"""

import argparse
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import torch

from gmi_drl.errors import GmiError
from gmi_drl.replay.client.client import Client
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.limiters import MinSize
from gmi_drl.replay.selectors import Fifo, Prioritized
from gmi_drl.replay.server.checkpoints import LAST_NAME
from gmi_drl.replay.server.server import Server
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.table import Table

FORK = get_context("fork")
SERVERS, CLIENTS = 3, 6
LONGEST, STEPS, ITEMS = 3, 20_000, 3000
HANG_S = 120.0
SIGNATURE = Signature(
    (Field("writer", (), torch.int64), Field("step", (), torch.int64, "other"), Field("sum", (50,), torch.int64))
)


def make_table() -> Table:
    """A prioritized table whose steps lie in shared memory."""
    storage = make_storage(SIGNATURE, STEPS, longest=LONGEST, placement="shared", fewest_blocks=40)
    options = {"sampler": Prioritized(0.6), "remover": Fifo(), "limiter": MinSize(1), "storage": storage}
    return Table("seen", SIGNATURE, max_size=ITEMS, **options)


def serve(port: int, folder: Path) -> None:
    """The process of a server."""
    last = folder / LAST_NAME
    with Server([make_table()], port, checkpoints=folder, restore=last if last.exists() else None) as server:
        server.wait()


def act(addresses: list[str], seed: int, done: "Synchronized[int]") -> None:
    """The process of a client: inserts and samples until it is killed. Exits with 3 if rows are mixed."""
    torch.set_num_threads(1)
    chance, shared = random.Random(seed), "auto" if seed % 2 else False
    writer_number = seed * 1_000_000
    while True:
        writer_number += 1
        try:
            with Client([chance.choice(addresses)], shared=shared) as client:
                go_on(client, chance, writer_number, done)
        except GmiError:  # its server was killed, or is not there yet
            time.sleep(0.01)


def go_on(client: Client, chance: random.Random, number: int, done: "Synchronized[int]") -> None:
    """Insert and sample for a while by one writer and one sampler."""
    with client.writer("seen", timeout_s=10) as writer, client.sampler("seen", 64, timeout_s=10) as sampler:
        for _ in range(chance.randrange(1, 60)):
            count = chance.randrange(1, 40)
            step = torch.arange(writer.step, writer.step + count)
            rows = {"writer": torch.full((count,), number), "step": step}
            first = writer.append(rows | {"sum": (step + number)[:, None].expand(count, 50)})
            length = chance.randrange(1, min(LONGEST, count) + 1)
            writer.create_items("seen", torch.arange(first, first + count - length + 1), length, chance.random())
            if chance.random() < 0.2:
                writer.flush(20)
                check(next(sampler).fields)
            done.value += 1


def check(fields: dict[str, torch.Tensor]) -> None:
    """Exit unless each item has the steps of one writer that follow each other."""
    lengths = (fields["writer"] != 0).sum(1).tolist()
    for writer, step, total, length in zip(*(fields[name] for name in ("writer", "step", "sum")), lengths, strict=True):
        one, steps, sums = writer[:length], step[:length], total[:length]
        is_whole = bool((one == one[0]).all() and (steps == steps[0] + torch.arange(length)).all())
        if not length or not is_whole or not bool((sums == (one + steps)[:, None]).all()):
            print(f"MIXED: {one.tolist()} {steps.tolist()} {sums[:, 0].tolist()}", flush=True)
            os._exit(3)


class Soak:
    """The processes, and what is done to them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance, self.folder = random.Random(seed), folder
        self.ports = [free_port() for _ in range(SERVERS)]
        self.addresses = [f"127.0.0.1:{port}" for port in self.ports]
        self.done = [FORK.Value("q", 0, lock=False) for _ in range(CLIENTS)]
        self.seeds = 0
        self.servers = [self.start_server(number) for number in range(SERVERS)]
        self.clients = [self.start_client(number) for number in range(CLIENTS)]

    def start_server(self, number: int) -> FORK.Process:
        """A server at its port."""
        folder = self.folder / str(number)
        folder.mkdir(exist_ok=True)
        process = FORK.Process(target=serve, args=(self.ports[number], folder), daemon=True)
        process.start()
        return process

    def start_client(self, number: int) -> FORK.Process:
        """A client, with a seed of its own."""
        self.seeds += 1
        process = FORK.Process(target=act, args=(self.addresses, self.seeds, self.done[number]), daemon=True)
        process.start()
        return process

    def kill_client(self) -> None:
        """Kill a client, and start another one."""
        number = self.chance.randrange(CLIENTS)
        end(self.clients[number])
        self.clients[number] = self.start_client(number)

    def stop_client(self) -> None:
        """Let a client stand still. The others go on."""
        number = self.chance.randrange(CLIENTS)
        os.kill(self.clients[number].pid, signal.SIGSTOP)
        try:
            self.all_go_on(but=number)
        finally:
            os.kill(self.clients[number].pid, signal.SIGCONT)

    def kill_server(self) -> None:
        """Kill a server, and start it again with its last checkpoint."""
        number = self.chance.randrange(SERVERS)
        end(self.servers[number])
        self.servers[number] = self.start_server(number)

    def stop_server(self) -> None:
        """Let a server stand still for a moment."""
        process = self.servers[self.chance.randrange(SERVERS)]
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(self.chance.random() / 2)
        os.kill(process.pid, signal.SIGCONT)

    def checkpoint(self) -> None:
        """Let a server write a checkpoint, as by time; perhaps it is killed meanwhile."""
        from gmi_drl.replay.server.checkpoints import LAST

        number = self.chance.randrange(SERVERS)
        with Client(self.addresses[number]) as client:
            until(lambda: answers(client), "a server does not answer")
            client.checkpoint(LAST, timeout_s=HANG_S)

    def all_go_on(self, but: int | None = None) -> None:
        """Wait until each client has done something more."""
        before = [one.value for one in self.done]
        for number in range(CLIENTS):
            if number != but:
                until(
                    lambda number=number: self.done[number].value > before[number] or self.is_over(),
                    f"client {number}",
                )
        assert not self.is_over(), "a client or a server has ended by itself: see above"

    def is_over(self) -> bool:
        """Whether a client or a server has ended by itself."""
        return any(process.exitcode is not None for process in self.clients + self.servers)

    def finish(self) -> None:
        """End the clients. Every block must return.

        Raises:
            AssertionError: if one does not.
        """
        for client in self.clients:
            end(client)
        for address in self.addresses:
            with Client(address) as client:
                until(lambda client=client: answers(client), "a server does not answer")
                client.reset("seen")

                def is_free(client: Client = client) -> bool:
                    (info,) = client.info()
                    storage = info["tables"]["seen"]["storage"]
                    return info["clients"] == 1 and storage["free_blocks"] == storage["blocks"]

                until(is_free, f"blocks or clients of {address} do not go: {client.info()}")
        for server in self.servers:
            end(server)


def answers(client: Client) -> bool:
    """Whether a server answers."""
    try:
        return bool(client.info())
    except GmiError:
        return False


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait for something."""
    deadline = time.monotonic() + HANG_S
    while not is_so():
        assert time.monotonic() < deadline, f"not within {HANG_S:.0f} s: {what}"
        time.sleep(0.005)


def end(process: FORK.Process) -> None:
    """Kill a process."""
    process.kill()
    process.join()


def free_port() -> int:
    """A port at which nobody listens now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def main() -> int:
    """Cause faults, and tell how many of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began, counts = time.monotonic(), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), given.seed)
        kinds = (soak.kill_client, soak.stop_client, soak.kill_server, soak.stop_server, soak.checkpoint)
        soak.all_go_on()
        for _ in range(given.faults):
            fault = soak.chance.choice(kinds)
            fault()
            counts[fault.__name__] += 1
            soak.all_go_on()
        soak.finish()
    done = sum(one.value for one in soak.done)
    print(f"{given.faults} faults, seed {given.seed}, {time.monotonic() - began:.0f} s, {done:,} inserts: no item had")
    print("rows of two writes, every client went on after every fault, every block returned at the end.")
    print(", ".join(f"{count} x {name}" for name, count in sorted(counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
