"""Reverb's interface beside dm-reverb, one item or key a call: processor time and rates of the same program."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.components.replay_server import size_of
from gmi_drl.benchmarks.cases.components.replay_workers import OURS, REVERB, Served, obstacle, served
from gmi_drl.benchmarks.cores import all_cores

SECONDS, QUICK_SECONDS = 1.0, 0.05
MOST_ITEMS, MOST_BYTES = 20_000, 300 * 2**20
"""Of a table."""

SYSTEMS = {"gmi-drl": OURS, "dm-reverb": REVERB}
PAYLOADS = {"400": "400 B", "40k": "40 kB"}
TOLD = {
    "append": "append a step and create its item, by `TrajectoryWriter`",
    "write": "append a step and create its item, by `Writer`",
    "insert": "insert an item, a call each",
    "sample": "sample an item, a call each",
    "iterate": "sample an item, 64 a call, which come one by one",
}


@contextmanager
def open_face(do: str, payload: str, batch: int, quick: bool) -> Iterator[Sides]:
    """A server of each system with a table of some items, and a client. For tests of ours alone."""
    kind = "prioritized" if do == "update" else "uniform"
    more: dict[str, Any] = {"table": kind, "floats": size_of(payload) // 4, "batch": batch}
    with all_cores(), ExitStack() as stack:
        found = {}
        for name, system in SYSTEMS.items():
            if quick and system != OURS:
                continue
            tables = [(kind, kind, min(MOST_ITEMS, MOST_BYTES // size_of(payload)), more["floats"])]
            found[name] = stack.enter_context(served(system, tables, 1, script="face"))
            found[name].measure("fill", 1, **more | {"seconds": 0.01})
        more["seconds"] = QUICK_SECONDS if quick else SECONDS
        yield {name: partial(measured, one, do, more) for name, one in found.items()}


def measured(one: Served, do: str, more: dict[str, Any]) -> Sample:
    """Microseconds of the processors for an item or key; those of each process and the rate in the details."""
    cell = one.measure(do, 1, **more)
    details = {"server_cpu_s": cell.server_cpu_s, "client_cpu_s": cell.client_cpu_s, "items_per_second": cell.rate}
    return Sample(1e6 * cell.cpu_s, details)


def _case(name: str, told: str, do: str, payload: str, batch: int) -> Case:
    return Case(
        name=f"replay_face_{name}",
        claim=f"Processor time of server and client together to {told}: a script for dm-reverb with gmi-drl's "
        "interface beside dm-reverb itself, by one client over TCP. Rates are in the details.",
        unit="us/item",
        lower_is_better=True,
        open=partial(open_face, do, payload, batch),
        obstacle=lambda: requirements.cores(2) or obstacle(),
        limits="Server and client share the cores: rates are not the system's alone.",
        repeats=3,
    )


CASES = (
    *(
        _case(f"{do}_{payload}", f"{told}, of {size} float32", do, payload, 1)
        for do, told in TOLD.items()
        for payload, size in PAYLOADS.items()
    ),
    *(
        _case(f"update_{keys}", f"update the priority of a key, {keys:,} a call", "update", "400", keys)
        for keys in (1, 100, 1000)
    ),
)
