"""The ways to cut devices into GMIs (paper section 3): what each enforces, where its code is."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from gmi_drl.errors import UsageError
from gmi_drl.mig_division import Division, mig_ci_division, mig_division
from gmi_drl.registry import Registry

Limit = Literal["share", "memory_limit_bytes", "mig_profile"]
"""Fields of a GMI that say how much of its device it gets."""


@dataclass(frozen=True)
class BackendEntry:
    """A way, as layouts name it.

    Args:
        name: E.g. "process".
        how: In words.
        backend: `module:class` of the `gmi.Backend`, which is made without arguments.
        coexists: Whether two cuts of one device may be alive at once. Where they may not, layouts on the same devices
            are opened one after the other.
        enforces: What a layout may ask of it for a GMI.
        applied: The same as `backend`, for one that changes a device's own settings first (`--apply-mig`); empty where
            there is nothing to change.
        division: What an equal cut of a GPU of some model into so many GMIs gives each; None where any is possible and
            each may take all of the memory that others leave.
    """

    name: str
    how: str
    backend: str
    coexists: bool
    enforces: frozenset[Limit] = frozenset()
    applied: str = ""
    division: Callable[[str, int], Division | None] | None = None


PROCESS = BackendEntry(
    "process",
    "one process per GMI, on cores of its own; on a GPU nothing is enforced (the paper's Direct-Share)",
    "gmi_drl.gmi.process:ProcessBackend",
    coexists=True,
)

MPS = BackendEntry(
    "mps",
    "one process per GMI, on cores of its own; on a GPU clients of NVIDIA's Multi-Process Service",
    "gmi_drl.gmi.mps.backend:MpsBackend",
    coexists=True,
    enforces=frozenset[Limit](("share", "memory_limit_bytes")),
)

MIG = BackendEntry(
    "mig",
    "one process per GMI, on cores of its own and on a MIG instance of its GPU, with memory and SMs of its own",
    "gmi_drl.gmi.mig.backend:MigBackend",
    coexists=False,
    enforces=frozenset[Limit](("mig_profile",)),
    applied="gmi_drl.gmi.mig.applied:AppliedMig",
    division=mig_division,
)

MIG_CI = BackendEntry(
    "mig-ci",
    "as mig, on compute instances of one MIG instance of its GPU: SMs of its own, memory in common",
    "gmi_drl.gmi.mig.backend:MigPartsBackend",
    coexists=False,
    enforces=frozenset[Limit](("mig_profile",)),
    applied="gmi_drl.gmi.mig.applied:AppliedMigParts",
    division=mig_ci_division,
)

BACKENDS = Registry("backend", "gmi_drl.backends", (PROCESS, MPS, MIG, MIG_CI))
"""Third parties add entries of their own by entry points: `NAME = "module:ENTRY"`, a `BackendEntry`."""


def require_applied(name: str) -> None:
    """Refuse `--apply-mig` for a backend that has nothing to change.

    Raises:
        UsageError: it names those that have.
    """
    if not BACKENDS.find(name).applied:
        others = " or ".join(entry.name for entry in BACKENDS.own if entry.applied)
        raise UsageError(f"--apply-mig is for layouts cut by {others}, this one is cut by {name}: leave it out")


def coexist(names: Iterable[str]) -> bool:
    """Whether cuts of the same devices by these backends may be alive at once."""
    return all(BACKENDS.find(name).coexists for name in set(names))
