"""Many light clients of one replay server, and several tables in one server or several (Reverb, Figures 5 to 7)."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import quantiles
from typing import Any

from gmi_drl.benchmarks.case import CURVES, Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import growing, requirements
from gmi_drl.benchmarks.cases.components.replay_workers import OURS, Served, Worker, served, together
from gmi_drl.benchmarks.cores import all_cores

COUNTS, QUICK_COUNTS = (1, 2, 10, 50, 100, 200), (1, 2)
PROCESSES = 2
FLOATS, ITEMS_OF_FRAME = 100, 64
SECONDS, QUICK_SECONDS = 2.0, 0.2
FRAMES_OF_CLIENT = 40
"""Frames of a client in a window, on average: in few ones a turn more or less of a client would look unfair."""

LONGEST_S = 30.0
TABLES, SERVERS = (1, 2, 4, 8), (2, 4)
CLIENTS_OF_TABLES = 8
MOST_ITEMS = 50_000


class LightClients:
    """Processes whose connections are the clients of servers."""

    def __init__(self, stack: ExitStack) -> None:
        self._workers = [Worker(OURS, "light_clients") for _ in range(PROCESSES)]
        for worker in self._workers:
            stack.callback(worker.close)

    def run(self, do: str, connections: Sequence[tuple[int, int]], seconds: float) -> list[dict[str, Any]]:
        """Let clients insert or sample, each at a port and a table there. Returns the answers of the processes."""
        shares = [connections[place::PROCESSES] for place in range(PROCESSES)]
        common = {"items": ITEMS_OF_FRAME, "seconds": seconds, **_spoken(connections[0][0])}
        return together(self._workers, do, [common | {"connections": share} for share in shares])


def _spoken(port: int) -> dict[str, Any]:
    """What clients without torch have to know of the protocol and of a server's steps."""
    from gmi_drl.replay import words
    from gmi_drl.replay.client.connection import ServerConnection

    connection = ServerConnection(f"127.0.0.1:{port}", shared=False)
    _, storage = next(iter(connection.tables.values()))
    connection.close()
    kinds = {"steps": words.STEPS, "items": words.ITEMS, "ack": words.ACK, "error": words.ERROR}
    kinds |= {"sample": words.SAMPLE, "samples": words.SAMPLES}
    layouts = {"steps": words.Steps.layout, "items": words.Items.layout, "sample": words.Sample.layout}
    formats = {name: layout.format for name, layout in layouts.items()}
    spoken = {"kinds": kinds, "formats": formats, "next_call": words.NEXT_CALL}
    spoken |= {"version": words.VERSION, "token": words.NO_TOKEN}
    return {"words": spoken, "row_bytes": storage.signature.step_bytes, "block_steps": storage.block_steps}


@contextmanager
def open_clients(quick: bool) -> Iterator[Sides]:
    """A server, which has items already."""
    counts, seconds = (QUICK_COUNTS, QUICK_SECONDS) if quick else (COUNTS, SECONDS)
    with all_cores(), ExitStack() as stack:
        one = stack.enter_context(served(OURS, _tables(1), 0, max(counts)))
        clients = LightClients(stack)
        clients.run("insert", [(one.port, 0)] * 2, seconds)
        yield {f"{do}s": partial(by_count, one, clients, do, counts, seconds) for do in ("insert", "sample")}


