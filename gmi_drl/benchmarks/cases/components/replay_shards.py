"""Shards of two ranks: selection where trajectories lie against the paper's central one, collection, windows."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sample, Side, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.timing import mean_seconds
from gmi_drl.benchmarks.cases.components.replay_workers import REVERB, obstacle, served
from gmi_drl.benchmarks.cores import all_cores

if TYPE_CHECKING:
    from gmi_drl.benchmarks.cases.components.shard_ends import Pair

DRAWS, BEST = 1024, 256
SIZES = {"10k": 10_000, "100k": 100_000, "1m": 1_000_000, "10m": 10_000_000}
STEPS, FLOATS = 50, 500
"""Of a trajectory of 100 kB, as in the paper's Figure 6."""

TRAJECTORIES, QUICK_TRAJECTORIES = 2500, 1100
BATCHES, COLLECTED = (32, 256, 1024), 2560
LONG_STEPS, LONG_FLOATS, LONG, CONTEXT, CONTEXTS = 1000, 25, 1500, 8, 64
REVERB_SECONDS = 1.0
PLACEMENTS = {"gmi-drl": "shared", "gmi-drl over TCP": "cpu"}
"""Sides, and where the rows of their shards lie: ranks of a host read each other's in shared memory."""

PARETO = 1.2


@contextmanager
def open_select(trajectories: int, quick: bool) -> Iterator[Sides]:
    """Weighted draws, decentral and central."""
    from gmi_drl.benchmarks.cases.components.shard_ends import Order, Pair

    size, calls = (QUICK_TRAJECTORIES, 2) if quick else (trajectories, 40)
    with all_cores(), closing(Pair(size, 1, 2)) as pair:
        orders = {
            "where they lie": Order(DRAWS, calls=calls),
            "central": Order(DRAWS, central=True, calls=min(calls, 4)),
        }
        yield _measured(pair, orders)


@contextmanager
def open_ways(quick: bool) -> Iterator[Sides]:
    """All ways of selection from a million."""
    from gmi_drl.benchmarks.cases.components.shard_ends import Order, Pair
    from gmi_drl.replay.shards import Fifo, Lifo, TopK, Uniform, Weighted

    calls = 2 if quick else 20
    with all_cores(), closing(Pair(QUICK_TRAJECTORIES if quick else SIZES["1m"], 1, 2)) as pair:
        yield _measured(
            pair,
            {
                f"{way} x {count}": Order(count, way, calls=calls)
                for way, count in (
                    (Weighted(), DRAWS),
                    (Uniform(), DRAWS),
                    (TopK(), BEST),
                    (Fifo(), DRAWS),
                    (Lifo(), DRAWS),
                )
            },
        )


@contextmanager
def open_local(batch: int, quick: bool) -> Iterator[Sides]:
    """What a rank collects from its own shard, the gather in it, and one copy of as much."""
    import torch

    from gmi_drl.replay.fields import Field, Signature
    from gmi_drl.replay.shards import AloneLink, open_shards

    count, calls = (QUICK_TRAJECTORIES, 2) if quick else (TRAJECTORIES, 10)
    with all_cores():
        signature = Signature([Field("data", (FLOATS,))])
        shards = open_shards(AloneLink(), signature, trajectories=count, steps=STEPS)
        shards.allocate(count).commit(STEPS)
        out, _ = shards.collect(torch.arange(batch))
        words, target = shards.shard.storage.rows.words["step"].view(count, -1), out.rows.words["step"].clone()
        target = target.view(batch, -1)

        def collect() -> None:
            shards.collect(torch.randint(count, (batch,)), out=out)

        def gather() -> None:
            torch.index_select(words, 0, torch.randint(count, (batch,)), out=target)

        def copy() -> None:
            first = int(torch.randint(count - batch, ()))
            target.copy_(words[first : first + batch])

        sides = {"gmi-drl": collect, "its gather alone": gather, "one copy": copy}
        with closing(shards):
            yield {name: partial(mean_seconds, side, calls) for name, side in sides.items()}


