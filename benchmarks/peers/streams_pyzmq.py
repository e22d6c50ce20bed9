"""pyzmq: requests of one process to another, which copies each into a batch and answers with 64 bytes."""

import os
import tempfile

import numpy as np
import zmq
from settings import Updates, make_parser

ANSWER = b"1" * 64
CALLS = 100
"""Per line."""

WAIT_MS = 60_000


def main() -> None:
    """Ask again and again for the time given. `env_steps` of a line are round trips."""
    parser = make_parser(__doc__)
    parser.add_argument("--nbytes", type=int, required=True)
    parser.add_argument("--way", choices=("ipc", "tcp"), required=True)
    parser.add_argument("--cores", type=int, required=True)
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[: arguments.cores]
    with tempfile.TemporaryDirectory() as folder:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.sched_setaffinity(0, [cores[-1]])
            serve(
                f"ipc://{folder}/stream" if arguments.way == "ipc" else "tcp://127.0.0.1:*", arguments.nbytes, writing
            )
        os.sched_setaffinity(0, [cores[0]])
        ask(os.read(reading, 1000).decode(), arguments.nbytes, arguments.seconds)
        os.waitpid(child, 0)


def socket_of(kind: int) -> zmq.Socket:
    """A socket whose waits have a deadline."""
    socket = zmq.Context().socket(kind)
    socket.setsockopt(zmq.RCVTIMEO, WAIT_MS)
    return socket


def ask(address: str, nbytes: int, seconds: float) -> None:
    """The client: writes an observation into its memory, sends it, and waits for the answer."""
    socket = socket_of(zmq.REQ)
    socket.connect(address)
    observation, memory = np.ones(nbytes // 4, np.float32), np.zeros(nbytes // 4, np.float32)
    updates, done = Updates(seconds), 0
    while not updates.is_over:
        for _ in range(CALLS):
            np.copyto(memory, observation)
            socket.send(memory)
            socket.recv()
        done += CALLS
        updates.report(done, None)
    socket.send(b"")
    socket.recv()


def serve(address: str, nbytes: int, writing: int) -> None:
    """The server: copies each request into a batch."""
    socket = socket_of(zmq.REP)
    socket.bind(address)
    os.write(writing, socket.getsockopt(zmq.LAST_ENDPOINT).strip(b"\0"))
    batch = np.zeros((1, nbytes // 4), np.float32)
    while len(frame := socket.recv(copy=False)):
        np.copyto(batch[0], np.frombuffer(frame, np.float32))
        socket.send(ANSWER)
    socket.send(b"")
    socket.close()
    os._exit(0)


if __name__ == "__main__":
    main()
