"""How long inserts stand still while a replay server writes a large checkpoint, and how long it takes to restore it.

    python benchmarks/soak/checkpoint_stalls.py --gigabytes 2

A server of one table is filled over shared memory. Then two clients, processes of their own, insert single items and
wait for each; their longest waits are told for the time before the checkpoint and for the time of it. Beside them a
process writes and syncs 4 kB again and again: its longest wait is the disk's own. Needs as much room in the folder for
temporary files ($TMPDIR) and twice as much memory. Takes about a minute with 2 GB, if the disk writes 200 MB/s.
"""

import argparse
import os
import sys
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path
from typing import Any

import torch

from gmi_drl.replay import Fifo, MinSize, Table, Uniform
from gmi_drl.replay.client.client import Client
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.server.server import Server
from gmi_drl.replay.storage import make_storage

SPAWN = get_context("spawn")
ITEM_BYTES, SYNCED_BYTES = 40_000, 4096
CLIENTS, CALM_S = 2, 5.0
Waits = tuple[str, list[tuple[float, float]]]
SIGNATURE = Signature((Field("x", (ITEM_BYTES // 4,)),))


def make_table(gigabytes: float) -> Table:
    """A table whose steps have so many gigabytes, and room for half as many more.

    A checkpoint holds the blocks of what is in it until they are written, so what comes meanwhile needs other room.
    """
    items = int(gigabytes * 1e9 / ITEM_BYTES)
    storage = make_storage(SIGNATURE, items + items // 2, placement="shared")
    made = {"sampler": Uniform(), "remover": Fifo(), "limiter": MinSize(1), "storage": storage}
    return Table("large", SIGNATURE, max_size=items, **made)


def insert(address: str, begun: Semaphore, is_over: Event, waits: "SimpleQueue[Waits]") -> None:
    """The process of a client: inserts until it is over. Puts the time and seconds of each wait."""
    torch.set_num_threads(1)
    item, found = {"x": torch.rand(1, ITEM_BYTES // 4)}, []
    with Client(address) as client:
        while not is_over.is_set():
            began = time.time()
            client.insert(item, {"large": 1.0})
            begun.release()
            found.append((began, time.time() - began))
    waits.put(("an insert", found))


def sync(path: Path, begun: Semaphore, is_over: Event, waits: "SimpleQueue[Waits]") -> None:
    """The process that sees how long the disk takes for a little."""
    found = []
    with path.open("wb", buffering=0) as file:
        while not is_over.is_set():
            began = time.time()
            file.write(bytes(SYNCED_BYTES))
            os.fsync(file.fileno())
            begun.release()
            found.append((began, time.time() - began))
            time.sleep(0.005)
    waits.put(("a sync of 4 kB", found))


def fill(client: Client, items: int) -> None:
    """Insert so many items, many at once."""
    with client.writer("large") as writer:
        for start in range(0, items, 100):
            count = min(100, items - start)
            first = writer.append({"x": torch.rand(count, ITEM_BYTES // 4)})
            writer.create_items("large", torch.arange(first, first + count))


def longest(waits: list[tuple[float, float]], begin: float, end: float) -> str:
    """The longest wait that overlaps with a time, and how many there were."""
    found = [seconds for began, seconds in waits if began + seconds > begin and began < end]
    return f"{1e3 * max(found, default=0.0):.0f} ms of {len(found):,}"


def main() -> int:
    """Fill, write, restore; print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder, is_over, waits = Path(name), SPAWN.Event(), SPAWN.SimpleQueue()
        table = make_table(options.gigabytes)
        with Server([table], checkpoints=folder) as server, server.client() as client:
            fill(client, table.contents.max_size)
            work: list[tuple[Any, ...]] = [(insert, server.address)] * CLIENTS + [(sync, folder / "synced")]
            for do, what in work:
                begun = SPAWN.Semaphore(0)
                SPAWN.Process(target=do, args=(what, begun, is_over, waits), daemon=True).start()
                begun.acquire()
            time.sleep(CALM_S)
            began = time.time()
            (kept,) = client.checkpoint(1)
            ended = time.time()
            is_over.set()
            seen = [waits.get() for _ in work]
        size = sum(path.stat().st_size for path in Path(kept).rglob("*") if path.is_file())
        print(f"A checkpoint of {size / 1e9:.2f} GB, {ended - began:.1f} s. The longest wait, before it and meanwhile:")
        for what, one in sorted(seen):
            print(f"  {what}: {longest(one, began - CALM_S, began)}; {longest(one, began, ended)}")
        restored, begin = make_table(options.gigabytes), time.time()
        with Server([restored], restore=Path(kept)):
            print(f"Restored in {time.time() - begin:.1f} s, {restored.size:,} items.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
