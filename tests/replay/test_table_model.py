"""A table against a plain Python model: thousands of random operations, whose state and samples must be the same."""

import argparse
import math
import random

import pytest
import torch

from gmi_drl.replay.limiters import MinSize, Queue, ReplayTimeoutError, SampleToInsertRatio
from gmi_drl.replay.selectors import Fifo, Lifo, MaxHeap, MinHeap, Prioritized, TopK, Uniform
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.stream import Stream
from tests.replay.signatures import NUMBERED
from tests.replay.tables import add, numbered_table, numbers_of

SELECTORS = {
    "fifo": Fifo,
    "lifo": Lifo,
    "max_heap": MaxHeap,
    "min_heap": MinHeap,
    "uniform": Uniform,
    "prioritized": lambda: Prioritized(0.6),
    "top_k": lambda: TopK(3),
}
LIMITERS = {
    "min_size": lambda: MinSize(3),
    "ratio": lambda: SampleToInsertRatio(1.5, 4, (0.0, 12.0)),
    "queue": lambda: Queue(6),
}
MAX_SIZE = 12


class Item:
    def __init__(self, key, number, priority, changed):
        self.key, self.number, self.priority, self.changed, self.times = key, number, priority, changed, 0


class Model:
    """The items in the order of insertion, one operation at a time."""

    def __init__(self, sampler, remover, limiter, max_times):
        self.sampler, self.remover, self.limiter, self.max_times = sampler, remover, limiter, max_times
        self.items, self.changes = [], 0
        self.inserts = self.samples = self.deletes = 0

    def may_select(self, selector):
        """The items that a selector may select now."""
        high = sorted(self.items, key=lambda item: (-item.priority, item.changed))
        if selector == "fifo":
            return self.items[:1]
        if selector == "lifo":
            return self.items[-1:]
        if selector == "max_heap":
            return high[:1]
        if selector == "min_heap":
            return sorted(self.items, key=lambda item: (item.priority, item.changed))[:1]
        if selector == "top_k":
            return [item for item in self.items if item.priority >= high[min(3, len(high)) - 1].priority]
        if selector == "prioritized" and any(item.priority for item in self.items):
            return [item for item in self.items if item.priority]
        return self.items

    def inserts_allowed(self):
        size, limiter = self.inserts - self.deletes, self.limiter
        return size + 1 <= limiter.min_size or (self.inserts + 1) * limiter.spi - self.samples <= limiter.max_diff

    def samples_allowed(self, count):
        is_large = self.inserts - self.deletes >= self.limiter.min_size
        return is_large and self.inserts * self.limiter.spi - self.samples - count >= self.limiter.min_diff

    def insert(self, key, number, priority, is_there):
        """Insert, then evict what the table has evicted, which must be legal."""
        self.items.append(Item(key, number, priority, self.changes))
        self.changes += 1
        self.inserts += 1
        if len(self.items) > MAX_SIZE:
            gone = [item for item in self.may_select(self.remover) if not is_there(item.key)]
            assert gone, "the remover has evicted another one"
            self.remove(gone[0])

    def remove(self, item):
        self.items.remove(item)
        self.deletes += 1

    def update(self, key, priority):
        for item in self.items:
            if item.key == key:
                item.priority, item.changed = priority, self.changes
                self.changes += 1

    def sample(self, key):
        """Count a sample, which must be legal."""
        (item,) = [item for item in self.may_select(self.sampler) if item.key == key] or [None]
        assert item is not None, "the sampler has selected another one"
        item.times += 1
        self.samples += 1
        if item.times == self.max_times:
            self.remove(item)
        return item


def walk(sampler, remover, limiter, max_times, operations, seed, placement="cpu"):
    """Random operations on a table and its model."""
    chance = random.Random(seed)
    table = numbered_table(
        max_size=MAX_SIZE,
        sampler=SELECTORS[sampler](),
        remover=SELECTORS[remover](),
        limiter=LIMITERS[limiter](),
        max_times_sampled=max_times,
        storage=make_storage(NUMBERED, 400, placement=placement),
        seed=seed,
    )
    model, stream, keys = Model(sampler, remover, LIMITERS[limiter](), max_times), Stream(table.storage), [0]
    for _ in range(operations):
        what = chance.choice(("insert", "insert", "insert", "sample", "sample", "update", "delete"))
        if what == "insert":
            insert(table, model, stream, chance, keys)
        elif what == "sample":
            sample(table, model, chance)
        elif what == "update":
            update(table, model, chance, keys)
        elif chance.random() < 0.5:
            key = chance.choice(keys[-20:])
            gone = [item for item in model.items if item.key == key]
            assert table.delete(torch.tensor([key])) == len(gone)
            for item in gone:
                model.remove(item)
        compare(table, model)
    table.storage.close()


