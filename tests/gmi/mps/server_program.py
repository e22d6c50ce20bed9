"""A stand-in for nvidia-cuda-mps-server: knows its clients by the kernel's word, and what they have in flight.

A client that goes while it has something in flight, and was not terminated, harms the server, as on a GPU it may: the
log (FAKE_MPS) says "harmed by PID". The habit `slow_synchronize`: seconds that the GPU takes for what is in flight.
"""

import os
import selectors
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path

PIPES = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
HABITS = Path(os.environ.get("FAKE_MPS", "/nowhere"))


def log(text):
    with suppress(OSError), (HABITS / "log").open("a") as file:
        file.write(f"{text}\n")


def seconds_of_work():
    with suppress(OSError):
        return float((HABITS / "slow_synchronize").read_text())
    return 0.0


class Client:
    def __init__(self, line):
        self.line, self.in_flight = line, False
        self.pid, *_ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))


class Server:
    def __init__(self):
        self.selector, self.clients, self.working = selectors.DefaultSelector(), {}, []
        self.door = socket.socket(socket.AF_UNIX)
        (PIPES / "server").unlink(missing_ok=True)
        self.door.bind(str(PIPES / "server.draft"))
        self.door.listen(128)
        (PIPES / "server.draft").rename(PIPES / "server")
        self.selector.register(self.door, selectors.EVENT_READ, None)

    def serve(self):
        while True:
            for key, _ in self.selector.select(0.02 if self.working else None):
                if key.data is None:
                    client = Client(self.door.accept()[0])
                    self.selector.register(client.line, selectors.EVENT_READ, client)
                else:
                    self.hear(key.data)
            for done, client in self.working[:]:
                if time.monotonic() >= done:
                    self.working.remove((done, client))
                    self.settle(client, False)

    def hear(self, client):
        try:
            words = client.line.recv(4096).decode().split()
        except OSError:
            words = []
        match words:
            case []:
                self.leave(client)
            case ["attach", *limits]:
                self.clients[client.pid] = client
                log(f"client {client.pid} {' '.join(limits)}")
                client.line.sendall(b"done")
            case ["clients"]:
                self.say(client, "\n".join(map(str, sorted(self.clients))))
            case ["terminate", pid]:
                self.say(client, "done" if self.terminate(int(pid)) else "nobody")
            case [*_, "synchronize"] if client.in_flight:
                self.working.append((time.monotonic() + seconds_of_work(), client))
            case _:
                self.settle(client, words[-1] == "launch")

    def settle(self, client, in_flight):
        client.in_flight = in_flight
        with suppress(OSError):
            client.line.sendall(b"done")

    def say(self, client, answer):
        with suppress(OSError):
            client.line.sendall(answer.encode())
        self.selector.unregister(client.line)
        client.line.close()

    def terminate(self, pid):
        client = self.clients.get(pid)
        if client is None:
            return False
        client.in_flight = False
        log(f"terminated {pid}")
        self.leave(client)
        return True

    def leave(self, client):
        self.selector.unregister(client.line)
        client.line.close()
        if self.clients.get(client.pid) is client:
            del self.clients[client.pid]
            log(f"harmed by {client.pid}" if client.in_flight else f"gone {client.pid}")


if __name__ == "__main__":
    Server().serve()
