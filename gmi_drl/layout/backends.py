"""The backends, which cut devices into GMIs (paper section 3): what each enforces, and where its code is."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from gmi_drl.errors import UsageError
from gmi_drl.layout.backend_limits import Refuses, mig_ci_gives, mig_ci_refuses, mig_gives, mig_refuses, mps_refuses
from gmi_drl.registry import Registry

Limit = Literal["share", "memory_limit_bytes", "mig_profile"]
"""Fields of a GMI that limit its part of the device."""


@dataclass(frozen=True)
class BackendEntry:
    """A backend, as layouts name it.

    Args:
        name: E.g. "process".
        how: The backend in words.
        backend: `module:class` of the `gmi.Backend`, which is made without arguments.
        coexists: Whether two cuts of one device may be alive at once. If not, layouts on the same devices are opened
            one after the other.
        enforces: The limits of a GMI that a layout may give.
        applied: `module:class` of the backend for `--apply-mig`, which changes settings of a device first; empty if
            there are none.
        refuses: Says why it cannot cut GPUs of a model; None if it can cut all.
        gives: Describes an equal cut of a GPU model, by the number of GMIs; None if there is nothing to say.
        maps_memory: Whether GMIs of a GPU may map each other's memory on it (CUDA IPC).
        trade: Benefits and costs of this backend, for the reasons of a plan.
    """

    name: str
    how: str
    backend: str
    coexists: bool
    enforces: frozenset[Limit] = frozenset()
    applied: str = ""
    refuses: Refuses | None = None
    gives: Callable[[str, int], str] | None = None
    maps_memory: bool = False
    trade: str = ""

    @property
    def caps(self) -> bool:
        """Whether it holds GMIs to the `share` of a GPU that a layout gives them."""
        return "share" in self.enforces


PROCESS = BackendEntry(
    "process",
    "one process per GMI, on cores of its own; on a GPU nothing is enforced (the paper's Direct-Share)",
    "gmi_drl.gmi.process:ProcessBackend",
    coexists=True,
    maps_memory=True,
    trade="on a GPU the kernels of one GMI wait for those of another, by time slices; gradients may stay on the GPU",
)

MPS = BackendEntry(
    "mps",
    "one process per GMI, on cores of its own; on a GPU clients of NVIDIA's Multi-Process Service",
    "gmi_drl.gmi.mps.backend:MpsBackend",
    coexists=True,
    enforces=frozenset[Limit](("share", "memory_limit_bytes")),
    refuses=mps_refuses,
    maps_memory=True,
    trade="kernels of all GMIs run side by side, and gradients may stay on the GPU; they share "
    "memory bandwidth and faults",
)

MIG = BackendEntry(
    "mig",
    "one process per GMI, on cores of its own and on a MIG instance of its GPU, with memory and SMs of its own",
    "gmi_drl.gmi.mig.backend:MigBackend",
    coexists=False,
    enforces=frozenset[Limit](("mig_profile",)),
    applied="gmi_drl.gmi.mig.apply.backend:AppliedMig",
    refuses=mig_refuses,
    gives=mig_gives,
    trade="what one GMI does slows and breaks no other; gradients go through host memory",
)

MIG_CI = BackendEntry(
    "mig-ci",
    "as mig, on compute instances of one MIG instance of its GPU: SMs of its own, memory in common",
    "gmi_drl.gmi.mig.backend:MigPartsBackend",
    coexists=False,
    enforces=frozenset[Limit](("mig_profile",)),
    applied="gmi_drl.gmi.mig.apply.backend:AppliedMigParts",
    refuses=mig_ci_refuses,
    gives=mig_ci_gives,
    trade="SMs of its own for each GMI, memory and its bandwidth in common; gradients go through host memory",
)

AUTO = BackendEntry(
    "auto",
    "mps for GPUs that GMIs share, where this machine can do it, else process, with a warning",
    "gmi_drl.gmi.auto:AutoBackend",
    coexists=True,
    maps_memory=True,
)

BACKENDS = Registry("backend", "gmi_drl.backends", (PROCESS, MPS, MIG, MIG_CI, AUTO))
"""Third parties add entries of their own by entry points: `NAME = "module:ENTRY"`, a `BackendEntry`."""


def require_applied(name: str) -> None:
    """Refuse `--apply-mig` for a backend that has no settings to change.

    Raises:
        UsageError: with the backends that have.
    """
    if not BACKENDS.find(name).applied:
        others = " or ".join(entry.name for entry in BACKENDS.own if entry.applied)
        raise UsageError(f"--apply-mig is for layouts cut by {others}, this one is cut by {name}: leave it out")


def coexist(names: Iterable[str]) -> bool:
    """Whether cuts of the same devices by these backends may be alive at once."""
    return all(BACKENDS.find(name).coexists for name in set(names))
