"""Inference streams alone: requests for actions and their answers, beside sockets, pyzmq and queues."""

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
CLIENTS, MANY_SIZE = (4, 16), "64kb"
SECONDS, QUICK_SECONDS = 2.0, 0.1
GUESS_S = {2**10: 50e-6, 2**16: 80e-6, 2**20: 1e-3}
"""Of a round trip, for the number of them in a sample."""


@contextmanager
def open_sides(nbytes: int, cores: int, clients: int, quick: bool) -> Iterator[Sides]:
    """Processes that ask and this one, which answers, on a core each or on one together."""
    from gmi_drl.benchmarks.cases.components.stream_ends import QUEUE, SOCKET, STREAM, Ends

    seconds = QUICK_SECONDS if quick else SECONDS
    count = int(seconds / GUESS_S[nbytes])
    with all_cores():
        ours, theirs, *_ = allowed_cores() if cores > 1 else [allowed_cores()[0]] * 2
        with closing(Ends(nbytes, (ours, theirs), clients)) as ends:
            sides: Sides = {way: partial(ends.measure, way, count) for way in (STREAM, SOCKET, QUEUE)}
            if not quick:
                of_pyzmq = {f"pyzmq {way}": partial(pyzmq, nbytes, cores, clients, way, seconds) for way in WAYS}
                sides = {**sides, **of_pyzmq}
            for side in sides.values():
                side()
            yield sides


def pyzmq(nbytes: int, cores: int, clients: int, way: str, seconds: float) -> Sample:
    """Round trips per second of pyzmq, with all processes in its own virtual environment."""
    more = ["--nbytes", nbytes, "--way", way, "--cores", cores, "--clients", clients]
    told = peers.train(PEER, num_env=1, threads=1, seconds=seconds, driver=DRIVER, more=[str(part) for part in more])
    return Sample(peers.speed(told, 1))


def obstacle(cores: int) -> str | None:
    """Why this machine cannot run the case, with the remedy; None if it can."""
    from gmi_drl.comm.memory.fence import obstacle as no_fence

    return no_fence("inference streams") or requirements.cores(cores) or peers.obstacle(PEER, DRIVER)


def _case(size: str, cores: int, clients: int = 1) -> Case:
    who = "one process" if clients == 1 else f"each of {clients} processes"
    ends = (f"_{clients}_clients" if clients > 1 else "") + ("_two_cores" if cores > 1 else "")
    where = "on one core" if cores == 1 else "on a core each" if clients == 1 else "on a core of its own"
    together = "" if clients == 1 else " Streams answer together what is there; sockets are polled."
    is_guarded = (size, cores, clients) == (MANY_SIZE, 1, 1)
    return Case(
        name=f"streams_{size}{ends}",
        claim=f"A request of {SIZES[size]:,} bytes from {who} to another, which copies it into a batch and "
        f"answers with 64 bytes, {where}: by an inference stream, by plain "
        f"TCP sockets, by multiprocessing queues, and by pyzmq's request and reply over ipc and tcp.{together}",
        unit="round trips/s",
        open=partial(open_sides, SIZES[size], cores, clients),
        obstacle=partial(obstacle, cores),
        reference="SRL (arXiv 2306.16688), section 2.2.3: pinned shared memory on a host, sockets between hosts",
        limits=("One client. " if clients == 1 else "")
        + "Every side writes the request into memory first, and copies it into the batch.",
        guard=0.3 if is_guarded else None,
        floor=17 if is_guarded else None,
    )


CASES = (
    *(_case(size, cores) for size in SIZES for cores in (1, 2)),
    *(_case(MANY_SIZE, cores, clients) for clients in CLIENTS for cores in (1, 2)),
)
