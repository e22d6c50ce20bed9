"""What there is to say of a way to sum gradients over a group of GMIs: what it needs, refuses and costs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from gmi_drl.hardware.speeds import Speeds
from gmi_drl.layout.mapping import MappingList

Kind = Literal["cpu", "gpu"]
"""Of the devices that a group's GMIs are on: all of them are of one."""

Obstacle = Callable[[MappingList, Kind | None], str | None]
"""Why GMIs that lie so on devices of that kind cannot use a method; None if they can, or if the kind decides."""


@dataclass(frozen=True)
class Leg:
    """What a reduction does one way: `rounds`, one after the other, in which a rank moves `share` of the bucket."""

    way: str
    rounds: int
    share: float


@dataclass(frozen=True)
class ReductionMethod:
    """A way, as layouts name it.

    Args:
        name: E.g. "MPR-shm".
        how: In words, for the reasons of a plan.
        group: `module:class` of the `comm.group.Group` that its ranks form, made of a `Membership` and a `Spot`.
        reduction: `module:class` of the `comm.reduction.Reduction` over that group.
        meets_in: What the ranks are given to meet in: a segment of shared memory for all, a table for all with a file
            for a store of torch's, or links between all with a segment for each device (`comm.rendezvous`).
        legs: What it does on a mapping list, for `seconds`.
        refuses: Which mapping lists it is not for.
        architectures: Processors on which it is right, as `uname -m` says; None for all.
        package: What it needs beside ours, which is an extra of that name; None for nothing.
        maps_memory: Whether its GMIs map each other's memory on their GPU, which not every backend allows.
    """

    name: str
    how: str
    group: str
    reduction: str
    meets_in: Literal["segment", "store", "links", "nothing"]
    legs: Callable[[MappingList], Sequence[Leg]]
    refuses: Obstacle | None = None
    architectures: tuple[str, ...] | None = None
    package: str | None = None
    maps_memory: bool = False

    def missing(self) -> str | None:
        """What this machine lacks for it, with the remedy; None if nothing. Imports nothing."""
        try:
            if self.package:
                version(self.package)
        except PackageNotFoundError:
            remedy = f"pip install 'gmi-drl[{self.package}]', see docs/baselines.md"
            return f"reduction {self.name!r} needs {self.package}, which is not installed: {remedy}"
        return None

    def runs_on(self, architecture: str) -> bool:
        """Whether it is right on such a processor."""
        return self.architectures is None or architecture in self.architectures

    def obstacle(self, mapping: MappingList, kind: Kind | None, hosts: int = 1) -> str | None:
        """Why GMIs that lie so on devices of that kind, of so many hosts, cannot use it; None if they can."""
        if hosts > 1 and self.meets_in != "links":
            return f"is for GMIs of one host, not of {hosts}"
        return self.refuses(mapping, kind) if self.refuses else None

    def is_for(self, mapping: MappingList, kind: Kind, architecture: str, hosts: int = 1) -> bool:
        """Whether GMIs that lie so on devices of that kind, of so many hosts, can use it on such a processor."""
        return not self.obstacle(mapping, kind, hosts) and self.runs_on(architecture)

    def seconds(self, mapping: MappingList, bucket_bytes: float, speeds: Speeds) -> float:
        """What reducing once takes by the model: rounds and bytes of each leg at the speeds of its way."""
        return sum(
            leg.rounds * speeds[leg.way].round_s + leg.share * bucket_bytes / speeds[leg.way].bytes_per_second
            for leg in self.legs(mapping)
        )