def by_count(one: Served, clients: LightClients, do: str, counts: Sequence[int], seconds: float) -> Sample:
    """The rate of the most clients, and of each number: rate, the least of a client over the mean, times of a frame."""
    curves: dict[str, list[float]] = {"clients": [], "items/s": []}  # the rate against the clients, as Figures 5 and 6
    details: dict[str, Any] = {CURVES: curves}
    for count in counts:
        if curves["items/s"]:  # a slow machine gets longer windows
            seconds = min(LONGEST_S, max(seconds, count * FRAMES_OF_CLIENT * ITEMS_OF_FRAME / curves["items/s"][-1]))
        answers = clients.run(do, [(one.port, 0)] * count, seconds)
        frames = [number for answer in answers for number in answer["frames"]]
        cuts = quantiles([time_s for answer in answers for time_s in answer["frame_s"]], n=100)
        curves["items/s"].append(_rate(answers))
        curves["clients"].append(count)
        details |= {
            f"least_of_mean_{count}": min(frames) * len(frames) / max(1, sum(frames)),
            f"most_of_mean_{count}": max(frames) * len(frames) / max(1, sum(frames)),
            f"p50_{count}_s": cuts[49],
            f"p99_{count}_s": cuts[98],
            f"server_{count}_bytes": one.server.call("memory")["bytes"],
        }
    each_s = [count / rate for count, rate in zip(counts, curves["items/s"], strict=True)]  # an item of every client
    details["of_peak"] = curves["items/s"][-1] / max(curves["items/s"])
    details |= {"exponent": growing.exponent(counts, each_s), "bends_at": growing.bend(counts, each_s)}
    return Sample(curves["items/s"][-1], details)


@contextmanager
def open_tables(quick: bool) -> Iterator[Sides]:
    """Servers with as many tables as a side has. The same clients take turns among them."""
    counts, servers = (TABLES[:2], SERVERS[:1]) if quick else (TABLES, SERVERS)
    seconds = QUICK_SECONDS if quick else SECONDS
    with all_cores(), ExitStack() as stack:
        clients = LightClients(stack)

        def opened(tables: int, servers: int = 1) -> list[tuple[int, int]]:
            made = [stack.enter_context(served(OURS, _tables(tables), 0, CLIENTS_OF_TABLES)) for _ in range(servers)]
            return [(made[place % servers].port, place % tables) for place in range(CLIENTS_OF_TABLES)]

        places = {f"{count} table{'s' * (count > 1)}": opened(count) for count in counts}
        places |= {f"{count} servers": opened(1, count) for count in servers}
        yield {name: partial(in_and_out, clients, each, seconds) for name, each in places.items()}


def in_and_out(clients: LightClients, connections: Sequence[tuple[int, int]], seconds: float) -> Sample:
    """Inserts per second; samples in the details."""
    value = _rate(clients.run("insert", connections, seconds))
    return Sample(value, {"samples_per_second": _rate(clients.run("sample", connections, seconds))})


def _tables(count: int) -> list[tuple[str, str, int, int]]:
    return [(f"table_{number}", "uniform", MOST_ITEMS, FLOATS) for number in range(count)]


def _rate(answers: Sequence[dict[str, Any]]) -> float:
    items: int = sum(answer["items"] for answer in answers)
    wall_s: float = max(answer["wall_s"] for answer in answers)
    return items / wall_s


_LIMITS = "Server and clients share the cores. Clients are connections of two processes without torch, with one frame "
_LIMITS += f"of {ITEMS_OF_FRAME} items in flight each."

CASES = (
    Case(
        name="replay_clients",
        claim="Items of 400 B into and out of one server over TCP by 1 to 200 clients: the rate of 200. Details have "
        "each number's rate, the least client's share of the mean, times of a frame, the server's memory, and how the "
        "time of an item of every client grows with them: `exponent`, where 1 is growth in proportion, and `bends_at`.",
        unit="items/s",
        open=open_clients,
        compared=False,
        obstacle=lambda: requirements.cores(2),
        reference="The paper's Figure 5: 50 clients and more reach what the server does",
        limits=_LIMITS,
    ),
    Case(
        name="replay_tables",
        claim="Inserts of 400 B into 1 to 8 tables of one server, and into 2 and 4 servers, by 8 clients over TCP.",
        unit="items/s",
        open=open_tables,
        is_baseline_first=True,
        obstacle=lambda: requirements.cores(2),
        reference="The paper's Figure 7: 8 tables +200 %, because each has a mutex",
        limits=_LIMITS,
        guard=0.3,
        floor=80,
    ),
)
