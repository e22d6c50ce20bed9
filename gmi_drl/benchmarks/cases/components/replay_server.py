"""Replay servers and clients as processes beside dm-reverb: processor time of an item in and out, and rates."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import mean
from typing import Any

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.components.replay_workers import OURS, REVERB, Served, Tables, obstacle, served
from gmi_drl.benchmarks.cores import all_cores

CLIENTS = (1, 2, 4)
KINDS = ("uniform", "prioritized")
SECONDS, QUICK_SECONDS = 0.7, 0.1
PAYLOADS = {"400": "400 B", "4k": "4 kB", "40k": "40 kB", "400k": "400 kB"}
MOST_BYTES, MOST_ITEMS = 300 * 2**20, 100_000
"""Of a table."""

AT_ONCE_BYTES, AT_ONCE_ITEMS = {"insert": 2**18, "sample": 2**22}, {"insert": 1024, "sample": 256}
"""What a call of ours inserts or samples, at most."""

FILL_S = 0.5
FLOATS, BATCH = 57, 256
"""Of the path to a learner."""

SYSTEMS = (OURS, REVERB)
SIDES = {"gmi-drl, TCP": (OURS, False), "gmi-drl, shared memory": (OURS, True), "dm-reverb": (REVERB, False)}


def size_of(payload: str) -> int:
    """Bytes of an item."""
    return int(payload.replace("k", "000"))


@contextmanager
def filled(tables: Tables, clients: int, more: dict[str, Any], quick: bool) -> Iterator[dict[str, Served]]:
    """A server of each system, with items in all tables. For tests of ours alone."""
    with all_cores(), ExitStack() as stack:
        found = {}
        for system in SYSTEMS[:1] if quick else SYSTEMS:
            found[system] = stack.enter_context(served(system, tables, clients))
            for name, *_ in tables:
                found[system].measure("insert", 1, **more | {"table": name, "seconds": FILL_S})
        yield found


@contextmanager
def open_sides(do: str, payload: str, quick: bool) -> Iterator[Sides]:
    """Both systems with a table of each kind; of ours both transports."""
    size, seconds = size_of(payload), QUICK_SECONDS if quick else SECONDS
    tables = [(kind, kind, min(MOST_ITEMS, MOST_BYTES // size), size // 4) for kind in KINDS]
    batch = max(1, min(AT_ONCE_ITEMS[do], AT_ONCE_BYTES[do] // size))
    more = {"seconds": seconds, "floats": size // 4, "batch": batch}
    with filled(tables, max(CLIENTS), more, quick) as found:
        yield {
            name: partial(best_of_clients, found[system], is_shared, do, more)
            for name, (system, is_shared) in SIDES.items()
            if system in found
        }


def best_of_clients(one: Served, is_shared: bool, do: str, more: dict[str, Any]) -> Sample:
    """Of each kind the best of 1, 2 and 4 clients: least processor time, and highest rate."""
    one.connect(is_shared)
    cells = {kind: [one.measure(do, count, table=kind, **more) for count in CLIENTS] for kind in KINDS}
    best = {kind: min(column, key=lambda cell: cell.cpu_s) for kind, column in cells.items()}
    details: dict[str, float] = {}
    for kind, cell in best.items():
        details |= {f"{kind}_server_cpu_s": cell.server_cpu_s, f"{kind}_client_cpu_s": cell.client_cpu_s}
        details[f"{kind}_items_per_second"] = max(each.rate for each in cells[kind])
    return Sample(1e6 * mean(cell.cpu_s for cell in best.values()), details)


@contextmanager
def open_updates(keys: int, quick: bool) -> Iterator[Sides]:
    """A prioritized table of small items."""
    more = {"table": "prioritized", "floats": 100, "seconds": QUICK_SECONDS if quick else SECONDS}
    tables = [("prioritized", "prioritized", MOST_ITEMS, 100)]
    with filled(tables, 1, more | {"batch": BATCH}, quick) as found:
        yield {
            name: partial(of_one_client, found[system], is_shared, "update", more | {"batch": keys})
            for name, (system, is_shared) in SIDES.items()
            if system in found and not is_shared
        }


@contextmanager
def open_learner_path(quick: bool) -> Iterator[Sides]:
    """Batches of small transitions into torch."""
    more = {"table": "uniform", "floats": FLOATS, "batch": BATCH, "seconds": QUICK_SECONDS if quick else 3 * SECONDS}
    with filled([("uniform", "uniform", MOST_ITEMS, FLOATS)], 1, more, quick) as found:
        yield {
            name: partial(of_one_client, found[system], is_shared, "learn", more)
            for name, (system, is_shared) in SIDES.items()
            if system in found
        }


def of_one_client(one: Served, is_shared: bool, do: str, more: dict[str, Any]) -> Sample:
    """Items per second, and their processor time."""
    one.connect(is_shared)
    cell = one.measure(do, 1, **more)
    return Sample(cell.rate, {"server_cpu_s": cell.server_cpu_s, "client_cpu_s": cell.client_cpu_s})


_LIMITS = "Server and clients share the cores: rates are not the system's alone. dm-reverb's writer and sampler take "
_LIMITS += "item by item, ours up to 256 KiB and 1,024 items in, 4 MiB and 256 items out."

_CASES = [
    Case(
        name=f"replay_server_{do}_{payload}",
        claim=f"Processor time of server and clients together to {do} an item of {told} float32: the mean of a uniform "
        "and a prioritized table, of each the best of 1, 2 and 4 clients. Rates are in the details.",
        unit="us/item",
        lower_is_better=True,
        open=partial(open_sides, do, payload),
        obstacle=lambda: requirements.cores(2) or obstacle(),
        reference="The paper has a machine for each client: 60k inserts/s, 600k samples/s, 11 GB/s",
        limits=_LIMITS,
        repeats=3,
    )
    for do in ("insert", "sample")
    for payload, told in PAYLOADS.items()
]

_UPDATES = [
    Case(
        name=f"replay_server_update_{keys}",
        claim=f"Updates of priorities by one client over TCP, {keys:,} key{'s' * (keys > 1)} a call.",
        unit="keys/s",
        open=partial(open_updates, keys),
        obstacle=lambda: requirements.cores(2) or obstacle(),
    )
    for keys in (1, 100, 1000)
]

_LEARNER_PATH = Case(
    name="replay_learner_path",
    claim=f"Batches of {BATCH} transitions of {FLOATS} float32 from a server into tensors of torch, by one client, "
    "beside dm-reverb's TrajectoryDataset.",
    unit="samples/s",
    open=open_learner_path,
    obstacle=lambda: requirements.cores(2) or obstacle(),
)

CASES = (*_CASES, *_UPDATES, _LEARNER_PATH)
