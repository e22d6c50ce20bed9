"""Replay servers for tests, in this process."""

import time
from contextlib import contextmanager

import torch

from gmi_drl.replay.server.server import Server
from gmi_drl.replay.storage import make_storage
from tests.replay.signatures import NUMBERED
from tests.replay.tables import numbered_table

LONGEST = 3


def long_table(max_size=100, steps=4096, **options):
    """A table of numbered steps whose items may have up to 3."""
    storage = make_storage(NUMBERED, steps, longest=LONGEST)
    return numbered_table(max_size, storage=storage, **options)


@contextmanager
def served(*tables, **options):
    """A server of tables and a client of it."""
    with Server(tables, **options) as server, server.client() as client:
        yield server, client


def servers_of(sampler, wanted, is_over=lambda: True):
    """The servers whose batches come until some have come of all that are wanted, and it is over.

    Which is first is left to chance.
    """
    came, deadline = set(), time.monotonic() + 60
    while not (came >= wanted and is_over()):
        assert time.monotonic() < deadline, came
        came.add(next(sampler).server)
    return came


def steps(*numbers):
    return {"number": torch.tensor(numbers)}
