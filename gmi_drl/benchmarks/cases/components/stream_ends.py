"""Both ends of the streams' cases: a process that asks, by any of several ways, and this one, which answers."""

import os
import socket
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import quantiles

import numpy as np
import torch

from gmi_drl.benchmarks.case import Sample
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.memory.segment import create_empty
from gmi_drl.comm.streams import StreamClient, StreamServer, StreamSizes, join_stream
from gmi_drl.layout.experience import Kind
from gmi_drl.roles.main import die_with

ANSWER_NUMBERS = 16
HANG_S = 60.0
SPIN_S = 50e-6
STREAM, SOCKET, QUEUE = "gmi-drl", "own TCP sockets", "multiprocessing.Queue"

_FORK = get_context("fork")  # the child inherits the descriptors
_SERVER, _CLIENT = 0, 1


class Pair:
    """The asking process on one core, this one on another or the same.

    Args:
        nbytes: Of a request.
        cores: Of this process and of the other.
    """

    def __init__(self, nbytes: int, cores: tuple[int, int]) -> None:
        self._nbytes, self._spin_s = nbytes, SPIN_S if cores[0] != cores[1] else 0.0
        request, answer = (Kind("obs", (nbytes // 4,)),), (Kind("action", (ANSWER_NUMBERS,)),)
        self._sizes = StreamSizes(request, answer, 1, (_SERVER,), ((_CLIENT,),))
        self._mailboxes, self._memory = create_mailboxes([_SERVER, _CLIENT]), create_empty("gmi-drl-bench")
        self._there, self._back = _FORK.Queue(), _FORK.Queue()
        self._socket, theirs = _connected()
        self.orders, orders = _FORK.Pipe()
        self._process = _FORK.Process(target=self._ask, args=(orders, theirs, cores[1], os.getpid()), daemon=True)
        self._process.start()
        theirs.close()
        os.sched_setaffinity(0, [cores[0]])
        memory, notifier = join_stream(self._memory, self._mailboxes, _SERVER, self._sizes, HANG_S)
        self._server = StreamServer(memory, notifier, wait_s=0.0, spin_s=self._spin_s)
        self._batch, self._action = list(torch.zeros(1, nbytes // 4)), torch.ones(ANSWER_NUMBERS)

    def measure(self, way: str, count: int) -> Sample:
        """Round trips per second by a way; details: percentiles of one, and its processor time in both processes."""
        self.orders.send((way, count))
        began_cpu = time.process_time()
        {STREAM: self._serve_stream, SOCKET: self._serve_socket, QUEUE: self._serve_queue}[way](count)
        cpu_s = time.process_time() - began_cpu
        seconds, theirs_cpu_s = self.orders.recv()
        *_, p99 = quantiles(seconds, n=100)
        details = {"p50_s": float(np.median(seconds)), "p99_s": p99, "cpu_s_of_request": (cpu_s + theirs_cpu_s) / count}
        return Sample(count / sum(seconds), details)

    def close(self) -> None:
        """End the process, and free what it shares."""
        self._process.kill()
        self._process.join()
        self._server.close()
        self._socket.close()
        self.orders.close()
        self._mailboxes.close()
        os.close(self._memory)

    def _serve_stream(self, count: int) -> None:
        for _ in range(count):
            for row, slot in zip(self._batch, self._server.next_batch(), strict=True):
                row.copy_(self._server.requests[slot]["obs"])
                self._server.answers[slot]["action"].copy_(self._action)
            self._server.answer(0)

    def _serve_socket(self, count: int) -> None:
        row, answer = self._batch[0].numpy(), self._action.numpy()
        for _ in range(count):
            _receive(self._socket, row.data)
            self._socket.sendall(answer.data)

    def _serve_queue(self, count: int) -> None:
        row, answer = self._batch[0].numpy(), self._action.numpy()
        for _ in range(count):
            np.copyto(row, self._there.get(timeout=HANG_S))
            self._back.put(answer)

    def _ask(self, orders: Connection, peer: socket.socket, core: int, parent: int) -> None:
        die_with(parent)
        os.sched_setaffinity(0, [core])
        torch.set_num_threads(1)
        memory, notifier = join_stream(self._memory, self._mailboxes, _CLIENT, self._sizes, HANG_S)
        client = StreamClient(memory, notifier, self._spin_s)
        obs, written = torch.ones(self._nbytes // 4), torch.zeros(self._nbytes // 4)
        action = torch.zeros(ANSWER_NUMBERS).numpy()

        def by_stream() -> None:
            client.requests[0]["obs"].copy_(obs)
            client.post(0)
            client.take(0)

        def by_socket() -> None:
            written.copy_(obs)
            peer.sendall(written.numpy().data)
            _receive(peer, action.data)

        def by_queue() -> None:
            written.copy_(obs)
            self._there.put(written.numpy())
            self._back.get(timeout=HANG_S)

        ways = {STREAM: by_stream, SOCKET: by_socket, QUEUE: by_queue}
        while True:
            way, count = orders.recv()
            seconds, began_cpu = [], time.process_time()
            for _ in range(count):
                began = time.perf_counter()
                ways[way]()
                seconds.append(time.perf_counter() - began)
            orders.send((seconds, time.process_time() - began_cpu))


def _connected() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection of this host, without delays."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
    for end in (ours, theirs):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.settimeout(HANG_S)
    return ours, theirs


def _receive(end: socket.socket, into: memoryview) -> None:
    """Fill memory."""
    left = into.cast("B")
    while left:
        left = left[end.recv_into(left) :]
