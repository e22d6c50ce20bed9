"""The `auto` backend: MPS where GMIs share GPUs and it is available, else processes; a warning says why.

A GMI that has its GPU alone is slower by MPS: by 5 to 7 % on an H200 (docs/h200.md).
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from gmi_drl.errors import GmiWarning, LayoutMismatchError, MachineError
from gmi_drl.gmi.backend import Instances
from gmi_drl.gmi.inventory import this_node
from gmi_drl.gmi.mps.backend import MpsBackend, MpsInstances
from gmi_drl.gmi.process import ProcessBackend
from gmi_drl.hardware.node import Node
from gmi_drl.layout.layout import Layout

PLAINLY = "GMIs share GPUs plainly, without MPS"


class AutoBackend:
    """Cuts GPUs by MPS if GMIs share them and all of them can have it, else by processes."""

    def __init__(self) -> None:
        self._mps, self._plain = AttemptedMps(), ProcessBackend()
        self._chosen: ProcessBackend = self._plain

    def check(self, node: Node, layout: Layout) -> list[str]:
        """Reasons for which neither MPS nor processes can open the layout."""
        return self._plain.check(node, layout) if self._mps.check(node, layout) else []

    def devices(self, layout: Layout) -> list[str]:
        """The devices to claim: both backends name the same."""
        return self._plain.devices(layout)

    @contextmanager
    def held(self, layouts: Sequence[Layout]) -> Iterator[None]:
        """Start MPS daemons if all GPUs of the layouts can have them; else warn."""
        sharing = [layout for layout in layouts if shares_gpus(layout)]
        reasons = {reason: None for layout in sharing for reason in self._mps.check(this_node(), layout)}
        with ExitStack() as life:
            if sharing and not reasons:
                try:
                    life.enter_context(self._mps.held(sharing))
                    self._chosen = self._mps
                except MachineError as error:
                    reasons = {str(error): None}
            if reasons:
                warnings.warn(f"{PLAINLY}: {'; '.join(reasons)}", GmiWarning, stacklevel=1)
            yield

    def cut(self, layout: Layout) -> AbstractContextManager[Instances]:
        """Cut by the backend that `held` has chosen for all layouts that share GPUs; any other by processes."""
        return (self._chosen if shares_gpus(layout) else self._plain).cut(layout)


def shares_gpus(layout: Layout) -> bool:
    """Whether a GPU of a layout has several GMIs."""
    return any(device.kind == "gpu" and len(device.gmis) > 1 for device in layout.devices)


class AttemptedInstances(MpsInstances):
    """Clients of MPS that may also compute without it."""

    def prove_on_device(self, gmi_id: int, pid: int) -> None:
        """Warn about a process that is not a client: it computes nevertheless, and shares its GPU plainly."""
        try:
            super().prove_on_device(gmi_id, pid)
        except (LayoutMismatchError, MachineError) as error:
            warnings.warn(f"it shares its GPU plainly: {error}", GmiWarning, stacklevel=1)


class AttemptedMps(MpsBackend):
    """MPS whose clients need not attach."""

    instances = AttemptedInstances
