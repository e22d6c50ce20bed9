"""From a layout to its devices on this machine: found, claimed and cut by the backend that it names."""

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from gmi_drl.backends import BACKENDS
from gmi_drl.errors import LayoutMismatchError
from gmi_drl.gmi.backend import Backend
from gmi_drl.gmi.claims import claim
from gmi_drl.gmi.inventory import this_node
from gmi_drl.layout import Layout
from gmi_drl.registry import class_at


def backend_for(layout: Layout) -> Backend:
    """The backend that a layout names, which has cut nothing yet."""
    backend: Backend = class_at(BACKENDS.find(layout.backend).backend)()
    return backend


@contextmanager
def claimed(layouts: Iterable[Layout], purpose: str) -> Iterator[None]:
    """Hold the devices of layouts for the time of a `with` block, however many of them are opened there.

    Args:
        layouts: All that will be opened, perhaps on the same devices.
        purpose: Tells others who holds them, e.g. the run folder.

    Raises:
        LayoutMismatchError: if a layout does not fit this machine, or another process holds a device.
        MachineError: if claims cannot be kept.
    """
    devices = [device for layout in layouts for device in _fitting(layout).devices(layout)]
    with claim(devices, purpose):
        yield


@contextmanager
def cut(layout: Layout) -> Iterator[Backend]:
    """The backend of a layout with the devices cut, for the time of a `with` block; they are claimed outside of it.

    Raises:
        LayoutMismatchError: if the layout does not fit this machine.
        MachineError: if the devices cannot be cut.
    """
    with closing(_fitting(layout)) as backend:
        backend.cut(layout)
        yield backend


def _fitting(layout: Layout) -> Backend:
    backend = backend_for(layout)
    if reasons := backend.check(this_node(), layout):
        raise LayoutMismatchError("; ".join(reasons) + ": make a layout for this machine with `gmi-drl plan`")
    return backend
