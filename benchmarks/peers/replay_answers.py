"""What a system with Reverb's names answers to random operations: `python replay_answers.py reverb|gmi_drl OPERATIONS`.

Prints JSON: for each operation its name, what was sampled, then size, counts, `can_insert` and `can_sample`. Both
systems are given the same operations, as long as they answer alike.
"""

import importlib
import json
import random
import sys
from typing import Any

MODULES = {"reverb": "reverb", "gmi_drl": "gmi_drl.replay.reverb"}
KINDS = ("fifo", "lifo", "max_heap", "min_heap")
LIMITERS = ("min_size", "ratio", "queue")
MAX_SIZE = 12


def main() -> None:
    """Run one system."""
    system, operations = sys.argv[1], int(sys.argv[2])
    print(json.dumps(answers(importlib.import_module(MODULES[system]), operations)))


def answers(reverb: Any, operations: int) -> list[Any]:
    """What all tables answer, `operations` in all."""
    tables = make_tables(reverb)
    server = reverb.Server(tables)
    client = reverb.Client(f"localhost:{server.port}")
    told = []
    for number, table in enumerate(tables):
        chance = random.Random(number)
        told += [(table.name, *one) for one in played(client, table, chance, operations // len(tables))]
    server.stop()
    return told


def make_tables(reverb: Any) -> list[Any]:
    """A table of each sampler and remover, with a limiter each."""
    selectors = {
        "fifo": reverb.selectors.Fifo,
        "lifo": reverb.selectors.Lifo,
        "max_heap": reverb.selectors.MaxHeap,
        "min_heap": reverb.selectors.MinHeap,
    }
    limiters = {
        "min_size": lambda: reverb.rate_limiters.MinSize(3),
        "ratio": lambda: reverb.rate_limiters.SampleToInsertRatio(1.5, 4, 5.0),
        "queue": lambda: reverb.rate_limiters.Queue(8),
    }
    tables = []
    for number, (sampler, remover) in enumerate((one, other) for one in KINDS for other in KINDS):
        limiter = LIMITERS[number % len(LIMITERS)]
        times = 1 if limiter == "queue" else number % 3
        name = f"{sampler} {remover} {limiter} {times}"
        made = selectors[sampler](), selectors[remover]()
        tables.append(reverb.Table(name, *made, MAX_SIZE, limiters[limiter](), max_times_sampled=times))
    return tables


def played(client: Any, table: Any, chance: random.Random, operations: int) -> list[Any]:
    """Do what is possible, at random. Items are known by the number that they have."""
    keys: dict[int, int] = {}
    told: list[Any] = []
    for number in range(operations):
        wanted = chance.choices(("insert", "sample", "update", "delete", "reset"), (40, 40, 14, 5, 1))[0]
        priority, picked = chance.choice((0.0, 1.0, 2.0, 2.0, 5.5)), chance.random()
        seen: Any = None
        if wanted == "insert" and table.can_insert(1):
            client.insert(number, {table.name: priority})
        elif wanted == "sample" and table.can_sample(1) and table.info.current_size:
            [sample] = next(client.sample(table.name, 1))
            info, item = sample.info, int(sample.data[0])
            keys[item] = info.key
            seen = item, info.priority, info.table_size, info.times_sampled, info.probability
        elif wanted in ("update", "delete") and keys:
            item = sorted(keys)[int(picked * len(keys))]
            changes = {"updates": {keys[item]: priority}} if wanted == "update" else {"deletes": [keys.pop(item)]}
            client.mutate_priorities(table.name, **changes)
        elif wanted == "reset":
            client.reset(table.name)
            keys.clear()
        info = table.info
        limits = [table.can_insert(count) for count in range(1, 9)], [table.can_sample(count) for count in range(1, 9)]
        told.append((number, wanted, seen, info.current_size, info.num_unique_samples, *limits))
    return told


if __name__ == "__main__":
    main()
