"""Both ends of the streams' cases: processes that ask, by any of several ways, and this one, which answers."""

import os
import socket
import time
from collections.abc import Callable
from itertools import chain
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from select import POLLIN, poll
from statistics import quantiles
from typing import NamedTuple

import numpy as np
import torch

from gmi_drl.benchmarks.case import Sample
from gmi_drl.comm.host_links import MESSAGE_BYTES
from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.memory.segment import create_empty
from gmi_drl.comm.streams import StreamClient, StreamServer, StreamSizes, join_stream
from gmi_drl.comm.streams.far_client import far_client
from gmi_drl.layout.experience import Kind
from gmi_drl.roles.main import die_with

ANSWER_NUMBERS = 16
HANG_S = 60.0
SPIN_S = 50e-6
STREAM, SOCKET, QUEUE = "gmi-drl", "own TCP sockets", "multiprocessing.Queue"

Connect = Callable[[], tuple[socket.socket, socket.socket]]
"""Makes both ends of a new connection."""

_FORK = get_context("fork")  # the children inherit the descriptors
_SERVER = 0


class Asked(NamedTuple):
    """What a client tells of its requests: seconds of each, CPU seconds of all, when the first began, the last ended.

    Clocks of all processes count from the same moment.
    """

    seconds: list[float]
    cpu_s: float
    began: float
    ended: float


