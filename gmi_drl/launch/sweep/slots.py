"""Slots: the equal shares of a machine's cores and GPUs in which trials run side by side."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gmi_drl.errors import LayoutMismatchError
from gmi_drl.gmi.claims import OF_SWEEPS, SHARED_VARIABLE, Shared, claim, claims_folder, locked
from gmi_drl.launch.ray.cluster import RayNode
from gmi_drl.launch.ray.placement import NODE_VARIABLE, Share
from gmi_drl.layout.environment import KEEP_FREED_MEMORY

SLOT_VARIABLE = "GMI_DRL_SLOT"
"""The number of its slot, for programs that want it, such as for a port."""


@dataclass(frozen=True)
class Slot:
    """A share of the machine.

    Args:
        number: From 0.
        cores: CPU numbers.
        gpu: Index of its GPU among those that are visible, as CUDA_VISIBLE_DEVICES names it; None on cores.
        shares_cores: Whether other slots have the same cores.
        shares_gpu: Whether other slots have the same GPU.
        node: Of a Ray cluster, which gives trials their cores and GPUs there; None for this machine.
    """

    number: int
    cores: tuple[int, ...]
    gpu: str | None
    shares_cores: bool
    shares_gpu: bool
    node: RayNode | None = None

    def environment(self, is_held: bool = False) -> dict[str, str]:
        """Variables of a program in it.

        Args:
            is_held: Whether the sweep holds its devices for the program (`held`).
        """
        threads = str(len(self.cores))
        caps = {name: threads for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        gpu = {} if self.gpu is None else {"CUDA_VISIBLE_DEVICES": self.gpu}
        together = [f"core-{core}" for core in self.cores] if self.shares_cores else []
        together += [f"gpu-{self.gpu}"] if self.shares_gpu else []
        together += self.devices if is_held and self.node is None else []
        claims = {SHARED_VARIABLE: ",".join(dict.fromkeys(together))} if together else {}
        node = {} if self.node is None else {NODE_VARIABLE: self.node.id}
        return {**KEEP_FREED_MEMORY, **caps, **gpu, **claims, **node, SLOT_VARIABLE: str(self.number)}

    @property
    def devices(self) -> list[str]:
        """Names of its devices, as they are claimed."""
        on = "" if self.node is None else f" of {self.node.name}"
        return [f"gpu-{self.gpu}{on}"] if self.gpu is not None else [f"core-{core}{on}" for core in self.cores]

    @property
    def shares(self) -> bool:
        """Whether other slots have its devices, too. Then the sweep holds them for all of them."""
        return self.shares_cores if self.gpu is None else self.shares_gpu

    def is_free(self) -> bool:
        """Whether no run of another program holds its devices; Ray knows that of its nodes."""
        if self.shares or self.node is not None:
            return True
        files = [claims_folder() / device for device in (*self.devices, *self._in_sweeps)]
        return not any(file.exists() and locked(file) for file in files)

    @property
    def _in_sweeps(self) -> list[str]:
        """What keeps other sweeps away, but for devices that a sweep holds for this one, which is its program."""
        ours = os.environ.get(SHARED_VARIABLE, "").split(",")
        return [f"{OF_SWEEPS}{device}" for device in self.devices if device not in ours]

    @contextmanager
    def held(self, purpose: str) -> Iterator[None]:
        """Hold its devices for another program, which does not claim them, or does so as shared ones.

        Other trainings are kept away by the shared claims, other sweeps by claims for sweeps alone.

        Raises:
            InUseError: if another run has them.
        """
        if self.shares or self.node is not None:
            yield
            return
        with claim([*map(Shared, self.devices), *self._in_sweeps], purpose):
            yield


def make_slots(at_once: int, cores: Sequence[int], gpus: Sequence[str]) -> list[Slot]:
    """Equal slots: cores that are left over stay idle, since trials with more cores would not compute the same.

    With more slots than cores, several have the same core, also where each has a GPU of its own.
    """
    each = max(1, len(cores) // at_once)
    return [
        Slot(
            number=number,
            cores=tuple(cores[(number * each + offset) % len(cores)] for offset in range(each)),
            gpu=gpus[number % len(gpus)] if gpus else None,
            shares_cores=at_once > len(cores),
            shares_gpu=bool(gpus) and at_once > len(gpus),
        )
        for number in range(at_once)
    ]


def slots_on_nodes(nodes: Sequence[RayNode], at_once: int, cores: Sequence[int], gpus: Sequence[str]) -> list[Slot]:
    """The slots of this machine on each node of a cluster that has room for them; their layouts are made here.

    Raises:
        LayoutMismatchError: if no node has room for one.
    """
    here = make_slots(at_once, cores, gpus)
    each = Share(len(here[0].cores), 1 if gpus else 0)
    fitting = [
        (slot, node)
        for node in nodes
        for place, slot in enumerate(here, 1)
        if node.cpus >= place * each.cpus and node.gpus >= place * each.gpus
    ]
    if not fitting:
        has = ", ".join(f"{node.name} {Share(node.cpus, node.gpus)}" for node in nodes)
        raise LayoutMismatchError(f"no node of the Ray cluster has room for a training, which takes {each}: {has}")
    return [
        replace(slot, number=number, node=node, shares_cores=False, shares_gpu=False)  # Ray gives whole ones
        for number, (slot, node) in enumerate(fitting)
    ]


def bind(cores: Sequence[int]) -> None:
    """Bind this process, and those that it starts, to cores."""
    os.sched_setaffinity(0, cores)
