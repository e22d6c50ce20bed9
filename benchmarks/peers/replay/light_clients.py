"""Many clients of replay servers of ours in one process without torch: each has one frame of items in flight.

It reads requests from its input and answers each, in lines of JSON, as `worker.py`.
"""

import array
import json
import os
import random
import select
import socket
import struct
import sys
import time

from gmi_drl.comm.links.framing import DATA, FramedConnection
from gmi_drl.comm.links.token_listener import greeting

SAMPLES_OF_TIMES = 5000
"""Times of frames that are answered."""

WAIT_S = 60.0
ALL_COLUMNS = 1


class LightClient:
    """A connection: frames of steps and items go out, or batches come in.

    Args:
        port: Of the server.
        table: Its number; its storage has the same.
        asked: The request: `words` has the kinds and structs of messages, `row_bytes` and `block_steps` the storage's.
        shared: Rows to insert and memory for samples, of all clients: each on its own machine would have its own
            caches, too.
    """

    def __init__(self, port: int, table: int, asked: dict, shared: tuple[memoryview, memoryview]) -> None:
        connection = socket.create_connection(("127.0.0.1", port))
        hello = {"version": asked["words"]["version"], "pid": os.getpid()}
        connection.sendall(greeting(asked["words"]["token"], json.dumps(hello).encode()))
        self.framed = FramedConnection(connection, 0)
        self.frames = self.items = self.step = 0
        self.times: list[float] = []
        self._table, self._asked, self._words = table, asked, asked["words"]
        self._rows, self._into = shared
        self._sent, self._is_answered = 0.0, False
        self._count = asked["items"]

    def send(self) -> None:
        """Send what the next answer is for."""
        self._sent = time.perf_counter()
        if self._asked["do"] == "sample":
            word = self._pack("sample", 0, self._table, self._count, 0, ALL_COLUMNS, -1, WAIT_S)
            self.framed.send_together([(self._kind("sample"), [word])])
            return
        self._count = min(self._asked["items"], self._asked["block_steps"] - self.step % self._asked["block_steps"])
        steps = self._pack("steps", self._table, self._count, self._words["next_call"], WAIT_S)
        rows = array.array("q", range(self.step, self.step + self._count)).tobytes()
        ones = array.array("q", [1] * self._count).tobytes()
        priorities = array.array("d", [1.0] * self._count).tobytes()
        items = self._pack("items", 0, self._table, self._count, 1, 0, WAIT_S)
        self.step += self._count
        self.framed.send_together(
            [
                (self._kind("steps"), [steps]),
                (DATA, [self._rows[: self._count * self._asked["row_bytes"]]]),
                (self._kind("items"), [items, rows, ones, priorities]),
            ]
        )

    def read(self) -> bool:
        """Read what has come. Returns whether the answer is complete."""
        for kind, message in self.framed.read():
            if kind == self._kind("error"):
                raise SystemExit(message.decode(errors="replace"))
            if kind == self._kind("samples"):
                self.framed.receive_data(self._into)
            self._is_answered |= kind in (self._kind("samples"), self._kind("ack"))
        if not self.framed.is_open:
            raise SystemExit("the server closed a connection")
        if not self._is_answered or self.framed.is_receiving:
            return False
        self._is_answered = False
        self.frames += 1
        self.items += self._count
        self.times.append(time.perf_counter() - self._sent)
        return True

    def _kind(self, name: str) -> int:
        return self._words["kinds"][name]

    def _pack(self, name: str, *values: float) -> bytes:
        return struct.pack(self._words["formats"][name], *values)


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        rows = memoryview(os.urandom(asked["items"] * asked["row_bytes"]))
        shared = rows, memoryview(bytearray(len(rows)))
        clients = [LightClient(port, table, asked, shared) for port, table in asked["connections"]]
        print(json.dumps(run(clients, asked)), flush=True)
        for client in clients:
            client.framed.close()


def run(clients: list[LightClient], asked: dict) -> dict:
    """Serve all connections in turns for some seconds."""
    polling, by_descriptor = select.epoll(), {client.framed.fileno(): client for client in clients}
    for descriptor in by_descriptor:
        polling.register(descriptor, select.EPOLLIN)
    while time.time() < asked["start"]:
        time.sleep(0.001)
    began, cpu_s = time.perf_counter(), time.process_time()
    for client in clients:
        client.send()
    while time.perf_counter() - began < asked["seconds"]:
        for descriptor, _ in polling.poll(0.1):
            if by_descriptor[descriptor].read():
                by_descriptor[descriptor].send()
    wall_s, times = time.perf_counter() - began, [one for client in clients for one in client.times]
    return {
        "items": sum(client.items for client in clients),
        "frames": [client.frames for client in clients],
        "frame_s": random.Random(0).sample(times, min(len(times), SAMPLES_OF_TIMES)),
        "wall_s": wall_s,
        "cpu_s": time.process_time() - cpu_s,
    }


if __name__ == "__main__":
    main()
