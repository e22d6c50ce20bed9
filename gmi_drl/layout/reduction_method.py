"""Describes a reduction, which sums gradients over a group of GMIs: what it needs, refuses and costs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from gmi_drl.hardware.speeds import Speeds
from gmi_drl.layout.mapping import MappingList

Kind = Literal["cpu", "gpu"]
"""The kind of devices of a group's GMIs; all are of the same kind."""

Obstacle = Callable[[MappingList, Kind | None], str | None]
"""Says why a mapping list on devices of a kind (None: any) cannot use a method; None if it can."""


@dataclass(frozen=True)
class Leg:
    """The part of a reduction by one way: `rounds` in sequence, in which a rank moves `share` of the bucket in all."""

    way: str
    rounds: int
    share: float


@dataclass(frozen=True)
class ReductionMethod:
    """A reduction, as layouts name it.

    Args:
        name: E.g. "MPR-shm".
        how: The reduction in words, for the reasons of a plan.
        group: `module:class` of the `comm.group.Group` of its ranks, made of a `Membership` and a `Rendezvous`.
        reduction: `module:class` of the `comm.reduction.Reduction` over that group.
        rendezvous_by: What the ranks get to find each other (`comm.rendezvous`): a segment of shared memory for all; a
            table for all with a file for a store of torch; or links between all with a segment for each device.
        legs: Its legs on a mapping list, for `seconds`.
        refuses: Says why a mapping list cannot use it; None if all can.
        architectures: Processors that it supports, as `uname -m` names them; None for all.
        package: A package that it needs, which is our extra of the same name; None for none.
        maps_memory: Whether its GMIs map each other's memory on their GPU, which not every backend allows.
    """

    name: str
    how: str
    group: str
    reduction: str
    rendezvous_by: Literal["segment", "store", "links", "nothing"]
    legs: Callable[[MappingList], Sequence[Leg]]
    refuses: Obstacle | None = None
    architectures: tuple[str, ...] | None = None
    package: str | None = None
    maps_memory: bool = False

    def missing(self) -> str | None:
        """The package that this machine lacks, with the remedy; None if nothing is missing. Imports nothing."""
        try:
            if self.package:
                version(self.package)
        except PackageNotFoundError:
            remedy = f"pip install 'gmi-drl[{self.package}]', see docs/guides/horovod.md"
            return f"reduction {self.name!r} needs {self.package}, which is not installed: {remedy}"
        return None

    def runs_on(self, architecture: str) -> bool:
        """Whether it supports this processor."""
        return self.architectures is None or architecture in self.architectures

    def obstacle(self, mapping: MappingList, kind: Kind | None, hosts: int = 1) -> str | None:
        """Why these GMIs, on devices of this kind and this number of hosts, cannot use it; None if they can."""
        if hosts > 1 and self.rendezvous_by != "links":
            return f"is for GMIs of one host, not of {hosts}"
        return self.refuses(mapping, kind) if self.refuses else None

    def is_for(self, mapping: MappingList, kind: Kind, architecture: str, hosts: int = 1) -> bool:
        """Whether these GMIs, on devices of this kind and this number of hosts, can use it on this processor."""
        return not self.obstacle(mapping, kind, hosts) and self.runs_on(architecture)

    def seconds(self, mapping: MappingList, bucket_bytes: float, speeds: Speeds) -> float:
        """Predicted seconds of one reduction: rounds and bytes of each leg at the speed of its way."""
        return sum(
            leg.rounds * speeds[leg.way].round_s + leg.share * bucket_bytes / speeds[leg.way].bytes_per_second
            for leg in self.legs(mapping)
        )
