"""The `auto` backend: MPS for GPUs that GMIs share, where it is available, else processes; a warning says why.

A GMI that has its GPU alone is slower by MPS: by 5 to 7 % on an H200 (docs/h200.md).
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from gmi_drl.errors import GmiWarning, LayoutMismatchError, MachineError
from gmi_drl.gmi.backend import Instances
from gmi_drl.gmi.inventory import VisibleGpu, this_node
from gmi_drl.gmi.mps.backend import MpsBackend, MpsInstances
from gmi_drl.gmi.process import ProcessBackend, gpus_of
from gmi_drl.hardware.node import Node
from gmi_drl.layout.layout import Device, Layout

PLAINLY = "GMIs share GPUs plainly, without MPS"


class AutoBackend:
    """Cuts shared GPUs by MPS if all of them can have it, else by processes. A GMI alone on its GPU has it plainly."""

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
        """Start MPS daemons if all GPUs that GMIs of a layout share can have them; else warn.

        Raises:
            MachineError: if they cannot, and processes cannot share the GPUs either.
        """
        node = this_node()
        sharing = [layout for layout in layouts if any(map(is_shared, layout.devices))]
        reasons = {reason: None for layout in sharing for reason in self._mps.check(node, layout)}
        with ExitStack() as life:
            if sharing and not reasons:
                try:
                    life.enter_context(self._mps.held(layouts))
                    self._chosen = self._mps
                except MachineError as error:
                    reasons = {str(error): None}
            if reasons:
                why = "; ".join(reasons)
                if refused := [reason for layout in sharing for reason in self._plain.check(node, layout)]:
                    raise MachineError(f"MPS cannot be had: {why}; nor do GMIs share GPUs without it: {refused[0]}")
                warnings.warn(f"{PLAINLY}: {why}", GmiWarning, stacklevel=1)
            yield

    def cut(self, layout: Layout) -> AbstractContextManager[Instances]:
        """Cut by the backend that `held` has chosen for all layouts.

        A GPU that has a daemon is used by its clients only, since in compute mode *exclusive process* it is refused to
        all others. So if another layout of the claim shares the GPU of a GMI that is alone, that GMI is a client, too.
        """
        return self._chosen.cut(layout)


def is_shared(device: Device) -> bool:
    """Whether it is a GPU with several GMIs."""
    return device.kind == "gpu" and len(device.gmis) > 1


class AttemptedInstances(MpsInstances):
    """Clients of MPS that may also compute without it."""

    def prove_on_device(self, gmi_id: int, pid: int) -> None:
        """Warn about a process that is not a client: it computes nevertheless, and shares its GPU plainly."""
        try:
            super().prove_on_device(gmi_id, pid)
        except (LayoutMismatchError, MachineError) as error:
            warnings.warn(f"it shares its GPU plainly: {error}", GmiWarning, stacklevel=1)


class AttemptedMps(MpsBackend):
    """MPS for the GPUs that GMIs share. Its clients need not attach."""

    instances = AttemptedInstances

    def served(self, layout: Layout) -> set[str]:
        """The GPUs that several GMIs of a layout share, by UUID."""
        gpus = gpus_of(layout)
        return {gpus[device.gmis[0].id] for device in layout.devices if is_shared(device)}

    @staticmethod
    def obstacle(gpu: VisibleGpu, processes: int) -> str:
        """As MPS for several processes, as plain processes for one, which needs no MPS."""
        return (MpsBackend if processes > 1 else ProcessBackend).obstacle(gpu, processes)
