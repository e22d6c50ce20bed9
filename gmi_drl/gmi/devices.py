"""The devices of layouts on this machine: claimed together, then cut by the backends that the layouts name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from gmi_drl.errors import LayoutMismatchError, UsageError
from gmi_drl.gmi.backend import Backend, Instances
from gmi_drl.gmi.claims import claim
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware.node import Node
from gmi_drl.layout.backends import BACKENDS, require_applied
from gmi_drl.layout.layout import Layout
from gmi_drl.registry import class_at


def backend_for(layout: Layout, *, apply_mig: bool = False) -> Backend:
    """The backend that a layout names; with `apply_mig` the one that first makes the MIG instances.

    Raises:
        UsageError: if `apply_mig` is not for this backend.
    """
    entry = BACKENDS.find(layout.backend)
    if apply_mig:
        require_applied(entry.name)
    backend: Backend = class_at(entry.applied if apply_mig else entry.backend)()
    return backend


class Claim:
    """Devices that this process holds and on which layouts can be cut.

    Args:
        layouts: The layouts that may be cut until the claim ends.
        backends: The backends of the layouts by name, each within its `held`.
    """

    def __init__(self, layouts: Iterable[Layout], backends: Mapping[str, Backend]) -> None:
        self._layouts, self._backends = list(layouts), backends

    def cut(self, layout: Layout) -> AbstractContextManager[Instances]:
        """Cut the devices of a layout for the time of a `with` block; yields the shares of its GMIs.

        Raises:
            UsageError: if the claim is not for this layout, or has ended.
            MachineError: if the devices cannot be cut.
        """
        if layout not in self._layouts:
            raise UsageError("a layout can be cut only while devices are claimed for it: see gmi.claimed")
        return self._backends[layout.backend].cut(layout)

    def end(self) -> None:
        """Refuse every further cut."""
        self._layouts.clear()


@contextmanager
def claimed(layouts: Iterable[Layout], purpose: str, *, apply_mig: bool = False) -> Iterator[Claim]:
    """Hold the devices of all given layouts for the time of a `with` block.

    Args:
        layouts: All layouts that will be opened, perhaps on the same devices.
        purpose: What other processes read about the holder, e.g. the run folder.
        apply_mig: Make the MIG instances that the layouts want, and restore afterwards what was there.

    Raises:
        LayoutMismatchError: if a layout does not fit this machine, or another process holds a device.
        MachineError: if claims cannot be kept, or a backend cannot start what its cuts share.
    """
    by_backend: dict[str, list[Layout]] = {}
    for layout in layouts:
        by_backend.setdefault(layout.backend, []).append(layout)
    backends = {name: backend_for(alike[0], apply_mig=apply_mig) for name, alike in by_backend.items()}
    with ExitStack() as life:
        _take(life, backends, by_backend, purpose)
        for name, backend in backends.items():
            life.enter_context(backend.held(by_backend[name]))
        ours = Claim((layout for alike in by_backend.values() for layout in alike), backends)
        life.callback(ours.end)
        yield ours


def _take(
    life: ExitStack, backends: Mapping[str, Backend], by_backend: Mapping[str, list[Layout]], purpose: str
) -> None:
    """Claim the devices of all layouts. If another process was quicker, try others that serve as well."""
    node, tried = this_node(), list[list[str]]()

    def look() -> list[str]:
        of = [(backends[name], layout) for name, alike in by_backend.items() for layout in alike]
        return [device for backend, layout in of for device in _devices(backend, layout, node)]

    devices = look()
    while True:
        try:
            life.enter_context(claim(devices, purpose))
            return
        except LayoutMismatchError:
            tried.append(devices)
            if (devices := look()) in tried:
                raise


def refusals(layout: Layout, *, apply_mig: bool = False) -> list[str]:
    """The reasons for which this machine cannot cut its devices as a layout says, in use or not; empty if it can."""
    return _elsewhere(layout) or backend_for(layout, apply_mig=apply_mig).check(this_node(), layout)


def require_possible(layout: Layout, *, apply_mig: bool = False) -> None:
    """Refuse a layout that this machine cannot cut, before anything is started.

    Raises:
        LayoutMismatchError: with the reasons.
    """
    _require_none(refusals(layout, apply_mig=apply_mig))


def _require_none(reasons: Sequence[str]) -> None:
    if reasons:
        raise LayoutMismatchError("; ".join(reasons) + " (a layout for this machine: `gmi-drl plan`)")


def _devices(backend: Backend, layout: Layout, node: Node) -> list[str]:
    _require_none(_elsewhere(layout) or backend.check(node, layout))
    return backend.devices(layout)


def _elsewhere(layout: Layout) -> list[str]:
    """The reason for which a layout over named nodes is not opened here; empty for a layout of this machine."""
    named = [node for node in layout.nodes if node]
    return (
        [f"the layout is over nodes ({', '.join(named)}), which no single machine opens: give --launcher ray"]
        if named
        else []
    )