def any_priority(chance):
    return float(chance.choice((0, 0, 1, 2, 2, 5, 0.5)))


def insert(table, model, stream, chance, keys):
    count = chance.randint(1, 3) if table.contents.remover.evicts_in_batches else 1
    allowed = table.limiter.inserts_allowed(count)
    if not allowed:
        assert not model.inserts_allowed()
        with pytest.raises(ReplayTimeoutError):
            add(table, [0], 1.0, stream, timeout_s=0)
        return
    numbers = range(model.inserts, model.inserts + allowed)
    priorities = [any_priority(chance) for _ in numbers]
    new = add(table, numbers, torch.tensor(priorities), stream, timeout_s=0).tolist()
    for key, number, priority in zip(new, numbers, priorities, strict=True):
        assert model.inserts_allowed()
        model.insert(key, number, priority, lambda key: bool(table.contents.items.find(torch.tensor([key]))[0] >= 0))
    assert allowed == count or not model.inserts_allowed()
    keys += new


def update(table, model, chance, keys):
    chosen = chance.choices(keys[-40:], k=chance.randint(1, 4))
    priorities = [any_priority(chance) for _ in chosen]
    known = sum(item.key == key for item in model.items for key in chosen)
    assert table.update(torch.tensor(chosen), torch.tensor(priorities)) == known
    for key, priority in zip(chosen, priorities, strict=True):
        model.update(key, priority)


def sample(table, model, chance):
    count = chance.randint(1, 4)
    left = sum(model.max_times - item.times for item in model.items) if model.max_times else math.inf
    size = len(model.items)
    if not (model.samples_allowed(count) and size and left >= count):
        with pytest.raises(ReplayTimeoutError):
            table.sample(count, timeout_s=0)
        return
    batch = table.sample(count, timeout_s=0)
    assert batch.table_size == size
    for key, number, priority in zip(batch.keys.tolist(), numbers_of(batch), batch.priorities.tolist(), strict=True):
        item = model.sample(key)
        assert (item.number, item.priority) == (number, priority)


def compare(table, model):
    """The same items and counts, and no block that is needed by anything else."""
    counters, records = table.limiter.counters, table.contents.items.records
    assert (counters.inserts, counters.samples, counters.deletes) == (model.inserts, model.samples, model.deletes)
    there = records[records[:, 0] > 0]
    found = dict(zip(there[:, 0].tolist(), there[:, 1].tolist(), strict=True))
    assert found == {item.key: item.times for item in model.items}
    assert int(table.storage.blocks.state_dict()["references"].sum()) == len(model.items)


def combinations():
    """All samplers and removers with limits; TopK draws a batch from the same items, so it has no limit of samples."""
    for sampler in SELECTORS:
        for number, remover in enumerate(SELECTORS):
            max_times = 0 if sampler == "top_k" else (number + len(sampler)) % 3
            yield sampler, remover, tuple(LIMITERS)[(number + len(sampler)) % len(LIMITERS)], max_times


@pytest.mark.parametrize("case", list(combinations()), ids=lambda case: "-".join(map(str, case)))
def test_a_table_does_what_its_model_does(case):
    walk(*case, operations=60, seed=1, placement="shared" if len(case[0]) % 2 else "cpu")


def main():
    """Many more operations: `python -m tests.replay.test_table_model --operations 20000`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--operations", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    cases = [(case, placement) for case in combinations() for placement in ("cpu", "shared")]
    for number, (case, placement) in enumerate(cases):
        walk(
            *case, operations=-(-arguments.operations // len(cases)), seed=arguments.seed + number, placement=placement
        )
        print(*case, placement, "agrees", flush=True)


if __name__ == "__main__":
    main()