@contextmanager
def open_remote(batch: int, quick: bool) -> Iterator[Sides]:
    """Two ranks, each collects half of its batch from the other; two clients of dm-reverb sample as much."""
    import torch

    from gmi_drl.benchmarks.cases.components.shard_ends import Order, Pair

    count, calls = (QUICK_TRAJECTORIES, 1) if quick else (TRAJECTORIES, max(10, COLLECTED // batch))
    lists = torch.stack([torch.randperm(2 * count)[:batch] for _ in range(calls)])
    floats = STEPS * FLOATS
    with all_cores() as cores, ExitStack() as stack:

        def ours(pair: Pair) -> Sample:
            sample = pair.measure(Order(batch, lists=lists, calls=calls))
            remote = batch  # of both ranks together: each trajectory of a list is remote for one of them
            cpu_s = sample.details["cpu_s_of_call"] / remote  # with the copies of local ones
            return Sample(4 * floats * remote / sample.value / 1e9, {"cpu_s_of_trajectory": cpu_s})

        peers = dict[str, Side]()
        if not quick:  # before the pairs, which leave this process one core, and what it starts
            reverb = stack.enter_context(served(REVERB, [("uniform", "uniform", TRAJECTORIES, floats)], 2))
            more = {"table": "uniform", "floats": floats, "batch": 1}
            reverb.measure("insert", 1, seconds=REVERB_SECONDS, **more)

            def theirs() -> Sample:
                cell = reverb.measure("sample", 2, seconds=REVERB_SECONDS, **more | {"batch": batch})
                return Sample(4 * floats * cell.rate / 1e9, {"cpu_s_of_trajectory": cell.cpu_s})

            peers["dm-reverb"] = theirs
        sides = dict[str, Side]()
        for name, placement in PLACEMENTS.items():
            pair = stack.enter_context(closing(Pair(count, STEPS, FLOATS, placement=placement, cores=cores)))
            sides[name] = partial(ours, pair)
            ours(pair)  # to touch memory for the first time is no part of a call
        yield {**sides, **peers}


@contextmanager
def open_windows(quick: bool) -> Iterator[Sides]:
    """Contexts and whole trajectories."""
    import torch

    from gmi_drl.benchmarks.cases.components.shard_ends import Order, Pair

    count, calls = (CONTEXTS, 1) if quick else (LONG, 20)
    lists = torch.randint(2 * count, (calls, CONTEXTS))
    with all_cores(), closing(Pair(count, LONG_STEPS, LONG_FLOATS, placement="cpu")) as pair:
        orders = {
            "contexts": Order(CONTEXTS, lists=lists, window=CONTEXT, calls=calls),
            "whole trajectories": Order(CONTEXTS, lists=lists, calls=calls),
        }
        yield _measured(pair, orders)


@contextmanager
def open_placement(quick: bool) -> Iterator[Sides]:
    """Bytes to a head of two ranks, with the likeliest trajectories there or every other one."""
    import random

    import torch

    from gmi_drl.benchmarks.cases.components.shard_ends import Order, Pair
    from gmi_drl.replay.shards import ByPriority, Even, plan_placement

    count, calls = 1000, 1 if quick else 10
    dice = random.Random(1)
    weights = [dice.paretovariate(PARETO) for _ in range(2 * count)]

    def moved(pair: "Pair") -> Sample:
        lists = torch.stack([pair.draw(BEST) for _ in range(calls)])
        sample = pair.measure(Order(BEST, lists=lists, calls=calls))
        return Sample(sample.details["sent_bytes"] / BEST, sample.details)

    with all_cores() as cores:
        pairs = {}
        for name, how in (("by priority", ByPriority((0,))), ("even", Even())):
            owners = plan_placement(weights, count, 2, how)
            parts = [
                torch.tensor([weight for weight, owner in zip(weights, owners, strict=True) if owner == rank])
                for rank in range(2)
            ]
            of_rank = [part.double() for part in parts].__getitem__
            pairs[name] = Pair(count, 4, FLOATS, (0,), of_rank, placement="cpu", cores=cores)
        try:
            yield {name: partial(moved, pair) for name, pair in pairs.items()}
        finally:
            for pair in pairs.values():
                pair.close()


def _measured(pair: "Pair", orders: dict) -> Sides:  # type: ignore[type-arg]
    for order in orders.values():
        pair.measure(order)
    return {name: partial(pair.measure, order) for name, order in orders.items()}


_BUSY = "Ranks that share cores with other work wait for each other: compare the processor seconds in the details."

CASES = (
    *(
        Case(
            name=f"shards_select_{name}",
            claim=f"{DRAWS:,} weighted draws from two ranks of {size:,} trajectories each: owners draw in their own "
            "trees, against one rank that gathers all weights, searches their prefix sums, and broadcasts the list.",
            unit="s",
            open=partial(open_select, size),
            obstacle=partial(requirements.cores, 2),
            lower_is_better=True,
            reference="GEAR, section 3.3, keeps weighted selection central",
            limits=_BUSY,
        )
        for name, size in SIZES.items()
    ),
    Case(
        name="shards_select_ways",
        claim=f"{DRAWS:,} draws by weights, uniform, of the oldest and of the newest, and the best {BEST} by priority, "
        "from two ranks of a million trajectories each.",
        unit="s",
        open=open_ways,
        obstacle=partial(requirements.cores, 2),
        lower_is_better=True,
        compared=False,
        limits=_BUSY,
    ),
    *(
        Case(
            name=f"shards_collect_local_{batch}",
            claim=f"{batch:,} trajectories of 100 kB from anywhere in a rank's own shard, by the whole call, "
            "against the gather in it, and one copy of as much.",
            unit="s",
            open=partial(open_local, batch),
            lower_is_better=True,
            guard=0.2 if batch == BATCHES[0] else None,
            floor=0.6 if batch == BATCHES[0] else None,
            reference="GEAR, section 4.4: 17 GB/s from pinned memory by a GPU",
        )
        for batch in BATCHES
    ),
    *(
        Case(
            name=f"shards_collect_remote_{batch}",
            claim=f"{batch:,} trajectories of 100 kB on each of two ranks, half of them from the other rank: GB/s "
            "from the other rank, which are read in its shared memory, or come over TCP (loopback), against two "
            "clients of dm-reverb that sample as many.",
            unit="GB/s",
            open=partial(open_remote, batch),
            obstacle=lambda: requirements.cores(2) or obstacle(),
            reference="GEAR, Figure 5: 5x to 6x of Reverb's throughput, 17 against 6.7 GB/s on one node",
            limits=_BUSY,
        )
        for batch in BATCHES
    ),
    Case(
        name="shards_window",
        claim=f"{CONTEXTS} contexts of {CONTEXT} steps out of trajectories of {LONG_STEPS:,} steps of 100 bytes, half "
        "of them from the other rank over TCP, against the whole trajectories.",
        unit="s",
        open=open_windows,
        obstacle=partial(requirements.cores, 2),
        lower_is_better=True,
        limits=_BUSY,
    ),
    Case(
        name="shards_placement",
        claim=f"Bytes over TCP for a drawn trajectory of 8 kB, with one head of two ranks and weights of a Pareto "
        f"distribution of {PARETO}: the likeliest trajectories on the head, against every other one.",
        unit="bytes",
        open=open_placement,
        obstacle=partial(requirements.cores, 2),
        lower_is_better=True,
        reference="GEAR, section 3.2",
    ),
)
