"""Fuzz: every end of workers that listens to other processes gets bad frames, by a connection each.

    python benchmarks/soak/fuzz_workers.py --frames 10000

Bytes of chance, frames that are cut off, altered, of wrong lengths or in a wrong order, right heads with wrong bodies,
wrong tokens. After each hundred the end must answer a client that is right. A crash is an error that is none of ours,
a hang a wait of more than a minute. Prints a table, and why frames were refused.
"""

import argparse
import gc
import logging
import random
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import fuzz_doors
import fuzz_ends
import torch
from bad_bytes import MOST_GROWTH_BYTES, descriptors, resident_bytes
from fuzz_ends import Round, Seen

from gmi_drl.errors import GmiError

ENDS: Mapping[str, Round] = {
    "streams of a policy worker": fuzz_ends.streams,
    "proxies of agents": fuzz_ends.channel_proxies,
    "proxies of policy workers": fuzz_ends.parameter_proxies,
    "receivers of parameters": fuzz_ends.parameter_receivers,
    "door of late actors": fuzz_doors.late_actors,
    "door of late nodes": fuzz_doors.late_nodes,
    "messages of a host": fuzz_doors.messages,
    "replay server": fuzz_doors.replay_server,
}
EACH = 100
"""Frames of a round, at most."""
MOST_REASONS = 5


@dataclass(frozen=True)
class Result:
    """What became of an end.

    Args:
        seen: Of the frames.
        hangs: Rounds in which something was waited for too long, or a right client was not answered.
        grown_bytes: Memory of this process after the last round, beyond that after the first.
        grown_descriptors: The same of descriptors.
        seconds: For all.
    """

    seen: Seen
    hangs: int
    grown_bytes: int
    grown_descriptors: int
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether the end has held."""
        few = self.grown_bytes <= MOST_GROWTH_BYTES and self.grown_descriptors <= 0
        return not self.seen.crashes and not self.hangs and few


def fuzz(end: Round, frames: int, seed: int) -> Result:
    """Send frames to an end, in rounds."""
    chance, seen, hangs, began = random.Random(seed), Seen(), 0, time.monotonic()
    first: tuple[int, int] | None = None
    for done in range(0, frames, EACH):
        try:
            end(chance, min(EACH, frames - done), seen)
        except (AssertionError, GmiError) as error:
            hangs += 1
            print(f"frames {done} to {done + EACH}: {error}", flush=True)
        gc.collect()
        now = resident_bytes(), descriptors()
        first = first or now
    assert first is not None
    return Result(seen, hangs, now[0] - first[0], now[1] - first[1], time.monotonic() - began)


def main() -> int:
    """Fuzz all ends. Returns 1 if one has not held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=10_000, help="for each end")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("gmi_drl").addHandler(logging.NullHandler())
    logging.getLogger("gmi_drl").propagate = False
    rows, reasons, wrong = list[str](), list[str](), 0
    for name, end in ENDS.items():
        result = fuzz(end, given.frames, given.seed)
        seen, wrong = result.seen, wrong + (not result.is_right)
        rows.append(
            f"{name:27} {given.frames:7,} {seen.crashes.total():8} {result.hangs:6} {result.grown_bytes / 2**20:9.1f} "
            f"{result.grown_descriptors:12} {result.seconds:5.0f}"
        )
        print(rows[-1], file=sys.stderr, flush=True)
        reasons += [f"{name}:", *(f"{count:8,} CRASH {text}" for text, count in seen.crashes.most_common())]
        reasons += [f"{count:8,} {text}" for text, count in seen.refused.most_common(MOST_REASONS)]
    print(f"{given.frames:,} bad frames for each end, seed {given.seed}\n")
    print("end                          frames  crashes  hangs  MiB more  descriptors     s")
    print("\n".join(rows))
    print("\nerrors by which ends refused frames, the most frequent ones (doors close connections without any):")
    print("\n".join(reasons))
    print(f"{len(ENDS)} ends, {wrong} did not hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
