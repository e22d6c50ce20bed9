"""gmi-drl for `worker.py`: the functions that each system has."""

from collections.abc import Iterator

import numpy as np
import torch

from gmi_drl.replay.client.client import Client
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.limiters import MinSize
from gmi_drl.replay.selectors import Fifo, Prioritized, Uniform
from gmi_drl.replay.server.server import Server
from gmi_drl.replay.server.settings import FieldSettings, StorageSettings
from gmi_drl.replay.table import Table

EXPONENT = 0.6
IN_FLIGHT = 1024

torch.set_num_threads(1)


def serve(tables: list, writers: int) -> tuple[object, int]:
    """A server of tables `[name, kind, max_size, floats]`, each with its storage, and its port."""
    made = []
    for name, kind, max_size, floats in tables:
        fields = {"x": FieldSettings(shape=(floats,))}
        storage = StorageSettings(fields=fields, steps=max_size, placement="shared", writers=writers).make()
        sampler = Uniform() if kind == "uniform" else Prioritized(EXPONENT)
        options = {"sampler": sampler, "remover": Fifo(), "max_size": max_size, "limiter": MinSize(1)}
        made.append(Table(name, Signature([Field("x", (floats,))]), storage=storage, **options))
    server = Server(made)
    return server, server.port


def connect(port: int, is_shared: bool) -> Client:
    """A client over TCP, or in the server's memory."""
    return Client(f"127.0.0.1:{port}", shared=is_shared)


def inserts(client: Client, table: str, data: np.ndarray, batch: int) -> Iterator[int]:
    """Insert items of one step, `batch` at a time."""
    pool = torch.from_numpy(data).repeat(-(-batch // len(data)) + 1, 1)
    priorities = torch.rand(4096, dtype=torch.float64) + 0.01
    done = 0
    with client.writer(table) as writer:
        yield 0
        try:
            while True:
                start, place = done % len(data), done % (4096 - batch)
                first = writer.append({"x": pool[start : start + batch]})
                writer.create_items(table, torch.arange(first, first + batch), 1, priorities[place : place + batch])
                done += batch
                yield batch
        finally:
            writer.flush()


def samples(client: Client, table: str, batch: int) -> Iterator[int]:
    """Sample by batches, which are asked for ahead."""
    with client.sampler(table, batch, max_in_flight=max(2 * batch, IN_FLIGHT)) as sampler:
        for found in sampler:
            yield len(found.records)


def batches(client: Client, table: str, floats: int, batch: int) -> Iterator[int]:
    """What a learner does: batches as tensors of torch."""
    yield from samples(client, table, batch)


def some_keys(client: Client, table: str, count: int) -> torch.Tensor:
    """The keys of some items."""
    return client.sample(table, count).keys


def updates(client: Client, table: str, keys: torch.Tensor, batch: int) -> Iterator[int]:
    """Give `batch` items other priorities, again and again."""
    values = 1.0 + 0.1 * (torch.arange(batch) % 7)
    while True:
        client.update(table, keys[torch.randint(len(keys), (batch,))], values)
        yield batch
