"""A million transitions of 57 floats: what a table and a ring do per second, beside cpprb and torchrl."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cores import one_core

ITEMS, QUICK_ITEMS = 1_000_000, 20_000
ADDED = 2000
EXPONENT, BETA = 0.6, 0.4
SECONDS, QUICK_SECONDS = 2.0, 0.2
CALLS = 50
"""Between two looks at the clock, as in `benchmarks/peers/replay_loops.py`."""

CPPRB, TORCHRL = "cpprb", "torchrl"


@contextmanager
def open_sides(what: str, count: int, others: tuple[str, ...], quick: bool) -> Iterator[Sides]:
    """Our table first; of adds and of what a learner does per update also our ring."""
    items, seconds = (QUICK_ITEMS, QUICK_SECONDS) if quick else (ITEMS, SECONDS)
    with one_core():
        sides = {"gmi-drl": partial(repeat, table_call(what, count, items), count, seconds)}
        if what == "add":
            sides["gmi-drl, ring"] = partial(repeat, ring_call(count, items), count, seconds)
        if what == "per_step":
            sides["gmi-drl, ring"] = partial(repeat, ring_step_call(count, items), count, seconds)
        if not quick:
            sides |= {peer: partial(peer_sample, peer, what, count, seconds) for peer in others}
        yield sides


def repeat(call: Callable[[], object], count: int, seconds: float) -> Sample:
    """Transitions per second of a call for `count` of them, and its processor time."""
    began, cpu, calls = time.perf_counter(), time.process_time(), 0
    while calls == 0 or time.perf_counter() - began < seconds:
        for _ in range(CALLS):
            call()
        calls += CALLS
    passed_s = time.perf_counter() - began
    return Sample(count * calls / passed_s, {"cpu_call_s": (time.process_time() - cpu) / calls})


def peer_sample(peer: str, what: str, count: int, seconds: float) -> Sample:
    """The same of a peer, in its own process on the same core."""
    more = ["--what", what]
    updates = peers.train(peer, num_env=count, threads=1, seconds=seconds, driver=f"replay_{peer}", more=more)
    return Sample(peers.speed(updates, 1))


def table_call(what: str, count: int, items: int) -> Callable[[], object]:
    """A call on a full table."""
    import torch

    from gmi_drl.replay.fields import Field, Signature
    from gmi_drl.replay.limiters import MinSize
    from gmi_drl.replay.selectors import Fifo, Prioritized, Uniform
    from gmi_drl.replay.stream import Stream
    from gmi_drl.replay.table import Table

    sizes = {"obs": (27,), "next_obs": (27,), "act": (), "rew": (), "done": ()}
    signature = Signature([Field(name, shape) for name, shape in sizes.items()])
    sampler = Uniform() if what in ("uniform", "add") else Prioritized(EXPONENT)
    table = Table("case", signature, sampler=sampler, remover=Fifo(), max_size=items, limiter=MinSize(1))
    stream = Stream(table.storage)
    filling, new = ({name: torch.rand(n, *shape) for name, shape in sizes.items()} for n in (ADDED, count))
    for _ in range(items // ADDED):
        keys = table.insert(stream.append(filling), 1, torch.rand(ADDED))
    drawn, priorities = table.sample(count), torch.rand(count)
    keys = drawn.keys

    def per_step() -> None:
        batch = table.sample(count, out=drawn)
        batch.weights(BETA)
        table.update(batch.keys, priorities)

    calls: dict[str, Callable[[], object]] = {
        "per_step": per_step,
        "uniform": lambda: table.sample(count, out=drawn),
        "prioritized": lambda: table.sample(count, out=drawn).weights(BETA),
        "add": lambda: table.insert(stream.append(new), 1, 1.0),
        "add_prioritized": lambda: table.insert(stream.append(new), 1, 1.0),
        "update": lambda: table.update(keys, priorities),
    }
    return calls[what]


def ring_call(count: int, items: int) -> Callable[[], object]:
    """A step of `count` environments into a ring whose rows have both states, as the peers' transitions."""
    import torch

    from gmi_drl.replay.fields import Field, Signature
    from gmi_drl.replay.ring import Ring

    kinds = [Field("obs", (27,)), Field("act"), Field("reward"), Field("terminated", (), torch.bool)]
    ring = Ring(Signature(kinds), count, max(3, items // count), next_obs="twice")
    boundary, valid = torch.zeros(count, dtype=torch.bool), torch.ones(count, dtype=torch.bool)
    step = {"obs": torch.rand(count, 27), "next/obs": torch.rand(count, 27), "act": torch.rand(count)}
    step |= {"reward": torch.rand(count), "terminated": boundary}
    return lambda: ring.add(step, boundary, valid)


def ring_step_call(count: int, items: int) -> Callable[[], object]:
    """What a prioritized learner does per update with a full ring: draw, gather, write priorities back."""
    import torch

    from gmi_drl.replay.fields import Field, Signature
    from gmi_drl.replay.ring import Ring
    from gmi_drl.replay.selectors import Prioritized

    num_env = 1000
    kinds = [Field("obs", (27,)), Field("act"), Field("reward"), Field("terminated", (), torch.bool)]
    ring = Ring(Signature(kinds), num_env, items // num_env, sampler=Prioritized(EXPONENT), next_obs="twice")
    boundary, valid = torch.zeros(num_env, dtype=torch.bool), torch.ones(num_env, dtype=torch.bool)
    step = {"obs": torch.rand(num_env, 27), "next/obs": torch.rand(num_env, 27), "act": torch.rand(num_env)}
    step |= {"reward": torch.rand(num_env), "terminated": boundary}
    for _ in range(ring.steps):
        ring.add(step, boundary, valid)
    drawn, priorities = ring.sample(count), torch.rand(count)

    def per_step() -> None:
        batch = ring.sample(count, out=drawn)
        batch.weights(BETA)
        ring.update(batch.keys, priorities)

    return per_step


def obstacle(others: tuple[str, ...]) -> str | None:
    """What is missing."""
    return next((text for peer in others if (text := peers.obstacle(peer, f"replay_{peer}"))), None)


def _case(name: str, what: str, count: int, claim: str, others: tuple[str, ...], limits: str = "") -> Case:
    return Case(
        name=name,
        claim=f"{claim} One core, rows of 57 float32, the buffer full with 1 M of them.",
        unit="transitions/s",
        open=partial(open_sides, what, count, others),
        obstacle=partial(obstacle, others),
        limits=limits,
    )


_REUSED = "Ours writes over its last batch (`out=`); the others make a new one each time, as they offer nothing else."
_DUELS = f"{_REUSED} torchrl's compiled sampler of priorities does not load on this torch."

CASES = (
    *(
        _case(
            f"replay_per_step_{count}",
            "per_step",
            count,
            f"What a prioritized learner does per update: {count} drawn and gathered, priorities written back.",
            (CPPRB,),
            _DUELS,
        )
        for count in (256, 1024)
    ),
    *(
        _case(f"replay_uniform_{count}", "uniform", count, f"Uniform samples of {count}.", (CPPRB, TORCHRL), _REUSED)
        for count in (256, 1024)
    ),
    *(
        _case(
            f"replay_prioritized_{count}",
            "prioritized",
            count,
            f"Prioritized samples of {count} with weights.",
            (CPPRB,),
            _DUELS,
        )
        for count in (256, 1024)
    ),
    _case(
        "replay_add",
        "add",
        ADDED,
        "Transitions added, 2,000 at a time, to a table with all that it keeps, and to a ring.",
        (CPPRB, TORCHRL),
        "Only the table has records, keys, references and counts of its items.",
    ),
    _case(
        "replay_add_prioritized", "add_prioritized", ADDED, "The same, with priorities.", (CPPRB,), "See replay_add."
    ),
    _case(
        "replay_update",
        "update",
        1024,
        "Updates of priorities, 1,024 at a time.",
        (CPPRB,),
        "The table looks for keys that may be outdated; cpprb takes places.",
    ),
)
