"""A process of the benchmarks of Reverb's interface, one item or key a call: one program for gmi-drl and dm-reverb.

Requests and answers are those of `worker.py`. "fill" puts items into a table, whose keys are updated then.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import worker

reverb = importlib.import_module({"gmi_drl": "gmi_drl.replay.reverb", "reverb": "reverb"}[sys.argv[1]])

EXPONENT = 0.6
ITEMS, MOST_KEYS = 2000, 1000
"""That "fill" inserts, and of which a call updates at most."""

AHEAD = 64
"""Items that a writer has not flushed, and samples of one iteration."""

KEYS: list[int] = []


def serve(tables: list, writers: int) -> tuple[object, int]:
    """A server of tables `[name, kind, max_size, floats]`, and its port."""
    selectors, limiter = reverb.selectors, reverb.rate_limiters.MinSize(1)
    samplers = {"uniform": selectors.Uniform, "prioritized": lambda: selectors.Prioritized(EXPONENT)}
    made = [reverb.Table(name, samplers[kind](), selectors.Fifo(), size, limiter) for name, kind, size, _ in tables]
    server = reverb.Server(made, port=None)
    return server, server.port


def connect(port: int, is_shared: bool) -> "reverb.Client":
    """A client. It has no shared memory."""
    return reverb.Client(f"localhost:{port}")


def fill(client: "reverb.Client", table: str, data: np.ndarray, batch: int) -> Iterator[int]:
    """Insert items, and note their keys."""
    with client.writer(max_sequence_length=1, chunk_length=1, max_in_flight_items=AHEAD) as writer:
        for number in range(ITEMS):
            writer.append([data[number % len(data)]])
            writer.create_item(table, 1, 1.0 + number % 7)
    keys: dict[int, None] = {}  # in the order of the draws
    while len(keys) < MOST_KEYS:
        keys |= dict.fromkeys(one[0].info.key for one in client.sample(table, MOST_KEYS))
    KEYS[:] = keys
    while True:
        yield 1


def append(client: "reverb.Client", table: str, data: np.ndarray, batch: int) -> Iterator[int]:
    """Append steps and create an item of each, by the writer of trajectories."""
    writer, done = client.trajectory_writer(num_keep_alive_refs=1), 0
    yield 0
    try:
        while True:
            writer.append({"x": data[done % len(data)]})
            writer.create_item(table, 1.0, {"x": writer.history["x"][-1:]})
            done += 1
            if done % AHEAD == 0:
                writer.flush(block_until_num_items=AHEAD)
            yield 1
    finally:
        writer.flush()
        writer.close()


def write(client: "reverb.Client", table: str, data: np.ndarray, batch: int) -> Iterator[int]:
    """The same by the older writer."""
    with client.writer(max_sequence_length=1, chunk_length=1, max_in_flight_items=AHEAD) as writer:
        yield 0
        done = 0
        try:
            while True:
                writer.append([data[done % len(data)]])
                writer.create_item(table, 1, 1.0)
                done += 1
                yield 1
        finally:
            writer.flush()


def insert(client: "reverb.Client", table: str, data: np.ndarray, batch: int) -> Iterator[int]:
    """Insert an item a call."""
    yield 0
    done = 0
    while True:
        client.insert([data[done % len(data)]], {table: 1.0})
        done += 1
        yield 1


def sample(client: "reverb.Client", table: str, data: np.ndarray, batch: int) -> Iterator[int]:
    """Sample an item a call."""
    yield 0
    while True:
        yield len(list(client.sample(table, 1)))


def iterate(client: "reverb.Client", table: str, data: np.ndarray, batch: int) -> Iterator[int]:
    """Sample items one by one, some a call."""
    yield 0
    while True:
        for _ in client.sample(table, AHEAD):
            yield 1


def update(client: "reverb.Client", table: str, data: np.ndarray, batch: int) -> Iterator[int]:
    """Give `batch` items other priorities a call."""
    yield 0
    while True:
        first = np.random.randint(len(KEYS) - batch + 1)
        chosen = KEYS[first : first + batch]  # none twice
        client.mutate_priorities(table, updates={key: 1.0 + place % 7 for place, key in enumerate(chosen)})
        yield batch


CALLS: dict[str, Callable[..., Iterator[int]]] = {
    one.__name__: one for one in (fill, append, write, insert, sample, iterate, update)
}


def begin(client: "reverb.Client", asked: dict) -> Iterator[int]:
    """The calls that are asked for."""
    data = np.random.default_rng(os.getpid()).random((worker.POOL, asked["floats"]), dtype=np.float32)
    return CALLS[asked["do"]](client, asked["table"], data, asked["batch"])


if __name__ == "__main__":
    worker.main(sys.modules[__name__])
