"""Communication between GMIs: gradient reductions (paper section 4.1). Torch comes with the one that is opened."""

import platform
from pathlib import Path
from typing import TYPE_CHECKING

from gmi_drl.comm.segment import create_segment
from gmi_drl.errors import UsageError
from gmi_drl.hardware import STORES_IN_ORDER

if TYPE_CHECKING:
    from gmi_drl.comm.reduction import Reduction

__all__ = ["METHODS", "create_segment", "default_method", "open_reduction"]

METHODS = ("none", "MPR-shm", "MPR-gloo")


def default_method(size: int) -> str:
    """The reduction for `size` ranks on this host: shared memory where the processor allows it."""
    if size == 1:
        return "none"
    return "MPR-shm" if platform.machine() in STORES_IN_ORDER else "MPR-gloo"


def open_reduction(
    method: str, rank: int, size: int, *, fd: int | None = None, store_path: Path | None = None, hang_s: float = 300.0
) -> "Reduction":
    """Join the group of `size` ranks as `rank`; returns when all have joined.

    Args:
        method: One of `METHODS`; "none" is for a group of one.
        rank: This process, from 0.
        size: Processes in the group.
        fd: For MPR-shm, the inherited descriptor of `create_segment`.
        store_path: For MPR-gloo, a path where the ranks meet, unused before.
        hang_s: Seconds after which a peer that lives counts as silent.

    Raises:
        UsageError: If the method does not exist, does not fit the size, or lacks its descriptor or path.
        MachineError: If this machine cannot.
        PeerSilentError: If the others have not joined within `hang_s`.
    """
    if method not in METHODS:
        raise UsageError(f"there is no reduction {method!r}; available: {', '.join(METHODS)}")
    if not 0 <= rank < size:
        raise UsageError(f"rank {rank} is not in a group of {size}")
    if method == "none":
        if size != 1:
            raise UsageError(f"reduction 'none' is for one rank, not {size}: use {default_method(size)}")
        from gmi_drl.comm.reduction import Solo

        return Solo()
    if method == "MPR-shm":
        if fd is None:
            raise UsageError("MPR-shm needs fd, the descriptor of create_segment")
        from gmi_drl.comm.shared_memory import SharedMemoryReduction

        return SharedMemoryReduction(rank, size, fd, hang_s)
    if store_path is None:
        raise UsageError("MPR-gloo needs store_path, where its ranks meet")
    from gmi_drl.comm.gloo import GlooReduction

    return GlooReduction(rank, size, store_path, hang_s)
