"""One process of the groups under test: `python contract_worker.py '<json>'`; answers with JSON lines on stdout."""

import contextlib
import hashlib
import json
import os
import sys
import time
from pathlib import Path

import torch

from gmi_drl.comm import open_group, open_reduction
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import GmiError, UsageError
from gmi_drl.layout.reductions import HOROVOD, REDUCTIONS

SIZES = (1, 7, 100_003, 300_007)  # the slot has room for 20_000, the staging area for 131_072
ROUNDS = 50
BUCKET = 10_007


def whole_numbers(rank, numel):
    return torch.randint(-1000, 1000, (numel,), generator=torch.Generator().manual_seed(rank)).float()


def sums(reduction):
    right = {}
    for numel in SIZES:
        vector = whole_numbers(reduction.group.rank, numel)
        reduction.reduce(vector)
        right[numel] = bool(vector.equal(sum(whole_numbers(rank, numel) for rank in range(reduction.group.size))))
    return right


def rounds(reduction, bucket):
    """Random vectors through the bucket and, as a foreign tensor, beside it."""
    generator = torch.Generator().manual_seed(100 + reduction.group.rank)
    digest, agree, kept = hashlib.sha256(), True, True
    for _ in range(ROUNDS):
        bucket.copy_(torch.randn(BUCKET, generator=generator))
        before = bucket.clone()
        foreign = bucket.clone()
        reduction.reduce(foreign)
        kept &= bucket.equal(before)
        reduction.reduce(bucket)
        agree &= bucket.equal(foreign)
        digest.update(bucket.numpy().tobytes())
    return {"digest": digest.hexdigest(), "agree": agree, "kept": kept}


def gathers(reduction):
    right = {}
    for numel in (0, 3, 70_000):
        rows = [torch.arange(numel, dtype=torch.float64) * (rank + 1) + 1e-9 for rank in range(reduction.group.size)]
        right[numel] = bool(reduction.group.gather(rows[reduction.group.rank]).equal(torch.stack(rows)))
    return right


def barrier(reduction):
    """Rank 0 comes late; clocks are the same in all processes of a machine."""
    waited = reduction.group.wait_s
    if reduction.group.rank == 0:
        time.sleep(0.2)
    arrived = time.monotonic()
    reduction.group.barrier()
    return {"arrived": arrived, "left": time.monotonic(), "wait_s": reduction.group.wait_s - waited}


def refusals(reduction):
    wrong = {
        "dtype": lambda: reduction.reduce(torch.zeros(4, dtype=torch.float64)),
        "shape": lambda: reduction.reduce(torch.zeros(2, 2)),
        "strides": lambda: reduction.reduce(torch.zeros(8)[::2]),
        "values": lambda: reduction.group.gather(torch.zeros(4)),
        "bucket": lambda: reduction.bucket(4),
    }
    return {name: message(call) for name, call in wrong.items()}


def mixes(reduction, bucket):
    """What comes of it when rank 0 makes another call than the others; all go on afterwards."""
    is_first = reduction.group.rank == 0
    own = bucket.fill_(1.0) if is_first else torch.ones(BUCKET)
    mixed = {
        "lengths": lambda: reduction.reduce(torch.ones(7 if is_first else 300_007)),
        "no numbers": lambda: reduction.reduce(torch.ones(0 if is_first else 1)),
        "gathers": lambda: reduction.group.gather(torch.ones(3 if is_first else 4, dtype=torch.float64)),
        "kinds": lambda: (
            reduction.reduce(torch.ones(7)) if is_first else reduction.group.gather(torch.ones(7).double())
        ),
        "barrier": lambda: reduction.group.barrier() if is_first else reduction.reduce(torch.ones(7)),
        "bucket": lambda: reduction.reduce(own),
    }
    said = {name: message(call) for name, call in mixed.items()}
    return {"said": said, "own": own.unique().tolist(), "sums": sums(reduction)}


def message(call):
    try:
        call()
    except UsageError as error:
        return str(error)
    return None


def half_way(reduction):
    """Only rank 0 has its bucket yet: what comes of reducing another vector, and the bucket of each."""
    bucket = reduction.bucket(BUCKET) if reduction.group.rank == 0 else None
    said = message(lambda: reduction.reduce(torch.ones(7)))
    return said, reduction.bucket(BUCKET) if bucket is None else bucket


def contract(reduction):
    before = sums(reduction)  # where no bucket lies in a slot yet
    said, bucket = half_way(reduction)
    return {
        "before": before,
        "half way": said,
        "zeroed": not bucket.any().item(),
        "sums": sums(reduction),
        **rounds(reduction, bucket),
        "gathers": gathers(reduction),
        "barrier": barrier(reduction),
        "refusals": refusals(reduction),
        "mixes": mixes(reduction, bucket),
    }


def until_lost(reductions):
    """Reduce in all groups by turns until each has failed."""
    vector, losses = torch.ones(50_000), {}
    while len(losses) < len(reductions):
        for name in [name for name in reductions if name not in losses]:
            started = time.monotonic()
            try:
                reductions[name].reduce(vector.fill_(1.0))
            except GmiError as error:
                waited_s = time.monotonic() - started
                losses[name] = {"error": type(error).__name__, "message": str(error), "waited_s": waited_s}
    return losses


def pidfds():
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists the folder
            count += "pidfd" in os.readlink(link)
    return count


def say(answer):
    print(json.dumps(answer), flush=True)


def reduction_of(rank, method, mapping, rendezvous, hang_s):
    chosen = REDUCTIONS.find(method)
    member = Membership(rank, mapping, hang_s=hang_s, spins=False)
    return open_reduction(chosen, open_group(chosen, member, Rendezvous.from_order(rendezvous)))


def main():
    torch.set_num_threads(1)
    rank, specs = int(sys.argv[1]), json.loads(sys.argv[2])
    opened = {name: reduction_of(rank, **spec) for name, spec in specs.items()}
    say({name: contract(reduction) for name, reduction in opened.items()})
    for size in (3, 2):  # the last rank of three is killed, that of two is stopped
        say(until_lost({name: reduction for name, reduction in opened.items() if reduction.group.size == size}))
    for reduction in opened.values():
        reduction.group.close()
    say({"pidfds": pidfds()})
    if any(spec["method"] == HOROVOD.name for spec in specs.values()):
        os._exit(0)  # Horovod waits for a stopped peer at the end of a process, too


main()
