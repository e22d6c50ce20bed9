"""An inference stream to another host: a request for actions and its answer, beside what the network itself takes."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common import network_relay, requirements
from gmi_drl.benchmarks.cores import all_cores
from gmi_drl.gmi.inventory import allowed_cores

NBYTES, ONE_WAY_US, GBIT_PER_S = 2**16, (50, 500), 10.0
WIRE = "plain sockets"
SECONDS, QUICK_SECONDS = 4.0, 0.1
GUESS_OF_RELAY_S = 1e-3
"""What the relay adds to a round trip, for the number of them in a sample."""


@contextmanager
def open_sides(one_way_s: float, quick: bool) -> Iterator[Sides]:
    """A process that asks and this one, which answers, on a core each, with a slow network between them."""
    from gmi_drl.benchmarks.cases.components.stream_ends import SOCKET, STREAM, Ends

    count = int((QUICK_SECONDS if quick else SECONDS) / (GUESS_OF_RELAY_S + 2 * one_way_s))
    with all_cores(), network_relay.wire(GBIT_PER_S, 2000 * one_way_s) as wire:
        ours, theirs, *_ = allowed_cores()
        with closing(Ends(NBYTES, (ours, theirs), wire=wire)) as ends:
            sides = {STREAM: partial(ends.measure, STREAM, count), WIRE: partial(ends.measure, SOCKET, count)}
            for side in sides.values():
                side()
            yield sides


def obstacle() -> str | None:
    """Why this machine cannot run the cases, with the remedy; None if it can."""
    from gmi_drl.comm.memory.fence import obstacle as no_fence

    return no_fence("inference streams") or requirements.cores(2) or network_relay.obstacle()


def _case(one_way_us: int) -> Case:
    return Case(
        name=f"streams_far_{one_way_us}us",
        claim=f"A request of {NBYTES:,} bytes to another host, which copies it into a batch and answers with "
        f"64 bytes, over a network of {GBIT_PER_S:g} Gbit/s and {one_way_us / 1000:g} ms one way: by an inference "
        "stream, and by plain TCP sockets, which is what the network itself takes.",
        unit="round trips/s",
        open=partial(open_sides, one_way_us * 1e-6),
        obstacle=obstacle,
        reference="SRL (arXiv 2306.16688), section 2.2.3: sockets between hosts",
        limits="One client. The network is a relay of ours in Python between two network namespaces of one machine: "
        "its processes share the cores with both ends, and add time of their own to each side.",
    )


CASES = tuple(_case(one_way_us) for one_way_us in ONE_WAY_US)
