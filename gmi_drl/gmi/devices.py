"""From layouts to their devices on this machine: found, claimed and cut by the backends that they name."""

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
    """The backend that a layout names, which holds and cuts nothing yet; or the one that changes devices first.

    Raises:
        UsageError: if it has nothing to change.
    """
    entry = BACKENDS.find(layout.backend)
    if apply_mig:
        require_applied(entry.name)
    backend: Backend = class_at(entry.applied if apply_mig else entry.backend)()
    return backend


class Claim:
    """Devices that this process holds. Within it layouts are cut, by backends that keep what their cuts share.

    Args:
        layouts: Those that may be cut, until the claim ends.
        backends: By name, each within its `held`.
    """

    def __init__(self, layouts: Iterable[Layout], backends: Mapping[str, Backend]) -> None:
        self._layouts, self._backends = list(layouts), backends

    def cut(self, layout: Layout) -> AbstractContextManager[Instances]:
        """The GMIs of a layout with its devices cut, for the time of a `with` block.

        Raises:
            UsageError: if it was not among the layouts of the claim, or the claim has ended.
            MachineError: if the devices cannot be cut.
        """
        if layout not in self._layouts:
            raise UsageError("a layout can be cut only while devices are claimed for it: see gmi.claimed")
        return self._backends[layout.backend].cut(layout)

    def end(self) -> None:
        """From now on nothing is cut."""
        self._layouts.clear()


@contextmanager
def claimed(layouts: Iterable[Layout], purpose: str, *, apply_mig: bool = False) -> Iterator[Claim]:
    """Hold the devices of layouts for the time of a `with` block, however many of them are opened there.

    Args:
        layouts: All that will be opened, perhaps on the same devices.
        purpose: Tells others who holds them, e.g. the run folder.
        apply_mig: Make the MIG instances that layouts want, and restore what was there.

    Raises:
        LayoutMismatchError: if a layout does not fit this machine, or another process holds a device.
        MachineError: if claims cannot be kept, or a backend lacks what its cuts share.
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
    """Claim what layouts need. Where others were quicker, a backend may find other devices that serve as well."""
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
    """Why this machine cannot cut its devices as a layout says, whoever holds them; empty if it can."""
    return _elsewhere(layout) or backend_for(layout, apply_mig=apply_mig).check(this_node(), layout)


def require_possible(layout: Layout, *, apply_mig: bool = False) -> None:
    """Refuse what this machine cannot cut, before anything is made.

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
    """That a layout is not of this machine alone."""
    named = [node for node in layout.nodes if node]
    return (
        [f"the layout is over nodes ({', '.join(named)}), of which each opens its part: give --launcher ray"]
        if named
        else []
    )
