"""Soak: every legal reduction over mapping lists with random delays, and groups opened and closed again and again.

    python benchmarks/soak/soak_reductions.py

Takes a quarter of an hour on two cores, and ten minutes more if Horovod is installed. Each sum is compared with a
float64 reference (within 1e-6 of its largest number) and bit by bit with those of the other ranks. At the end no
descriptor and no file in /dev/shm may be left.
"""

import argparse
import hashlib
import os
import platform
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection

import torch

from gmi_drl.comm import open_group, open_reduction
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.reduction import Reduction
from gmi_drl.comm.rendezvous import Rendezvous, RendezvousPoints
from gmi_drl.layout.reduction_method import ReductionMethod
from gmi_drl.layout.reductions import legal_reductions

FORK = get_context("fork")
MAPPINGS = ([[0, 1], [2, 3]], [[0], [1, 2, 3]], [[0, 1], [2, 3, 4]], [[0], [1]])
LENGTHS = (1, 7, 114_121, 1_535_765)
SLOT_BYTES = 480_000
SCALES = 5
LATE_S = 0.002
HANG_S = 300.0
BATCH = 100  # groups whose processes inherit descriptors


def main() -> int:
    """Test all reductions. Returns 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reduces", type=int, default=1000, help="of each reduction and mapping list")
    parser.add_argument("--groups", type=int, default=1000, help="opened and closed, of each reduction")
    given = parser.parse_args()
    torch.set_num_threads(1)
    before, failed = left_open(), 0
    for mapping in MAPPINGS:
        for method in legal_reductions(mapping, "cpu", platform.machine()):
            started = time.perf_counter()
            said = soaked(method, mapping, lambda open_one: sums(open_one(), given.reduces))
            failed += not all_alike(said)
            print(f"{method.name} over {mapping}: {said[0]} in {time.perf_counter() - started:.0f} s", flush=True)
    for method in legal_reductions(MAPPINGS[-1], "cpu", platform.machine()):
        failed += not opened_and_closed(method, given.groups)
    leaks = left_open() - before
    print(f"left behind: {sorted(leaks) or 'nothing'}")
    return 1 if failed or leaks else 0


def sums(reduction: Reduction, count: int) -> str:
    """Reduce many times, with each rank late now and then. Returns a digest of all sums, or what was wrong."""
    group, late, digest = reduction.group, random.Random(reduction.group.rank), hashlib.sha256()
    terms = {numel: [normal(numel, rank) for rank in range(group.size)] for numel in LENGTHS}
    exact = {numel: sum(term.double() for term in some) for numel, some in terms.items()}
    largest = {numel: max(term.abs().max().item() for term in some) for numel, some in terms.items()}
    for number in range(count):
        numel = LENGTHS[number % len(LENGTHS)]
        scale = 2.0 ** (number // len(LENGTHS) % SCALES)  # exact, and no two sums are equal
        vector = scale * terms[numel][group.rank]
        time.sleep(late.choice((0.0, 0.0, LATE_S)))
        reduction.reduce(vector)
        error = (vector - scale * exact[numel]).abs().max().item() / (scale * largest[numel])
        if error > 1e-6:
            return f"sum {number} of {numel} numbers is wrong by {error:.1e}"
        digest.update(vector.numpy().tobytes())
    return f"{count} sums are right, {digest.hexdigest()[:12]}"


def all_alike(said: Sequence[str]) -> bool:
    """Whether all ranks returned the same digest."""
    return len(set(said)) == 1 and "are right" in said[0]


def normal(numel: int, seed: int) -> torch.Tensor:
    """Random numbers that every rank can compute."""
    return torch.randn(numel, generator=torch.Generator().manual_seed(seed))


def opened_and_closed(method: ReductionMethod, count: int) -> bool:
    """Open, use and close many groups, a batch of them in the same processes. Returns whether nothing is left."""
    mapping, said, started = MAPPINGS[-1], set[str](), time.perf_counter()
    for _ in range(0, count, BATCH):
        with ExitStack() as kept:
            points = [kept.enter_context(closing(RendezvousPoints(method, mapping, 4096))) for _ in range(BATCH)]
            said.update(in_processes(2, partial(descriptors_left, method, mapping, points)))
    seconds = time.perf_counter() - started
    print(f"{method.name}: {count} groups opened and closed, {said} in {seconds:.0f} s", flush=True)
    return said == {"0 descriptors more"}


def descriptors_left(
    method: ReductionMethod, mapping: list[list[int]], points: Sequence[RendezvousPoints], rank: int
) -> str:
    """The number of descriptors open after the last group minus that after the first."""
    counts = []
    for rendezvous in points:
        reduction = joined(method, mapping, rank, rendezvous[rank])
        reduction.reduce(reduction.bucket(100))
        reduction.group.barrier()
        reduction.group.close()
        counts.append(len(os.listdir("/proc/self/fd")))
    return f"{max(counts[-1] - counts[0], 0)} descriptors more"


def soaked(
    method: ReductionMethod, mapping: list[list[int]], job: Callable[[Callable[[], Reduction]], str]
) -> list[str]:
    """Run a job on all ranks of a new group. Returns their results."""
    size = sum(map(len, mapping))
    with closing(RendezvousPoints(method, mapping, SLOT_BYTES)) as points:
        return in_processes(size, lambda rank: job(lambda: joined(method, mapping, rank, points[rank])))


def joined(method: ReductionMethod, mapping: list[list[int]], rank: int, rendezvous: Rendezvous) -> Reduction:
    """Open the reduction of a rank; there may be more ranks than cores."""
    member = Membership(rank, mapping, hang_s=HANG_S, spins=False)
    return open_reduction(method, open_group(method, member, rendezvous))


def in_processes(size: int, job: Callable[[int], str]) -> list[str]:
    """Run a job in one process per rank. Returns their results."""
    pipes = [FORK.Pipe(duplex=False) for _ in range(size)]

    def live(rank: int, answer: Connection) -> None:
        torch.set_num_threads(1)
        try:
            answer.send(job(rank))
        except Exception as error:
            answer.send(f"{type(error).__name__}: {error}")
        os._exit(0)

    processes = [FORK.Process(target=live, args=(rank, pipes[rank][1])) for rank in range(size)]
    for process in processes:
        process.start()
    for _, writer in pipes:
        writer.close()  # so that a rank that dies is noticed
    said = [str(reader.recv()) for reader, _ in pipes]
    for process in processes:
        process.join()
    for reader, _ in pipes:
        reader.close()
    return said


def left_open() -> set[str]:
    """Our files in /dev/shm, and the number of open descriptors of this process."""
    ours = {name for name in os.listdir("/dev/shm") if "gmi" in name or "torch" in name}
    return ours | {f"{len(os.listdir('/proc/self/fd'))} descriptors"}


if __name__ == "__main__":
    sys.exit(main())