class Ends:
    """Processes that ask on one core, this one, which answers what is there together, on another or the same.

    Args:
        nbytes: Of a request.
        cores: Of this process and of the others.
        clients: How many ask.
        wire: What connects clients that are as if on another host; None: they are on this one.
    """

    def __init__(self, nbytes: int, cores: tuple[int, int], clients: int = 1, wire: Connect | None = None) -> None:
        self._nbytes, self._wire = nbytes, wire
        self._spin_s = SPIN_S if cores[0] != cores[1] and wire is None else 0.0  # the wire needs the cores, too
        request, answer = (Kind("obs", (nbytes // 4,)),), (Kind("action", (ANSWER_NUMBERS,)),)
        ids = range(_SERVER + 1, _SERVER + 1 + clients)
        self._sizes = StreamSizes(request, answer, 1, (_SERVER,), (tuple(ids),))
        self._mailboxes, self._memory = create_mailboxes([_SERVER, *ids]), create_empty("gmi-drl-bench")
        self._there: Queue[tuple[int, np.ndarray]] = _FORK.Queue()
        self._back: dict[int, Queue[np.ndarray]] = {}
        self._sockets, self._far = list[socket.socket](), dict[int, FramedConnection]()
        self._orders, self._processes = list[Connection](), list[BaseProcess]()
        for client in ids:
            self._start(client, cores[1])
        os.sched_setaffinity(0, [cores[0]])
        memory, notifier = join_stream(self._memory, self._mailboxes, _SERVER, self._sizes, HANG_S)
        self._server = StreamServer(memory, notifier, wait_s=0.0, spin_s=self._spin_s, far=self._far)
        self._batch, self._action = list(torch.zeros(clients, nbytes // 4)), torch.ones(ANSWER_NUMBERS)
        self._poll = poll()
        for ours in self._sockets:
            self._poll.register(ours, POLLIN)

    def _start(self, client: int, core: int) -> None:
        """Start the process of a client, with connections of its own."""
        self._back[client] = _FORK.Queue()
        self._back[client].cancel_join_thread()  # or this process waits at its end until an ended client has read all
        (ours, theirs), (orders, their_orders) = _plain((self._wire or _on_loopback)()), _FORK.Pipe()
        self._sockets.append(ours)
        self._orders.append(orders)
        link = None
        if self._wire:
            our_link, link = self._wire()
            self._far[client] = FramedConnection(our_link, 1, MESSAGE_BYTES)
        arguments = (client, their_orders, theirs, link, core, os.getpid())
        self._processes.append(_FORK.Process(target=self._ask, args=arguments, daemon=True))
        self._processes[-1].start()
        theirs.close()
        their_orders.close()
        if link:
            link.close()

    def measure(self, way: str, count: int) -> Sample:
        """Round trips per second by a way, of all clients together.

        Details: percentiles of one, and its processor time in all processes but those of the wire.

        Args:
            way: How they ask.
            count: Round trips of all.
        """
        each = max(2, count // len(self._orders))
        for orders in self._orders:
            orders.send((way, each))
        began_cpu, count = time.process_time(), each * len(self._orders)
        {STREAM: self._serve_stream, SOCKET: self._serve_sockets, QUEUE: self._serve_queue}[way](count)
        cpu_s = time.process_time() - began_cpu
        told: list[Asked] = [orders.recv() for orders in self._orders]
        seconds = list(chain.from_iterable(one.seconds for one in told))
        *_, p99 = quantiles(seconds, n=100)
        cpu_s += sum(one.cpu_s for one in told)
        details = {"p50_s": float(np.median(seconds)), "p99_s": p99, "cpu_s_of_request": cpu_s / count}
        return Sample(count / (max(one.ended for one in told) - min(one.began for one in told)), details)

    def close(self) -> None:
        """End the processes, and free what they share."""
        for process in self._processes:
            process.kill()
            process.join()
        self._server.close()
        for end, orders in zip(self._sockets, self._orders, strict=True):
            end.close()
            orders.close()
        self._mailboxes.close()
        os.close(self._memory)

    def _serve_stream(self, count: int) -> None:
        while count:
            slots = self._server.next_batch()
            for row, slot in zip(self._batch, slots, strict=False):
                row.copy_(self._server.requests[slot]["obs"])
                self._server.answers[slot]["action"].copy_(self._action)
            self._server.answer(0)
            count -= len(slots)

    def _serve_sockets(self, count: int) -> None:
        rows, answer = [row.numpy() for row in self._batch], self._action.numpy()
        while count:
            ready = self._readable()
            for row, end in zip(rows, ready, strict=False):
                _receive(end, row.data)
                end.sendall(answer.data)
            count -= len(ready)

    def _readable(self) -> list[socket.socket]:
        """Those that have something; a single one needs no poll."""
        if len(self._sockets) == 1:
            return self._sockets
        if not (ready := {descriptor for descriptor, _ in self._poll.poll(1000 * HANG_S)}):
            raise TimeoutError(f"no client has asked for {HANG_S:g} s")
        return [end for end in self._sockets if end.fileno() in ready]

    def _serve_queue(self, count: int) -> None:
        row, answer = self._batch[0].numpy(), self._action.numpy()
        for _ in range(count):
            client, request = self._there.get(timeout=HANG_S)
            np.copyto(row, request)
            self._back[client].put(answer)

    def _ask(
        self,
        own: int,
        orders: Connection,
        peer: socket.socket,
        link: socket.socket | None,
        core: int,
        parent: int,
    ) -> None:
        """Run in a client's process: ask as often as ordered."""
        die_with(parent)
        os.sched_setaffinity(0, [core])
        torch.set_num_threads(1)
        client = self._client(own, link)
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
            self._there.put((own, written.numpy()))
            self._back[own].get(timeout=HANG_S)

        ways = {STREAM: by_stream, SOCKET: by_socket, QUEUE: by_queue}
        while True:
            way, count = orders.recv()
            seconds, first, began_cpu = [], time.perf_counter(), time.process_time()
            for _ in range(count):
                began = time.perf_counter()
                ways[way]()
                seconds.append(time.perf_counter() - began)
            orders.send(Asked(seconds, time.process_time() - began_cpu, first, time.perf_counter()))

    def _client(self, own: int, link: socket.socket | None) -> StreamClient:
        if link is not None:
            return far_client(FramedConnection(link, 1), own, self._sizes, HANG_S, HANG_S)
        memory, notifier = join_stream(self._memory, self._mailboxes, own, self._sizes, HANG_S)
        return StreamClient(memory, notifier, self._spin_s)


def _on_loopback() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
    return ours, theirs


def _plain(pair: tuple[socket.socket, socket.socket]) -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection, without delays."""
    for end in pair:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.settimeout(HANG_S)
    return pair


def _receive(end: socket.socket, into: memoryview) -> None:
    """Fill memory."""
    left = into.cast("B")
    while left:
        left = left[end.recv_into(left) :]
