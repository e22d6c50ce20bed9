"""pyzmq: requests of processes to another one, which copies each into a batch and answers with 64 bytes."""

import os
import signal
import tempfile
from contextlib import suppress

import numpy as np
import zmq
from settings import Updates, make_parser

ANSWER = b"1" * 64
CALLS = 100
"""Per line."""

WAIT_MS = 60_000
ADDRESS_BYTES = 200


def main() -> None:
    """Answer again and again for the time given. `env_steps` of a line are round trips."""
    parser = make_parser(__doc__)
    parser.add_argument("--nbytes", type=int, required=True)
    parser.add_argument("--way", choices=("ipc", "tcp"), required=True)
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--clients", type=int, required=True)
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[: arguments.cores]
    reading, writing = os.pipe()
    children = []
    for _ in range(arguments.clients):
        children.append(os.fork())
        if not children[-1]:
            os.sched_setaffinity(0, [cores[0]])
            ask(os.read(reading, ADDRESS_BYTES).decode().strip(), arguments.nbytes)
    os.sched_setaffinity(0, [cores[-1]])
    with tempfile.TemporaryDirectory() as folder:
        socket = socket_of(zmq.REP)
        socket.bind(f"ipc://{folder}/stream" if arguments.way == "ipc" else "tcp://127.0.0.1:*")
        address = socket.getsockopt(zmq.LAST_ENDPOINT).strip(b"\0").ljust(ADDRESS_BYTES)
        os.write(writing, address * arguments.clients)
        serve(socket, arguments.nbytes, arguments.seconds)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def socket_of(kind: int) -> zmq.Socket:
    """A socket whose waits have a deadline."""
    socket = zmq.Context().socket(kind)
    socket.setsockopt(zmq.RCVTIMEO, WAIT_MS)
    socket.setsockopt(zmq.LINGER, 0)
    return socket


def ask(address: str, nbytes: int) -> None:
    """A client: writes an observation into its memory, sends it, and waits for the answer, until it is killed."""
    socket = socket_of(zmq.REQ)
    socket.connect(address)
    observation, memory = np.ones(nbytes // 4, np.float32), np.zeros(nbytes // 4, np.float32)
    while True:
        np.copyto(memory, observation)
        socket.send(memory, copy=False)  # it is written again after the answer
        socket.recv()


def serve(socket: zmq.Socket, nbytes: int, seconds: float) -> None:
    """The server: copies each request into a batch."""
    batch, updates, done = np.zeros((1, nbytes // 4), np.float32), Updates(seconds), 0
    while not updates.is_over:
        for _ in range(CALLS):
            np.copyto(batch[0], np.frombuffer(socket.recv(copy=False), np.float32))
            socket.send(ANSWER)
        done += CALLS
        updates.report(done, None)


if __name__ == "__main__":
    main()
