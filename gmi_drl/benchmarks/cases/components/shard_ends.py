"""Two ranks of shards for benchmarks: this process and another of the host, a core each if there are two."""

import os
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

from gmi_drl.benchmarks.case import Sample
from gmi_drl.comm.links.handshake import RankAddresses, listen
from gmi_drl.comm.links.sockets import SocketLink
from gmi_drl.comm.membership import Membership
from gmi_drl.gmi.inventory import allowed_cores
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.shards import Shards, ways
from gmi_drl.replay.shards.opening import open_shards
from gmi_drl.replay.shards.packing import Trajectories
from gmi_drl.roles.main import die_with

HANG_S = 120.0
AT_ONCE = 100_000
"""Trajectories that are committed at once."""

Kept = dict[tuple[int, int], Trajectories | None]
"""What was collected into, by the order's count and window: to touch new memory is no part of a call."""

_FORK = get_context("fork")  # the child inherits the listening sockets


@dataclass
class Order:
    """What both ranks do `calls` times.

    Args:
        count: n.
        way: How to select.
        central: Whether one rank selects.
        lists: Indices to collect, `[calls, n]`, instead of selecting.
        window: Steps of each trajectory, from a random one on; 0 for all.
        calls: How often.
    """

    count: int
    way: ways.Way = field(default_factory=ways.Weighted)
    central: bool = False
    lists: Tensor | None = None
    window: int = 0
    calls: int = 1


class Pair:
    """Both ranks, with full shards.

    Args:
        trajectories: Of each rank.
        steps: Of each.
        floats: Of a step.
        heads: Ranks that collect.
        priorities: Of a rank's trajectories, by rank.
        placement: `shared`: ranks read each other's shards; `cpu`: rows go over TCP, loopback.
        cores: Of which each rank has one, if there are two; None for all that this process may use.
    """

    def __init__(
        self,
        trajectories: int,
        steps: int,
        floats: int,
        heads: tuple[int, ...] = (0, 1),
        priorities: Callable[[int], Tensor] | None = None,
        placement: str = "shared",
        cores: Sequence[int] | None = None,
    ) -> None:
        self._sizes, self._heads, self._kept = (trajectories, steps, floats), heads, Kept()
        self._placement = placement
        self._priorities = priorities or (lambda rank: torch.full((trajectories,), 2.0 - rank, dtype=torch.float64))
        listeners = [listen() for _ in range(2)]
        addresses = RankAddresses(tuple(one.getsockname() for one in listeners), secrets.token_hex(16))
        cores = (allowed_cores() if cores is None else cores)[:2]
        self._orders, theirs = _FORK.Pipe()
        arguments = (theirs, addresses, listeners[1].fileno(), cores[-1], os.getpid())
        self._process = _FORK.Process(target=self._serve, args=arguments, daemon=True)
        self._process.start()
        os.sched_setaffinity(0, cores[:1])
        try:
            self.shards = self._open(0, addresses, listeners[0].fileno())
        finally:
            for listener in listeners:
                listener.close()

    def measure(self, order: Order) -> Sample:
        """Seconds of a call; details: processor seconds of it in both ranks together, and bytes that both have sent."""
        self._orders.send(order)
        seconds, cpu_s, moved = obey(self.shards, order, self._kept)
        their_cpu_s, their_moved = self._orders.recv()
        calls = order.calls
        return Sample(
            seconds / calls,
            {"cpu_s_of_call": (cpu_s + their_cpu_s) / calls, "sent_bytes": (moved + their_moved) / calls},
        )

    def draw(self, count: int) -> Tensor:
        """Select by weights, and give up the list."""
        self._orders.send(Order(count))
        self.shards.sync()
        indices = self.shards.select(count, ways.Weighted())
        self.shards.drop(indices)
        self._orders.recv()
        return indices

    def close(self) -> None:
        """End the other rank."""
        self._process.kill()
        self._process.join()
        self._orders.close()
        self.shards.close()

    def _open(self, rank: int, addresses: RankAddresses, listener_fd: int) -> Shards:
        torch.set_num_threads(1)
        trajectories, steps, floats = self._sizes
        link = SocketLink(Membership(rank, [[0], [1]], hang_s=HANG_S), addresses, listener_fd)
        signature = Signature([Field("data", (floats,))])
        more: Any = {"placement": self._placement, "heads": self._heads}
        shards = open_shards(link, signature, trajectories=trajectories, steps=steps, **more)
        priorities = self._priorities(rank)
        for first in range(0, trajectories, AT_ONCE):
            part = priorities[first : first + AT_ONCE]
            places = shards.shard.lease(len(part), 0.0)
            shards.shard.commit(places, torch.full((len(part),), steps), part, 0)
        return shards

    def _serve(self, orders: Connection, addresses: RankAddresses, listener_fd: int, core: int, parent: int) -> None:
        die_with(parent)
        os.sched_setaffinity(0, [core])
        kept = Kept()
        with closing(self._open(1, addresses, listener_fd)) as shards:
            while True:
                order: Order = orders.recv()
                _, cpu_s, moved = obey(shards, order, kept)
                orders.send((cpu_s, moved))


def obey(shards: Shards, order: Order, kept: Kept) -> tuple[float, float, int]:
    """Do it. Returns seconds, processor seconds, and bytes sent."""
    before = sum(shards.bytes.values())
    out = kept.get((order.count, order.window))
    draws = torch.Generator().manual_seed(0)
    shards.sync()
    began, began_cpu = time.perf_counter(), time.process_time()
    for number in range(order.calls):
        if order.lists is None:
            shards.drop(shards.select(order.count, order.way, central=order.central))
            continue
        indices: Any = order.lists[number]
        window = None
        if order.window:
            starts = torch.randint(shards.shard.steps - order.window + 1, (len(indices),), generator=draws)
            window = starts, order.window
        out, _ = shards.collect(indices, out=out, window=window)
    kept[order.count, order.window] = out
    return time.perf_counter() - began, time.process_time() - began_cpu, sum(shards.bytes.values()) - before
