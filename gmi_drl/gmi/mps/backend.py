"""Cuts GPUs by MPS: daemons run as long as the devices are claimed, and GMIs are their clients."""

import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gmi_drl.errors import GmiWarning, LayoutMismatchError, MachineError
from gmi_drl.gmi.claims import descriptor_of
from gmi_drl.gmi.inventory import VisibleGpu
from gmi_drl.gmi.launcher_watchdog import Watchdog
from gmi_drl.gmi.mps import daemon
from gmi_drl.gmi.mps.control import PIPES, PROGRAM, Control
from gmi_drl.gmi.mps.folder import Process, control_of, made, remove, watchdog_log
from gmi_drl.gmi.mps.shutdown import UNDO, Patience, clients, take_away
from gmi_drl.gmi.process import ProcessBackend, ProcessInstances, gpus_of
from gmi_drl.hardware.node import Node
from gmi_drl.layout.backend_limits import mps_clients
from gmi_drl.layout.environment import NO_GPU, mps_limits
from gmi_drl.layout.layout import Layout

OLDEST = 70
"""Volta, sm_70: on older GPUs all clients share one address space, and thread percentages do not exist."""

NO_PROGRAM = (
    f"{PROGRAM} is not on PATH: it comes with NVIDIA's driver (on Ubuntu in nvidia-compute-utils-VERSION), and into a "
    "container with NVIDIA_DRIVER_CAPABILITIES=compute,utility; or take `--backend process`"
)


class MpsInstances(ProcessInstances):
    """GMIs that are clients of the daemon of their GPU.

    Args:
        layout: The layout of the GMIs.
        cores: CPU numbers, by the layout's core indices.
        gpu_of: The UUID of each GMI's GPU.
        claim: The daemons, and the watchdog that ends them.
    """

    drains = True

    def __init__(self, layout: Layout, cores: Sequence[int], gpu_of: Mapping[int, str], claim: "HeldByMps") -> None:
        super().__init__(layout, cores, gpu_of)
        self._claim, self._controls = claim, claim.controls

    def environment(self, gmi_id: int) -> dict[str, str]:
        """The variables of a process, of the daemon of its GPU, and of the layout's caps."""
        own, gmi = super().environment(gmi_id), self.gmis[gmi_id]
        if (control := self._control(gmi_id)) is None:  # the mark by which the watchdog finds it; no daemon is there
            return own | {PIPES: str(self._claim.folder / "none")}
        return own | control.environment | mps_limits(gmi.share, gmi.memory_limit_bytes)

    def prove_attached(self, gmi_id: int, pid: int) -> None:
        """Check the affinity, and note the process group: processes without the mark may start in it."""
        super().prove_attached(gmi_id, pid)
        self._claim.watchdog.note(f"group {pid}", Process.of(pid).started)

    def prove_on_device(self, gmi_id: int, pid: int) -> None:
        """Check that the daemon serves the process: CUDA silently runs without MPS if it cannot attach."""
        if (control := self._control(gmi_id)) is None:
            return
        served = sorted(control.clients())
        if pid not in served:
            raise LayoutMismatchError(
                f"GMI {gmi_id} (process {pid}) computes on its GPU without MPS: the daemon in {control.pipes} serves "
                f"{', '.join(map(str, served)) or 'nobody'}; look into {control.logs} while it runs, run as the user "
                "of the daemon and in its PID namespace, or take `--backend process`"
            )

    def release(self, groups: Mapping[int, int]) -> None:
        """End the contexts of clients that have not drained, and stop them, before they are killed."""

        def alive() -> list[int]:
            return [pid for pid in clients(self._claim.folder) if _group(pid) in groups.values()]

        used = [control for gpu, control in self._controls.items() if gpu in self.gpu_of.values()]
        take_away(self._claim.folder, used, alive, self._claim.patience)
        for group in groups.values():
            with suppress(MachineError):  # a dead watchdog kills no group
                self._claim.watchdog.note(f"group {group}", None)

    def _control(self, gmi_id: int) -> Control | None:
        return self._controls.get(self.gpu_of[gmi_id])


@dataclass(frozen=True)
class HeldByMps:
    """What exists as long as the devices are claimed. `controls` are the daemons' by the UUID of their GPU."""

    folder: Path
    watchdog: Watchdog
    patience: Patience
    controls: dict[str, Control] = field(default_factory=dict)


class MpsBackend(ProcessBackend):
    """Gives each GMI cores as the process backend does, and caps its SMs and memory where the layout says so."""

    instances = MpsInstances
    patience = Patience()

    def check(self, node: Node, layout: Layout) -> list[str]:
        """Check cores and GPUs, and that NVIDIA's program is there and each GPU can be shared by MPS."""
        reasons = super().check(node, layout)
        if all(device.kind == "cpu" for device in layout.devices):
            return [*reasons, "MPS shares GPUs, and the layout has none: take `--backend process`"]
        if shutil.which(PROGRAM) is None:
            reasons.append(NO_PROGRAM)
        return reasons

    @contextmanager
    def held(self, layouts: Sequence[Layout]) -> Iterator[None]:
        """Start a daemon for each GPU that has clients. A watchdog ends them after their clients, however this ends."""
        gpus = sorted({gpu for layout in layouts for gpu in self.served(layout)})
        locks = {descriptor_of(device) for layout in layouts for device in self.devices(layout)}
        with made() as (folder, lock):
            notes = {"folder": str(folder), "patience": asdict(self.patience)}
            holds = [*sorted(locks), lock]
            try:
                watchdog = Watchdog(UNDO, watchdog_log(folder), undo_s=self.patience.undo_s, holds=holds, notes=notes)
            except BaseException:
                remove(folder)  # which the watchdog would do
                raise
            self._claim = HeldByMps(folder, watchdog, self.patience)
            try:
                watchdog.prove_ready()
                for number, gpu in enumerate(gpus):
                    self._claim.controls[gpu] = control_of(folder, number)
                    daemon.start(self._claim.controls[gpu], gpu)
                yield
            except BaseException:
                if left := watchdog.close():
                    warnings.warn("; ".join(left), GmiWarning, stacklevel=1)
                raise
            if left := watchdog.close():
                raise MachineError("; ".join(left))

    def served(self, layout: Layout) -> set[str]:
        """The GPUs of a layout whose GMIs are clients, by UUID: all."""
        return set(gpus_of(layout).values()) - {NO_GPU}

    def cut(self, layout: Layout) -> AbstractContextManager[MpsInstances]:
        """Yield the shares; nothing on a device is changed."""
        return nullcontext(self.instances(layout, self.cores, gpus_of(layout), self._claim))

    @staticmethod
    def obstacle(gpu: VisibleGpu, processes: int) -> str:
        """Why MPS cannot share a GPU among this number of processes, with the remedy; empty if it can."""
        if gpu.mig and not gpu.parent:
            return (
                "is in MIG mode: take `--backend mig`, or let MPS share its MIG devices: name them in "
                "CUDA_VISIBLE_DEVICES (nvidia-smi -L)"
            )
        if gpu.compute_mode == "prohibited":
            return f"is in compute mode prohibited: let an administrator run `nvidia-smi -i {gpu.number} -c DEFAULT`"
        if gpu.architecture and int(gpu.architecture.removeprefix("sm_")) < OLDEST:
            return f"is too old for MPS ({gpu.architecture}; it needs Volta or newer): take `--backend process`"
        if processes > (most := mps_clients(gpu.model)):
            return f"is cut into {processes} GMIs, and MPS serves {most} at most"
        return ""


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0
