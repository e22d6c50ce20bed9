"""Processes of the benchmarks of replay servers: a server and its clients, of gmi-drl or of dm-reverb."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gmi_drl.benchmarks import peers
from gmi_drl.errors import GmiError
from gmi_drl.roles.main import die_with

FOLDER = peers.REPOSITORY / "benchmarks" / "peers" / "replay"
OURS, REVERB = "gmi_drl", "reverb"
SYNC_S = 0.02
"""Seconds from an order to all clients until they begin."""

Tables = Sequence[tuple[str, str, int, int]]
"""Name, "uniform" or "prioritized", most items, and the float32 of an item."""


class Worker:
    """A process that runs a script of `benchmarks/peers/replay/`.

    Args:
        system: `OURS` or `REVERB`.
        script: Its name.
    """

    def __init__(self, system: str, script: str = "worker") -> None:
        python = sys.executable if system == OURS else str(peers.python(system))
        parent = os.getpid()
        self.system = system
        self._process = subprocess.Popen(
            [python, FOLDER / f"{script}.py", system],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: die_with(parent),
        )

    def ask(self, do: str, **more: object) -> None:
        """Send a request."""
        assert self._process.stdin is not None
        print(json.dumps({"do": do, **more}), file=self._process.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        """The answer to the oldest request.

        Raises:
            GmiError: if the process has ended.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise GmiError(f"a process of {self.system} ended: see above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def call(self, do: str, **more: object) -> dict[str, Any]:
        """Send a request, and wait for its answer."""
        self.ask(do, **more)
        return self.answer()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@dataclass(frozen=True)
class Cell:
    """What was measured once: items per second of all clients, and processor seconds of an item."""

    rate: float
    server_cpu_s: float
    client_cpu_s: float

    @property
    def cpu_s(self) -> float:
        """Of server and clients."""
        return self.server_cpu_s + self.client_cpu_s


class Served:
    """A server, its port, and its clients."""

    def __init__(self, server: Worker, port: int, clients: Sequence[Worker]) -> None:
        self.server, self.port, self.clients = server, port, clients

    def connect(self, is_shared: bool = False) -> None:
        """Let all clients connect anew: over TCP, or in the memory of a server of ours."""
        for client in self.clients:
            client.ask("connect", port=self.port, is_shared=is_shared)
        for client in self.clients:
            client.answer()

    def measure(self, do: str, count: int, **more: object) -> Cell:
        """Let `count` clients do something for some seconds."""
        before = self._cpu_s()
        answers = together(self.clients[:count], do, [more] * count)
        server_s, items = self._cpu_s() - before, sum(one["items"] for one in answers)
        wall_s, client_s = max(one["wall_s"] for one in answers), sum(one["cpu_s"] for one in answers)
        return Cell(items / wall_s, server_s / items, client_s / items)

    def _cpu_s(self) -> float:
        cpu_s: float = self.server.call("cpu")["cpu_s"]
        return cpu_s


def together(workers: Sequence[Worker], do: str, each: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let workers begin something at the same moment. Returns their answers."""
    start = time.time() + SYNC_S
    for worker, more in zip(workers, each, strict=True):
        worker.ask(do, start=start, **more)
    return [worker.answer() for worker in workers]


@contextmanager
def served(system: str, tables: Tables, clients: int, writers: int = 8, script: str = "worker") -> Iterator[Served]:
    """A server of tables, which has blocks for so many writers, and clients of it, for the time of a `with` block."""
    workers = [Worker(system, script) for _ in range(1 + clients)]
    try:
        one = Served(workers[0], workers[0].call("serve", tables=tables, writers=writers)["port"], workers[1:])
        one.connect()
        yield one
    finally:
        for worker in workers:
            worker.close()


def obstacle() -> str | None:
    """Why dm-reverb cannot run here; None if it can."""
    return peers.obstacle(REVERB, "replay/worker")
