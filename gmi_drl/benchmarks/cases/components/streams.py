"""Inference streams alone: a request for actions and its answer, beside sockets, pyzmq and a queue."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cores import all_cores
from gmi_drl.gmi.inventory import allowed_cores

PEER, DRIVER = "pyzmq", "streams_pyzmq"
WAYS = ("ipc", "tcp")
SIZES = {"1kb": 2**10, "64kb": 2**16, "1mb": 2**20}
SECONDS, QUICK_SECONDS = 2.0, 0.1
GUESS_S = {2**10: 50e-6, 2**16: 80e-6, 2**20: 1e-3}
"""Of a round trip, for the number of them in a sample."""


@contextmanager
def open_sides(nbytes: int, cores: int, quick: bool) -> Iterator[Sides]:
    """A process that asks and this one, which answers, on a core each or on one together."""
    from gmi_drl.benchmarks.cases.components.stream_ends import QUEUE, SOCKET, STREAM, Pair

    seconds = QUICK_SECONDS if quick else SECONDS
    count = int(seconds / GUESS_S[nbytes])
    with all_cores():
        ours, theirs, *_ = allowed_cores() if cores > 1 else [allowed_cores()[0]] * 2
        with closing(Pair(nbytes, (ours, theirs))) as pair:
            sides: Sides = {way: partial(pair.measure, way, count) for way in (STREAM, SOCKET, QUEUE)}
            if not quick:
                sides = {**sides, **{f"pyzmq {way}": partial(pyzmq, nbytes, cores, way, seconds) for way in WAYS}}
            for side in sides.values():
                side()
            yield sides


def pyzmq(nbytes: int, cores: int, way: str, seconds: float) -> Sample:
    """Round trips per second of pyzmq, with both processes in its own virtual environment."""
    more = ["--nbytes", str(nbytes), "--way", way, "--cores", str(cores)]
    return Sample(peers.speed(peers.train(PEER, num_env=1, threads=1, seconds=seconds, driver=DRIVER, more=more), 1))


def obstacle(cores: int) -> str | None:
    """Why this machine cannot run the case, with the remedy; None if it can."""
    from gmi_drl.comm.memory.fence import obstacle as no_fence

    return no_fence("inference streams") or requirements.cores(cores) or peers.obstacle(PEER, DRIVER)


def _case(size: str, cores: int) -> Case:
    return Case(
        name=f"streams_{size}" + ("_two_cores" if cores > 1 else ""),
        claim=f"A request of {SIZES[size]:,} bytes from one process to another, which copies it into a batch and "
        f"answers with 64 bytes, on {'a core each' if cores > 1 else 'one core'}: by an inference stream, by plain "
        "TCP sockets, by two multiprocessing queues, and by pyzmq's request and reply over ipc and tcp.",
        unit="round trips/s",
        open=partial(open_sides, SIZES[size], cores),
        obstacle=partial(obstacle, cores),
        reference="SRL (arXiv 2306.16688), section 2.2.3: pinned shared memory on a host, sockets between hosts",
        limits="One client. Every side writes the request into memory first, and copies it into the batch.",
    )


CASES = tuple(_case(size, cores) for size in SIZES for cores in (1, 2))
