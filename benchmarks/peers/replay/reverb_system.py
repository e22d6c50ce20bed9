"""dm-reverb for `worker.py`: the functions that each system has."""

import os
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import reverb

IN_FLIGHT = 100
AHEAD = 256
EXPONENT = 0.6


def serve(tables: list, writers: int) -> tuple[object, int]:
    """A server of tables `[name, kind, max_size, floats]`, and its port."""
    made = []
    for name, kind, max_size, _ in tables:
        selectors = reverb.selectors
        sampler = selectors.Uniform() if kind == "uniform" else selectors.Prioritized(EXPONENT)
        limiter = reverb.rate_limiters.MinSize(1)
        made.append(reverb.Table(name, sampler, selectors.Fifo(), max_size, limiter))
    server = reverb.Server(tables=made, port=None)
    return server, server.port


def connect(port: int, is_shared: bool) -> reverb.Client:
    """A client. It has no shared memory."""
    return reverb.Client(f"localhost:{port}")


def inserts(client: reverb.Client, table: str, data: np.ndarray, batch: int) -> Iterator[int]:
    """Insert items of one step by the writer of the paper, 16 a turn."""
    priorities = (np.random.rand(4096) + 0.01).tolist()
    done = 0
    with client.writer(max_sequence_length=1, chunk_length=1, max_in_flight_items=IN_FLIGHT) as writer:
        try:
            yield 0
            while True:
                for _ in range(16):
                    writer.append([data[done % len(data)]])
                    writer.create_item(table, 1, priorities[done % 4096])
                    done += 1
                yield 16
        finally:
            writer.flush()


def samples(client: reverb.Client, table: str, batch: int) -> Iterator[int]:
    """Sample by the sampler in C++, without TensorFlow, 16 a turn."""
    sampler = client._client.NewSampler(table, 1 << 30, AHEAD)
    sampler.GetNextTrajectory()
    yield 0
    while True:
        for _ in range(16):
            sampler.GetNextTrajectory()
        yield 16


def batches(client: reverb.Client, table: str, floats: int, batch: int) -> Iterator[int]:
    """What a learner does: batches of a dataset as tensors of torch."""
    import tensorflow as tf
    import torch

    shapes, ahead = [tf.TensorShape([1, floats])], max(2 * batch, 64)
    dataset = reverb.TrajectoryDataset(
        client.server_address, table, [tf.float32], shapes, max_in_flight_samples_per_worker=ahead
    )
    found = iter(dataset.batch(batch))
    while True:
        torch.from_numpy(next(found).data[0].numpy())
        yield batch


def some_keys(client: reverb.Client, table: str, count: int) -> np.ndarray:
    """The keys of some items."""
    return np.array([one[0].info.key for one in client.sample(table, num_samples=count)], dtype=np.uint64)


def updates(client: reverb.Client, table: str, keys: np.ndarray, batch: int) -> Iterator[int]:
    """Give `batch` items other priorities, again and again."""
    while True:
        chosen = keys[np.random.randint(len(keys), size=batch)].tolist()
        client.mutate_priorities(table, updates={key: 1.0 + 0.1 * (place % 7) for place, key in enumerate(chosen)})
        yield batch
