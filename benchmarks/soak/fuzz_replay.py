"""Fuzz: a replay server gets frames that are random, altered, cut off, too large, or of blocks of others.

    python benchmarks/soak/fuzz_replay.py --frames 10000

The server must go on: another client inserts and samples after each hundred, every block returns, and neither memory
nor descriptors grow. Prints how many connections were closed, by the reason in the server's log.
"""

import argparse
import gc
import json
import logging
import random
import re
import socket
import sys
import time
from collections import Counter
from contextlib import suppress

import torch
from bad_bytes import MOST_GROWTH_BYTES, WAIT_S, bad_frames, descriptors, frame, resident_bytes, until

from gmi_drl.comm.links.framing import DATA
from gmi_drl.comm.links.token_listener import greeting
from gmi_drl.replay import words
from gmi_drl.replay.client.client import Client
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.limiters import MinSize
from gmi_drl.replay.selectors import Fifo, Uniform
from gmi_drl.replay.server.server import Server
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.table import Table

BETWEEN = 100
"""Frames from one look at the server to the next."""


class Reasons(logging.Handler):
    """Counts why connections were closed: the words of the log without names and numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        text = record.getMessage().partition(" was closed: ")[2] or record.getMessage()
        self.counts[re.sub(r"[0-9.e+-]*[0-9][0-9.e+-]*", "N", text)[:70]] += 1


def good_frames(chance: random.Random) -> list[bytes]:
    """What a client may send, with numbers that are right or nearly so."""
    count = chance.choice((1, 2, 8))
    first, length, keys = chance.choice((0, 1, 7, 2**62)), chance.choice((0, 1, 2, 9)), torch.arange(count)
    stretch = [torch.full((count, 1), first), torch.full((count, 1), length), torch.rand(count).double()]
    return [
        frame(words.STEPS, *words.write(words.Steps(0, count, chance.randrange(8), 0.1))),
        frame(DATA, chance.randbytes(8 * count)),
        frame(words.ITEMS, *words.write(words.Items(1, 0, count, 1, 0, 0.1), *stretch)),
        frame(words.SAMPLE, *words.write(words.Sample(1, 0, count, chance.randrange(8), 1, -1, 0.1))),
        frame(words.UPDATE, *words.write(words.Keys(1, 0, count), keys, torch.rand(count).double())),
        frame(words.DELETE, *words.write(words.Keys(1, 0, count), keys)),
        frame(words.LEASE, *words.write(words.Steps(0, 0, 0, 0.1))),
        frame(words.RELEASE, *words.write(words.Number(0, chance.randrange(4)))),
        frame(words.INFO, *words.write(words.Number(1, 0))),
        frame(words.CHECKPOINT, *words.write(words.Number(1, chance.choice((-5, -1, 3))))),
    ]


def send_badly(address: tuple[str, int], chance: random.Random) -> None:
    """Connect, send, and end at once or after the answer."""
    with socket.create_connection(address, timeout=WAIT_S) as connection, suppress(OSError):
        hello = json.dumps({"version": words.VERSION, "pid": 7}).encode()
        connection.sendall(greeting(words.NO_TOKEN, hello))
        connection.sendall(bad_frames(chance, good_frames(chance)))
        if chance.random() < 0.1:
            connection.settimeout(0.05)
            connection.recv(2**16)


def run(frames: int, seed: int) -> Counter[str]:
    """Send frames, and look at the server. Returns why connections were closed.

    Raises:
        AssertionError: if the server does not go on, keeps blocks, or grows.
    """
    chance, reasons = random.Random(seed), Reasons()
    log = logging.getLogger("gmi_drl.replay")
    log.addHandler(reasons)
    log.propagate = False
    signature = Signature((Field("number", (), torch.int64),))
    storage = make_storage(signature, 4096, longest=3, placement="shared")
    options = {"sampler": Uniform(), "remover": Fifo(), "max_size": 100, "limiter": MinSize(1), "storage": storage}
    try:
        with Server([Table("numbers", signature, **options)]) as server, server.client() as client:
            before: tuple[int, int] | None = None
            for number in range(1, frames + 1):
                send_badly((server.host, server.port), chance)
                if number % BETWEEN == 0 or number == frames:
                    check(server, client)
                    gc.collect()
                    now = resident_bytes(), descriptors()
                    before = before or now
                    most, text = before[1] + 2, f"there were {before[1]} descriptors, there are {now[1]}"
                    assert now[0] <= before[0] + MOST_GROWTH_BYTES, f"memory grew from {before[0]} to {now[0]} bytes"
                    until(lambda most=most: descriptors() <= most, text)  # connections that did not greet yet
    finally:
        log.removeHandler(reasons)
        log.propagate = True
    return reasons.counts


def check(server: Server, client: Client) -> None:
    """The server goes on, and has every block again."""
    until(lambda: len(server._loop.connections) <= 1, "connections do not end")
    client.reset("numbers")
    client.insert({"number": torch.tensor([5])}, {"numbers": 1.0})
    assert client.sample("numbers", 1).fields["number"].item() == 5
    client.reset("numbers")
    blocks = server.tables[0].storage.blocks
    until(lambda: blocks.free >= blocks.count - 1, "blocks do not return")  # the client's writer has one


def main() -> int:
    """Fuzz, and tell the reasons."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    reasons = run(given.frames, given.seed)
    print(f"{given.frames:,} connections with bad frames, seed {given.seed}, {time.monotonic() - began:.0f} s: the")
    print("server went on, every block returned, neither memory nor descriptors grew. Closed because:")
    for reason, count in reasons.most_common():
        print(f"{count:7,} {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
