"""Whatever the order in which clients insert, sample, are late or go away: nothing is lost, doubled or mixed."""

import time
from collections import deque
from contextlib import ExitStack

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gmi_drl.replay.batch import Batch
from gmi_drl.replay.client.client import Client
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.items import KEY
from gmi_drl.replay.limiters import ReplayTimeoutError, SampleToInsertRatio
from gmi_drl.replay.selectors import Fifo, Uniform
from gmi_drl.replay.server.server import Server
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.table import Table

SIGNATURE = Signature((Field("writer", (), torch.int64), Field("step", (), torch.int64, "other")))
MOST, LONGEST, RATIO, FIRST, BUFFER = 12, 3, 2.0, 3, 20.0
LATE_S = 0.02
WRITERS = st.integers(0, 1)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), WRITERS, st.integers(1, 9), st.integers(1, LONGEST)),
        st.tuples(st.just("vanish"), WRITERS, st.integers(1, 9), st.integers(1, LONGEST)),
        st.tuples(st.just("sample"), st.integers(1, 8)),
        st.tuples(st.just("delete"), st.integers(1, 3)),
    ),
    max_size=25,
)


class World:
    """A server, two writers and a client, and what the table should have: the writer and first step of each item."""

    def __init__(self, stack, placement):
        storage = make_storage(SIGNATURE, 600, longest=LONGEST, placement=placement, fewest_blocks=20)
        limiter = SampleToInsertRatio(RATIO, FIRST, BUFFER)
        options = {"sampler": Uniform(), "remover": Fifo(), "limiter": limiter, "storage": storage}
        self.table = Table("numbers", SIGNATURE, max_size=MOST, **options)
        self.server = stack.enter_context(Server([self.table]))
        self.client = stack.enter_context(Client(self.server.address, shared=placement == "shared"))
        self.items, self.inserts = deque(), 0
        self.writers = [self.new_writer(), self.new_writer()]
        self.stack = stack

    def new_writer(self):
        """A writer with the server's number of its connection, which is the newest."""
        writer = self.client.writer("numbers", timeout_s=LATE_S)
        return max(self.connected()), writer

    def connected(self):
        """The numbers of the connections of the server; those of calls that were late end at some time."""
        return {connection.number for connection in list(self.server._loop.connections.values())}

    def begin(self, writer, count, length):
        """Append steps and make an item of each that has room for it. Returns what the table will have."""
        number, stream = writer
        count = max(count, length)
        step = torch.arange(stream.step, stream.step + count)
        first = stream.append({"writer": torch.full((count,), number), "step": step})
        stream.create_items("numbers", torch.arange(first, first + count - length + 1), length)
        return [(number, first + place, length) for place in range(count - length + 1)]

    def insert(self, writer, count, length):
        stream = self.writers[writer][1]
        before, made = stream.acknowledged, self.begin(self.writers[writer], count, length)
        try:
            stream.flush()
            assert stream.acknowledged - before == len(made)
        except ReplayTimeoutError:
            assert self.table.limiter.inserts_allowed(1) == 0
        self.have(made[: stream.acknowledged - before])

    def vanish(self, writer, count, length):
        """A writer whose connection ends before anything is acknowledged: the first items may be in."""
        made, (number, stream) = self.begin(self.writers[writer], count, length), self.writers[writer]
        stream.send()
        stream._connection.close()
        until(lambda: number not in self.connected())
        self.have(made[: self.table.limiter.counters.inserts - self.inserts])
        self.writers[writer] = self.new_writer()

    def have(self, made):
        self.inserts += len(made)
        self.items.extend(made)
        while len(self.items) > MOST:
            self.items.popleft()

    def sample(self, count):
        with self.table.lock:
            is_allowed = self.table.contents.can_sample(count)
        try:
            batch = self.client.sample("numbers", count, timeout_s=0)
        except ReplayTimeoutError:
            assert not is_allowed
            return
        assert is_allowed
        for item in items_of(batch):
            assert item in self.items

    def delete(self, count):
        if self.table.size:
            with self.table.lock:
                records = self.table.contents.items.records
                keys = records[records[:, KEY] > 0, KEY][:count]
            there = self.all_items()
            assert self.client.delete("numbers", keys) == len(keys)
            left = self.all_items()
            assert set(left) <= set(there) and len(there) - len(left) == len(keys)
            self.items = deque(item for item in self.items if item in left)

    def all_items(self):
        """What the table has, by its own records: the limiter does not count this."""
        with self.table.lock:
            records = self.table.contents.items.records
            there = records[records[:, KEY] > 0]
        return (
            items_of(Batch(self.table.gather(there), there, torch.ones(len(there)), len(there))) if len(there) else []
        )

    def check(self):
        counters, limiter = self.table.limiter.counters, self.table.limiter
        assert counters.inserts == self.inserts and counters.size == len(self.items)
        ahead = counters.inserts * RATIO - counters.samples
        assert ahead <= limiter.max_diff or counters.inserts - counters.deletes <= FIRST
        assert counters.samples == 0 or ahead >= limiter.min_diff


def items_of(batch):
    """Writer, first step and length of each item, whose rows are of one writer and follow each other."""
    found = []
    for writer, step, length in zip(
        batch.fields["writer"], batch.fields["step"], batch.lengths["other"].tolist(), strict=True
    ):
        assert (writer[:length] == writer[0]).all() and (step[:length] == step[0] + torch.arange(length)).all()
        found.append((int(writer[0]), int(step[0]), length))
    return found


def until(is_so):
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("placement", ["cpu", "shared"])
@settings(max_examples=12, deadline=None, derandomize=True)
@given(operations=OPERATIONS)
def test_no_item_is_lost_doubled_or_mixed(placement, operations):
    with ExitStack() as stack:
        world = World(stack, placement)
        for name, *arguments in operations:
            getattr(world, name)(*arguments)
            world.check()
        assert sorted(world.all_items()) == sorted(world.items)
        for _, writer in world.writers:
            writer._connection.close()
